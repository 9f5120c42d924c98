"""Answers of the API server, kept for a short while; equal questions at once share one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shared.errors import ApiError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Flight(Generic[V]):
    """A question that has been asked and not answered yet."""

    landed: asyncio.Event = field(default_factory=asyncio.Event)
    answer: V | None = None
    error: ApiError | None = None


class Lookups(Generic[K, V]):
    """Keeps answers for `seconds`, at most `size` of them, the least recently used go first.

    Errors are not kept, but those who waited for the same answer share them. Whoever asked
    first may be cancelled (its client went away): then one of the others asks again.
    """

    def __init__(self, *, seconds: float, size: int, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._size = size
        self._monotonic = monotonic
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._flights: dict[K, _Flight[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]], *, keep: bool = True) -> V:
        """The kept answer, else that of `ask`.

        Raises:
            ApiError: as `ask` does.
        """
        while True:
            kept = self._kept.get(key)
            if kept is not None:
                if self._monotonic() < kept[0]:
                    self._kept.move_to_end(key)
                    return kept[1]
                del self._kept[key]
            flight = self._flights.get(key)
            if flight is None:
                return await self._ask(key, ask, keep=keep)
            await flight.landed.wait()
            if flight.error is not None:
                raise flight.error
            if flight.answer is not None:
                return flight.answer

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]], *, keep: bool) -> V:
        flight = self._flights[key] = _Flight[V]()
        try:
            answer = await ask()
        except ApiError as error:
            flight.error = error
            raise
        finally:
            # Also when cancelled: without an answer those who wait look again.
            del self._flights[key]
            flight.landed.set()
        flight.answer = answer
        if keep:
            self._kept[key] = (self._monotonic() + self._seconds, answer)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return answer
