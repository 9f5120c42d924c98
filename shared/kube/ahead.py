"""Own writes that a watch has not shown yet, so that what is read never goes back behind them.

Pure. Versions are compared as numbers: those of one collection can be (KEP-5504). Where a server
gives out others, nothing is kept, and what the watch says holds at once.
"""

from __future__ import annotations

from shared.core.model import Key


class Ahead:
    """For each object that we wrote, the version that the API server answered with."""

    def __init__(self) -> None:
        self._written: dict[Key, int] = {}

    def wrote(self, key: Key, version: str, reached: str) -> bool:
        """Remember a write; returns whether it is news to a watch that reached that version."""
        if not version.isdecimal():
            return False
        if reached.isdecimal() and int(version) <= int(reached):
            return False
        if int(version) <= self._written.get(key, -1):
            return False
        self._written[key] = int(version)
        return True

    def hides(self, key: Key, version: str) -> bool:
        """Whether what is told of an object, as of that version, is older than our write."""
        written = self._written.get(key)
        return written is not None and version.isdecimal() and int(version) < written

    def reached(self, version: str) -> None:
        """Everything up to this version has been told."""
        if self._written and version.isdecimal():
            now = int(version)
            self._written = {key: at for key, at in self._written.items() if at > now}

    def forget(self) -> None:
        """What is read from now on is newer than every write so far."""
        self._written.clear()
