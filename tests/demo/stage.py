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

from tests.demo.story import TENANTS, Tenant, differences, figures

REPOSITORY = Path(__file__).parents[2]
OBJECTS = Path("manifests/examples/demo")
KUBEVIRT_KINDS = Path("tests/kubevirt_crds")

PART_OF, DEMO = "app.kubernetes.io/part-of", "demo"
"""Label of the demo's own claims."""

POLL_SECONDS = 0.3

Say = Callable[[str], None]

_PLACEHOLDER = re.compile(r"\$\{(uid|created) (\w+) ([^/ }]+)/([^ }]+)\}")
_READ_BACK = "virtualmachines,virtualmachineinstances,pods,gpuclaims"


class DemoFailed(Exception):
    """The demo cannot go on, or what it showed is not what it must show."""


@dataclass(frozen=True, slots=True)
class Step:
    """One file, and how it is applied.

    `mode` is `all` for whole objects, `status` for their status only, `reported` for what a
    controller that does not run here would add to objects without a status subresource. Each
    mode owns its fields (server-side apply), so that none takes away what another wrote.
    """

    file: str
    what: str
    mode: str = "all"


STEPS = (
    Step("kubevirt.yaml", "KubeVirt, with the devices that it may hand out"),
    Step("kubevirt.yaml", "", mode="status"),
    Step("nodes.yaml", "twelve nodes with GPUs, one of them cordoned"),
    Step("nodes.yaml", "", mode="status"),
    Step("tenants.yaml", "tenants: acme, below it its lab, and globex"),
    Step("classes.yaml", "six classes: one Closed, two in conflict"),
    Step("machines.yaml", "three VMs"),
    Step("instances.yaml", "their instances"),
    Step("launchers.yaml", "the pods that they run in"),
    Step("pods.yaml", "three pods that use GPUs outside of claims"),
    Step("instances-running.yaml", "that the instances run", mode="reported"),
    Step("claims.yaml", "claims: in use, held for later, waiting"),
    Step("claims-bound.yaml", "where they are, as the binder will write it", mode="status"),
    Step("budgets.yaml", "budgets"),
)


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


def set_up(kubectl: Kubectl) -> None:
    """Everything that is there before a tenant looks.

    Raises:
        DemoFailed: when the cluster is not up, or refuses something.
    """
    kubectl.check()
    kubectl.say("# the kinds of KubeVirt")
    kubectl.run("apply", "-f", str(KUBEVIRT_KINDS))
    # Unlike apply, wait goes into folders below; there are the kinds of other tests.
    established = ("wait", "--for=condition=Established", "--recursive=false")
    kubectl.run(*established, "-f", str(KUBEVIRT_KINDS), told=False)
    for tenant in TENANTS:
        _give_back(kubectl, tenant.namespace)
    for step in STEPS:
        if step.what:
            kubectl.say(f"# {step.what}")
        _apply(kubectl, step)
    kubectl.say("# all nodes are ready, all pods run")
    kubectl.run(
        "wait", "--for=condition=Ready", "-f", str(OBJECTS / "nodes.yaml"), "--timeout=120s"
    )
    for file in (kubectl.filled_in / "launchers.yaml", OBJECTS / "pods.yaml"):
        kubectl.run(
            "wait", "--for=jsonpath={.status.phase}=Running", "-f", str(file), "--timeout=120s"
        )


def _give_back(kubectl: Kubectl, namespace: str) -> None:
    """Delete what somebody ordered since the last time: the story's budgets know nothing of it."""
    others = f"{PART_OF}!={DEMO}"
    kubectl.run("delete", "gpuclaims", "-n", namespace, "-l", others, told=False)


def _apply(kubectl: Kubectl, step: Step) -> None:
    file = _filled_in(kubectl, OBJECTS / step.file)
    how = ["--server-side", "--force-conflicts", f"--field-manager=demo-{step.mode}"]
    if step.mode == "status":
        how.append("--subresource=status")
    kubectl.run("apply", *how, "-f", str(file))


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
    end = time.monotonic() + within_seconds
    while True:
        done = kubectl.attempt(*command, kubeconfig=kubeconfig, told=False)
        if done.returncode == 0:
            options = {
                item["metadata"]["name"]: figures(item) for item in json.loads(done.stdout)["items"]
            }
            problems = differences(tenant, options)
        else:
            problems = [done.stderr.strip()]
        if not problems:
            return
        if time.monotonic() > end:
            raise DemoFailed(
                "\n  ".join([f"{tenant.namespace} does not see what it must:", *problems])
                + "\nIf something in this cluster was changed, `make down` and `make demo` start"
                " anew."
            )
        time.sleep(POLL_SECONDS)
