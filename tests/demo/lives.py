"""The demo's last act: what the binder does while VMs come, wait, stop and go."""

from __future__ import annotations

from pathlib import Path

from tests.demo.stage import TRIES, DemoFailed, Kubectl, comment, until, until_it_runs
from tests.demo.tries import HELD, PLACED, PLACED_ON, WAITS, WAITS_FOR

GLOBEX = ("-n", "tenant-globex")


def come_and_go(kubectl: Kubectl, within_seconds: float) -> None:
    """One VM starts, one waits with its reason, and starts by itself when room appears.

    Raises:
        DemoFailed: when one is elsewhere, or is told something else.
    """
    first, second = (Path(file).stem for file in (PLACED, WAITS))
    kubectl.say(comment(TRIES / PLACED))
    kubectl.run("apply", "-f", str(TRIES / PLACED))
    until_it_runs(kubectl, ("tenant-globex", first), within_seconds)
    _is_on(kubectl, first, PLACED_ON)
    kubectl.say(comment(TRIES / WAITS))
    kubectl.run("apply", "-f", str(TRIES / WAITS))
    reason, text = WAITS_FOR
    events = ("get", "events", *GLOBEX, "--field-selector", f"reason={reason}")
    message = ("-o", "jsonpath={range .items[*]}{.involvedObject.name}: {.message}{'\\n'}{end}")

    def problems() -> list[str]:
        told = kubectl.run(*events, *message, told=False).splitlines()
        return [] if f"{second}: {text}" in told else [f"told: {told}, not {second}: {text}"]

    until(problems, "a VM that waits does not say why", within_seconds)
    kubectl.say(kubectl.run(*events))
    kubectl.say(kubectl.run("get", "gpuclaims", *GLOBEX))
    kubectl.say(f"\n# {first} goes, and {second} starts by itself, in its place")
    kubectl.run("delete", "vm", first, *GLOBEX)
    until_it_runs(kubectl, ("tenant-globex", second), within_seconds)
    _is_on(kubectl, second, PLACED_ON)
    claims = ("gpuclaims", *GLOBEX, "--all")
    kubectl.say(kubectl.run("wait", "--for=condition=Bound", *claims, "--timeout=60s"))


def stop_and_start(kubectl: Kubectl, within_seconds: float) -> None:
    """An order keeps its units while its VM is stopped, and the VM comes back to them.

    Raises:
        DemoFailed: when it does not.
    """
    place = ("-n", "tenant-acme")
    claim = ("get", "gpuclaim", HELD, *place)
    where = (*claim, "-o", "jsonpath={.status.nodeName} {.status.attachedTo.name}")
    node, _, user = kubectl.run(*where, told=False).partition(" ")
    if user != HELD:
        raise DemoFailed(f"the order {HELD} is attached to {user!r}")
    kubectl.say("\n# Acme stops a VM: its order holds the units, attached to nobody")
    _run_strategy(kubectl, "Halted")

    def problems() -> list[str]:
        told = kubectl.run(*where, told=False)
        return [] if told == f"{node} " else [f"the order is: {told}; not: {node}, free of its VM"]

    until(problems, "an order is not held for a stopped VM", within_seconds)
    kubectl.say(kubectl.run(*claim, "-o", "wide"))
    kubectl.say("# and starts it again, on the same node")
    _run_strategy(kubectl, "Always")
    until_it_runs(kubectl, ("tenant-acme", HELD), within_seconds)
    found = kubectl.run("get", "vmi", HELD, *place, "-o", "jsonpath={.status.nodeName}")
    kubectl.say(found)
    if found != node:
        raise DemoFailed(f"{HELD} runs on {found}, its units are on {node}")
    kubectl.say(kubectl.run(*claim, "-o", "wide"))


def _run_strategy(kubectl: Kubectl, strategy: str) -> None:
    patch = f'{{"spec":{{"runStrategy":"{strategy}"}}}}'
    how = ("--type=merge", "-p", patch)
    kubectl.run("patch", "vm", HELD, *how, kubeconfig=kubectl.tenant)


def _is_on(kubectl: Kubectl, name: str, node: str) -> None:
    found = kubectl.run("get", "vmi", name, *GLOBEX, "-o", "jsonpath={.status.nodeName}")
    kubectl.say(found)
    if found != node:
        raise DemoFailed(f"{name} runs on {found}, worked out by hand: {node}")
