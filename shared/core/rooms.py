"""What stands on each node: sums of all that pods request, and which pods are where.

For placing alone: figures rest on devices that somebody named (`shared.core.holders`), a pod fits a
node by everything (rule 7.5). Fed by the changes that feed a state; a change costs what it touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.core.coverage import place
from shared.core.holders import named, store
from shared.core.index import Index
from shared.core.model import NOTHING, Change, Gone, Key, Pod

PODS = "pods"
"""The resource of which each pod takes one."""

_ANYWHERE = ""


class Rooms:
    """Pods that take room on a node: scheduled there, or pinned there by us, and not ended."""

    def __init__(self) -> None:
        self._pods: dict[Key, Pod] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._by_node: Index[str, Key] = Index()
        self._by_namespace: Index[str, Key] = Index()
        self._guards: Index[str, Key] = Index()
        """Pods with required anti-affinity, by the namespaces from which they keep pods away."""

    # What is asked.

    def used(self, node: str) -> Mapping[str, int]:
        """What pods request on a node, by resource, their number as `pods`; nothing absent."""
        return self._used.get(node, NOTHING)

    def on(self, node: str) -> list[Pod]:
        """The pods on a node."""
        return self._named(self._by_node[node])

    def within(self, namespace: str) -> list[Pod]:
        """The pods of a namespace, wherever they are."""
        return self._named(self._by_namespace[namespace])

    def guarding(self, namespace: str) -> list[Pod]:
        """The pods whose required anti-affinity may be about pods of a namespace.

        One that selects namespaces by their labels is among them for every namespace.
        """
        return self._named({*self._guards[namespace], *self._guards[_ANYWHERE]})

    def _named(self, keys: Iterable[Key]) -> list[Pod]:
        return [self._pods[key] for key in keys]

    # What changes.

    def apply(self, change: Change) -> frozenset[str]:
        """Take in one change; returns the nodes where something changed."""
        pod = change.object
        if not isinstance(pod, Pod):
            return frozenset()
        now = pod if place(pod) and not isinstance(change, Gone) else None
        before = store(self._pods, pod.key, now)
        if before == now:
            return frozenset()
        old, new = named(before, place), named(now, place)
        self._by_node.move(pod.key, old, new)
        self._by_namespace.move(pod.key, named(before, _namespace), named(now, _namespace))
        self._guards.move(pod.key, _guarded(before), _guarded(now))
        for sign, state in ((-1, before), (1, now)):
            if state is not None:
                self._count(place(state), state.requests, sign)
        return frozenset((*old, *new))

    def _count(self, node: str, requests: Mapping[str, int], sign: int) -> None:
        used = self._used.setdefault(node, {})
        for resource, amount in (*requests.items(), (PODS, 1)):
            left = used.get(resource, 0) + sign * amount
            if left:
                used[resource] = left
            else:
                used.pop(resource, None)
        if not used:
            del self._used[node]


def _namespace(pod: Pod) -> str:
    return pod.namespace


def _guarded(pod: Pod | None) -> set[str]:
    """The namespaces that a pod's required anti-affinity is about."""
    found: set[str] = set()
    if pod is None or pod.presence is None:
        return found
    for term in pod.presence.anti_affinity:
        if term.namespace_selector is not None:
            found.add(_ANYWHERE)
        elif term.namespaces:
            found.update(term.namespaces)
        else:
            found.add(pod.namespace)
    return found
