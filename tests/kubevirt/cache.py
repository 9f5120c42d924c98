"""What the stand-in has seen of the cluster: the newest version of each object, from watches."""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp

from tests.cluster.api import Api, Object, Refused
from tests.kubevirt import words as w
from tests.kubevirt.objects import controller_of, name_of, namespace_of, uid_of
from tests.kubevirt.timing import Clock, Timing

Place = tuple[str, str]
"""Namespace and name."""

Changed = Callable[["Cache", str, Object], None]
"""Told of every change: the kind, and the object as it is now, or as it was last."""

RECONNECT_SECONDS = 0.2


@dataclass(slots=True)
class Cache:
    """Objects by kind and place. An older version never takes the place of a newer one.

    What was written is put here at once with the answer, so that the next pass builds on it before
    the watch brings it.
    """

    clock: Clock
    timing: Timing
    chance: random.Random
    changed: Changed
    _objects: dict[str, dict[Place, Object]] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _owned: dict[str, dict[str, Object]] = field(default_factory=dict)
    _listed_at: dict[str, datetime.datetime] = field(default_factory=dict)

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object, or None."""
        return self._objects.get(kind, {}).get((namespace, name))

    def of(self, kind: str, namespace: str) -> Iterator[Object]:
        """All objects of a kind in a namespace."""
        for (home, _), obj in self._objects.get(kind, {}).items():
            if home == namespace:
                yield obj

    def named(self, kind: str, namespace: str) -> Mapping[str, Object]:
        """The same by name."""
        return {name_of(obj): obj for obj in self.of(kind, namespace)}

    def owned(self, owner: Object) -> tuple[Object, ...]:
        """Pods that an object controls."""
        return tuple(self._owned.get(uid_of(owner), {}).values())

    def see(self, kind: str, obj: Object, listed: bool = False) -> None:
        """Take up a version of an object.

        Args:
            kind: as `Api` takes it.
            obj: from a watch, a list, or the answer to a write.
            listed: from the first list: it was there before we were.
        """
        place = (namespace_of(obj), name_of(obj))
        known = self._objects.setdefault(kind, {}).get(place)
        if uid_of(obj) in self._gone or (known is not None and _version(known) >= _version(obj)):
            return
        group, _, bare = kind.rpartition("/")
        obj = {"apiVersion": group, "kind": bare, **obj}
        if known is not None and uid_of(known) != uid_of(obj):
            self.lose(kind, known)
        self._objects[kind][place] = obj
        if kind == w.POD:
            self._owned.setdefault(str(controller_of(obj).get("uid", "")), {})[uid_of(obj)] = obj
            if uid_of(obj) not in self._listed_at:
                self._listed_at[uid_of(obj)] = self.clock.now() + self._lag(listed)
        self.changed(self, kind, obj)

    def lose(self, kind: str, obj: Object) -> None:
        """Take up that an object is gone."""
        self._gone.add(uid_of(obj))
        place = (namespace_of(obj), name_of(obj))
        known = self._objects.get(kind, {}).get(place)
        if known is None or uid_of(known) != uid_of(obj):
            return
        del self._objects[kind][place]
        if kind == w.POD:
            owned = self._owned.get(str(controller_of(obj).get("uid", "")), {})
            owned.pop(uid_of(obj), None)
            self._listed_at.pop(uid_of(obj), None)
        self.changed(self, kind, obj)

    def replace(self, kind: str, objects: Iterable[Object], version: int, first: bool) -> None:
        """Take up a whole list; what it lacks and is older than the list is gone."""
        listed = {uid_of(obj): obj for obj in objects}
        for obj in [*self._objects.get(kind, {}).values()]:
            if uid_of(obj) not in listed and _version(obj) <= version:
                self.lose(kind, obj)
        for obj in listed.values():
            self.see(kind, obj, listed=first)

    def is_listed(self, pod: Object) -> bool:
        """Whether `activePods` may show a pod by now."""
        return self._listed_at[uid_of(pod)] <= self.clock.now()

    def seconds_until_listed(self, pod: Object) -> float:
        """How long it still takes."""
        return (self._listed_at[uid_of(pod)] - self.clock.now()).total_seconds()

    def expect_own(self, pod: Object) -> None:
        """Say that a pod, which was just made, is ours: it is listed later than a stranger's."""
        shortest, longest = self.timing.listed_after_seconds
        lag = datetime.timedelta(seconds=self.chance.uniform(shortest, longest))
        self._listed_at[uid_of(pod)] = self.clock.now() + lag

    def _lag(self, listed: bool) -> datetime.timedelta:
        shortest, longest = self.timing.stranger_after_seconds
        seconds = 0.0 if listed else self.chance.uniform(shortest, longest)
        return datetime.timedelta(seconds=seconds)


async def follow(
    api: Api, kind: str, namespace: str | None, cache: Cache, listed: asyncio.Event, **query: str
) -> None:
    """Keep a collection in the cache for as long as this runs.

    Args:
        api: whose account reads.
        kind: as `Api` takes it.
        namespace: None for all.
        cache: what is kept.
        listed: set once the whole collection was read.
        query: a selector, by its API name.
    """
    while True:
        try:
            path = await api.path(kind, namespace)
            found = await api.call("GET", path, query=query)
            version = found["metadata"]["resourceVersion"]
            cache.replace(kind, found["items"], int(version), first=not listed.is_set())
            listed.set()
            start = {"resourceVersion": version, "allowWatchBookmarks": "true"}
            async with api.watch(kind, namespace, **start, **query) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        break
                    if event["type"] == "DELETED":
                        cache.lose(kind, event["object"])
                    elif event["type"] != "BOOKMARK":
                        cache.see(kind, event["object"])
        except (aiohttp.ClientError, TimeoutError, Refused):
            await cache.clock.sleep(RECONNECT_SECONDS)


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
