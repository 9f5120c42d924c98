"""What a pass of the binder costs at full size: with nothing to do, and with sets that changed.

The process is made as for production and is fed changes as its informer feeds it; nothing is
sent. Writes are done to its state by hand, as the API server would answer them, until nothing is
left to do. Values are made, not decoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from random import Random
from statistics import median
from typing import Final, Generic, TypeVar

from typing_extensions import override

from binder.__main__ import BinderSettings, Process, Surroundings
from binder.actions import Action, Plan, ReportSystem, StartPod
from binder.underway import NONE
from shared.core.model import Change, Claim, Gone, GpuClass, Object, Pod, Put, RecordEntry, Vmi
from shared.core.placing import (
    ClaimWritten,
    ClassWritten,
    PodPlacing,
    Presence,
    VmiPlacing,
)
from shared.kube.connect import Connection
from shared.kube.credentials import InCluster
from shared.kube.garbage import settle
from shared.times import rfc3339
from shared.vocabulary import GATE, LABEL_KUBEVIRT_SCHEDULABLE, SYSTEM_NAME
from tests.bench.results import Row, at_most
from tests.bench.shapes import LAUNCHERS
from tests.bench.size import FULL, Size
from tests.bench.world import UNITS, World, make
from tests.unit.binder.applier import Applier, actions

IDLE_MAX, HUNDRED_MAX = 20.0, 100.0
"""Milliseconds of processor time (rule 11)."""
RATE_MIN = 5000.0
SIZES: Final = (1, 1, 1, 1, 1, 1, 1, 2, 4, 8)
TOO_LARGE: Final = (UNITS + 1,)
SETTLED_WITHIN = 10
"""Passes until a world that was just made is at rest."""
OTHERS = 1000
"""Pods that change and are no business of the binder's."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """What some work returned, and the milliseconds of processor time that it took."""

    result: T
    millis: float


def timed(work: Callable[[], T]) -> Timed[T]:
    """Run some work; nothing is waited for, and the machine may be shared."""
    began = time.process_time()
    result = work()
    return Timed(result, (time.process_time() - began) * 1000)


class Cluster(Applier):
    """A process of the binder, and the API server that it believes to have."""

    def __init__(self, world: World) -> None:
        self._wall = 1_764_500_000.0
        nowhere = Connection(InCluster(), clock=time.monotonic, user_agent="bench")
        at = Surroundings("bench", time.monotonic, lambda: self._wall, Random(1))
        self._process = Process(BinderSettings(), nowhere, at)
        super().__init__(self._process._state, self._process._agenda)
        self.world = world
        self._numbers = count()
        for value in (*world.objects(), *world.placing_only()):
            self.change(Put(_written(value)))
        for _ in range(SETTLED_WITHIN):
            found = self.decide().result
            if not found.works:
                break
            self.do(found)
        else:
            raise AssertionError("the world does not come to rest")
        settle()

    @override
    def change(self, change: Change) -> None:
        self._process._apply(change)

    @override
    def one(self, action: Action) -> None:
        if isinstance(action, ReportSystem):
            metadata = {"name": SYSTEM_NAME, "resourceVersion": "1", "generation": 1}
            self._process._system.put({"metadata": metadata, "status": dict(action.status)})
        else:
            super().one(action)

    def decide(self) -> Timed[Plan]:
        """Decide once; figures of classes are old enough to be told again."""
        self._wall += 2
        return timed(lambda: self._process._decide(frozenset(), NONE))

    def happen(self, changes: Iterable[Change]) -> float:
        """Things change; milliseconds of processor time."""
        known = list(changes)
        began = time.process_time()
        for change in known:
            self.change(change)
        return (time.process_time() - began) * 1000

    def vms(self, many: int, chance: Random, sizes: tuple[int, ...] = SIZES) -> list[Change]:
        """VMs whose launchers wait at the gate."""
        since = rfc3339(datetime.fromtimestamp(self._wall, UTC))
        made = (_vm(self.world, chance, next(self._numbers), sizes, since) for _ in range(many))
        return [Put(value) for pair in made for value in pair]


@dataclass(frozen=True, slots=True)
class Run:
    """One run; milliseconds of processor time, changes and passes apart."""

    idle: float
    others: float
    everything: float
    hundred: float
    hundred_seen: float
    hundred_written: float
    waiting: float
    thousand: float
    started: int
    wrote: int


