"""The nodes as sets find them: what is left on each, found by free units (rules 7.5 and 7.6).

Nodes between which units and taints make no difference are of one `Kind`, so a search looks at
kinds: some dozens where there are thousands of nodes. Only open nodes are of a kind: the others
take no new pods whatever they have.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from shared.core.capacity import Stock, barring, is_open
from shared.core.model import Change, Gone, Namespace, Node, Pod
from shared.core.rooms import Rooms
from shared.core.scheduling import Taint

CPU: Final = "cpu"
_COMPUTED_MAX: Final = 64
_NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(slots=True, eq=False)
class Kind:
    """Open nodes with the same barring taints and the same free units of every device.

    `nodes` are what CPU is left on each, in thousandths, with its name, sorted; `free` has no
    zeros.
    """

    taints: tuple[Taint, ...]
    free: Mapping[str, int]
    nodes: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Site:
    """A node, and its units of devices that are neither booked nor held.

    `free` is of the devices that somebody names, and less than nothing where they are overbooked.
    `spare` is what CPU is left, in thousandths. `kind` is None where the node takes no new pods.
    """

    node: Node
    free: Mapping[str, int]
    spare: int
    kind: Kind | None


class Sites:
    """All nodes, and the pods and namespaces that matter there; `ClusterState.apply` feeds it."""

    def __init__(self) -> None:
        self.by_name: dict[str, Site] = {}
        self.rooms = Rooms()
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._kinds: dict[object, Kind] = {}
        self._by_resource: dict[str, dict[int, dict[Kind, None]]] = {}
        self._free: Counter[str] = Counter()
        self._computed: dict[Hashable, Mapping[str, str]] = {}

    # What is asked.

    def free(self, resource: str) -> int:
        """Units that are free on open nodes, whatever their taints."""
        return self._free[resource]

    def kinds(self, resource: str) -> Mapping[int, Iterable[Kind]]:
        """The kinds of nodes with free units of a resource, by how many are free."""
        return self._by_resource.get(resource, {})

    def namespaces(self) -> Iterable[str]:
        """The names of all namespaces."""
        return self._namespaces

    def once(self, key: Hashable, compute: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """What follows from the nodes, computed once until one of them changes."""
        if key not in self._computed:
            if len(self._computed) >= _COMPUTED_MAX:
                self._computed.clear()
            self._computed[key] = compute()
        return self._computed[key]

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none where it does not exist."""
        return self._namespaces.get(namespace, _NO_LABELS)

    # What changes.

    def apply(self, change: Change) -> None:
        """Take in a change of a pod or of a namespace; others say nothing here."""
        match change.object:
            case Pod():
                for name in self.rooms.apply(change):
                    if name in self.by_name:
                        self._weigh(name)
            case Namespace() as namespace:
                self._namespaces.pop(namespace.name, None)
                if not isinstance(change, Gone):
                    self._namespaces[namespace.name] = namespace.labels
            case _:
                pass

    def put_node(self, name: str, node: Node | None, stock: Mapping[str, Stock]) -> None:
        """A node is this now, with this stock of devices; None where it is gone."""
        before = self.by_name.pop(name, None)
        if before is not None and before.kind is not None:
            self._leave(before.kind, before.spare, name)
        if before is None or before.node is not node:
            self._computed.clear()
        if node is not None:
            free = {each: has.total - has.bound - has.outside for each, has in stock.items()}
            spare = self._spare(node)
            kind = self._enter(node, free, spare) if is_open(node) else None
            self.by_name[name] = Site(node, free, spare, kind)

    def _spare(self, node: Node) -> int:
        return node.allocatable.get(CPU, 0) - self.rooms.used(node.name).get(CPU, 0)

    def _weigh(self, name: str) -> None:
        """Other pods are on a node now."""
        site = self.by_name[name]
        spare = self._spare(site.node)
        if spare != site.spare:
            if site.kind is not None:
                del site.kind.nodes[bisect_left(site.kind.nodes, (site.spare, name))]
                insort(site.kind.nodes, (spare, name))
            self.by_name[name] = Site(site.node, site.free, spare, site.kind)

    def _enter(self, node: Node, units: Mapping[str, int], spare: int) -> Kind:
        """Count a node with its kind."""
        free = {resource: units[resource] for resource in sorted(units) if units[resource] > 0}
        # When a taint was added makes no difference.
        taints = tuple(replace(taint, since="") for taint in barring(node.taints))
        kind = self._kinds.get((taints, tuple(free.items())))
        if kind is None:
            kind = self._kinds[taints, tuple(free.items())] = Kind(taints, free)
            for resource, count in free.items():
                self._by_resource.setdefault(resource, {}).setdefault(count, {})[kind] = None
        insort(kind.nodes, (spare, node.name))
        for resource, count in free.items():
            self._free[resource] += count
        return kind

    def _leave(self, kind: Kind, spare: int, name: str) -> None:
        """No longer count a node with its kind."""
        del kind.nodes[bisect_left(kind.nodes, (spare, name))]
        for resource, count in kind.free.items():
            self._free[resource] -= count
        if kind.nodes:
            return
        del self._kinds[kind.taints, tuple(kind.free.items())]
        for resource, count in kind.free.items():
            same = self._by_resource[resource]
            del same[count][kind]
            if not same[count]:
                del same[count]
            if not same:
                del self._by_resource[resource]
