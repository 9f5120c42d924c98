"""Lists that are read again and again: what is as it was last time is not decoded anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

import orjson

from shared.fields import Json, mapping, mappings, text

T = TypeVar("T")

_ITS_VERSION: Final = re.compile(
    rb'"metadata":\{(?:"continue":"",)?"resourceVersion":"[0-9]+"\}\}\s*'
)
"""The end of a list of custom resources, as kube-apiserver writes it: the keys are in order."""


class Listed(Generic[T]):
    """The values of the objects of one list, kept for as long as its objects do not change.

    Bytes that are the same say the same; and where something has changed an object that has not
    keeps its value. Objects are compared whole, which costs a twentieth of decoding them and needs
    no trust in their uid or resource version: both are part of them. No more is kept than the last
    list had.

    Args:
        decode: the value of an object, a function of it alone; None where it has none.
    """

    def __init__(self, decode: Callable[[Json], T | None]) -> None:
        self._decode = decode
        self._objects: bytes | None = None
        self._values: Sequence[T] = ()
        self._kept: dict[str, tuple[Json, T]] = {}

    def of(self, body: bytes) -> Sequence[T]:
        """The values of a list's objects, in its order, without those that have none.

        Raises:
            ValueError: the body is no JSON.
        """
        end = _end(body)
        if self._objects is None or len(self._objects) != end or not body.startswith(self._objects):
            kept = dict(self._read(mappings(mapping(orjson.loads(body)).get("items"))))
            self._objects, self._kept = body[:end], kept
            self._values = [value for _, value in kept.values()]
        return self._values

    def _read(self, items: Iterator[Json]) -> Iterator[tuple[str, tuple[Json, T]]]:
        for number, raw in enumerate(items):
            uid = text(mapping(raw.get("metadata")).get("uid")) or f"{number}"
            known = self._kept.get(uid)
            if known is not None and known[0] == raw:
                yield uid, known
            elif (value := self._decode(raw)) is not None:
                yield uid, (raw, value)


def _end(body: bytes) -> int:
    """Where a list's own version begins, which rises with any write in the cluster."""
    at = body.rfind(b'"metadata":')
    return at if at >= 0 and _ITS_VERSION.fullmatch(body, at) else len(body)
