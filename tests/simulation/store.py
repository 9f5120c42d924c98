"""What is stored, and everything that ever changed: the fake's etcd and watch cache.

Objects are dictionaries that nobody changes once they are here: a change stores a new one. All
kinds share one counter of versions, as in etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tests.simulation.kinds import Kind

Raw = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """One accepted write.

    Attributes:
        version: the resource version it made; it only grows.
        at: virtual seconds.
        who: the account that wrote.
        what: ADDED, MODIFIED or DELETED.
        before: the object as it was; None when it was not there.
        after: as it is now; for a deletion its last state, under the version of the deletion.
    """

    version: int
    at: float
    who: str
    what: str
    kind: Kind
    key: Key
    before: Raw | None
    after: Raw

    def to_json(self) -> bytes:
        """One line of a history, the same for the same run."""
        fields = [self.version, self.at, self.who, self.what, self.kind.resource, self.after]
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


@dataclass(slots=True)
class Store:
    """All objects, by kind and key.

    Attributes:
        clock: virtual seconds.
        on_change: told of each change as it is made, in order.
        version: of the last change.
    """

    clock: Callable[[], float]
    on_change: list[Callable[[Change], None]] = field(default_factory=list)
    version: int = 1
    _objects: dict[Kind, dict[Key, Raw]] = field(default_factory=dict)
    _log: dict[Kind, list[Change]] = field(default_factory=dict)
    _forgotten: dict[Kind, int] = field(default_factory=dict)
    _waiting: dict[Kind, list[asyncio.Future[None]]] = field(default_factory=dict)

    def get(self, kind: Kind, key: Key) -> Raw | None:
        """An object, or None."""
        return self._objects.get(kind, {}).get(key)

    def all(self, kind: Kind, namespace: str = "") -> list[Raw]:
        """The objects of a kind by namespace and name; of one namespace where it is given."""
        found = self._objects.get(kind, {})
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def each(self, kind: Kind) -> Mapping[Key, Raw]:
        """The objects of a kind in no order that counts."""
        return self._objects.get(kind, {})

    def kinds(self) -> Iterator[Kind]:
        """Kinds of which there is, or was, an object."""
        yield from self._objects

    def put(self, kind: Kind, key: Key, obj: Raw, who: str) -> Raw:
        """Store an object, with the version that this makes."""
        before = self.get(kind, key)
        self.version += 1
        after = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._objects.setdefault(kind, {})[key] = after
        self._tell(kind, key, ADDED if before is None else MODIFIED, before, after, who)
        return after

    def remove(self, kind: Kind, key: Key, last: Raw, who: str) -> Raw:
        """Take an object away; `last` is its last state."""
        before = self._objects[kind].pop(key)
        self.version += 1
        after = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}}
        self._tell(kind, key, DELETED, before, after, who)
        return after

    def since(self, kind: Kind, version: int) -> list[Change]:
        """The changes of a kind after a version; ask `remembers` before."""
        log = self._log.get(kind, [])
        place = len(log)
        while place and log[place - 1].version > version:
            place -= 1
        return log[place:]

    def remembers(self, kind: Kind, version: int) -> bool:
        """Whether all changes of a kind after a version are known still."""
        return version >= self._forgotten.get(kind, 0)

    def forget(self, kind: Kind) -> None:
        """Forget the changes of a kind: who watches from before has to list anew."""
        self._log.pop(kind, None)
        self._forgotten[kind] = self.version

    def changed(self, kind: Kind) -> asyncio.Future[None]:
        """Done at the next change of a kind."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(kind, []).append(future)
        return future

    def _tell(
        self, kind: Kind, key: Key, what: str, before: Raw | None, after: Raw, who: str
    ) -> None:
        change = Change(self.version, self.clock(), who, what, kind, key, before, after)
        log = self._log.setdefault(kind, [])
        log.append(change)
        if len(log) > 2 * LOG_MIN:
            self._forgotten[kind] = log[LOG_MIN - 1].version
            del log[:LOG_MIN]
        for told in self.on_change:
            told(change)
        for future in self._waiting.pop(kind, ()):
            if not future.done():
                future.set_result(None)


LOG_MIN: Final = 2000
"""So many changes of a kind are remembered at least."""
