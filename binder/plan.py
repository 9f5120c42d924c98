"""The plan of a pass: what is to be written, decided from the state alone (rules 7.2 and 7.3).

Pure: the state is lent for the time of the call and given back as it was; the clock is an
argument. Over a cluster that is as it should be the plan is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from binder.actions import Plan
from binder.agenda import Agenda, Task
from binder.classes import report_classes
from binder.decide import Decisions
from binder.fencing import fenced
from binder.hindrances import HINDRANCES, Hindrance
from binder.memory import Memory
from binder.sets import is_lost
from binder.trial import Trial
from binder.underway import NONE, UnderWay
from binder.units import PHASES, units
from binder.upkeep import look_after
from shared.core.cluster import ClusterState
from shared.core.model import Claim
from shared.times import rfc3339


@dataclass(frozen=True, slots=True)
class View:
    """What a pass sees.

    Attributes:
        state: the cluster, own writes that are not seen yet among it, with its `sites`.
        agenda: what is to be done in that state.
        backed_off: keys of works that failed lately: sets among them are left alone, and stand
            in nobody's way. The others may be planned; who carries out leaves them.
        under_way: works that an earlier pass began and that are not over. What they are about is
            not decided; what else is planned about it, who carries out leaves.
        memory: what this term told of VMs, and which starts were refused.
    """

    state: ClusterState
    agenda: Agenda
    backed_off: Collection[str] = frozenset()
    under_way: UnderWay = NONE
    memory: Memory = field(default_factory=Memory)


def plan(
    view: View,
    now: datetime,
    phases: Sequence[Task] = tuple(Task),
    hindrances: Sequence[Hindrance] = HINDRANCES,
) -> Plan:
    """What is to be done now, in the order of precedence (rule 7.3).

    Args:
        view: what is seen.
        now: by the clock, with its time zone.
        phases: the tasks that are seen to, in this order.
        hindrances: what may keep a unit from being placed, whatever is free.
    """
    todo = units(view.state, view.agenda, [task for task in phases if task in PHASES])
    upkeep = [
        work
        for key, task in sorted(view.agenda.claims().items())
        if task in phases and (work := look_after(view.state, key, task, rfc3339(now))) is not None
    ]
    with Trial(view.state) as trial:
        trial.take(*_spent(view))
        decisions = Decisions(trial, view.memory, rfc3339(now), hindrances, view.under_way)
        decisions.run(todo, view.backed_off)
    begun = (*view.under_way.works, *decisions.works, *decisions.waiting)
    made = {each.class_name for work in begun for each in work.laid if isinstance(each, Claim)}
    classes, classes_due = report_classes(view.state, view.agenda, now, made)
    hints, hints_due = view.agenda.budget_keys.works(now, view.under_way.keys)
    rewordings = view.agenda.rewordings
    reworded, words_due = rewordings.works(decisions.rewordings, decisions.left, now)
    due = [each for each in (classes_due, hints_due, words_due) if each is not None]
    works = (*decisions.works, *upkeep, *decisions.waiting, *classes, *hints, *reworded)
    whole = tuple(fenced(work, view.state.holders) for work in works)
    return Plan(whole, min(due, default=None))


def _spent(view: View) -> list[Claim]:
    """Claims that hold nothing and are about to go: no budget waits for them (rule 7.7).

    There are many of them where nobody placed VMs for a while.
    """
    claims = view.state.holders.claims
    going = [
        claims[key]
        for key, task in view.agenda.claims().items()
        if task in (Task.ENDS, Task.LEAVES)
    ]
    return [claim for claim in going if not (claim.node_name or is_lost(claim))]
