"""How often and how long: the times of a reflector, and its back-off. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BACKOFF_SECONDS_MIN: Final = 0.8
BACKOFF_SECONDS_MAX: Final = 30.0

REOPENING_SECONDS: Final = 2
"""How long the end of a watch and the begin of the next take at most, where all is well."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a reflector, in seconds.

    Attributes:
        watch: between which two a watch's `timeoutSeconds` is drawn.
        stall: a watch on which nothing arrives for so long, not even a bookmark, is given up.
        overtime: how much longer than its `timeoutSeconds` a watch may last.
        absent: how long until a kind that is not served, or that we may not read, is asked for
            again.
        page: for one page of a list.
    """

    watch: tuple[int, int] = (300, 600)
    stall: float = 150.0
    overtime: float = 30.0
    absent: float = 15.0
    page: float = 60.0

    @property
    def proof(self) -> int:
        """Seconds after which values of a quiet collection are proven fresh again, at most.

        That is the longest watch, and what it takes to end it and to open the next.
        """
        return self.watch[1] + REOPENING_SECONDS


def paced(seconds: int) -> Pace:
    """The pace whose shortest watch lasts so long, and its longest a third longer."""
    longest = seconds + max(1, seconds // 3)
    return Pace(watch=(seconds, longest), stall=1.5 * longest, overtime=5.0)


BRISK: Final = paced(6)
"""For values that must be proven fresh every ten seconds.

kube-apiserver sends bookmarks once a minute, and where nothing was written to a collection and
etcd reports no progress it sends none at all (seen on 1.36). So in a quiet cluster nothing but
the end of a watch proves that nothing happened: watches are short, and each goes on where the
last one ended. A reconnection costs the API server about a millisecond. A connection that is
dead without a word is found out as soon.
"""


def backoff(failures: int, chance: float) -> float:
    """Seconds to wait after so many failures in a row, from 0.8 to 30 and spread at random.

    Args:
        failures: at least 1.
        chance: from 0 to 1.
    """
    highest = min(BACKOFF_SECONDS_MIN * float(1 << min(failures, 10)), BACKOFF_SECONDS_MAX)
    return BACKOFF_SECONDS_MIN + (highest - BACKOFF_SECONDS_MIN) * chance
