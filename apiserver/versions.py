"""Resource versions: points in time that only grow, and the times that they stand for.

A version is in microseconds since 1970, forced to grow: so the versions of two replicas can be
compared, and a thousand changes at once do not run ahead of the clock. It never goes back,
whatever the clock does (rule 5.3; KEP-5504 for its form: a decimal number).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from shared.errors import BadRequest

VERSIONS_PER_SECOND: Final = 1_000_000


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


def instant(version: int) -> datetime:
    """The point in time that a version stands for, in whole seconds."""
    return datetime.fromtimestamp(version // VERSIONS_PER_SECOND, UTC)


def rfc3339(time: datetime) -> str:
    """A point in time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
