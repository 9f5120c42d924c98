"""What one change costs as the world grows: counted and timed, with the options read afterwards."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import mean, median

from shared.core.cluster import ClusterState
from shared.core.model import Change, Gone, Namespace, Object, Pod, Put, Quota
from tests.bench.counting import calls_of
from tests.bench.figures import Views
from tests.bench.results import Row, at_most
from tests.bench.size import FULL, Size
from tests.bench.world import World, make

NODES = (500, 5000, 20_000)
CLASSES = (1, 50, 500)
RATIO_MAX = 2.0
VIEWS = 10
CHANGES = 100

Kind = Callable[[World, Random], tuple[Change, Change]]
"""A change and what undoes it."""


def filled(world: World) -> ClusterState:
    """The state of a world."""
    state = ClusterState()
    for value in world.objects():
        state.apply(Put(value))
    return state


def _and_back(value: Object, other: Object) -> tuple[Change, Change]:
    return Put(other), Put(value)


def pod(world: World, chance: Random) -> tuple[Change, Change]:
    """A pod that names a device itself ends, and is back."""
    own = chance.choice([each for each in world.pods if _has_devices(each) and not each.owner])
    return _and_back(own, replace(own, ended=True))


def launcher(world: World, chance: Random) -> tuple[Change, Change]:
    """A launcher with devices ends, and is back: its claim holds them all the while."""
    found = chance.choice([each for each in world.pods[:2000] if each.launcher_mark])
    return _and_back(found, replace(found, ended=True))


def _has_devices(pod: Pod) -> bool:
    return any("/" in name for name in pod.requests)


def plain_pod(world: World, chance: Random) -> tuple[Change, Change]:
    """A pod without devices is deleted, and comes."""
    ordinary = chance.choice([each for each in world.pods[-500:] if not _has_devices(each)])
    return Gone(ordinary), Put(ordinary)


def claim(world: World, chance: Random) -> tuple[Change, Change]:
    """A claim loses its node, and has it again."""
    bound = chance.choice([each for each in world.claims[:2000] if each.node_name])
    return _and_back(bound, replace(bound, node_name="", attached_to=None))


def node(world: World, chance: Random) -> tuple[Change, Change]:
    """A node is cordoned, and no longer."""
    found = chance.choice(world.nodes)
    return _and_back(found, replace(found, unschedulable=not found.unschedulable))


def vmi(world: World, chance: Random) -> tuple[Change, Change]:
    """KubeVirt lists no pod of a VM for a moment, so its launcher is a stranger."""
    found = chance.choice([each for each in world.vmis[:2000] if each.record])
    return _and_back(found, replace(found, active_pods=()))


def gpu_class(world: World, chance: Random) -> tuple[Change, Change]:
    """A class takes smaller orders, and as before."""
    found = chance.choice(world.classes)
    return _and_back(found, replace(found, max_count=2))


def quota(world: World, chance: Random) -> tuple[Change, Change]:
    """A limit of a budget changes, and back."""
    budget = chance.choice(_budgets(world))
    key = chance.choice(sorted(budget.hard))
    return _and_back(budget, replace(budget, hard={**budget.hard, key: budget.hard[key] + 1}))


def quota_key(world: World, chance: Random) -> tuple[Change, Change]:
    """A budget no longer names a key, and does again; of a tenant that came last.

    High in the tree this costs what lies below.
    """
    budget = chance.choice([each for each in _budgets(world) if each.namespace in _last(world)])
    key = chance.choice(sorted(budget.hard))
    without = {name: units for name, units in budget.hard.items() if name != key}
    return _and_back(budget, replace(budget, hard=without))


def entitlement(world: World, chance: Random) -> tuple[Change, Change]:
    """A tenant is entitled, or no longer, and back."""
    tenant = _leaf(world, chance)
    other = None if tenant.entitlement else "entitled"
    return _and_back(tenant, replace(tenant, entitlement=other))


def new_namespace(world: World, chance: Random) -> tuple[Change, Change]:
    """A tenant comes, and goes."""
    made = Namespace(f"{_leaf(world, chance).name}-new")
    return Put(made), Gone(made)


def _budgets(world: World) -> list[Quota]:
    """The budgets of those whose options are read: so at every size they are felt alike."""
    names = viewed(world)
    return [each for each in world.quotas if each.namespace in names and each.name == "budget-0"]


def _leaf(world: World, chance: Random) -> Namespace:
    leaf = chance.choice(_last(world))
    return next(each for each in world.namespaces if each.name == leaf)


def viewed(world: World) -> list[str]:
    """Whose options are read: tenants near the root, and those who came last."""
    return list(dict.fromkeys((*world.tenants[:VIEWS], *_last(world))))


def _last(world: World) -> list[str]:
    return world.tenants[-VIEWS:]


KINDS: dict[str, Kind] = {
    "pod": pod,
    "launcher": launcher,
    "pod without devices": plain_pod,
    "claim": claim,
    "VM": vmi,
    "node": node,
    "class": gpu_class,
    "limit": quota,
    "key of a budget": quota_key,
    "entitlement": entitlement,
    "new namespace": new_namespace,
}


@dataclass(frozen=True, slots=True)
class Count:
    """Of one change: calls to apply it, calls to read what it touched, and how many options."""

    applied: int
    read: int
    options: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one change with the options read afterwards.

    Attributes:
        calls: of the arithmetic, on average.
        micros: microseconds, the middle of all changes.
        options: how many were read, on average.
    """

    calls: float
    micros: float
    options: float


