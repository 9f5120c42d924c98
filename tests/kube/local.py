"""Servers on 127.0.0.1 for faults that no real API server shows on demand."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from shared.kube.credentials import Credentials, CredentialsError

HOST = "127.0.0.1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def http_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve every request with `handler`; yields the URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://{HOST}:{port}"
    finally:
        await runner.cleanup()


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[str]:
    """Serve each connection with `script`, byte by byte; yields the URL."""
    served: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            served.discard(task)

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in served:
            task.cancel()
        await asyncio.gather(*served)


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Read a request up to its body."""
    return await reader.readuntil(b"\r\n\r\n")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body (RFC 9112, section 7.1)."""
    return b"%x\r\n%s\r\n" % (len(data), data)


@dataclass(slots=True)
class Held:
    """A source of credentials that a test changes; None cannot be read."""

    now: Credentials | None
    reads: int = 0

    async def read(self) -> Credentials:
        """As `shared.kube.credentials.Source`."""
        self.reads += 1
        if self.now is None:
            raise CredentialsError("the token is empty")
        return self.now


@dataclass(slots=True)
class Ticks:
    """A clock that stands until a test moves it on."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Calls:
    """An answering handler that remembers what it was asked."""

    answer: Handler
    seen: list[web.Request] = field(default_factory=list)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        return await self.answer(request)
