"""What a user's `start`, `stop` and `restart` do: KubeVirt's API writes it into the machine.

KubeVirt serves these as subresources; here they are functions, and the writes are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.cluster.api import Api, Object
from tests.kubevirt import words as w
from tests.kubevirt.instances import replacement
from tests.kubevirt.machines import strategy_of
from tests.kubevirt.objects import is_final, phase_of, status_of, uid_of

_NOT_RUNNING: Final = "VM is not running"


class Conflict(Exception):
    """A request that the machine's state does not allow, which KubeVirt answers with 409."""


@dataclass(frozen=True, slots=True)
class Write:
    """A JSON Patch for the machine or, by `subresource`, for its status."""

    patch: tuple[Object, ...]
    subresource: str = ""


def to_start(vm: Object, vmi: Object | None) -> Write:
    """How a start is written.

    Raises:
        Conflict: the machine runs, or starts by itself.
    """
    strategy = strategy_of(vm)
    if vmi is not None and phase_of(vmi) and not is_final(vmi):
        raise Conflict("VM is already running")  # also while it stops (KubeVirt observed 36)
    if strategy in {w.ALWAYS, w.ONCE}:
        raise Conflict(f"{strategy} does not support manual start requests")
    if strategy == w.HALTED:
        return _set_strategy(vm, w.ALWAYS)
    if vmi is None or not is_final(vmi):
        return _request(vm, {"action": "Start"})
    if strategy == w.RERUN and phase_of(vmi) == w.FAILED:
        raise Conflict(f"{strategy} does not support starting VM from failed state")
    return _request(vm, {"action": "Stop", "uid": uid_of(vmi)}, {"action": "Start"})


def to_stop(vm: Object, vmi: Object | None) -> Write:
    """How a stop is written: another strategy, or a request (KubeVirt observed 33).

    Raises:
        Conflict: nothing runs.
    """
    strategy = strategy_of(vm)
    if strategy in {w.ALWAYS, w.ONCE}:
        return _set_strategy(vm, w.HALTED)
    if strategy == w.HALTED or vmi is None or is_final(vmi):
        raise Conflict(_NOT_RUNNING)
    return _request(vm, {"action": "Stop", "uid": uid_of(vmi)})


def to_restart(vm: Object, vmi: Object | None) -> Write:
    """How a restart is written: a request to stop and one to start (KubeVirt observed 35).

    Raises:
        Conflict: nothing runs, or nothing may.
    """
    strategy = strategy_of(vm)
    if strategy in {w.HALTED, w.ONCE}:
        raise Conflict(f"{strategy} does not support manual restart requests")
    if vmi is None:
        raise Conflict(_NOT_RUNNING)
    return _request(vm, {"action": "Stop", "uid": uid_of(vmi)}, {"action": "Start"})


async def start(api: Api, namespace: str, name: str) -> None:
    """Start a machine.

    Raises:
        Conflict: as `to_start`.
    """
    vm, vmi = await _both(api, namespace, name)
    await _send(api, namespace, name, to_start(vm, vmi))


async def stop(api: Api, namespace: str, name: str) -> None:
    """Stop a machine.

    Raises:
        Conflict: as `to_stop`.
    """
    vm, vmi = await _both(api, namespace, name)
    await _send(api, namespace, name, to_stop(vm, vmi))


async def restart(api: Api, namespace: str, name: str) -> None:
    """Restart a machine.

    Raises:
        Conflict: as `to_restart`.
    """
    vm, vmi = await _both(api, namespace, name)
    await _send(api, namespace, name, to_restart(vm, vmi))


async def _both(api: Api, namespace: str, name: str) -> tuple[Object, Object | None]:
    return await api.get(w.VM, name, namespace), await api.find(w.VMI, name, namespace)


async def _send(api: Api, namespace: str, name: str, write: Write) -> None:
    patch = list(write.patch)
    written = await api.patch(w.VM, name, patch, namespace, subresource=write.subresource)
    assert written


def _set_strategy(vm: Object, strategy: str) -> Write:
    if "runStrategy" in vm["spec"]:
        return Write(tuple(replacement("/spec/runStrategy", vm["spec"]["runStrategy"], strategy)))
    running = vm["spec"].get("running")
    return Write(tuple(replacement("/spec/running", running, strategy == w.ALWAYS)))


def _request(vm: Object, *requests: Object) -> Write:
    """Ask the controller; a request makes it forget failed starts (KubeVirt observed 34).

    Raises:
        Conflict: another request is not met yet, and this one is not to stop.
    """
    status = status_of(vm)
    if status.get("stateChangeRequests") and [each["action"] for each in requests] != ["Stop"]:
        raise Conflict("unable to complete request: stop/start already underway")
    if not status:
        patch = [{"op": "add", "path": "/status", "value": {"stateChangeRequests": list(requests)}}]
        return Write(tuple(patch), "status")
    patch = replacement(
        "/status/stateChangeRequests", status.get("stateChangeRequests"), list(requests)
    )
    if "startFailure" in status:
        patch.append({"op": "remove", "path": "/status/startFailure"})
    return Write(tuple(patch), "status")
