"""Other words for the same wait: written at a pace, since who reads them learns little (rule 7.9).

Each unit that comes free changes the figures in the text of every claim that waits for its class,
and may change which of the reasons `OF_STOCK` holds. So those may be a little old; another reason
never is.

Pure: what is remembered is when words were first seen to differ, by the clock of the passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from binder.actions import Work
from shared.reasons import Reason

PATIENCE: Final = timedelta(seconds=30)
"""How long words may stand that are not those of now."""

AT_ONCE: Final = 16
"""So many works write other words in one go: VMs wait for their turn to write too."""

PACE: Final = timedelta(seconds=1)
"""The time from one go to the next. A pass may follow on its own writes within milliseconds."""

OF_STOCK: Final = frozenset(
    {
        Reason.NO_CAPACITY,
        Reason.SET_DOES_NOT_FIT_ONE_NODE,
        Reason.NO_ELIGIBLE_NODE,
        Reason.VOLUME_OUT_OF_REACH,
        Reason.NODE_REFUSED,
        Reason.RESERVED,
    }
)
"""Reasons of which what others hold decides which one it is.

One unit that is taken or given back may change it for all that wait, there and back. Written at
once, whoever orders and deletes one unit again and again would have all of them written each time,
with an event each, and hold up the starts of others by it.
"""


def is_alike(reason: str, other: str) -> bool:
    """Whether two reasons are one, or differ only by what others hold."""
    return reason == other or {reason, other} <= OF_STOCK


@dataclass(frozen=True, slots=True)
class Rewording:
    """A work that writes other words, or another reason of the stock's with its event.

    `old` is all that its unit's claims say, in reasons and words.
    """

    work: Work
    old: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Outdated:
    """Reasons and words that are not those of now, and when that was first seen."""

    words: tuple[str, ...]
    since: datetime


class Rewordings:
    """Which units say something in other words than those of now, and since when."""

    def __init__(self) -> None:
        self._outdated: dict[str, _Outdated] = {}
        """By key of the unit."""
        self._began: datetime | None = None
        """When the last ones were let through."""

    def __len__(self) -> int:
        """How many units are known of."""
        return len(self._outdated)

    def works(
        self, found: Sequence[Rewording], left: Iterable[str], now: datetime
    ) -> tuple[list[Work], float | None]:
        """What is to be written now, and in how many seconds there is more.

        Those first that are out of date longest, then as they were found. Who is not found any
        more is forgotten: it says what is so, or is gone, or is written for another reason. Words
        that were written meanwhile, and differ again, are out of date since now.

        Args:
            found: all units of which only that differs, in the order of decisions.
            left: keys of units about which nothing was decided, so that nobody knows.
            now: by the clock. Where it went back, nothing waits longer than from there on.
        """
        before = self._outdated
        self._outdated = {key: before[key] for key in left if key in before}
        for each in found:
            known, since = before.get(each.work.key), now
            if known is not None and known.words == each.old:
                since = min(known.since, now)
            self._outdated[each.work.key] = _Outdated(each.old, since)

        def age(each: Rewording) -> timedelta:
            return now - self._outdated[each.work.key].since

        queue = sorted(found, key=age, reverse=True)
        ripe = [each for each in queue if age(each) >= PATIENCE]
        pause = self._pause(now)
        let = 0 if pause else min(len(ripe), AT_ONCE)
        if let:
            self._began, pause = now, PACE
        works = [each.work for each in queue[:let]]
        if let == len(queue):
            return works, None
        return works, max(pause, PATIENCE - age(queue[let])).total_seconds()

    def _pause(self, now: datetime) -> timedelta:
        """How long nothing more is let through."""
        left = self._began + PACE - now if self._began is not None else timedelta()
        # A clock that went back holds nothing up.
        return left if timedelta() < left <= PACE else timedelta()
