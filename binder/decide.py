"""Decide about one unit after the other: where it goes, or why it waits (rules 7.4 to 7.9, 7.17).

Each decision is laid into the trial state before the next is made. Units that a decision frees
are not handed out in the same pass: the writes of a pass run side by side.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace

from binder.actions import (
    Action,
    AddFinalizer,
    BookClaim,
    CreateClaim,
    Kind,
    Ref,
    StartPod,
    Work,
)
from binder.agenda import Task
from binder.hindrances import HINDRANCES, Hindrance
from binder.memory import Memory
from binder.report import (
    Gap,
    Standing,
    Verdict,
    because,
    booked,
    conditions,
    gap,
    held_for_one_that_waits,
    is_told,
    release,
    report,
    said_of,
    waits,
    words,
)
from binder.rewording import Rewording
from binder.sets import ground, is_attached, is_lost
from binder.telling import events, is_news, refusal
from binder.trial import Trial
from binder.underway import NONE, UnderWay, held_elsewhere, name_of
from binder.units import Item, Unit, demand_of
from shared.core.eligibility import Misfit
from shared.core.model import Attachment, Claim, Pod
from shared.core.placement import place
from shared.core.sites import Sites
from shared.reasons import Reason, say
from shared.vocabulary import FINALIZER_CLAIM


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
                self._release(unit)
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
        counted = (item.unbound for item in unit.items if is_tight or _holds(item))
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
                self._trial.put(*(item.unbound for item in unit.items if _holds(item)))
                now = place(demand_of(unit, self._state), self._sites)
                misfit = now if isinstance(now, Misfit) else misfit
            self._wait(unit, because(misfit.reason, misfit.text))

    # What follows.

    def _book(self, unit: Unit, node_name: str) -> None:
        """All claims of a unit are booked on a node, and its pod starts there."""
        node = self._state.nodes.get(node_name)
        obstacle = refusal(unit, self._memory)
        laid: list[Claim | Pod] = []
        freed: list[Claim] = []
        prepare: list[Action] = []
        bookings: list[Action] = []
        for item in unit.items:
            user = _user(unit, item)
            claim = replace(item.unbound, node_name=node_name, attached_to=user)
            laid.append(claim)
            freed += held_elsewhere(item.before, claim)
            made = self._made(unit, item)
            prepare += made
            standing = booked(node, user, obstacle)
            bookings += self._booking(item, node_name, standing, is_new=bool(made))
        steps = [prepare, bookings]
        if obstacle:
            # First: what was refused may be a booking, and no step comes after it. Then no claim
            # says it either, for as long as it lasts.
            why = because(Reason.NODE_REFUSED, obstacle)
            is_more = bool(prepare or bookings)
            steps.insert(0, events(unit, why, {}, self._memory, self._now, again=is_more))
        pod = unit.pod
        if pod is not None:
            laid.append(replace(pod, pinned_to=node_name))
            steps.append([_start(pod, node_name)])
        self._trial.put(*laid, *freed)
        self._is_freeing |= bool(freed)
        self._add(self.works, unit.key, steps, laid)

    def _release(self, unit: Unit) -> None:
        """With the feature off a pod goes wherever the scheduler lets it (rule 7.15)."""
        off = because(Reason.DISABLED, say(Reason.DISABLED))
        starts: list[Action] = [] if unit.pod is None else [_start(unit.pod, "")]
        self._add(self.works, unit.key, [events(unit, off, {}, self._memory, self._now), starts])

    def _booking(
        self, item: Item, node_name: str, standing: Standing, *, is_new: bool
    ) -> list[Action]:
        """Write a booking, unless it stands there already."""
        before = item.before or item.unbound
        held = (before.node_name, before.resource_name) == (node_name, item.resource)
        ref = _after_first_write(item.ref) if is_new else item.ref
        if held:
            return [] if is_told(before, standing) else [report(before, ref, standing, self._now)]
        since = before.written.bound if before.written is not None else ""
        return [
            BookClaim(
                ref,
                node_name,
                item.resource,
                since or self._now,
                standing.attached_to,
                conditions(before, standing, self._now),
            )
        ]

    def _put_back(self, unit: Unit) -> None:
        """What a unit holds it keeps."""
        self._trial.put(*(each for each in unit.claims if each.node_name))

    def _wait(self, unit: Unit, why: Verdict) -> None:
        """A unit has no place: its claims say why; what they hold they keep (rule 7.9).

        But a set that is split, and cannot be gathered, is lost as a whole (rule 7.4). All claims
        of a unit are written together, after the event. Where that tells nothing but other words,
        or another reason of the stock's, it may wait.
        """
        self._put_back(unit)
        # What is under way may hold the room that would gather it; then nobody knows yet.
        is_split = unit.gpu_set is not None and unit.gpu_set.is_split and not self._is_unsettled
        prepare: list[Action] = []
        reports: list[tuple[Gap, Action]] = []
        new: list[Claim | Pod] = []
        for item in unit.items:
            before = item.before or item.unbound
            made = self._made(unit, item) if item.before is None else []
            prepare += made
            new += [item.unbound] if made else []
            ref = _after_first_write(item.ref) if made else item.ref
            if item.before is not None and item.before.node_name:
                reports += self._keep(unit, item, why, lose=is_split)
                continue
            standing = waits(why, _user(unit, item), lost=is_lost(before))
            reports += self._report(before, ref, standing)
        said = said_of(unit.gpu_set.vmi, unit.claims) if unit.gpu_set is not None else {}
        # First: where a claim may not be made, no step comes after it, and none says it.
        told = events(unit, why, said, self._memory, self._now, again=bool(prepare))
        steps = [told + prepare, [action for _, action in reports]]
        may_wait = (
            not prepare
            and reports
            and all(lacks is Gap.WORDS for lacks, _ in reports)
            and not (told and is_news(unit, why, said, self._memory))
        )
        if may_wait:
            work = Work(unit.key, tuple(tuple(step) for step in steps if step))
            self.rewordings.append(Rewording(work, words(unit.claims)))
        else:
            self._add(self.waiting, unit.key, steps, new)

    def _report(self, claim: Claim, ref: Ref, standing: Standing) -> list[tuple[Gap, Action]]:
        """Say how a claim stands, with what it does not say yet; nothing where it says all."""
        lacks = gap(claim, standing)
        return [(lacks, report(claim, ref, standing, self._now))] if lacks else []

    def _keep(
        self, unit: Unit, item: Item, why: Verdict, *, lose: bool
    ) -> list[tuple[Gap, Action]]:
        """What a claim that holds its units says while the VM waits for more.

        An order is held all the same, a template claim for its VM alone.
        """
        claim, ref, gpu_set = item.before or item.unbound, item.ref, unit.gpu_set
        belongs = gpu_set is not None and is_attached(claim, gpu_set.vmi)
        if lose and (belongs or claim.is_template):
            standing = waits(why, _user(unit, item), lost=True)
            return [(Gap.MORE, release(claim, ref, standing, self._now))]
        # Attached to another, it would be no item while that is there.
        if unit.pod is None and (claim.attached_to is None or belongs):
            return []
        standing = held_for_one_that_waits(self._state.nodes.get(claim.node_name), why)
        return self._report(claim, ref, standing)

    def _made(self, unit: Unit, item: Item) -> list[Action]:
        """What has to be written before a claim's status: the claim itself, or our finalizer."""
        if item.before is None:
            vmi = unit.gpu_set.vmi if unit.gpu_set is not None else None
            assert vmi is not None, "only a VM's class entries have claims that we make"
            claim = item.unbound
            return [CreateClaim(item.ref, claim.class_name, claim.count, vmi.name, vmi.uid)]
        written = item.before.written
        finalizers = written.finalizers if written is not None else ()
        if FINALIZER_CLAIM in finalizers or item.before.deleting:
            return []
        return [AddFinalizer(Kind.CLAIM, item.ref, FINALIZER_CLAIM, finalizers)]

    def _add(
        self,
        works: list[Work],
        key: str,
        steps: list[list[Action]],
        laid: Sequence[Claim | Pod] = (),
    ) -> None:
        filled = tuple(tuple(step) for step in steps if step)
        if filled:
            works.append(Work(key, filled, tuple(laid)))

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


def _holds(item: Item) -> bool:
    """Whether a claim is booked, as it is."""
    return item.before is not None and bool(item.before.node_name)


def _user(unit: Unit, item: Item) -> Attachment | None:
    """Whom a claim is attached to: the VM whose pod it is for, else nobody new."""
    if unit.gpu_set is None:
        return None
    if unit.pod is not None or unit.task is Task.ELSEWHERE or item.before is None:
        return unit.gpu_set.attachment
    return item.before.attached_to if is_attached(item.before, unit.gpu_set.vmi) else None


def _after_first_write(ref: Ref) -> Ref:
    """The object after an earlier step of the same work has changed it."""
    return replace(ref, version="")


def _start(pod: Pod, node_name: str) -> StartPod:
    placing = pod.placing
    assert placing is not None, "a pod at the gate is read with its placing"
    return StartPod(
        Ref(pod.namespace, pod.name, pod.uid, placing.resource_version),
        node_name,
        placing.gates,
        json.loads(placing.affinity) if placing.affinity else {},
    )
