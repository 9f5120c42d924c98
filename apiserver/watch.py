"""The readers of changes: bounded queues that never hold up the writer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apiserver.entry import Entry
    from apiserver.selectors import Selector
    from shared.errors import ApiError

QUEUE_MAX: Final = 4096
"""How many changes a reader may lag behind before it is ended; it comes back by itself."""


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
        self.failure: ApiError | None = None
        """What it is told last, where it did not simply end."""
        self._queue: deque[Change] = deque(backlog)
        # What it starts with may be larger than the bound; only lagging behind counts.
        self._bound = len(self._queue) + queue_max
        self._queue_max = queue_max
        self._on_overflow = on_overflow
        self.on_end: Callable[[], None] | None = None
        """Called when it is to end; set by whoever is writing to it, to hurry."""
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
        if self.on_end is not None:
            self.on_end()

    def fail(self, error: ApiError) -> None:
        """Let the reader end with an error, and with nothing else that it has not taken."""
        self._queue.clear()
        self.failure = error
        self.end()

    async def wait(self) -> None:
        """Return when there is something to take."""
        await self._wake.wait()

    def take(self) -> list[tuple[Kind, Entry]]:
        """All that came since, as this reader sees it; may be empty."""
        self._wake.clear()
        queue, self._queue = self._queue, deque()
        self._bound = self._queue_max
        return [told for change in queue if (told := seen(change, self.selector)) is not None]
