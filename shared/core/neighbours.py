"""Which pods are where, for those that want to be near others or far from them (rule 7.5).

The arithmetic is kube-scheduler's (its plugins InterPodAffinity and PodTopologySpread), over the
pods that have a place: those on a node, and those that we have pinned to one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared.core.capacity import tolerates_all
from shared.core.coverage import place
from shared.core.model import Node, Pod
from shared.core.placing import PodPlacing, Presence
from shared.core.scheduling import PodTerm, Selector, Spread
from shared.core.selecting import Labels, accepts, concerns, is_domestic, selects
from shared.core.sites import Sites

_NOBODY: Final = Presence()

Domains = Mapping[str, set[str]]
"""Values of node labels, by topology key."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How the pods that a spread constraint is about lie over its domains.

    Attributes:
        spread: the constraint.
        pods: how many are in each domain that has any.
        on_node: how many are on each node that has any.
        least: how many are in the domain with the fewest; none where there are too few domains.
        adds: 1 where the pod to be placed is one of them, else 0.
    """

    spread: Spread
    pods: Mapping[str, int]
    on_node: Mapping[str, int]
    least: int
    adds: int

    def allows(self, node: Node) -> bool:
        """Whether the pod may go there now, and still when it is pinned there.

        A pin is a node affinity. Where the constraint honours those, the pinned node is the only
        domain that is left, and where several are required that counts as an empty one elsewhere.
        """
        value = node.labels.get(self.spread.topology_key)
        if value is None:
            return False
        if self.pods.get(value, 0) + self.adds - self.least > self.spread.max_skew:
            return False
        if self.spread.honors_affinity and self.spread.min_domains > 1:
            return self.on_node.get(node.name, 0) + self.adds <= self.spread.max_skew
        return True


@dataclass(frozen=True, slots=True)
class Nearness:
    """Where other pods let one pod go.

    Attributes:
        near: for each required affinity, its topology key and the values where its pods are.
        is_first: whether none of those pods is anywhere and the pod is one of them: then it may
            go wherever the topology keys are.
        far: where pods are that the pod's own anti-affinity is about.
        barred: where pods are whose anti-affinity is about the pod.
        tallies: one for each spread constraint.
    """

    near: tuple[tuple[str, frozenset[str]], ...] = ()
    is_first: bool = False
    far: Domains = field(default_factory=dict)
    barred: Domains = field(default_factory=dict)
    tallies: tuple[Tally, ...] = ()


def nearness(pod: Pod, sites: Sites) -> Nearness:
    """Where the pods that have a place let another one go."""
    return _Look(pod, sites).nearness()


@dataclass(frozen=True, slots=True)
class _Look:
    """A look around for one pod."""

    pod: Pod
    sites: Sites

    @property
    def labels(self) -> Labels:
        return _presence(self.pod).labels

    def nearness(self) -> Nearness:
        placing = self.pod.placing or PodPlacing()
        terms = placing.pod_affinity
        near = tuple(self._near(terms)) if terms else ()
        return Nearness(
            near=near,
            is_first=not any(values for _, values in near)
            and all(self._is_about(term, self.pod, self.pod) for term in terms),
            far=self._far(),
            barred=self._barred(),
            tallies=tuple(self._tallies(placing)) if placing.spread else (),
        )

    def _near(self, terms: Sequence[PodTerm]) -> Iterator[tuple[str, frozenset[str]]]:
        """For each required affinity, the domains with a pod that all of them are about."""
        there = [
            place(other)
            for other in self._within(terms[0])
            if all(self._is_about(term, self.pod, other) for term in terms)
        ]
        for term in terms:
            yield term.topology_key, frozenset(self._values(term.topology_key, there))

    def _far(self) -> Domains:
        far: dict[str, set[str]] = {}
        for term in _presence(self.pod).anti_affinity:
            there = (
                place(other)
                for other in self._within(term)
                if selects(term.selector, _presence(other).labels)
            )
            far.setdefault(term.topology_key, set()).update(self._values(term.topology_key, there))
        return far

    def _barred(self) -> Domains:
        barred: dict[str, set[str]] = {}
        for other in self.sites.rooms.guarding(self.pod.namespace):
            for term in _presence(other).anti_affinity:
                if self._is_about(term, other, self.pod):
                    values = self._values(term.topology_key, (place(other),))
                    barred.setdefault(term.topology_key, set()).update(values)
        return barred

    def _tallies(self, placing: PodPlacing) -> Iterator[Tally]:
        keys = frozenset(spread.topology_key for spread in placing.spread)
        for spread in placing.spread:
            domains = self._domains(keys, spread, placing)
            on_node = Counter(self._spread_over(spread, domains))
            pods = Counter[str]()
            for name, count in on_node.items():
                pods[domains[name]] += count
            empty = len(set(domains.values())) - len(pods)
            is_short = len(pods) + empty < spread.min_domains
            least = 0 if is_short or empty else min(pods.values(), default=0)
            adds = int(_is_spread(spread, self.labels, self.labels))
            yield Tally(spread, pods, on_node, least, adds)

    def _domains(
        self, keys: frozenset[str], spread: Spread, placing: PodPlacing
    ) -> Mapping[str, str]:
        """The domain of each node that counts for a constraint; those with all of some keys."""

        def found() -> Mapping[str, str]:
            return {
                name: site.node.labels[spread.topology_key]
                for name, site in self.sites.by_name.items()
                if all(key in site.node.labels for key in keys)
                and _counts(spread, placing, site.node)
            }

        # All that it depends on besides the nodes: many pods have the same constraint.
        affinity = (tuple(sorted(placing.node_selector.items())), placing.node_terms)
        return self.sites.once(
            (
                keys,
                spread.topology_key,
                affinity if spread.honors_affinity else None,
                placing.tolerations if spread.honors_taints else None,
            ),
            found,
        )

    def _spread_over(self, spread: Spread, counted: Container[str]) -> Iterator[str]:
        """The nodes of the pods that a constraint is about, a node once for each of them."""
        if spread.selector == Selector():
            return  # as kube-scheduler has it: one that selects everything counts nothing
        for other in self.sites.rooms.within(self.pod.namespace):
            presence = _presence(other)
            if (
                place(other) in counted
                and not presence.is_leaving
                and _is_spread(spread, presence.labels, self.labels)
            ):
                yield place(other)

    def _is_about(self, term: PodTerm, owner: Pod, other: Pod) -> bool:
        """Whether the term of one pod is about another."""
        there = self.sites.labels_of(other.namespace)
        return selects(term.selector, _presence(other).labels) and concerns(
            term, owner.namespace, other.namespace, there
        )

    def _within(self, term: PodTerm) -> Iterator[Pod]:
        """The pods of every namespace that a term of the pod is about."""
        own = self.pod.namespace
        if is_domestic(term):
            yield from self.sites.rooms.within(own)
            return
        for namespace in self.sites.namespaces():
            if concerns(term, own, namespace, self.sites.labels_of(namespace)):
                yield from self.sites.rooms.within(namespace)

    def _values(self, key: str, nodes: Iterable[str]) -> Iterator[str]:
        """The values of a label of nodes, where they have it."""
        for name in nodes:
            site = self.sites.by_name.get(name)
            value = site.node.labels.get(key) if site is not None else None
            if value is not None:
                yield value


def _presence(pod: Pod) -> Presence:
    return pod.presence if pod.presence is not None else _NOBODY


def _counts(spread: Spread, placing: PodPlacing, node: Node) -> bool:
    """Whether a node counts for a constraint of a pod."""
    if spread.honors_affinity and not may_run(placing, node):
        return False
    if not spread.honors_taints:
        return True
    taints = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    return tolerates_all(placing.tolerations, taints)


def may_run(placing: PodPlacing, node: Node) -> bool:
    """Whether a pod's node selector and required node affinity accept a node."""
    labels = node.labels
    if any(labels.get(key) != value for key, value in placing.node_selector.items()):
        return False
    return placing.node_terms is None or accepts(placing.node_terms, node.name, labels)


def _is_spread(spread: Spread, labels: Labels, own: Labels) -> bool:
    """Whether a constraint of a pod with labels of its `own` is about pods with these labels."""
    return selects(spread.selector, labels) and all(
        labels.get(key) == own[key] for key in spread.label_keys if key in own
    )
