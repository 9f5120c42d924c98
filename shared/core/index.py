"""A one-to-many index that drops its empty entries."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Index(Generic[K, V]):
    """Values by key; a key without values is not there, so the index never outgrows its objects.

    Most keys have one value, and a set for it would weigh more than all the rest of the entry
    (216 bytes): only keys with several have sets.
    """

    def __init__(self) -> None:
        self._one: dict[K, V] = {}
        self._several: dict[K, set[V]] = {}

    def __getitem__(self, key: K) -> Collection[V]:
        if key in self._one:
            return (self._one[key],)
        return self._several.get(key, ())

    def move(self, value: V, before: Collection[K], after: Collection[K]) -> None:
        """A value that was under some keys is now under others: few, or found by hash."""
        for key in before:
            if key not in after:
                self._discard(key, value)
        for key in after:
            if key not in before:
                self._add(key, value)

    def _add(self, key: K, value: V) -> None:
        if key in self._several:
            self._several[key].add(value)
        elif key not in self._one:
            self._one[key] = value
        elif self._one[key] != value:
            self._several[key] = {self._one.pop(key), value}

    def _discard(self, key: K, value: V) -> None:
        if key in self._several:
            values = self._several[key]
            values.discard(value)
            if len(values) == 1:
                del self._several[key]
                self._one[key] = values.pop()
        elif key in self._one and self._one[key] == value:
            del self._one[key]
