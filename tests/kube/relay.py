"""A TCP relay in front of a server, which can hold, break or refuse connections."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

from tests.kube.local import HOST


class Relay:
    """Passes bytes on to a port, until told otherwise."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flows = asyncio.Event()
        self._flows.set()
        self._asks = asyncio.Event()
        self._asks.set()
        self._refuses = False
        self._pairs: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.accepted = 0
        self.cut_after: int | None = None
        """Break each connection after so many bytes from the server, wherever that is."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._pairs):
            task.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def freeze(self) -> None:
        """Keep every connection open and pass nothing on: a peer lost without a word."""
        self._flows.clear()

    def hold_requests(self) -> None:
        """Pass on what the server says, and keep what it is asked."""
        self._asks.clear()

    def send_requests(self) -> None:
        """Pass on what was kept, however late that is."""
        self._asks.set()

    def thaw(self) -> None:
        """Pass on again. What was held belongs to connections that nobody reads any more."""
        self.break_all()
        self._flows.set()

    def refuse(self) -> None:
        """Break every connection, and every one that is opened."""
        self._refuses = True
        self.break_all()

    def accept(self) -> None:
        """Accept connections again."""
        self._refuses = False

    def break_all(self) -> None:
        """Reset every open connection, in the middle of whatever it carries."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        self._writers.add(writer)
        self.accepted += 1
        try:
            if self._refuses:
                return
            with contextlib.suppress(OSError):
                back, forth = await asyncio.open_connection(HOST, self._target)
                self._writers.add(forth)
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(self._pass(reader, forth, None, self._asks))
                        both.create_task(self._pass(back, writer, self.cut_after, self._flows))
                finally:
                    self._writers.discard(forth)
                    forth.close()
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
            self._pairs.discard(task)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        cut_after: int | None,
        open_: asyncio.Event,
    ) -> None:
        passed = 0
        while data := await reader.read(65536):
            await self._flows.wait()
            await open_.wait()
            passed += len(data)
            if cut_after is not None and passed > cut_after:
                writer.write(data[: len(data) // 2])
                await writer.drain()
                break
            writer.write(data)
            await writer.drain()
        # One side is done, so both are: a TLS connection is of no use in half.
        raise ConnectionResetError
