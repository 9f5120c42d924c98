"""VirtualMachines: when an instance is made or ended, and what the machine says about it.

One pass is `act`, then `told` with the instance as it was before the pass.
"""

from __future__ import annotations

import copy
import datetime
import random
from dataclasses import dataclass
from typing import Final

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.backoff import start_pause_seconds
from tests.kubevirt.instances import Failure, replacement
from tests.kubevirt.objects import (
    annotations_of,
    condition,
    exact_stamp,
    finalizers_of,
    has_condition,
    is_final,
    is_going,
    items,
    made,
    moment_of,
    name_of,
    namespace_of,
    owner_reference,
    phase_of,
    stamp,
    status_of,
    uid_of,
    with_condition,
    without_condition,
)

_RESTARTS: Final = frozenset({w.ALWAYS, w.RERUN, w.ONCE})
"""Strategies under which failed starts are counted."""

_OWN_CONDITIONS: Final = frozenset({"Ready", "Failure", "RestartRequired"})
"""Conditions of a machine that are no copies of its instance's."""

LIVE_FIELDS: Final = ("nodeSelector", "affinity", "tolerations")
"""Fields of a template that are copied into the running instance when they change."""


@dataclass(frozen=True, slots=True)
class Sight:
    """All that virt-controller knows of one machine.

    Attributes:
        vm: the machine.
        vmi: the instance of its name that it controls, if there is one.
        started_as: the machine's spec when the instance was made; None when not known.
        live_update: whether the KubeVirt object says `vmRolloutStrategy: LiveUpdate`.
    """

    vm: Object
    vmi: Object | None = None
    started_as: Object | None = None
    live_update: bool = True


@dataclass(frozen=True, slots=True)
class Act:
    """What a pass does, beside writing the machine's status.

    Attributes:
        start: the instance to make.
        stop: whether to delete the instance.
        start_again: whether to ask in the machine's status for a start, once it is stopped.
        finalizers: those that the machine is to have; None leaves them.
        patch: JSON Patch for the instance.
        strategy: run strategy to set; empty leaves it.
        wait: until when to leave the machine alone.
    """

    start: Object | None = None
    stop: bool = False
    start_again: bool = False
    finalizers: tuple[str, ...] | None = None
    patch: tuple[Object, ...] = ()
    strategy: str = ""
    wait: datetime.datetime | None = None


def strategy_of(vm: Object) -> str:
    """When the machine is to run; `running` is the older way to say it."""
    spec = vm["spec"]
    if "runStrategy" in spec:
        return str(spec["runStrategy"])
    return w.ALWAYS if spec.get("running") else w.HALTED


def act(sight: Sight, now: datetime.datetime) -> Act:
    """What is to be done for the machine."""
    vm, vmi = sight.vm, sight.vmi
    finalizers = finalizers_of(vm)
    if is_going(vm):
        if vmi is not None:
            return Act(stop=not is_going(vmi))
        if w.FINALIZER_VM not in finalizers:
            return Act()
        return Act(finalizers=tuple(each for each in finalizers if each != w.FINALIZER_VM))
    if w.FINALIZER_VM not in finalizers:
        return Act(finalizers=(*finalizers, w.FINALIZER_VM))
    if vmi is None:
        return _without_instance(vm, now)
    return _with_instance(sight, vmi)


def told(
    sight: Sight,
    started: bool,
    failure: Failure | None,
    now: datetime.datetime,
    chance: random.Random,
    speed: float = 1,
) -> Object:
    """The machine's status as it is to be.

    Args:
        sight: from before the pass.
        started: whether this pass made an instance, which the sight does not show.
        failure: of this pass.
        now: for what changes.
        chance: for the length of a pause.
        speed: pauses are divided by it.
    """
    vm, vmi = sight.vm, sight.vmi
    status: Object = copy.deepcopy(status_of(vm))
    strategy = strategy_of(vm)
    _tell(status, "created", vmi is not None or None)
    _tell(status, "ready", (vmi is not None and has_condition(vmi, "Ready", "True")) or None)
    if vmi is not None:
        generation = annotations_of(vmi).get(w.ANNOTATION_GENERATION)
        if generation:
            status["observedGeneration"] = int(generation)
        status["desiredGeneration"] = vm["metadata"]["generation"]
    if status.get("runStrategy") or vmi is not None:
        status["runStrategy"] = strategy
    requests = list(items(status, "stateChangeRequests"))
    if requests and _is_met(requests[0], vmi):
        requests = requests[1:]
    _tell(status, "stateChangeRequests", requests or None)
    _tell(status, "startFailure", _start_failure(vm, vmi, now, chance, speed))
    status["conditions"] = _conditions(status, sight, failure, stamp(now))
    status["printableStatus"] = _printable(vm, vmi, status, strategy, started)
    return status


