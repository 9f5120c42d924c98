"""How many requests may be under way at a time: fewer while answers are lost.

A server that is too slow for all of them at once carries out none of them in time: each takes part
of it away from the others. So each loss halves what may be under way, and answers let it grow
again, by one for as many answers as are under way (as TCP has it, RFC 5681). Never below a floor:
where it is one tenant's webhook that does not answer, others go on beside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Window:
    """Lets requests through in their order, so many at a time.

    Args:
        most: how many at most.
        least: how many also while all are lost.
    """

    def __init__(self, most: int, least: int) -> None:
        self._most = most
        self._least = float(min(least, most))
        self._limit = float(most)
        self._under_way = 0
        self._shrunk = 0
        """How often it was halved."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def request(self) -> AsyncIterator[int]:
        """A request, which begins once there is room; it gets what `lost` wants to know."""
        await self._enter()
        try:
            yield self._shrunk
        finally:
            self._leave()

    def answered(self) -> None:
        """A request was answered in time, whatever was said."""
        self._limit = min(self._most, self._limit + 1 / self._limit)

    def lost(self, begun: int) -> None:
        """A request was not answered. Those that were under way together are lost as one."""
        if begun == self._shrunk:
            self._shrunk += 1
            self._limit = max(self._least, self._limit / 2)

    async def _enter(self) -> None:
        if self._under_way < int(self._limit) and not self._waiting:
            self._under_way += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it had its place already
                self._leave()
            raise

    def _leave(self) -> None:
        self._under_way -= 1
        while self._waiting and self._under_way < int(self._limit):
            place = self._waiting.popleft()
            if not place.done():
                self._under_way += 1
                place.set_result(None)
