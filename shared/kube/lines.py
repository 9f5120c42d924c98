"""Bytes of a watch into lines; no I/O."""

from __future__ import annotations

from typing import Final

LINE_BYTES_MAX: Final = 32 * 1024 * 1024
"""No event is larger: etcd takes objects of 1.5 MiB, and an event holds one, as JSON."""


class LineTooLong(Exception):
    """A line does not end; the stream is not a watch."""


class Lines:
    """Cuts a stream of chunks into lines, however it was cut before."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._length = 0

    @property
    def is_within_line(self) -> bool:
        """Whether the stream, were it to end now, would end in the middle of a line."""
        return bool(self._parts)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk in and return the lines that it completes, without empty ones.

        Raises:
            LineTooLong: the line that is going on has passed the bound.
        """
        *ended, rest = chunk.split(b"\n")
        lines = []
        for end in ended:
            line = b"".join((*self._parts, end)) if self._parts else end
            self._parts.clear()
            self._length = 0
            if line.strip():
                lines.append(line)
        if rest:
            self._parts.append(rest)
            self._length += len(rest)
            if self._length > self._bytes_max:
                raise LineTooLong(f"a line of more than {self._bytes_max} bytes")
        return lines
