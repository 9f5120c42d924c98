"""Resource versions: points in time that only grow, and the times that they stand for.

A version is in microseconds since 1970, forced to grow: so the versions of two replicas can be
compared, and a thousand changes at once do not run ahead of the clock. It never goes back,
whatever the clock does (rule 5.3; KEP-5504 for its form: a decimal number).

Its last three digits are the number that the process drew. What another replica told a client
is not known here, so a watch must not go on from its version: the digits tell whose it is. Two
processes draw the same number once in a thousand; then a foreign version passes for an own one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from shared.errors import BadRequest

IDENTITIES: Final = 1000
"""How many numbers a process can draw; a version stays below 2^63 until the year 2262."""

VERSIONS_PER_SECOND: Final = 1_000_000 * IDENTITIES


class Versions:
    """Gives out resource versions.

    Args:
        wall: POSIX seconds.
        identity: what this process drew, below `IDENTITIES`.
    """

    def __init__(self, wall: Callable[[], float], *, identity: int) -> None:
        if not 0 <= identity < IDENTITIES:
            raise ValueError(f"identity: {identity}: must be from 0 to {IDENTITIES - 1}")
        self._wall = wall
        self._identity = identity
        self._first = self._now()
        self._last = 0

    def current(self) -> int:
        """The version of what is known now; whatever changes later gets a larger one."""
        self._last = max(self._last, self._now())
        return self._last

    def next(self) -> int:
        """The version of a change: larger than any given out before."""
        self._last = max(self._last + IDENTITIES, self._now())
        return self._last

    def is_own(self, version: int) -> bool:
        """Whether this process gave a version out, or may have: it is in its range and its form."""
        own_form = version % IDENTITIES == self._identity
        return own_form and self._first <= version <= self.current()

    def _now(self) -> int:
        return int(self._wall() * (VERSIONS_PER_SECOND // IDENTITIES)) * IDENTITIES + self._identity


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
