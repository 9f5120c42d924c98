"""An event loop whose time passes only when nothing is left to do, and then at once.

looptime does the same for single tests; a simulation waits a hundred thousand times, which takes
it about seventy microseconds each and this loop about ten, most of them asyncio's own.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")


class Stuck(Exception):
    """Nothing is left to do, at no time to come, and the run is not over."""


class _Selector(selectors.BaseSelector):
    """Selects nothing: waiting moves the time on."""

    def __init__(self) -> None:
        self.now = 0.0
        self._none: dict[FileDescriptorLike, selectors.SelectorKey] = {}

    @override
    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._none[fileobj] = key
        return key

    @override
    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._none.pop(fileobj)

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck
        self.now += max(timeout, 0.0)
        return []

    @override
    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._none


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at second 0."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-9

    @override
    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time.

    Raises:
        Stuck: everything waits for something that no one will do.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
