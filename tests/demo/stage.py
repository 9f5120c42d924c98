"""Puts the demo's objects into the running cluster, again and again with the same result.

A thin shell over kubectl: every command is told before it runs, as it could be typed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.demo.story import TENANTS, Tenant, differences, figures
from tests.demo.tries import ADMITTED, AT_START, PLACED, REFUSED_AT_START, WAITS, Try

REPOSITORY = Path(__file__).parents[2]
OBJECTS = Path("manifests/examples/demo")
TRIES = OBJECTS / "tries"

TEMPLATE = "gpu.cozystack.io/template"
PART_OF, DEMO = "app.kubernetes.io/part-of", "demo"
"""Label of the demo's own claims."""

POLL_SECONDS = 0.3

Say = Callable[[str], None]

_PLACEHOLDER = re.compile(r"\$\{(uid|created) (\w+) ([^/ }]+)/([^ }]+)\}")
_READ_BACK = "virtualmachines,virtualmachineinstances,gpuclaims"


class DemoFailed(Exception):
    """The demo cannot go on, or what it showed is not what it must show."""


@dataclass(frozen=True, slots=True)
class Step:
    """One file, and how it is applied.

    `mode` is `all` for whole objects, `status` for their status only, `later` for fields that
    change what was made before. Each mode owns its fields (server-side apply), so that none takes
    away what another wrote.
    """

    file: str
    what: str
    mode: str = "all"


CLUSTER = (
    Step("kubevirt.yaml", "KubeVirt, with the devices that it may hand out"),
    Step("kubevirt.yaml", "", mode="status"),
    Step("nodes.yaml", "twelve nodes with GPUs, one of them cordoned"),
    Step("nodes.yaml", "", mode="status"),
    Step("tenants.yaml", "tenants: acme, below it its lab, and globex"),
    Step("classes.yaml", "five classes"),
)
ORDERS = Step("claims.yaml", "orders: for VMs, for later")
STARTED = (
    Step("classes-closed.yaml", "the hoster closes the oldest class", mode="later"),
    Step("machines.yaml", "three VMs: KubeVirt starts them, and their pods wait at our gate"),
)
OTHERS = (
    Step("pods.yaml", "three pods that use GPUs outside of claims"),
    Step("budgets.yaml", "budgets"),
)

RUNNING = (
    ("tenant-acme", "train"),
    ("tenant-acme-lab", "render"),
    ("tenant-acme-lab", "desk"),
)
"""The VMs that run, by namespace and name."""


