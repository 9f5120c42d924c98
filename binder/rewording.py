"""Other words for the same wait: written at a pace, since who reads them learns little (rule 7.9).

Each unit that comes free changes the figures in the text of every claim that waits for its class.
Their reasons stay, so those texts may be a little old; a reason never is.

Pure: what is remembered is when words were first seen to differ, by the clock of the passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from binder.actions import Work

PATIENCE: Final = timedelta(seconds=30)
"""How long words may stand that are not those of now."""

AT_ONCE: Final = 16
"""So many works write other words in one go: VMs wait for their turn to write too."""

PACE: Final = timedelta(seconds=1)
"""The time from one go to the next. A pass may follow on its own writes within milliseconds."""


@dataclass(frozen=True, slots=True)
class Rewording:
    """A work that writes other words and nothing else; `old` are all that its unit's claims say."""

    work: Work
    old: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Outdated:
    """Words that are not those of now, and when that was first seen."""

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
            found: all units of which only the words differ, in the order of decisions.
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
