"""VirtualMachineInstanceMigrations: the target's pod, the hand-over, and how it ends.

One pass is `act`, then `told`. What happens on the two nodes is virt-handler's part, in `nodes`;
both tell each other in the instance's `status.migrationState`.
"""

from __future__ import annotations

import copy
import datetime
from dataclasses import dataclass
from typing import Final

from tests.cluster.api import Object
from tests.kubevirt import rendering
from tests.kubevirt import words as w
from tests.kubevirt.instances import is_down, is_ready, replacement
from tests.kubevirt.objects import (
    annotations_of,
    condition,
    finalizers_of,
    is_final,
    is_going,
    items,
    labels_of,
    moment_of,
    name_of,
    namespace_of,
    phase_of,
    stamp,
    status_of,
    uid_of,
)

PENDING_SECONDS: Final = 900
UNSCHEDULABLE_SECONDS: Final = 300
"""How long a target's pod may be Pending; annotations of the migration can say otherwise."""

_BEFORE_TARGET: Final = frozenset({"", w.PENDING})
_GAVE_UP: Final = "Migration failed because target pod shutdown during migration"


@dataclass(frozen=True, slots=True)
class Sight:
    """All that virt-controller knows of one migration.

    Attributes:
        migration: the migration.
        vmi: the instance that it names, if it exists.
        source: the pod that the instance runs in.
        source_node: the node of that.
        target: the pod made for this migration, if there is one.
        others: whether an older migration of the instance is under way.
    """

    migration: Object
    vmi: Object | None = None
    source: Object | None = None
    source_node: Object | None = None
    target: Object | None = None
    others: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """What a pass does, beside writing the migration.

    Attributes:
        create: the target's pod.
        delete: a pod that is given up.
        patch: JSON Patch that tells the instance about its migration.
        event: a warning about the migration.
        wait: when a pod that is Pending will have been so for too long.
    """

    create: Object | None = None
    delete: Object | None = None
    patch: tuple[Object, ...] = ()
    event: str = ""
    wait: datetime.datetime | None = None


def act(sight: Sight, now: datetime.datetime, speed: float = 1) -> Act:
    """What is to be done for the migration; timeouts are divided by `speed`."""
    migration, vmi, target = sight.migration, sight.vmi, sight.target
    phase = phase_of(migration)
    if is_final(migration) or not finalizers_of(migration):
        return Act()
    if is_going(migration):
        return Act(delete=target if target is not None and not is_down(target) else None)
    if phase in _BEFORE_TARGET:
        may = vmi is not None and phase_of(vmi) == w.RUNNING and not is_going(vmi)
        if phase and may and target is None and not sight.others and vmi is not None:
            return Act(create=rendering.target(vmi, migration, sight.source_node))
        return Act()
    if target is None or is_down(target):
        return Act(event=_GAVE_UP) if _is_unfinished(sight) else Act()
    if phase == w.SCHEDULING and phase_of(target) == w.PENDING:
        return _patience(migration, target, now, speed)
    if phase == w.SCHEDULED and vmi is not None and not _is_told(vmi, migration):
        return Act(patch=tuple(_hand_over(sight, vmi, target)))
    return Act()


def told(sight: Sight, now: datetime.datetime, speed: float = 1) -> Object:
    """The migration with status, labels and finalizers as they are to be."""
    migration = copy.deepcopy(sight.migration)
    metadata, before = migration["metadata"], phase_of(migration)
    status = migration["status"] = {**status_of(migration)}
    vmi_name = migration["spec"]["vmiName"]
    if not before and not finalizers_of(migration):
        metadata["labels"] = {**labels_of(migration), w.LABEL_VMI_OF_MIGRATION: vmi_name}
        metadata["finalizers"] = [w.FINALIZER_MIGRATION]
        return migration
    status["phase"] = _phase(sight, now, speed)
    if sight.source is not None and status["phase"] not in _BEFORE_TARGET:
        status.setdefault("migrationState", {"sourcePod": name_of(sight.source)})
    if status["phase"] != before:
        status["phaseTransitionTimestamps"] = [
            *items(status, "phaseTransitionTimestamps"),
            {"phase": status["phase"], "phaseTransitionTimestamp": stamp(now)},
        ]
    if before in w.FINAL:
        metadata.pop("finalizers", None)
    return migration