def instance_of(vm: Object) -> Object:
    """The instance that a start makes: of the machine's name, with the template's metadata.

    Nothing of the machine's own labels and annotations goes with it.
    """
    template = vm["spec"]["template"]
    metadata = template.get("metadata") or {}
    vmi: Object = {
        "apiVersion": w.API_VERSION,
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": name_of(vm),
            "namespace": namespace_of(vm),
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {
                **(metadata.get("annotations") or {}),
                w.ANNOTATION_GENERATION: str(vm["metadata"]["generation"]),
            },
            "finalizers": [w.FINALIZER_VM],
            "ownerReferences": [owner_reference(vm)],
        },
        "spec": copy.deepcopy(template["spec"]),
        "status": {"virtualMachineRevisionName": revision_name(vm)},
    }
    return vmi


def revision_of(vm: Object) -> Object:
    """What keeps the machine's spec as it was at a start."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision_name(vm),
            "namespace": namespace_of(vm),
            "ownerReferences": [owner_reference(vm)],
        },
        "revision": vm["metadata"]["generation"],
        "data": {"spec": vm["spec"]},
    }


def revision_name(vm: Object) -> str:
    """The name of that; the instance's status carries it."""
    return f"revision-start-vm-{uid_of(vm)}-{vm['metadata']['generation']}"


def ran(vmi: Object) -> bool:
    """Whether its guest ever ran: its end is then no failed start (KubeVirt observed 29)."""
    return any(
        each.get("phase") == w.RUNNING for each in items(vmi, "status", "phaseTransitionTimestamps")
    )


def _without_instance(vm: Object, now: datetime.datetime) -> Act:
    """Whether to start: by the strategy, a request to start, and the pause after failures."""
    strategy, wanted = strategy_of(vm), _asks_to_start(vm)
    if strategy == w.HALTED:
        return Act(strategy=w.ALWAYS if wanted else "")
    if strategy == w.MANUAL and not wanted:
        return Act()
    if strategy == w.RERUN and not wanted and status_of(vm).get("runStrategy") == strategy:
        return Act()  # it was stopped, or its instance was deleted (KubeVirt observed 31)
    if strategy in {w.ALWAYS, w.RERUN}:
        until = (status_of(vm).get("startFailure") or {}).get("retryAfterTimestamp")
        if until and moment_of(until) > now:
            return Act(wait=moment_of(until))
    return Act(start=instance_of(vm))


def _with_instance(sight: Sight, vmi: Object) -> Act:
    vm, strategy = sight.vm, strategy_of(sight.vm)
    to_stop = _asks_to_stop(vm, vmi)
    if strategy == w.RERUN:
        # An instance that somebody else deletes is not made again (KubeVirt observed 31).
        if not is_going(vmi) and (to_stop or is_final(vmi)):
            return Act(stop=True, start_again=phase_of(vmi) == w.FAILED)
    elif strategy == w.ONCE:
        pass  # what ended stays as it is (KubeVirt observed 26)
    elif strategy == w.HALTED or to_stop or (strategy == w.ALWAYS and is_final(vmi)):
        return Act(stop=not is_going(vmi))
    if is_going(vmi) or is_final(vmi):
        return Act()
    return Act(patch=tuple(_live_updates(sight, vmi)))


def _live_updates(sight: Sight, vmi: Object) -> list[Object]:
    """What goes from a changed template into the running instance (KubeVirt observed 16).

    Whatever else put into those fields of the instance is undone. Once anything changed that needs
    a restart, nothing is copied any more.
    """
    vm = sight.vm
    patch: list[Object] = []
    generation = str(vm["metadata"]["generation"])
    known = annotations_of(vmi)
    started_as = (sight.started_as or {}).get("template")
    if known.get(w.ANNOTATION_GENERATION) != generation and started_as == vm["spec"]["template"]:
        new = {**known, w.ANNOTATION_GENERATION: generation}
        patch += replacement("/metadata/annotations", dict(known), new)
    if not sight.live_update or needs_restart(sight):
        return patch
    template = vm["spec"]["template"]["spec"]
    for field in LIVE_FIELDS:
        if (template.get(field) or None) != (vmi["spec"].get(field) or None):
            patch += replacement(f"/spec/{field}", vmi["spec"].get(field), template.get(field))
    return patch


def needs_restart(sight: Sight) -> bool:
    """Whether the template changed since the start in what a running instance cannot take over."""
    if sight.vmi is None or is_going(sight.vmi):
        return False
    if has_condition(sight.vm, "RestartRequired", "True"):
        return True
    if sight.started_as is None:
        return False
    then, now = (
        {k: v for k, v in spec["template"]["spec"].items() if k not in LIVE_FIELDS}
        for spec in (sight.started_as, sight.vm["spec"])
    )
    return then != now


