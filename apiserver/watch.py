"""Resource versions, and the readers of changes: bounded queues that never hold up the writer.

A version is a point in time, in microseconds since 1970, forced to grow: so the versions of two
replicas can be compared, and a thousand changes at once do not run ahead of the clock. It never
goes back, whatever the clock does (rule 5.3; KEP-5504 for its form: a decimal number).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from shared.errors import BadRequest

if TYPE_CHECKING:
    from apiserver.selectors import Selector
    from apiserver.views import Entry

VERSIONS_PER_SECOND: Final = 1_000_000

QUEUE_MAX: Final = 4096
"""How many changes a reader may lag behind before it is ended; it comes back by itself."""


class Versions:
    """Gives out resource versions.

    Args:
        wall: POSIX seconds.
    """

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._last = 0

    def current(self) -> int:
        """The version of what is known now; whatever changes later gets a larger one."""
        self._last = max(self._last, self._now())
        return self._last

    def next(self) -> int:
        """The version of a change: larger than any given out before."""
        self._last = max(self._last + 1, self._now())
        return self._last

    def _now(self) -> int:
        return int(self._wall() * VERSIONS_PER_SECOND)


def parse_version(text: str) -> int | None:
    """A resource version in a query: None where none is given, 0 where any will do.

    Raises:
        BadRequest: not a decimal number as Kubernetes writes versions.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or (text[0] == "0" and text != "0"):
        raise BadRequest(
            f"resourceVersion: Invalid value: {text!r}: must be 0 or a decimal number "
            "without leading zeros, as an answer gave it"
        )
    return int(text[:20])


class Kind(bytes, Enum):
    """The type of a watch event."""

    ADDED = b"ADDED"
    MODIFIED = b"MODIFIED"
    DELETED = b"DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """An option came (no `before`), changed, or went (no `after`).

    `gone` is the last state under the version of the change, where there was one: what a
    reader gets to whom the option is no longer visible. With `relabelled` the labels that it
    had are not known: whoever does not see it now is told that it is gone, seen before or not.
    """

    version: int
    before: Entry | None
    after: Entry | None
    gone: Entry | None
    relabelled: bool = False


def seen(change: Change, selector: Selector) -> tuple[Kind, Entry] | None:
    """What a reader with this selector sees of a change: entering is ADDED, leaving DELETED."""
    was = change.before is not None and (
        selector.means(change.before.namespace, change.before.name)
        if change.relabelled
        else change.before.matches(selector)
    )
    if change.after is not None and change.after.matches(selector):
        return (Kind.MODIFIED if was else Kind.ADDED, change.after)
    if was and change.gone is not None:
        return (Kind.DELETED, change.gone)
    return None


class Subscription:
    """One reader: what it has not yet taken, and a way to be woken.

    Args:
        namespace: which one it reads; None is all tenants'.
        selector: what of it.
        backlog: what it gets first.
        on_overflow: called once when it lags too far; has to free whoever is writing to it.
        queue_max: how many changes it may lag behind.
    """

    def __init__(
        self,
        namespace: str | None,
        selector: Selector,
        backlog: Iterable[Change],
        *,
        on_overflow: Callable[[], None],
        queue_max: int,
    ) -> None:
        self.namespace = namespace
        self.selector = selector
        self.ended = False
        self._queue: deque[Change] = deque(backlog)
        # What it starts with may be larger than the bound; only lagging behind counts.
        self._bound = len(self._queue) + queue_max
        self._queue_max = queue_max
        self._on_overflow = on_overflow
        self._wake = asyncio.Event()
        if self._queue:
            self._wake.set()

    def push(self, changes: Iterable[Change]) -> None:
        """Hand over changes; never waits."""
        if self.ended:
            return
        self._queue.extend(changes)
        self._wake.set()
        if len(self._queue) > self._bound:
            self._queue.clear()
            self.end()
            self._on_overflow()

    def end(self) -> None:
        """Let the reader end; what it has not taken it may still take."""
        self.ended = True
        self._wake.set()

    async def wait(self) -> None:
        """Return when there is something to take."""
        await self._wake.wait()

    def take(self) -> list[tuple[Kind, Entry]]:
        """All that came since, as this reader sees it; may be empty."""
        self._wake.clear()
        queue, self._queue = self._queue, deque()
        self._bound = self._queue_max
        return [told for change in queue if (told := seen(change, self.selector)) is not None]