def _phase(sight: Sight, now: datetime.datetime, speed: float) -> str:
    """The phase that follows from what is there."""
    migration, vmi, target = sight.migration, sight.vmi, sight.target
    phase = phase_of(migration)
    if phase in w.FINAL:
        return phase
    if vmi is None or is_final(vmi) or is_going(migration):
        return w.FAILED
    if phase in _BEFORE_TARGET:
        return w.PENDING if target is None or not phase else w.SCHEDULING
    state = _state(vmi, migration)
    if state.get("completed"):
        return w.FAILED if state.get("failed") else w.SUCCEEDED
    if target is None or is_down(target):
        return w.FAILED  # KubeVirt observed 44
    if phase == w.SCHEDULING:
        if _is_overdue(migration, target, now, speed):
            return w.FAILED  # KubeVirt observed 45
        return w.SCHEDULED if is_ready(target) else phase
    if phase == w.SCHEDULED:
        return "PreparingTarget" if state else phase
    if phase == "PreparingTarget":
        return "TargetReady" if state.get("targetNodeAddress") else phase
    if phase == "TargetReady":
        return w.RUNNING if state.get("startTimestamp") else phase
    return phase


def _patience(migration: Object, target: Object, now: datetime.datetime, speed: float) -> Act:
    """A target that does not get to run is given up after a time (KubeVirt observed 45).

    One at a gate is Pending without being unschedulable: only the longer of the two times holds.
    """
    due = _due(migration, target, speed)
    if due > now:
        return Act(wait=due)
    message = f"pending pod {namespace_of(target)}/{name_of(target)} timeout period exceeded"
    return Act(delete=target, event=message)


def _is_overdue(migration: Object, target: Object, now: datetime.datetime, speed: float) -> bool:
    return phase_of(target) == w.PENDING and _due(migration, target, speed) <= now


def _due(migration: Object, target: Object, speed: float) -> datetime.datetime:
    unschedulable = condition(target, "PodScheduled").get("reason") == "Unschedulable"
    annotation, usual = (
        (w.ANNOTATION_UNSCHEDULABLE_TIMEOUT, UNSCHEDULABLE_SECONDS)
        if unschedulable
        else (w.ANNOTATION_PENDING_TIMEOUT, PENDING_SECONDS)
    )
    seconds = int(annotations_of(migration).get(annotation, usual))
    created = moment_of(target["metadata"]["creationTimestamp"])
    return created + datetime.timedelta(seconds=seconds / speed)


def _is_unfinished(sight: Sight) -> bool:
    return sight.vmi is not None and not _state(sight.vmi, sight.migration).get("completed")


def _is_told(vmi: Object, migration: Object) -> bool:
    return bool(_state(vmi, migration))


def _state(vmi: Object, migration: Object) -> Object:
    """What the instance says of this migration; empty while it says nothing."""
    state: Object = status_of(vmi).get("migrationState") or {}
    return state if state.get("migrationUid") == uid_of(migration) else {}


def _hand_over(sight: Sight, vmi: Object, target: Object) -> list[Object]:
    """Tell virt-handler on both nodes what is to happen."""
    state = {
        "migrationUid": uid_of(sight.migration),
        "sourceNode": status_of(vmi)["nodeName"],
        "targetNode": target["spec"]["nodeName"],
        "targetPod": name_of(target),
    }
    if sight.source is not None:
        state["sourcePod"] = name_of(sight.source)
    labels = dict(labels_of(vmi))
    return [
        *replacement("/status/migrationState", status_of(vmi).get("migrationState"), state),
        *replacement(
            "/metadata/labels",
            labels,
            {**labels, w.LABEL_TARGET_NODE: target["spec"]["nodeName"]},
        ),
    ]
