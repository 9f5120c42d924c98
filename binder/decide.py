"""Decide about one unit after the other: where it goes, or why it waits (rules 7.4 to 7.9, 7.17).

Each decision is laid into the trial state before the next is made. Units that a decision frees
are not handed out in the same pass: the writes of a pass run side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from binder.actions import Work
from binder.agenda import Task
from binder.hindrances import HINDRANCES, Hindrance
from binder.memory import Memory
from binder.report import Verdict, because
from binder.rewording import Rewording
from binder.sets import ground, is_lost
from binder.trial import Trial
from binder.underway import NONE, UnderWay, held_elsewhere, name_of
from binder.units import Unit, demand_of
from binder.works import book, let_go, wait
from shared.core.eligibility import Misfit
from shared.core.model import Claim, Pod
from shared.core.placement import place
from shared.core.sites import Sites


class Decisions:
    """What is decided in one pass, as works: first what starts or moves, then what waits.

    Attributes:
        works: what starts or moves.
        waiting: what waits, where its claims do not say why.
        rewordings: what waits, where its claims say why in other words than those of now, or
            name another reason of the stock's.
        left: keys of the units of which nobody knows what their claims should say.
    """

    def __init__(
        self,
        trial: Trial,
        memory: Memory,
        now: str,
        hindrances: Sequence[Hindrance] = HINDRANCES,
        under_way: UnderWay = NONE,
    ) -> None:
        self.works: list[Work] = []
        self.waiting: list[Work] = []
        self.rewordings: list[Rewording] = []
        self.left: set[str] = set()
        self._under_way = under_way
        self._trial = trial
        self._state = trial.state
        self._memory = memory
        self._now = now
        self._hindrances = hindrances
        self._tight: frozenset[str] = frozenset()
        self._aside: dict[str, list[Claim | Pod]] = {}
        """By unit, what does not count before its turn."""
        self._is_freeing = False
        """Whether something was moved: what it frees is not there before that is written."""
        self._misfits: list[tuple[Unit, Misfit, int]] = []
        """What fits nowhere, and how many works there were by then."""

    def run(self, units: Sequence[Unit], skipped: Container[str]) -> None:
        """Decide about units in this order; those whose keys are skipped are left as they are.

        So are those that something under way is about. That counts as it may become.
        """
        self._trial.put(*self._under_way.laid(self._state))
        self._tight = self._short_of_budget(units)
        for unit in units:
            if unit.key in self._tight:
                self._lay_aside(unit)
        for unit in units:
            if unit.key in skipped or unit.is_unsure or self._is_under_way(unit):
                self._count(unit)
                self.left.add(unit.key)
            elif unit.task is Task.ELSEWHERE and unit.gpu_set is not None:
                self._book(unit, ground(unit.gpu_set))
            elif unit.task is Task.OFF:
                _add(self.works, let_go(unit, self._memory, self._now))
            else:
                self._place(unit)
        self._tell_misfits()

    def _short_of_budget(self, units: Sequence[Unit]) -> frozenset[str]:
        """Keys of the units that a budget may not let through.

        Where it has room for all that is there and for all that may be made in this pass, the
        order in which units count makes no difference, and counting them costs something.
        """
        state = self._state
        made = Counter[str]()
        for unit in units:
            for item in unit.items:
                if item.before is None:  # it counts under both keys, as every claim
                    made[item.unbound.class_name] += item.unbound.count
                    made[item.resource] += item.unbound.count
        return frozenset(
            unit.key
            for unit in units
            for item in unit.items
            if (gpu_class := state.classes.get(item.unbound.class_name)) is not None
            and (left := state.remaining(unit.namespace, gpu_class.name)) is not None
            and left.units < max(made[gpu_class.name], made[gpu_class.resource_name])
        )

    def _is_under_way(self, unit: Unit) -> bool:
        """Whether something that was decided earlier is still being written about it."""
        named = [name_of(item.unbound) for item in unit.items] + [*map(name_of, _pods(unit))]
        return self._under_way.has(unit.key, named)

    def _lay_aside(self, unit: Unit) -> None:
        """A unit that has its turn later does not count before (rule 7.7).

        What is booked for it counts, and that it is started, also if that is still being written.
        """
        holders = self._state.holders
        claims = (holders.claims.get(item.unbound.key) for item in unit.items)
        pods = (holders.pods.get(pod.key) for pod in _pods(unit))
        aside: list[Claim | Pod] = [
            each for each in claims if each is not None and not (each.node_name or is_lost(each))
        ]
        aside += [pod for pod in pods if pod is not None and not pod.pinned_to]
        self._trial.take(*aside)
        self._aside[unit.key] = aside

    def _count(self, unit: Unit) -> None:
        """From here on a unit counts as it is."""
        self._trial.put(*self._aside.get(unit.key, ()))

    # Where to.

    def _place(self, unit: Unit) -> None:
        is_tight = unit.key in self._tight
        counted = (item.unbound for item in unit.items if is_tight or item.is_booked)
        self._trial.put(*counted, *(_pods(unit) if is_tight else ()))
        found = (hindrance(unit, self._state) for hindrance in self._hindrances)
        why = next((each for each in found if each is not None), None)
        if why is not None:
            self._wait(unit, why)
            return
        chosen = place(demand_of(unit, self._state), self._sites)
        if not isinstance(chosen, Misfit):
            self._book(unit, chosen.node)
            return
        self._put_back(unit)
        if self._is_freeing:  # it may fit once what this pass frees is free
            self.left.add(unit.key)
        else:
            self._misfits.append((unit, chosen, len(self.works)))

    def _tell_misfits(self) -> None:
        """Say why units fit nowhere as it is after the pass: younger ones took room, too.

        In their turn that was not decided yet, and what was so then never is.
        """
        for unit, misfit, works in self._misfits:
            if works < len(self.works):
                self._trial.put(*(item.unbound for item in unit.items if item.is_booked))
                now = place(demand_of(unit, self._state), self._sites)
                misfit = now if isinstance(now, Misfit) else misfit
            self._wait(unit, because(misfit.reason, misfit.text))

    # What follows.

    def _book(self, unit: Unit, node_name: str) -> None:
        work = book(unit, node_name, self._state.nodes, self._memory, self._now)
        freed = [each for item in unit.items for each in held_elsewhere(item.before, node_name)]
        self._trial.put(*work.laid, *freed)
        self._is_freeing |= bool(freed)
        _add(self.works, work)

    def _put_back(self, unit: Unit) -> None:
        """What a unit holds it keeps."""
        self._trial.put(*(each for each in unit.claims if each.node_name))

    def _wait(self, unit: Unit, why: Verdict) -> None:
        """A unit has no place: what it holds it keeps (rule 7.9).

        But a set that is split, and cannot be gathered, is lost as a whole (rule 7.4).
        """
        self._put_back(unit)
        # What is under way may hold the room that would gather it; then nobody knows yet.
        is_split = unit.gpu_set is not None and unit.gpu_set.is_split and not self._is_unsettled
        found = wait(unit, why, self._state.nodes, self._memory, self._now, lose=is_split)
        if isinstance(found, Rewording):
            self.rewordings.append(found)
        else:
            _add(self.waiting, found)

    @property
    def _is_unsettled(self) -> bool:
        """Whether room is held for something that may not come."""
        return any(work.laid for work in self._under_way.works)

    @property
    def _sites(self) -> Sites:
        sites = self._state.sites
        assert sites is not None, "a binder's state keeps what placing looks at"
        return sites


def _pods(unit: Unit) -> tuple[Pod, ...]:
    """The pod that a unit is to start, if there is one."""
    return () if unit.pod is None else (unit.pod,)


def _add(works: list[Work], work: Work) -> None:
    if work.steps:
        works.append(work)