class Bench:
    """One filled state, and what changes cost there."""

    def __init__(self, size: Size, seed: int = 1) -> None:
        self.size = size
        self._world = make(size, seed)
        self._state = filled(self._world)
        self.views = Views.of(self._state, viewed(self._world))

    def changes(self, kind: Kind, seed: int, count: int) -> list[Change]:
        """Some changes, each followed by the one that undoes it."""
        chance = Random(seed)
        return [each for _ in range(count // 2) for each in kind(self._world, chance)]

    def counted(self, changes: Sequence[Change]) -> list[Count]:
        """Calls of the arithmetic for each change, and for reading what it touched."""
        found = []
        for change in changes:
            applied = calls_of(partial(self._state.apply, change))
            read = calls_of(partial(self.views.refresh, self._state, [applied.result]))
            found.append(Count(applied.calls, read.calls, read.result))
        return found

    def timed(self, changes: Sequence[Change]) -> list[float]:
        """Microseconds for each change."""
        found = []
        for change in changes:
            began = time.perf_counter()
            self.take(change)
            found.append((time.perf_counter() - began) * 1e6)
        return found

    def take(self, change: Change) -> int:
        """Take a change in and read what it touched; returns how many options that were."""
        return self.views.refresh(self._state, [self._state.apply(change)])

    def cost(self, kind: Kind, seed: int, count: int = CHANGES) -> Cost:
        """What a kind of change costs here."""
        changes = self.changes(kind, seed, count)
        counts = self.counted(changes)
        return Cost(
            mean(each.applied + each.read for each in counts),
            median(self.timed(changes)),
            mean(each.options for each in counts),
        )


def worlds(nodes: Sequence[int], classes: Sequence[int]) -> Iterator[Size]:
    """Every combination, then the size of rule 11."""
    for many in classes:
        yield from (Size.of_nodes(each, many) for each in nodes)
    yield FULL


def measure(runs: int, nodes: Sequence[int] = NODES, classes: Sequence[int] = CLASSES) -> list[Row]:
    """Costs of every kind of change in every world, and how they grow from the smallest."""
    found: dict[tuple[int, int, str], list[Cost]] = {}
    rows: list[Row] = []
    for size in worlds(nodes, classes):
        bench = Bench(size)
        gc.collect()
        gc.freeze()
        for name, kind in KINDS.items():
            costs = [bench.cost(kind, seed) for seed in range(runs)]
            where = f"{name}, full" if size == FULL else f"{name}, {_short(size)}"
            if size != FULL:
                found[size.nodes, size.classes, name] = costs
            rows += [
                _absolute(f"{where}: options read", size, [cost.options for cost in costs]),
                _absolute(f"{where}: calls", size, [cost.calls for cost in costs]),
                _absolute(f"{where}: time", size, [cost.micros for cost in costs], "us"),
            ]
        gc.unfreeze()
        del bench
    return [*_ratios(found, nodes, classes), *rows]


def _short(size: Size) -> str:
    return f"{size.nodes} nodes, {size.classes} classes"


def _absolute(what: str, size: Size, runs: Sequence[float], unit: str = "") -> Row:
    """A figure that is no ratio: shown for the size of rule 11."""
    return Row(what, tuple(runs), unit, is_detail=size != FULL)


def _ratios(
    found: dict[tuple[int, int, str], list[Cost]], nodes: Sequence[int], classes: Sequence[int]
) -> Iterator[Row]:
    least = nodes[0]
    for name in KINDS:
        for many in classes:
            for each in nodes[1:]:
                pairs = list(zip(found[each, many, name], found[least, many, name], strict=True))
                what = f"{name}, {many} classes: {each} nodes to {least}"
                calls = [one.calls / other.calls for one, other in pairs]
                times = [one.micros / other.micros for one, other in pairs]
                if name == "pod" and each == 5000:
                    yield at_most(f"{what}, calls", calls, RATIO_MAX)
                    yield at_most(f"{what}, time", times, RATIO_MAX)
                else:
                    yield Row(f"{what}, calls", tuple(calls))
                    yield Row(f"{what}, time", tuple(times))
