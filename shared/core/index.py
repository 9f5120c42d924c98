"""A one-to-many index that drops its empty entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Index(Generic[K, V]):
    """Values by key; a key without values is not there, so the index never outgrows its objects."""

    def __init__(self) -> None:
        self._values: dict[K, set[V]] = {}

    def __getitem__(self, key: K) -> frozenset[V] | set[V]:
        return self._values.get(key, frozenset())

    def move(self, value: V, before: Iterable[K], after: Iterable[K]) -> None:
        """A value that was under some keys is now under others."""
        old, new = set(before), set(after)
        for key in old - new:
            values = self._values.get(key, set())
            values.discard(value)
            if not values:
                self._values.pop(key, None)
        for key in new - old:
            self._values.setdefault(key, set()).add(value)
