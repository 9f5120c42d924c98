"""Capacity of a class: per node, then summed (rules 3.1 and 4.6). Units, never negative."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from shared.core.model import Node
from shared.core.scheduling import Taint, Toleration
from shared.vocabulary import INT32_MAX, LABEL_KUBEVIRT_SCHEDULABLE

_JUDGED_AS_STATE = frozenset(
    {
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
)
"""Taints that only say again what the cordon and the Ready condition say (rule 7.11)."""


@dataclass(frozen=True, slots=True)
class Stock:
    """Units of one resource on one node: allocatable, booked by claims, held outside them."""

    total: int = 0
    bound: int = 0
    outside: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """Units of a class; total = bound + outside + unavailable + free - overbooked."""

    total: int = 0
    bound: int = 0
    outside: int = 0
    unavailable: int = 0
    free: int = 0
    overbooked: int = 0
    largest_set: int = 0


def figures(capacity: Capacity) -> dict[str, int]:
    """The figures by the names that a class's status and metrics have for them."""
    found = {
        "total": capacity.total,
        "bound": capacity.bound,
        "outside": capacity.outside,
        "unavailable": capacity.unavailable,
        "free": capacity.free,
        "overbooked": capacity.overbooked,
        "largestSet": capacity.largest_set,
    }
    return {name: min(units, INT32_MAX) for name, units in found.items()}


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration matches a taint, as Kubernetes decides it."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key is only valid with Exists; anything but Exists compares the values.
    return toleration.key != "" and toleration.value == taint.value


def is_open(node: Node) -> bool:
    """Whether a node takes new pods of VMs: not cordoned, ready, schedulable for KubeVirt."""
    return (
        node.ready
        and not node.unschedulable
        and node.labels.get(LABEL_KUBEVIRT_SCHEDULABLE) == "true"
    )


def barring(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taints that keep pods out: PreferNoSchedule keeps nobody out, some only say a state."""
    if not taints:
        return ()
    return tuple(
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule" and taint.key not in _JUDGED_AS_STATE
    )


def tolerates_all(tolerations: Collection[Toleration], taints: Collection[Taint]) -> bool:
    """Whether each taint is tolerated."""
    if not taints:
        return True
    return all(any(tolerates(each, taint) for each in tolerations) for taint in taints)


def takes_new_pods(node: Node, tolerations: Collection[Toleration]) -> bool:
    """Whether a node takes a new GPU pod with these tolerations."""
    return is_open(node) and tolerates_all(tolerations, barring(node.taints))


def on_node(stock: Stock, *, takes_pods: bool) -> Capacity:
    """The capacity of one node: what is left is free where new pods may go, else unavailable."""
    left = stock.total - stock.bound - stock.outside
    rest = max(0, left)
    free = rest if takes_pods else 0
    return Capacity(
        total=stock.total,
        bound=stock.bound,
        outside=stock.outside,
        unavailable=rest - free,
        free=free,
        overbooked=max(0, -left),
        largest_set=free,
    )


@dataclass(slots=True)
class Sum:
    """The capacity of a class, summed over nodes and kept by differences.

    `largest_set` is the most free units on one node; how many nodes have each number is
    counted, so that it is found again when the best node fills up.
    """

    nodes: dict[str, Capacity] = field(default_factory=dict)
    _total: int = 0
    _bound: int = 0
    _outside: int = 0
    _unavailable: int = 0
    _free: int = 0
    _overbooked: int = 0
    _with_free: Counter[int] = field(default_factory=Counter)

    def put(self, node: str, capacity: Capacity | None) -> bool:
        """A node's capacity is this now (None: it has none). Returns whether that is a change."""
        before = self.nodes.get(node)
        if before == capacity:
            return False
        if before is not None:
            del self.nodes[node]
            self._add(before, -1)
        if capacity is not None:
            self.nodes[node] = capacity
            self._add(capacity, 1)
        return True

    def capacity(self) -> Capacity:
        """The sum as it stands."""
        return Capacity(
            total=self._total,
            bound=self._bound,
            outside=self._outside,
            unavailable=self._unavailable,
            free=self._free,
            overbooked=self._overbooked,
            largest_set=max(self._with_free, default=0),
        )

    def _add(self, capacity: Capacity, sign: int) -> None:
        self._total += sign * capacity.total
        self._bound += sign * capacity.bound
        self._outside += sign * capacity.outside
        self._unavailable += sign * capacity.unavailable
        self._free += sign * capacity.free
        self._overbooked += sign * capacity.overbooked
        self._with_free[capacity.free] += sign
        if not self._with_free[capacity.free]:
            del self._with_free[capacity.free]
