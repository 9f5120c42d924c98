"""What a class's status says, and when it is written (rules 3.1 and 6.5).

About once a second at most while its figures change, and never when nothing changed. A class
that keeps its stock to itself has no figures there.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime, timedelta
from typing import Final

from binder.actions import Action, AddFinalizer, Kind, Ref, RemoveFinalizer, ReportClass, Work
from binder.agenda import Agenda
from binder.report import Verdict
from shared.api.conditions import ConditionType
from shared.core.capacity import Capacity, figures
from shared.core.cluster import ClusterState
from shared.core.gpunames import is_permitted
from shared.core.model import Disclosure, GpuClass, Lifecycle, Placement
from shared.core.placing import ClassWritten
from shared.core.terms import Truth
from shared.fields import Json
from shared.reasons import Reason, say
from shared.times import rfc3339
from shared.vocabulary import FINALIZER_CLASS

PACE: Final = timedelta(seconds=1)
"""So long figures stand before others are written."""

_WELL: Final = Verdict(Truth.TRUE, Reason.AVAILABLE)


def report_classes(
    state: ClusterState, agenda: Agenda, now: datetime, made: Container[str] = frozenset()
) -> tuple[list[Work], float | None]:
    """The works for classes, and in how many seconds one is due that came too soon.

    `made` are classes of claims that are being written, and may not be known yet.
    """
    works: list[Work] = []
    due: list[float] = []
    for name in sorted(agenda.classes()):
        gpu_class = state.classes.get(name)
        actions: tuple[Action, ...] = ()
        pause = 0.0
        if gpu_class is not None:
            pause, actions = _class(state, gpu_class, now, name in made)
        if actions:
            works.append(Work(f"class/{name}", tuple((action,) for action in actions)))
        elif pause:
            due.append(pause)
        else:
            agenda.told(name)
    return works, min(due, default=None)


def verdicts(state: ClusterState, gpu_class: GpuClass) -> dict[ConditionType, Verdict]:
    """The conditions of a class, in the order in which they are written."""
    conflict = state.has_conflict(gpu_class.name)
    permitted = is_permitted(gpu_class.resource_name, state.kubevirt)
    closed = gpu_class.lifecycle is Lifecycle.CLOSED
    against = {
        Reason.DISABLED: not state.settings.enabled,
        Reason.NOT_OFFERED: state.settings.placement is Placement.SCHEDULER,
        Reason.CLASS_CONFLICT: conflict,
        Reason.NOT_PERMITTED: not permitted,
        Reason.CLASS_CLOSED: closed,
    }
    return {
        ConditionType.READY: next((_against(each) for each in against if against[each]), _WELL),
        ConditionType.OPEN: _against(Reason.CLASS_CLOSED) if closed else _WELL,
        ConditionType.RESOURCE_NAME_UNIQUE: (
            _against(Reason.CLASS_CONFLICT) if conflict else _WELL
        ),
        ConditionType.PERMITTED: _WELL if permitted else _against(Reason.NOT_PERMITTED),
    }


def disclosed(state: ClusterState) -> dict[str, Capacity]:
    """The stock of the classes that disclose it: whoever reaches us may read our metrics."""
    return {
        name: state.capacity(name)
        for name, gpu_class in state.classes.items()
        if gpu_class.disclosure is Disclosure.EXACT
    }


def _class(
    state: ClusterState, gpu_class: GpuClass, now: datetime, is_made: bool
) -> tuple[float, tuple[Action, ...]]:
    """The writes for one class, or for how many seconds its figures have to wait."""
    told = gpu_class.written or ClassWritten()
    ref = Ref("", gpu_class.name, gpu_class.uid, told.resource_version)
    finalizer = _finalizer(state, gpu_class, told, ref, is_made)
    if finalizer is not None:
        return 0.0, (finalizer,)  # the status follows, when this is seen
    said = verdicts(state, gpu_class)
    shown = gpu_class.disclosure is Disclosure.EXACT
    capacity = figures(state.capacity(gpu_class.name)) if shown else None
    same_conditions = _written(told) == {
        str(kind): (str(each.status), str(each.reason), each.message, told.generation or None)
        for kind, each in said.items()
    }
    if same_conditions and told.capacity == capacity:
        return 0.0, ()
    pause = _pause(told, now)
    if same_conditions and pause:
        return pause, ()
    return 0.0, (ReportClass(ref, _status(told, said, capacity, rfc3339(now))),)


def _finalizer(
    state: ClusterState, gpu_class: GpuClass, told: ClassWritten, ref: Ref, is_made: bool
) -> Action | None:
    """A class in use has our finalizer, and one that is not has none (rule 6.5)."""
    in_use = state.holders.claims_of(gpu_class.name) > 0
    has = FINALIZER_CLASS in told.finalizers
    if in_use and not has and not told.deleted:
        return AddFinalizer(Kind.CLASS, ref, FINALIZER_CLASS, told.finalizers)
    if has and not in_use and not is_made:
        return RemoveFinalizer(Kind.CLASS, ref, FINALIZER_CLASS, told.finalizers)
    return None


def _status(
    told: ClassWritten,
    said: dict[ConditionType, Verdict],
    capacity: dict[str, int] | None,
    now: str,
) -> Json:
    before = {each.type: each for each in told.conditions}
    conditions: list[Json] = []
    for kind, each in said.items():
        last = before.get(kind)
        since = last.since if last is not None and last.status == each.status else ""
        conditions.append(
            {
                "type": str(kind),
                "status": str(each.status),
                "reason": str(each.reason),
                "message": each.message,
                "lastTransitionTime": since or now,
            }
            | ({"observedGeneration": told.generation} if told.generation else {})
        )
    # As a merge patch: figures that are not to be shown any more are taken away by their name.
    shown = None if capacity is None else {**capacity, "observedTime": now}
    return {"conditions": conditions, "capacity": shown}


def _written(told: ClassWritten) -> dict[str, tuple[str, str, str, int | None]]:
    return {
        each.type: (each.status, each.reason, each.message, each.generation)
        for each in told.conditions
    }


def _pause(told: ClassWritten, now: datetime) -> float:
    """For how many seconds more the figures as written stand."""
    try:
        left = PACE - (now - datetime.fromisoformat(told.observed))
    except (ValueError, TypeError):  # no time, or one without its zone
        return 0.0
    # A clock that went back holds nothing up.
    return left.total_seconds() if timedelta() < left <= PACE else 0.0


def _against(reason: Reason) -> Verdict:
    return Verdict(Truth.FALSE, reason, say(reason))
