"""Which objects are to be looked at: each by one worker at a time, after failures ever later."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from tests.kubevirt.backoff import retry_seconds
from tests.kubevirt.timing import Clock, Timing


class Key(NamedTuple):
    """An object, and whose business with it is meant."""

    part: str
    namespace: str
    name: str


class WorkQueue:
    """Keys to work on. A key that is added while it is worked on comes up once more after that."""

    def __init__(self, clock: Clock, timing: Timing, later: asyncio.TaskGroup) -> None:
        """Delays are tasks in the group `later`; they end with it."""
        self._clock = clock
        self._timing = timing
        self._later = later
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._wanted: set[Key] = set()
        self._worked_on: set[Key] = set()
        self._failures: Counter[Key] = Counter()

    def add(self, key: Key) -> None:
        """Have a key worked on soon."""
        if key not in self._wanted:
            self._wanted.add(key)
            if key not in self._worked_on:
                self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Have a key worked on after a time, which is not divided by any speed."""
        self._later.create_task(self._ripen(key, max(seconds, 0)))

    def again(self, key: Key) -> None:
        """Have a key worked on after a pause that grows with each failure in a row."""
        self._failures[key] += 1
        self.add_after(key, self._timing.real(retry_seconds(self._failures[key])))

    def forget(self, key: Key) -> None:
        """Say that a key was worked on without failure."""
        self._failures.pop(key, None)

    async def take(self) -> Key:
        """The next key; say `done` after the work on it."""
        key = await self._ready.get()
        self._wanted.discard(key)
        self._worked_on.add(key)
        return key

    def done(self, key: Key) -> None:
        """Give a key back."""
        self._worked_on.discard(key)
        if key in self._wanted:
            self._ready.put_nowait(key)

    async def _ripen(self, key: Key, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self.add(key)
