"""A tenants' rush: VMs start, stop, restart and go in random order while leaders are killed."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tests.binder.bookings import Ledger
from tests.binder.history import Recorder, recording, writers
from tests.binder.judged import Scene, Verdict, judge
from tests.binder.paces import Paces
from tests.binder.replica import Replica, Start
from tests.binder.stage import (
    RESOURCES,
    TENANTS,
    Size,
    machine,
    machine_name,
    tenant_of,
    wish_of,
)
from tests.binder.told import Reasons
from tests.binder.truth import World
from tests.catalog.objects import CLAIM, CLASS, claim
from tests.cluster.api import Api, Object, Refused
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until
from tests.kubevirt import power
from tests.kubevirt import words as w

MOVES: Final = {"create": 3, "start": 3, "stop": 2, "restart": 3, "delete": 2}
"""What people do, and how often compared with each other."""

STEPS_BETWEEN_KILLS: Final = (20, 120)
WORK_BEFORE_A_KILL: Final = (1, 5)
"""At how many looks a leader has to have carried out more than at the one before: at least as many
passes in its term did something. A leader that has done nothing yet leaves nothing half done."""
PATIENCE_SECONDS: Final = 15.0
"""How far apart a reason and its truth may be: on a busy machine the writes of one pass took eight
seconds. The report says how far they were."""


@dataclass(slots=True)
class Report:
    """What happened; `carried_out` are the works of each leader that was killed, in its term."""

    done: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    carried_out: list[int] = field(default_factory=list)
    standing: Counter[str] = field(default_factory=Counter)
    settled_seconds: float = 0.0
    bookings: int = 0
    starts: int = 0
    events: int = 0
    repeated: int = 0
    states: int = 0
    told: Counter[str] = field(default_factory=Counter)
    apart: Counter[int] = field(default_factory=Counter)
    reworded: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Term:
    """A term of office as we saw it, with how many works were carried out.

    `works_before` are those when it was first seen, `looks` at how many looks there were more.
    """

    leader: Replica
    epoch: int
    works_before: int
    works: int
    looks: int = 0


class Drill:
    """One rush, on a stage of its own; chance decides the order, the cluster what comes of it."""

    def __init__(
        self, plane: ControlPlane, start: Start, size: Size, chance: random.Random
    ) -> None:
        self._plane = plane
        self._start = start
        self._size = size
        self._chance = chance
        self._steps = 0
        self._is_over = False
        self._pair: list[Replica] = []
        self.report = Report()

    async def run(self) -> Report:
        """Rush, settle, clear away, and look back at what was booked."""
        self._pair = [await self._start(), await self._start()]
        async with recording(self._plane) as recorder:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._kill_leaders())
                await self._rush()
                self._is_over = True
            await self._settle()
            await self._clear()
            await self._look_back(recorder)
        return self.report

    @property
    def _deadline(self) -> float:
        """Generous, in seconds, by what there is to do."""
        return max(DEADLINE_SECONDS, 3 * self._size.seconds)

    @property
    def _admin(self) -> Api:
        return self._plane.cluster.admin

    async def _rush(self) -> None:
        moves = self._moves()
        end = time.monotonic() + self._size.seconds

        async def go() -> None:
            for number, move in moves:
                await self._move(number, move)
                self._steps += 1
                if time.monotonic() > end:
                    return

        async with asyncio.TaskGroup() as people:
            for _ in range(3):
                people.create_task(go())

    def _moves(self) -> Iterator[tuple[int, str]]:
        """First every VM is made, then anything goes."""
        numbers = list(range(self._size.machines))
        self._chance.shuffle(numbers)
        yield from ((number, "create") for number in numbers)
        while True:
            (move,) = self._chance.choices(list(MOVES), list(MOVES.values()))
            yield self._chance.choice(numbers), move

    async def _move(self, number: int, move: str) -> None:
        """One step of somebody; what the state of the VM does not allow is no step."""
        namespace, name = tenant_of(number), machine_name(number)
        try:
            match move:
                case "create":
                    await self._create(number, namespace, name)
                case "delete":
                    await self._admin.delete(w.VM, name, namespace)
                    if wish_of(number).ordered:
                        await self._admin.delete(CLAIM, name, namespace)
                case "start":
                    await power.start(self._admin, namespace, name)
                case "stop":
                    await power.stop(self._admin, namespace, name)
                case _:
                    await power.restart(self._admin, namespace, name)
        except power.Conflict:
            self.report.done[f"{move} not now"] += 1
        except Refused as refused:
            if refused.code >= 500:
                raise
            self.report.done[f"{move} {refused.reason}"] += 1
        else:
            self.report.done[move] += 1

    async def _create(self, number: int, namespace: str, name: str) -> None:
        for class_name, count in wish_of(number).ordered.items():
            await self._admin.create(claim(namespace, name, class_name, count))
        strategy = "RerunOnFailure" if number % 5 == 0 else "Always"
        await self._admin.create(machine(number, strategy))

    async def _kill_leaders(self) -> None:
        """Each after some steps of people, and some work of its own."""
        while not self._is_over:
            steps = self._steps + self._chance.randint(*STEPS_BETWEEN_KILLS)
            await self._kill(steps, self._chance.randint(*WORK_BEFORE_A_KILL))

    async def _kill(self, steps: int, looks: int) -> None:
        """Kill who leads after so many steps and looks with work; nobody once all is over."""
        term: Term | None = None

        async def due() -> bool:
            nonlocal term
            found = await self._term()
            if term is None or found is None or found.epoch != term.epoch:
                term = found
            elif found.works > term.works:
                term = replace(term, works=found.works, looks=term.looks + 1)
            is_due = term is not None and term.looks >= looks and self._steps >= steps
            return self._is_over or is_due

        # What this runs beside has a deadline too, and more to say when it is missed.
        await wait_until(due, "a leader worked", 2 * self._deadline)
        if self._is_over or term is None:
            return
        await term.leader.kill()
        self.report.kills += 1
        self.report.carried_out.append(term.works - term.works_before)
        self._pair.remove(term.leader)
        self._pair.append(await self._start())

    async def _term(self) -> Term | None:
        """The term of office of who leads, as its figures are now."""
        for replica in self._pair:
            figures = await replica.figures()
            if figures["gpu_binder_leader"]:
                works = int(figures['gpu_binder_works_total{outcome="Done"}'])
                return Term(replica, int(figures["gpu_binder_epoch"]), works, works)
        return None

    async def _settle(self) -> None:
        """Wait until every VM runs, or waits for a true reason."""
        began = time.monotonic()
        verdict = Verdict(("never asked",), Counter())

        async def right() -> bool:
            nonlocal verdict
            verdict = judge(await self._scene())
            return not verdict.wrong

        try:
            await wait_until(right, "every VM runs, or waits for a true reason", self._deadline)
        except AssertionError as never:
            raise AssertionError("\n".join([str(never), *verdict.wrong])) from None
        self.report.settled_seconds = time.monotonic() - began
        self.report.standing = verdict.standing

    async def _scene(self) -> Scene:
        events = await self._told()
        return Scene(
            world=await self._world(),
            machines=await self._admin.list(w.VM),
            instances=await self._admin.list(w.VMI),
            pods=await self._pods(),
            claims=await self._admin.list(CLAIM),
            told={uid: reasons[-1] for uid, reasons in events.items()},
        )

    async def _world(self) -> World:
        nodes = await self._admin.list(w.NODE)
        return World(nodes, RESOURCES, self._size.budgets, self._size.disks)

    async def _told(self) -> dict[str, list[str]]:
        """The reasons of which events of the binder told, in order, by uid of the instance."""
        found: dict[str, list[str]] = {}
        events = [
            event
            for tenant in TENANTS
            for event in await self._admin.list("v1/Event", tenant)
            if event["source"].get("component") == "gpu-binder"
        ]
        for event in sorted(events, key=lambda each: int(each["metadata"]["resourceVersion"])):
            found.setdefault(event["involvedObject"]["uid"], []).append(event["reason"])
        return found

    async def _pods(self) -> list[Object]:
        found = [await self._admin.list(w.POD, tenant) for tenant in TENANTS]
        return [pod for pods in found for pod in pods]

    async def _clear(self) -> None:
        """Delete everything that tenants made, under a leader that is killed; nothing stays."""
        self._is_over = False
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kill(self._steps, 1))
            for kind in (w.VM, CLAIM):
                for each in await self._admin.list(kind):
                    await self._delete(kind, each)
            await self._until_nothing_is_left()
            self._is_over = True
        told = await self._told()
        self.report.events = sum(map(len, told.values()))
        self.report.repeated = sum(
            before == after
            for reasons in told.values()
            for before, after in itertools.pairwise(reasons)
        )

    async def _delete(self, kind: str, obj: Object) -> None:
        """Delete what a tenant made; it may be gone already."""
        metadata = obj["metadata"]
        try:
            await self._admin.delete(kind, metadata["name"], metadata["namespace"])
        except Refused as refused:
            if refused.code != 404:
                raise

    async def _until_nothing_is_left(self) -> None:
        """Wait until there is no object of a tenant, and no trace of any on a class."""
        left: list[str] = []

        async def gone() -> bool:
            nonlocal left
            objects = [*await self._admin.list(CLAIM), *await self._pods()]
            for kind in (w.VM, w.VMI):
                objects += await self._admin.list(kind)
            left = [
                f"{each['metadata']['name']}: {each['metadata'].get('finalizers')}"
                for each in objects
            ]
            for each in await self._admin.list(CLASS):
                capacity = each["status"].get("capacity", {})
                if each["metadata"].get("finalizers") or capacity.get("bound", 0):
                    left.append(f"{each['metadata']['name']}: {capacity}, {each['metadata']}")
            return not left

        try:
            await wait_until(gone, "nothing is left behind", self._deadline)
        except AssertionError as never:
            raise AssertionError("\n".join([str(never), *left])) from None

    async def _look_back(self, recorder: Recorder) -> None:
        """Judge every state that there was, in order."""
        written = writers(self._plane.each_audit_event())
        ledger = Ledger(self._size.room, written)
        ledger.follow(await recorder.states())
        truth = Reasons(await self._world(), PATIENCE_SECONDS)
        truth.follow(await recorder.states())
        paces = Paces()
        paces.follow(await recorder.states())
        report = self.report
        report.states = ledger.states
        report.reworded = paces.reworded
        report.bookings, report.starts = ledger.bookings, ledger.starts.total()
        report.told, report.apart = truth.told, truth.apart
        report.wrong = [
            *ledger.wrong,
            *truth.wrong,
            *paces.wrong,
            *(f"{uid} was started {n} times" for uid, n in ledger.starts.items() if n > 1),
            *ledger.unseen,
        ]
