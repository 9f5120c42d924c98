"""How many sets find their node in a second, each applied to the state before the next."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median

from shared.core.cluster import ClusterState
from shared.core.demand import Demand, Part
from shared.core.model import (
    Change,
    Claim,
    Gone,
    GpuClass,
    Object,
    Pod,
    Put,
    Vmi,
    Volume,
)
from shared.core.placement import Placed, place
from shared.core.placing import PodPlacing, Presence
from shared.core.scheduling import NodeTerm, PodTerm, Requirement, Selector, Spread
from shared.core.sites import Sites
from shared.kube.garbage import settle
from shared.vocabulary import LABEL_KUBEVIRT_SCHEDULABLE
from tests.bench.results import Row
from tests.bench.shapes import LAUNCHERS
from tests.bench.size import FULL, Size
from tests.bench.world import World, make

SETS = 2000
RATE_MIN = 5000.0
SIZES = (1, 1, 1, 1, 1, 1, 1, 2, 4, 8)
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

Kind = Callable[[Demand, World, Random], Demand]
"""Makes an ordinary set one of a kind."""


def ordinary(demand: Demand, world: World, chance: Random) -> Demand:
    """A VM with a node selector and the usual requests."""
    del world, chance
    return demand


def idle(demand: Demand, world: World, chance: Random) -> Demand:
    """An order without a VM."""
    del world, chance
    return replace(demand, pod=None)


def tied(demand: Demand, world: World, chance: Random) -> Demand:
    """A VM with a volume on one node, which has the class or not."""
    there = (Requirement(HOST, "In", (chance.choice(world.nodes).name,)),)
    return replace(demand, volumes=(Volume("v", (NodeTerm(there),)),))


def apart(demand: Demand, world: World, chance: Random) -> Demand:
    """A VM that is to be on another host than those of its kind."""
    del world
    assert demand.pod is not None
    kind = {"app": str(chance.randrange(20))}
    alike = Selector(tuple(Requirement(key, "In", (value,)) for key, value in kind.items()))
    presence = Presence(kind, (PodTerm(HOST, alike),))
    return replace(demand, pod=replace(demand.pod, presence=presence))


def spread(demand: Demand, world: World, chance: Random) -> Demand:
    """A VM of a kind that is spread over zones."""
    found = apart(demand, world, chance)
    assert found.pod is not None
    assert found.pod.presence is not None
    assert found.pod.placing is not None
    (term,) = found.pod.presence.anti_affinity
    placing = replace(found.pod.placing, spread=(Spread(1, ZONE, term.selector),))
    presence = Presence(found.pod.presence.labels)
    return replace(found, pod=replace(found.pod, presence=presence, placing=placing))


def oversized(demand: Demand, world: World, chance: Random) -> Demand:
    """A set that fits nowhere."""
    del world, chance
    return replace(demand, parts=tuple(replace(part, units=9) for part in demand.parts))


@dataclass(frozen=True)
class Measured:
    """One run over one kind of sets: sets per second, decided alone and applied as well."""

    deciding: float
    rate: float
    placed: int


def measure(runs: int, size: Size = FULL) -> list[Row]:
    """Sets per second for several kinds of sets; the first is what rule 11 is about."""
    world = make(size, seed=1)
    state = ClusterState(Sites())
    for value in world.objects():
        state.apply(Put(value))
    kinds: Sequence[tuple[str, Kind, int]] = (
        ("VMs", ordinary, SETS),
        ("orders", idle, SETS),
        ("VMs with a volume on one node", tied, SETS // 4),
        ("VMs with anti-affinity", apart, SETS // 4),
        ("VMs spread over zones", spread, SETS // 20),
        ("sets that fit nowhere", oversized, SETS // 4),
    )
    rows = []
    for what, kind, count in kinds:
        found = [_run(state, world, kind, count, seed) for seed in range(runs)]
        rates = tuple(each.rate for each in found)
        target = f"at least {RATE_MIN:.0f}" if kind is ordinary else ""
        holds = median(rates) >= RATE_MIN if kind is ordinary else None
        rows += [
            Row(f"{what}: decided", tuple(each.deciding for each in found), "sets/s"),
            Row(f"{what}: decided and applied", rates, "sets/s", target, holds),
            Row(f"{what}: placed", tuple(each.placed / count for each in found)),
        ]
        if kind is ordinary:
            hundred = tuple(100_000 / each.rate for each in found)
            rows.append(Row(f"{what}: a hundred of them", hundred, "ms"))
    return rows


def _run(state: ClusterState, world: World, kind: Kind, count: int, seed: int) -> Measured:
    chance = Random(seed)
    wanted = [kind(_ordinary(world, chance, number), world, chance) for number in range(count)]
    made: list[Object] = [_vmi(each.pod) for each in wanted if each.pod is not None]
    for value in made:
        state.apply(Put(value))
    settle()  # as a process does once it has read the cluster
    deciding = 0.0
    began = time.process_time()  # nothing is waited for, and the machine may be shared
    for number, demand in enumerate(wanted):
        asked = time.process_time()
        found = _decide(state, demand)
        deciding += time.process_time() - asked
        if isinstance(found, Placed):
            changes = list(_applied(demand, found.node, number))
            state.apply_all(changes)
            made += (change.object for change in changes)
    took = time.process_time() - began
    gc.unfreeze()
    for value in made:
        state.apply(Gone(value))
    return Measured(count / deciding, count / took, sum(isinstance(each, Claim) for each in made))


def _decide(state: ClusterState, demand: Demand) -> object:
    assert state.sites is not None
    return place(demand, state.sites)


def _vmi(pod: Pod) -> Vmi:
    return Vmi(pod.namespace, pod.owner, pod.owner, active_pods=(pod.uid,))


def _ordinary(world: World, chance: Random, number: int) -> Demand:
    gpu_class: GpuClass = chance.choice(world.classes)
    tenant = chance.choice(world.tenants)
    units = chance.choice(SIZES)
    shape = chance.choice(LAUNCHERS).with_devices({gpu_class.resource_name: units})
    pod = Pod(
        tenant,
        f"launcher-{number}",
        uid=f"launcher-{number}",
        requests=shape.total,
        owner=f"vmi-{number}",
        launcher_mark=f"vmi-{number}",
        presence=Presence({"kubevirt.io": "virt-launcher"}),
        placing=PodPlacing(
            node_selector={LABEL_KUBEVIRT_SCHEDULABLE: "true"}, tolerations=gpu_class.tolerations
        ),
    )
    part = Part(gpu_class.name, gpu_class.resource_name, units, gpu_class.tolerations)
    return Demand((part,), pod)


def _applied(demand: Demand, node: str, number: int) -> Iterable[Change]:
    """What a decision makes of the state: a claim that is booked, a pod that is pinned."""
    (part,) = demand.parts
    namespace = demand.pod.namespace if demand.pod is not None else "default"
    yield Put(
        Claim(
            namespace,
            f"claim-{number}",
            part.class_name,
            part.units,
            is_template=True,
            owner=f"vmi-{number}",
            resource_name=part.resource,
            node_name=node,
        )
    )
    if demand.pod is not None:
        yield Put(replace(demand.pod, pinned_to=node))