def measure(runs: int, size: Size = FULL) -> list[Row]:
    """Processor time of passes."""
    cluster = Cluster(make(size, seed=1))
    found = [_run(cluster, Random(seed)) for seed in range(runs)]

    def of(figure: Callable[[Run], float]) -> tuple[float, ...]:
        return tuple(figure(run) for run in found)

    rates = of(lambda run: 1_000_000 / run.thousand)
    return [
        at_most("nothing to do: a pass", of(lambda run: run.idle), IDLE_MAX, "ms"),
        at_most("nothing to do: writes", of(lambda run: run.wrote), 0),
        Row(f"{OTHERS} other pods changed: changes and pass", of(lambda run: run.others), "ms"),
        Row("a new term: a pass that looks at all", of(lambda run: run.everything), "ms"),
        at_most("100 VMs start: a pass", of(lambda run: run.hundred), HUNDRED_MAX, "ms"),
        Row("100 VMs start: started of 100", of(lambda run: run.started)),
        Row("100 VMs start: their changes before", of(lambda run: run.hundred_seen), "ms"),
        Row(
            "100 VMs start: their writes are seen, and a pass",
            of(lambda run: run.hundred_written),
            "ms",
        ),
        at_most("100 VMs find no room: a pass", of(lambda run: run.waiting), HUNDRED_MAX, "ms"),
        Row(
            "1000 VMs start: planned",
            rates,
            "sets/s",
            f"at least {RATE_MIN:.0f}",
            median(rates) >= RATE_MIN,
        ),
    ]


def _run(cluster: Cluster, chance: Random) -> Run:
    idle = [cluster.decide() for _ in range(20)]
    pods = [pod for pod in cluster.world.pods if not any("/" in each for each in pod.requests)]
    pods = pods[:OTHERS]
    noise = (Put(replace(pod, ended=not pod.ended)) for pod in pods)
    others = cluster.happen(noise)
    quiet = cluster.decide()
    cluster.happen(Put(pod) for pod in pods)
    cluster.decide()
    cluster._process._agenda.note_all()
    everything = cluster.decide()
    wrote = sum(len(each.result.works) for each in (*idle, quiet, everything))

    vms = cluster.vms(100, chance)
    seen = cluster.happen(vms)
    hundred = cluster.decide()
    written = timed(lambda: cluster.do(hundred.result)).millis + cluster.decide().millis
    _end(cluster, vms)

    waiting = cluster.vms(100, chance, TOO_LARGE)
    cluster.happen(waiting)
    in_vain = cluster.decide()
    _end(cluster, waiting)

    many = cluster.vms(1000, chance)
    cluster.happen(many)
    thousand = cluster.decide()
    _end(cluster, many)
    return Run(
        idle=median(each.millis for each in idle),
        others=others + quiet.millis,
        everything=everything.millis,
        hundred=hundred.millis,
        hundred_seen=seen,
        hundred_written=written,
        waiting=in_vain.millis,
        thousand=thousand.millis,
        started=sum(isinstance(each, StartPod) for each in actions(hundred.result)),
        wrote=wrote,
    )


def _end(cluster: Cluster, vms: Iterable[Change]) -> None:
    """VMs are gone, and what was made for them goes too."""
    holders = cluster.state.holders
    for change in vms:
        if isinstance(change.object, Pod):
            cluster.change(Gone(holders.pods[change.object.key]))
        elif isinstance(change.object, Vmi):
            cluster.change(Gone(holders.vmis[change.object.uid]))
    while (found := cluster.decide().result).works:
        cluster.do(found)


def _written(value: Object) -> Object:
    """What was made as the API server has it after it was first written."""
    match value:
        case Claim():
            return replace(value, written=ClaimWritten("1", 1, created="2026-01-05T08:00:00Z"))
        case GpuClass():
            return replace(value, written=ClassWritten("1", 1))
        case _:
            return value


def _vm(
    world: World, chance: Random, number: int, sizes: tuple[int, ...], since: str
) -> Iterator[Object]:
    gpu_class: GpuClass = chance.choice(world.classes)
    tenant, units = chance.choice(world.tenants), chance.choice(sizes)
    uid, vm, pod = f"vmi-{number}", f"vm-{number}", f"pod-{number}"
    entry = RecordEntry("", 0, gpu_class.name, gpu_class.resource_name, units)
    yield Vmi(
        tenant,
        vm,
        uid,
        f"{vm}-uid",
        (pod,),
        (entry,),
        "Scheduling",
        placing=VmiPlacing(created=since, vm_name=vm),
    )
    yield Pod(
        tenant,
        f"virt-launcher-{vm}",
        pod,
        requests=chance.choice(LAUNCHERS).with_devices({gpu_class.resource_name: units}).total,
        owner=uid,
        launcher_mark=uid,
        presence=Presence({"kubevirt.io": "virt-launcher"}),
        placing=PodPlacing(
            "1",
            created=since,
            gates=(GATE,),
            node_selector={LABEL_KUBEVIRT_SCHEDULABLE: "true"},
            tolerations=gpu_class.tolerations,
        ),
    )