class Kubectl:
    """The real kubectl on what `make up` left in the folder `run`, from the repository's top."""

    def __init__(self, run: Path, say: Say, environ: Mapping[str, str] = os.environ) -> None:
        self.program = run / "bin" / "kubectl"
        self.admin = run / "kubeconfig"
        self.tenant = run / "tenant.kubeconfig"
        self.filled_in = run / "demo"
        self.say = say
        self._environ = environ

    def check(self) -> None:
        """See that there is a cluster.

        Raises:
            DemoFailed: when nothing is up.
        """
        for needed in (self.program, self.admin, self.tenant):
            if not (REPOSITORY / needed).exists():
                raise DemoFailed(f"{needed} is missing: run `make demo`, or `make up` first")

    def run(self, *arguments: str, kubeconfig: Path | None = None, told: bool = True) -> str:
        """What a command printed; the administrator runs it unless told otherwise.

        Raises:
            DemoFailed: when it failed, with what it said.
        """
        done = self.attempt(*arguments, kubeconfig=kubeconfig, told=told)
        if done.returncode:
            raise DemoFailed(f"kubectl {shlex.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def attempt(
        self, *arguments: str, kubeconfig: Path | None = None, told: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """A command that may fail."""
        kubeconfig = kubeconfig or self.admin
        if told:
            self.say(f"$ KUBECONFIG={kubeconfig} {self.program} {shlex.join(arguments)}")
        return subprocess.run(
            [str(self.program), *arguments],
            cwd=REPOSITORY,
            env={**self._environ, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
        )


def set_up(kubectl: Kubectl, within_seconds: float) -> None:
    """Everything that is there before a tenant looks.

    Raises:
        DemoFailed: when the cluster is not up, or refuses something.
    """
    kubectl.check()
    for step in CLUSTER:
        _apply(kubectl, step)
    for tenant in TENANTS:
        _give_back(kubectl, tenant.namespace)
    kubectl.run(
        "wait", "--for=condition=Ready", "-f", str(OBJECTS / "nodes.yaml"), "--timeout=120s"
    )
    _until_orderable(kubectl, within_seconds)
    for step in (ORDERS, *STARTED):
        _apply(kubectl, step)
    kubectl.say("# the binder holds the orders on nodes, and lets the VMs' pods through the gate")
    orders = str(OBJECTS / ORDERS.file)
    kubectl.run("wait", "--for=condition=Bound", "-f", orders, "--timeout=120s")
    for step in OTHERS:
        _apply(kubectl, step)
    kubectl.say("# all VMs and pods run")
    for place in RUNNING:
        until_it_runs(kubectl, place, within_seconds)
    kubectl.run("wait", _RUNNING, "-f", str(OBJECTS / "pods.yaml"), "--timeout=120s")


_RUNNING = "--for=jsonpath={.status.phase}=Running"


def _give_back(kubectl: Kubectl, namespace: str) -> None:
    """Delete what was made since the last time: the story's budgets know nothing of it.

    Claims for class entries go with their VMs.
    """
    for file in (ADMITTED, REFUSED_AT_START, PLACED, WAITS):
        name = file.removesuffix(".yaml")
        where = ("-n", namespace, "--ignore-not-found", "--cascade=foreground")
        kubectl.run("delete", "vm", name, *where, told=False)
    others = f"{PART_OF}!={DEMO},{TEMPLATE}!=true"
    kubectl.run("delete", "gpuclaims", "-n", namespace, "-l", others, told=False)


def _apply(kubectl: Kubectl, step: Step) -> None:
    if step.what:
        kubectl.say(f"# {step.what}")
    file = _filled_in(kubectl, OBJECTS / step.file)
    how = ["--server-side", "--force-conflicts", f"--field-manager=demo-{step.mode}"]
    if step.mode == "status":
        how.append("--subresource=status")
    kubectl.run("apply", *how, "-f", str(file))


def _until_orderable(kubectl: Kubectl, within_seconds: float) -> None:
    """Wait until the catalog has units for each order that is not there yet."""
    file = str(OBJECTS / ORDERS.file)
    there = kubectl.run("get", "-f", file, "--ignore-not-found", "-o", "name", told=False)
    orders = [
        order
        for order in yaml.load_all((REPOSITORY / file).read_text(), yaml.CSafeLoader)
        if order["metadata"]["name"] not in {line.rpartition("/")[2] for line in there.split()}
    ]

    def missing() -> list[str]:
        return [
            f"{order['metadata']['name']}: {order['spec']['count']} are not orderable"
            for order in orders
            if _orderable(kubectl, order) < order["spec"]["count"]
        ]

    until(missing, "there are no units for an order", within_seconds)


def _orderable(kubectl: Kubectl, order: Mapping[str, Any]) -> int:
    """How many units the catalog says can be ordered."""
    where = ("gpuclassoption", order["spec"]["className"], "-n", order["metadata"]["namespace"])
    done = kubectl.attempt("get", *where, "-o", "jsonpath={.status.orderableUnits}", told=False)
    return int(done.stdout or 0)


def until_it_runs(kubectl: Kubectl, place: tuple[str, str], within_seconds: float) -> None:
    """Wait until KubeVirt says that a VM runs."""
    namespace, name = place
    phase = ("get", "vmi", name, "-n", namespace, "-o", "jsonpath={.status.phase}")

    def problems() -> list[str]:
        done = kubectl.attempt(*phase, told=False)
        return [] if done.stdout == "Running" else [f"{name} is {done.stdout or 'not there'}"]

    until(problems, "a VM does not run", within_seconds)


def _filled_in(kubectl: Kubectl, file: Path) -> Path:
    """The file, or a copy of it with uids and times that the API server has chosen by now."""
    text = (REPOSITORY / file).read_text()
    if not _PLACEHOLDER.search(text):
        return file
    served = json.loads(kubectl.run("get", _READ_BACK, "-A", "-o", "json", told=False))["items"]
    target = kubectl.filled_in / file.name
    (REPOSITORY / target).parent.mkdir(parents=True, exist_ok=True)
    (REPOSITORY / target).write_text(fill_in(text, served))
    return target


def fill_in(text: str, served: Sequence[Mapping[str, object]]) -> str:
    """Replace `${uid Kind namespace/name}` and `${created Kind namespace/name}`.

    Raises:
        DemoFailed: when an object that a placeholder names is not among those served.
    """
    fields = {"uid": "uid", "created": "creationTimestamp"}
    metadata = {(each["kind"], *_place(each)): each["metadata"] for each in served}

    def value(match: re.Match[str]) -> str:
        what, *key = match.groups()
        found = metadata.get((key[0], key[1], key[2]))
        if not isinstance(found, dict):
            raise DemoFailed(f"{match.group()}: there is no such object in the cluster")
        return str(found[fields[what]])

    return _PLACEHOLDER.sub(value, text)


def _place(served: Mapping[str, object]) -> tuple[object, object]:
    metadata = served["metadata"]
    assert isinstance(metadata, dict)
    return metadata.get("namespace"), metadata["name"]


def view_of(kubectl: Kubectl, tenant: Tenant) -> tuple[Path, tuple[str, ...]]:
    """Whose kubeconfig shows a tenant's namespace, and with which arguments.

    Acme's people have a kubeconfig; the administrator shows what the others see.
    """
    place = ("-n", tenant.namespace)
    if tenant.group == "tenant-acme-admin":
        return kubectl.tenant, place
    who = ("--as", f"{tenant.namespace}-user", "--as-group", tenant.group)
    return kubectl.admin, (*place, *who)


def hold_to_story(kubectl: Kubectl, tenant: Tenant, within_seconds: float) -> None:
    """Wait until a tenant's options have the figures that were worked out by hand.

    Raises:
        DemoFailed: when they do not get there in time, with every difference.
    """
    kubeconfig, arguments = view_of(kubectl, tenant)
    command = ("get", "gpuclassoptions", *arguments, "-o", "json")

    def problems() -> list[str]:
        done = kubectl.attempt(*command, kubeconfig=kubeconfig, told=False)
        if done.returncode:
            return [done.stderr.strip()]
        options = {
            item["metadata"]["name"]: figures(item) for item in json.loads(done.stdout)["items"]
        }
        return differences(tenant, options)

    until(problems, f"{tenant.namespace} does not see what it must", within_seconds)


def until(problems: Callable[[], list[str]], what: str, within_seconds: float) -> None:
    """Wait until there are no problems.

    Raises:
        DemoFailed: when there still are in the end, with all of them.
    """
    end = time.monotonic() + within_seconds
    while found := problems():
        if time.monotonic() > end:
            raise DemoFailed(
                "\n  ".join([f"{what}:", *found])
                + "\nIf something in this cluster was changed, `make down` and `make demo` start"
                " anew."
            )
        time.sleep(POLL_SECONDS)


def attempts(kubectl: Kubectl, tried: Try) -> None:
    """Try what must be refused, and hold what is told to what was written by hand.

    Raises:
        DemoFailed: when it was let in, or refused in other words.
    """
    kubeconfig: Path = kubectl.admin
    who: tuple[str, ...] = ()
    for tenant in TENANTS:
        if tenant.namespace == tried.by:
            kubeconfig, who = view_of(kubectl, tenant)
    file = TRIES / tried.file
    kubectl.say(comment(file))
    done = kubectl.attempt("create", "-f", str(file), *who, kubeconfig=kubeconfig)
    kubectl.say(done.stderr.strip())
    told = (f"Error from server ({tried.reason}): ", f"denied the request: {tried.message}\n")
    if done.returncode == 0 or not (done.stderr.startswith(told[0]) and told[1] in done.stderr):
        raise DemoFailed(
            f"{file} must be refused with {tried.reason}: {tried.message}\nbut: "
            + (done.stderr or done.stdout).strip()
        )


def start(kubectl: Kubectl, within_seconds: float) -> None:
    """Acme makes a VM that names a class, and one that names none that there is.

    Raises:
        DemoFailed: when the one does not run, or the other is not told why it does not.
    """
    for file in (ADMITTED, REFUSED_AT_START):
        kubectl.say(comment(TRIES / file))
        kubectl.run("apply", "-f", str(TRIES / file), kubeconfig=kubectl.tenant)
    name, typo = ADMITTED.removesuffix(".yaml"), REFUSED_AT_START.removesuffix(".yaml")
    until_it_runs(kubectl, ("tenant-acme", name), within_seconds)
    failure = 'jsonpath={.status.conditions[?(@.type=="Failure")].message}'
    why = ("get", "vm", typo, "-o", failure)
    message = ""

    def problems() -> list[str]:
        nonlocal message
        message = kubectl.run(*why, kubeconfig=kubectl.tenant, told=False)
        return [] if message == AT_START else [f"{typo}: {message!r}, not {AT_START!r}"]

    until(problems, "a VM without a class is not told so", within_seconds)
    kubectl.say(kubectl.run("get", "vm,vmi", kubeconfig=kubectl.tenant))
    kubectl.say(kubectl.run("get", "gpuclaims", kubeconfig=kubectl.tenant))
    kubectl.say(f"$ kubectl {shlex.join(why)}\n{message}")


def comment(file: Path) -> str:
    """The first line of a file, which says what it is about."""
    return "\n" + (REPOSITORY / file).read_text().partition("\n")[0]
