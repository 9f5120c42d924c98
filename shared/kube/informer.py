"""All that a process follows, run together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from shared.core.model import Change, Gone, Object, Put
from shared.fields import Json
from shared.kube.collections import Collection
from shared.kube.garbage import settle
from shared.kube.kept import Sink
from shared.kube.pace import BRISK, Pace
from shared.kube.reflector import Reading, Reflector, Report, Standing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Changes:
    """Hands the values of model collections on as changes of a state."""

    on_change: Callable[[Change], None]

    def put(self, value: Object) -> None:
        self.on_change(Put(value))

    def gone(self, value: Object) -> None:
        self.on_change(Gone(value))


class Informer:
    """The reflectors of a process. Add what else to follow, then run it, once.

    Args:
        connection: to the API server.
        collections: whose objects become changes (`shared.kube.collections.CLUSTER`).
        on_change: gets each change, on the loop, in the order of its collection; must not block.
        clock: monotonic seconds.
        chance: spreads watches and retries over time.
        pace: the times of all reflectors; brisk, since what is computed from a collection says
            how fresh it is.
        on_standing: called after the standing of a collection changed; `unreadable` and `synced`
            tell what they are then.
    """

    def __init__(
        self,
        connection: Reading,
        collections: Iterable[Collection[Object]] = (),
        on_change: Callable[[Change], None] | None = None,
        *,
        clock: Callable[[], float],
        chance: random.Random,
        pace: Pace = BRISK,
        on_standing: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._chance = chance
        self._pace = pace
        self._on_standing = on_standing
        self._reflectors: list[Reflector[Any]] = []
        self._first_sync = asyncio.Event()
        if on_change is not None:
            sink = _Changes(on_change)
            for collection in collections:
                self.follow(collection, sink)

    def follow(self, collection: Collection[T], sink: Sink[T]) -> None:
        """Follow one more collection, into a sink of its own."""
        self._reflectors.append(
            Reflector(
                collection,
                self._connection,
                sink,
                clock=self._clock,
                chance=self._chance,
                pace=self._pace,
                on_standing=self._judge,
            )
        )

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run(), name=f"reflector {reflector.name}")

    @property
    def synced(self) -> bool:
        """Whether every collection is known, be it as absent."""
        return all(reflector.is_synced for reflector in self._reflectors)

    @property
    def unreadable(self) -> frozenset[str]:
        """Names of the collections that we may not read."""
        return frozenset(
            reflector.name
            for reflector in self._reflectors
            if reflector.standing is Standing.UNREADABLE
        )

    async def wait_until_synced(self) -> None:
        """Return once every collection has been known at the same time, the first time."""
        await self._first_sync.wait()

    def wrote(self, name: str, raw: Json) -> None:
        """Take in an object of this collection as the API server answered a write of ours.

        What is known is never older than that from then on (rule 7.2). An object of a collection
        that is not followed is passed over.
        """
        for reflector in self._reflectors:
            if reflector.name == name:
                reflector.wrote(raw)

    async def reread(self) -> None:
        """List every collection anew, and return once all of that is known."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.reread(), name=f"reread {reflector.name}")

    def ages(self) -> dict[str, float]:
        """Seconds since each collection was last proven fresh; infinite before its first list."""
        now = self._clock()
        return {reflector.name: reflector.age(now) for reflector in self._reflectors}

    def reports(self) -> list[Report]:
        """How each collection stands."""
        now = self._clock()
        return [reflector.report(now) for reflector in self._reflectors]

    def _judge(self) -> None:
        if self.synced and not self._first_sync.is_set():
            settle()
            self._first_sync.set()
        self._on_standing()
