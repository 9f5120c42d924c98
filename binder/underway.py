"""Works that are under way when the next pass decides: what they are about is left to them.

A write that was not answered yet may have been carried out, may still be, or never will be. Until
that is known the worst counts: what is to be booked is held where it goes, and still held where
it was; what is to be made is there; and nothing that is to be released is free. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from binder.actions import Kind, Work
from binder.rendering import target
from binder.sets import is_gated
from shared.core.cluster import ClusterState
from shared.core.model import Claim, Pod

Object = tuple[Kind, str, str]
"""Kind, namespace and name."""


def objects_of(work: Work) -> frozenset[Object]:
    """What a work writes, and what it decided about without a need to write it."""
    written = (target(action) for step in work.steps for action in step)
    named = {(kind, ref.namespace, ref.name) for kind, ref in written}
    return frozenset(named | {name_of(each) for each in work.laid})


def name_of(value: Claim | Pod) -> Object:
    """A claim or a pod, as `objects_of` has it."""
    return (Kind.CLAIM if isinstance(value, Claim) else Kind.POD, *value.key)


@dataclass(frozen=True)
class UnderWay:
    """Works that are under way.

    One belongs to them by its key, but also by any of its objects: an order whose VM is gone
    meanwhile is decided about by itself, under another key.
    """

    works: tuple[Work, ...] = ()
    keys: frozenset[str] = field(init=False)
    objects: frozenset[Object] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", frozenset(work.key for work in self.works))
        objects = frozenset[Object]().union(*map(objects_of, self.works))
        object.__setattr__(self, "objects", objects)

    def has(self, key: str, objects: Iterable[Object] = ()) -> bool:
        """Whether they are about a work of this key, or about one of these objects."""
        return key in self.keys or not self.objects.isdisjoint(objects)

    def covers(self, work: Work) -> bool:
        """Whether a work has to wait for one of them."""
        return self.has(work.key, objects_of(work))

    def laid(self, state: ClusterState) -> list[Claim | Pod]:
        """How claims and pods count until they are over.

        What is known to be done already counts as it is.
        """
        return [each for work in self.works for value in work.laid for each in _laid(value, state)]


NONE: Final = UnderWay()


def held_elsewhere(before: Claim | None, node_name: str) -> Iterator[Claim]:
    """What stands for a claim where it was, until it is known to be booked where it goes.

    In no namespace, so that it counts for no budget.
    """
    if before is not None and before.node_name not in ("", node_name):
        yield Claim(
            "",
            f"{before.namespace}/{before.name}",
            before.class_name,
            before.count,
            resource_name=before.resource_name,
            node_name=before.node_name,
        )


def _laid(value: Claim | Pod, state: ClusterState) -> Iterator[Claim | Pod]:
    holders = state.holders
    if isinstance(value, Pod):
        pod = holders.pods.get(value.key)
        if pod is not None and pod.uid == value.uid and is_gated(pod):
            yield value
        return
    claim = holders.claims.get(value.key)
    if value.uid and (claim is None or claim.uid != value.uid):
        return  # it is gone for good, whatever bears its name now
    if claim is None or value.node_name:
        yield value
        yield from held_elsewhere(claim, value.node_name)
