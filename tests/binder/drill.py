"""A tenants' rush: VMs start, stop, restart and go in random order while leaders are killed."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shared import vocabulary as v
from tests.binder.bookings import Ledger
from tests.binder.judged import Key, Scene, Verdict, judge
from tests.binder.replica import Replica, Start
from tests.catalog.objects import CLAIM, CLASS, claim, class_key, gpu_class, quota
from tests.cluster.api import Api, Object, Refused
from tests.cluster.build import Binaries
from tests.cluster.components import Options
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.waiting import wait_until
from tests.kubevirt import kinds, nodes, power
from tests.kubevirt import words as w
from tests.kubevirt.standin import kubevirt
from tests.kubevirt.timing import Timing

RESOURCES: Final = {name: f"example.com/{name}" for name in ("alpha", "beta", "gamma")}
DISCLOSURES: Final = {"alpha": "Exact", "beta": "Bucketed", "gamma": "Hidden"}
TENANTS: Final = ("tenant-red", "tenant-blue")

NODES: Final = (
    {"alpha": 8},
    {"alpha": 8},
    {"beta": 8},
    {"alpha": 4, "beta": 4},
    {"beta": 4, "gamma": 4},
)
"""The sorts of nodes, equally many of each."""

SETS: Final[Sequence[tuple[Mapping[str, int], Mapping[str, int]]]] = (
    ({"alpha": 1}, {}),
    ({"alpha": 2}, {}),
    ({"alpha": 4}, {}),
    ({"alpha": 8}, {}),
    ({"beta": 1}, {}),
    ({"beta": 8}, {}),
    ({"alpha": 2, "beta": 1}, {}),
    ({"beta": 4, "gamma": 2}, {}),
    ({"gamma": 1}, {}),
    ({}, {"alpha": 2}),
    ({}, {"beta": 4}),
    ({"beta": 2}, {"alpha": 1}),
)
"""What VMs ask for: class entries, and units of an order of their own."""

MOVES: Final = {"create": 3, "start": 3, "stop": 2, "restart": 3, "delete": 2}
"""What people do, and how often compared with each other."""

STEPS_BETWEEN_KILLS: Final = (20, 120)


@dataclass(frozen=True, slots=True)
class Size:
    """How long, and how much of everything."""

    seconds: float
    machines: int
    nodes: int

    @property
    def budgets(self) -> Mapping[Key, int]:
        """One tenant has budgets that are less than what it would find; the other has one."""
        red, blue = TENANTS
        return {
            (red, "alpha"): self.nodes * 2,
            (red, "gamma"): max(2, self.nodes // 10),
            (blue, "beta"): self.nodes * 3 // 2,
        }


@dataclass(slots=True)
class Report:
    """What happened."""

    done: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    standing: Counter[str] = field(default_factory=Counter)
    settled_seconds: float = 0.0
    bookings: int = 0
    starts: int = 0
    events: int = 0
    repeated: int = 0
    wrong: list[str] = field(default_factory=list)


@asynccontextmanager
async def stage(folder: Path, binaries: Binaries, size: Size) -> AsyncIterator[ControlPlane]:
    """A control plane with everything on it but a binder."""
    async with control_plane(folder, binaries, Options(audit=True)) as plane:
        admin = plane.cluster.admin
        catalog = Catalog(plane)
        try:
            await kinds.install(plane.cluster)
            await catalog.install()
            await catalog.enforce()
            await catalog.apply_policies()
            for name, resource in RESOURCES.items():
                await admin.create(gpu_class(name, resource, disclosure=DISCLOSURES[name]))
            for number in range(size.nodes):
                devices = NODES[number % len(NODES)]
                amounts = {RESOURCES[name]: count for name, count in devices.items()}
                await admin.create(nodes.node(f"node-{number:02}", amounts))
            for tenant in TENANTS:
                await plane.cluster.create_namespace(tenant)
                of = {c: n for (namespace, c), n in size.budgets.items() if namespace == tenant}
                hard = {class_key(name): str(units) for name, units in of.items()}
                await admin.create(quota(tenant, hard))
            async with kubevirt(plane.cluster, timing=Timing(speed=20)):
                yield plane
        finally:
            await catalog.stop()


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
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kill_leaders())
            await self._rush()
            self._is_over = True
        await self._settle()
        await self._clear()
        self._look_back()
        return self.report

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
        namespace, name = _tenant(number), f"vm-{number:03}"
        try:
            match move:
                case "create":
                    await self._create(number, namespace, name)
                case "delete":
                    await self._admin.delete(w.VM, name, namespace)
                    if SETS[number % len(SETS)][1]:
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
        entries, ordered = SETS[number % len(SETS)]
        for class_name, count in ordered.items():
            await self._admin.create(claim(namespace, name, class_name, count))
        strategy = "RerunOnFailure" if number % 5 == 0 else "Always"
        await self._admin.create(_machine(namespace, name, strategy, entries, bool(ordered)))

    async def _kill_leaders(self) -> None:
        """Each after some steps of people."""
        while True:
            after = self._steps + self._chance.randint(*STEPS_BETWEEN_KILLS)

            async def due(after: int = after) -> bool:
                return self._is_over or self._steps >= after

            await wait_until(due, "people went on", self._size.seconds + 90)
            if self._is_over:
                return
            await self._kill()

    async def _kill(self) -> None:
        leader = await wait_until(self._leading, "somebody leads")
        await leader.kill()
        self.report.kills += 1
        self._pair.remove(leader)
        self._pair.append(await self._start())

    async def _leading(self) -> Replica | None:
        for replica in self._pair:
            if (await replica.figures())["gpu_binder_leader"]:
                return replica
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
            await wait_until(right, "every VM runs, or waits for a true reason")
        except AssertionError as never:
            raise AssertionError("\n".join([str(never), *verdict.wrong])) from None
        self.report.settled_seconds = time.monotonic() - began
        self.report.standing = verdict.standing

    async def _scene(self) -> Scene:
        events = await self._told()
        return Scene(
            machines=await self._admin.list(w.VM),
            instances=await self._admin.list(w.VMI),
            pods=await self._pods(),
            claims=await self._admin.list(CLAIM),
            nodes=await self._admin.list(w.NODE),
            resources=RESOURCES,
            budgets=self._size.budgets,
            told={uid: reasons[-1] for uid, reasons in events.items()},
        )

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
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kill())
            for kind in (w.VM, CLAIM):
                for each in await self._admin.list(kind):
                    await self._delete(kind, each)
        await self._until_nothing_is_left()
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
            await wait_until(gone, "nothing is left behind")
        except AssertionError as never:
            raise AssertionError("\n".join([str(never), *left])) from None

    def _look_back(self) -> None:
        ledger = Ledger(
            {
                (f"node-{number:02}", RESOURCES[name]): count
                for number in range(self._size.nodes)
                for name, count in NODES[number % len(NODES)].items()
            }
        )
        ledger.follow(self._plane.each_audit_event())
        report = self.report
        report.bookings, report.starts = ledger.bookings, ledger.starts.total()
        report.wrong = [
            *ledger.wrong,
            *(f"{uid} was started {n} times" for uid, n in ledger.starts.items() if n > 1),
        ]


def _tenant(number: int) -> str:
    """Whose VM it is: each tenant has all sorts."""
    return TENANTS[number // len(SETS) % len(TENANTS)]


def _machine(
    namespace: str, name: str, strategy: str, entries: Mapping[str, int], has_order: bool
) -> Object:
    annotations = {}
    if entries:
        named = [{"className": each, "count": count} for each, count in entries.items()]
        annotations[v.ANNOTATION_CLASSES] = json.dumps(named)
    if has_order:
        annotations[v.ANNOTATION_CLAIMS] = json.dumps([name])
    return {
        "apiVersion": w.API_VERSION,
        "kind": v.KIND_VM,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runStrategy": strategy,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {"domain": {"devices": {}}},
            },
        },
    }