def _asks_to_start(vm: Object) -> bool:
    requests = items(vm, "status", "stateChangeRequests")
    return bool(requests) and requests[0]["action"] == "Start"


def _asks_to_stop(vm: Object, vmi: Object) -> bool:
    requests = items(vm, "status", "stateChangeRequests")
    return (
        bool(requests) and requests[0]["action"] == "Stop" and requests[0].get("uid") == uid_of(vmi)
    )


def _is_met(request: Object, vmi: Object | None) -> bool:
    """Whether the first request is done with."""
    if request["action"] == "Stop":
        return vmi is None or request.get("uid") != uid_of(vmi)
    return vmi is not None and not is_going(vmi) and not is_final(vmi)


def _start_failure(
    vm: Object,
    vmi: Object | None,
    now: datetime.datetime,
    chance: random.Random,
    speed: float,
) -> Object | None:
    """The count of starts in a row that failed, and until when there is no next one.

    Each instance that ended without ever having run counts once, whoever ended it (KubeVirt
    observed 25, 27, 31, 35). One that ran clears the count, and so does a strategy that does not
    start by itself (KubeVirt observed 24, 33).
    """
    known: Object | None = status_of(vm).get("startFailure")
    if strategy_of(vm) not in _RESTARTS or (vmi is not None and ran(vmi)):
        return None
    if vmi is None or not is_final(vmi):
        return known
    if known is not None and known.get("lastFailedVMIUID") == uid_of(vmi):
        return known
    count = (known or {}).get("consecutiveFailCount", 0) + 1
    pause = datetime.timedelta(seconds=start_pause_seconds(count, chance) / speed)
    return {
        "consecutiveFailCount": count,
        "lastFailedVMIUID": uid_of(vmi),
        # KubeVirt writes whole seconds; a pause that was sped up would get lost in them.
        "retryAfterTimestamp": stamp(now + pause) if speed == 1 else exact_stamp(now + pause),
    }


def _conditions(status: Object, sight: Sight, failure: Failure | None, moment: str) -> list[Object]:
    """Ready, Failure and RestartRequired of its own, all others copied from the instance.

    Without an instance the copies stay as they were (KubeVirt observed 27).
    """
    vmi = sight.vmi
    conditions: list[Object] = list(items(status, "conditions"))
    if vmi is None:
        ready = made("Ready", "False", "VMINotExists", "VMI does not exist", moment)
    else:
        ready = condition(vmi, "Ready") or made(
            "Ready", "False", "VMIConditionMissing", "VMI is missing the Ready condition", moment
        )
    conditions = with_condition(conditions, ready)
    if failure is None:
        conditions = without_condition(conditions, "Failure")
    else:
        new = made("Failure", "True", failure.reason, failure.message, moment)
        conditions = with_condition(conditions, new)
    if needs_restart(sight):
        message = "a non-live-updatable field was changed in the template spec"
        new = made("RestartRequired", "True", "", message, moment)
        conditions = with_condition(conditions, new)
    else:
        conditions = without_condition(conditions, "RestartRequired")
    if vmi is None:
        return conditions
    copied = [each for each in items(vmi, "status", "conditions") if each["type"] != "Ready"]
    own = [each for each in conditions if each["type"] in _OWN_CONDITIONS]
    return [*own, *copied]


def _printable(vm: Object, vmi: Object | None, status: Object, strategy: str, started: bool) -> str:
    """The one word that `kubectl get vm` shows; the first that fits."""
    if is_going(vm):
        return "Terminating"
    if vmi is not None and not is_final(vmi):
        if is_going(vmi):
            return "Stopping"
        migration = status_of(vmi).get("migrationState") or {}
        if migration and not migration.get("endTimestamp"):
            return "Migrating"
        if phase_of(vmi) == w.RUNNING:
            return "Running"
    if vmi is not None:
        if condition(vmi, "Synchronized").get("reason") == w.FAILED_PVC_NOT_FOUND:
            return "ErrorPvcNotFound"
        if condition(vmi, "PodScheduled").get("reason") == "Unschedulable":
            return "ErrorUnschedulable"
        if condition(vmi, "DataVolumesReady").get("status") in {"False", "Unknown"}:
            return "WaitingForVolumeBinding"
    if (vmi is None and started) or (vmi is not None and not is_final(vmi)):
        return "Starting"
    if (status.get("startFailure") or {}).get("consecutiveFailCount") and strategy in _RESTARTS:
        return "CrashLoopBackOff"
    return "Stopped"


def _tell(status: Object, field: str, value: object) -> None:
    if value is None:
        status.pop(field, None)
    else:
        status[field] = value
