"""What is known of one collection: its values, handed on as they change, and what is odd in it.

Where the news come from, a list, a watch or a write of ours, and how recent they are, is the
reflector's (`shared.kube.reflector`).
"""

from __future__ import annotations

from collections.abc import Collection as Several
from typing import Final, Generic, Protocol, TypeVar

import structlog

from shared.core.model import Key
from shared.fields import Json, mapping, name, text, version_of
from shared.kube.ahead import Ahead
from shared.kube.collections import Collection
from shared.kube.decode import Undecodable

logger: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_PROBLEMS_MAX: Final = 1000


class Sink(Protocol[T_contra]):
    """Who gets the values. Called on the loop, in order; must not block and must not raise."""

    def put(self, value: T_contra) -> None:
        """An object was added or changed to this; never twice in a row the same."""
        ...

    def gone(self, value: T_contra) -> None:
        """An object was deleted; this is its last known state."""
        ...


class Kept(Generic[T]):
    """The values of a collection by namespace and name; the sink gets each change of them.

    What we wrote ourselves is known before a list or a watch tells of it: until those have come as
    far, what they say of that object is older, and is passed over (rule 7.2).
    """

    def __init__(self, collection: Collection[T], sink: Sink[T]) -> None:
        self._collection = collection
        self._sink = sink
        self._values: dict[Key, T] = {}
        self._problems: dict[Key, str] = {}
        self._ahead = Ahead()

    def __len__(self) -> int:
        """How many objects are known."""
        return len(self._values)

    def problems(self) -> dict[Key, str]:
        """What is odd, of objects that could not be read, or not wholly."""
        return dict(self._problems)

    def wrote(self, raw: Json, version: str) -> None:
        """An object as a write of ours was answered, while the watch is at that version."""
        if self._ahead.wrote(_identity(raw)[0], version_of(raw), version):
            self._put(raw)

    def changed(self, raw: Json) -> None:
        """A watch tells that an object was added or changed to this."""
        if not self._ahead.hides(_identity(raw)[0], version_of(raw)):
            self._put(raw)

    def deleted(self, raw: Json) -> None:
        """A watch tells that an object was deleted, and in which state."""
        key, _ = _identity(raw)
        if self._ahead.hides(key, version_of(raw)):
            return
        before = self._values.pop(key, None)
        if before is not None:
            last = self._decoded(key, raw)
            self._sink.gone(before if last is None else last)
        self._problems.pop(key, None)

    def reached(self, version: str) -> None:
        """The watch has come as far as this version."""
        self._ahead.reached(version)

    def begin_list(self) -> None:
        """A list begins: what was written before it is in it."""
        self._ahead.forget()

    def listed(self, raw: Json) -> Key:
        """A list has this object; one that we wrote since the list began is newer."""
        key, _ = _identity(raw)
        return key if self._ahead.hides(key, version_of(raw)) else self._put(raw)

    def end_list(self, seen: Several[Key], version: str) -> None:
        """The list is whole, as of that version, with these objects: there are no others."""
        for key in [key for key in self._values if key not in seen]:
            if not self._ahead.hides(key, version):
                self._sink.gone(self._values.pop(key))
        for key in [key for key in self._problems if key not in seen]:
            del self._problems[key]
        self._ahead.reached(version)

    def clear(self) -> None:
        """Nothing of it exists."""
        while self._values:
            self._sink.gone(self._values.popitem()[1])
        self._problems.clear()

    def _put(self, raw: Json) -> Key:
        """Deliver an object unless nothing that we read of it changed.

        One that cannot be decoded leaves the last good state of the same object in place.
        """
        key, uid = _identity(raw)
        before = self._values.get(key)
        if before is not None and uid and _uid(before) not in {"", uid}:
            # Made anew under its name: what was known of the old one must not pass to it.
            self._sink.gone(self._values.pop(key))
            before = None
        value = self._decoded(key, raw)
        if value is not None and value != before:
            self._values.pop(key, None)  # else the key of the first state would stay
            key = _own(value, key)
            self._values[key] = value
            self._sink.put(value)
        return key

    def _decoded(self, key: Key, raw: Json) -> T | None:
        notes: list[str] = []
        value: T | None = None
        try:
            value = self._collection.decode(raw, notes.append)
        except Undecodable as error:
            notes.append(str(error))
        told = "; ".join(notes)
        if told != self._problems.get(key, ""):
            self._problems.pop(key, None)
            if told and len(self._problems) < _PROBLEMS_MAX:
                self._problems[key] = told
                logger.warning(
                    "object not wholly readable",
                    collection=self._collection.name,
                    namespace=key[0],
                    name=key[1],
                    problems=told,
                    skipped=value is None,
                )
        return value


def _identity(raw: Json) -> tuple[Key, str]:
    metadata = mapping(raw.get("metadata"))
    key = (name(metadata.get("namespace")), text(metadata.get("name")))
    return key, text(metadata.get("uid"))


def _own(value: object, key: Key) -> Key:
    """The key that the value itself has, where it keeps one: there are very many."""
    own: object = getattr(value, "key", None)
    return own if own == key and isinstance(own, tuple) else key


def _uid(value: object) -> str:
    """The uid that a value carries; many have none, and are known by their name."""
    return text(getattr(value, "uid", ""))
