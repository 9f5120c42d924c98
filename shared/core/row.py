"""Small mappings that share their keys with others of the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

from typing_extensions import override

V = TypeVar("V")


class Row(Mapping[str, V]):
    """A mapping that never changes; equal to any mapping of the same content.

    Nodes of one kind of machine have a hundred labels under the same names, in the same order.
    Each keeps the values alone, and one table of names and places serves them all: a third of
    what dicts weigh.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, content: Mapping[str, V]) -> None:
        self._places = _places(tuple(content))
        self._values = tuple(content.values())

    @override
    def __getitem__(self, name: str) -> V:
        return self._values[self._places[name]]

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._places

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    @override
    def __len__(self) -> int:
        return len(self._values)

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Row) and self._places is other._places:
            return bool(self._values == other._values)
        return super().__eq__(other)

    @override
    def __repr__(self) -> str:
        return repr(dict(self))


@lru_cache(maxsize=1024)
def _places(names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: place for place, name in enumerate(names)}
