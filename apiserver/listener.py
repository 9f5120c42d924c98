"""The listening socket: HTTP/1.1 over TLS, with limits that large identities fit into.

aiohttp's own limits are too small for what a front proxy sends: a user with thousands of groups
is thousands of header lines, and a long selector is a long URL.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from aiohttp import StreamReader, web
from aiohttp.http_exceptions import LineTooLong
from typing_extensions import override

from apiserver.responses import status_response
from shared.errors import BadRequest, InternalError

KEEP_ALIVE_SECONDS: Final = 150.0
"""kube-apiserver keeps idle connections for 90 seconds; whoever closes first may break a request
that is on its way, so it must not be us."""

HEADERS_SECONDS: Final = 32.0
"""How long a request's headers may take to arrive (kube-apiserver's own limit)."""

WRITE_SECONDS: Final = 30.0
"""How long a reader may take before it reads on; then its connection is cut, so that nobody
holds an answer (or a watch, and what it was to be told) without reading."""

CONNECTIONS_MAX: Final = 3000
"""So many connections are served as they come. A further one is answered once and closed, and
may not watch: probes and discovery go on, and whatever held the others ends by its own limits."""

CONNECTIONS_EVER_MAX: Final = 4000
"""So many there are at all; a further one is closed at once."""

HANDSHAKE_SECONDS: Final = 10.0
DRAIN_SECONDS: Final = 20.0
"""How long requests may take to end after the last connection was accepted, and how long once
more after they were cancelled: the shutdown delay and twice this have to fit into the pod's
terminationGracePeriodSeconds."""

HEADERS_BYTES_MAX: Final = 1024 * 1024
"""The request line and all headers of a request together (as Go's server has it)."""

_READ_AHEAD_BYTES: Final = 512 * 1024
"""What of a body may arrive before the headers before it are seen to have ended: two reads."""

_TOO_LONG: Final = "the request's line or its headers are too long"
_BACKLOG: Final = 1024
_LIMITS: Final[dict[str, Any]] = {
    "keepalive_timeout": KEEP_ALIVE_SECONDS,
    "max_headers": 8192,
    "max_field_size": HEADERS_BYTES_MAX,
    "max_line_size": HEADERS_BYTES_MAX,
    "access_log": None,
}


class Connections:
    """How many there are, and how many there may be."""

    def __init__(self, most: int = CONNECTIONS_MAX, ever: int = CONNECTIONS_EVER_MAX) -> None:
        self._most = most
        self._ever = ever
        self.count = 0

    @property
    def are_many(self) -> bool:
        """Whether the newest is one too many to stay."""
        return self.count > self._most

    @property
    def are_too_many(self) -> bool:
        """Whether the newest is one too many to be answered."""
        return self.count > self._ever


class Protocol(web.RequestHandler):
    """One connection. Ends those whose request never comes to its point, and who does not read."""

    headers_seconds = HEADERS_SECONDS
    write_seconds = WRITE_SECONDS
    connections = Connections()
    is_surplus = False
    """Whether it is to be answered once, and not for long."""
    _busy = False
    _too_slow: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _body: StreamReader | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.connections.count += 1
        if self.connections.are_too_many:
            self._cut()
            return
        self.is_surplus = self.connections.are_many
        self._expect()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = asyncio.get_running_loop().call_later(self.write_seconds, self._cut)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._read()

    @override
    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self._expect()
        if self._body is None or self._body.is_eof():
            self._header_bytes += len(data)
            if self._header_bytes > HEADERS_BYTES_MAX + _READ_AHEAD_BYTES:
                self._refuse()
                return
        super().data_received(data)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self.connections.count -= 1
        self._forget()
        self._read()
        super().connection_lost(exc)

    def begin(self, body: StreamReader) -> None:
        """The headers of a request have arrived, and maybe its body."""
        self._busy = True
        self._body = body
        self._header_bytes = 0
        self._forget()

    def finish(self) -> None:
        """The request has been answered."""
        self._busy = False

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What cannot be parsed as HTTP gets a Status too, never text or HTML."""
        self._forget()
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun, no error can be sent any more")
        if status >= 500:
            response = status_response(InternalError("Internal error occurred"))
        elif isinstance(exc, LineTooLong):
            response = status_response(BadRequest(_TOO_LONG))
        else:
            response = status_response(BadRequest("the request is not valid HTTP/1.1"))
        response.force_close()
        return response

    def _refuse(self) -> None:
        """End a connection whose headers are too many, whatever it still sends.

        The parser has no limit for all of them together, so it gets no more of them.
        """
        if self.transport is not None and not self._busy:
            body = orjson.dumps(BadRequest(_TOO_LONG).to_status())
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )
        self.force_close()

    def _cut(self) -> None:
        """End a connection with what its reader has left unread."""
        assert self.transport is not None
        self.transport.abort()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _expect(self) -> None:
        """The headers of a request have to come from now on."""
        if self._too_slow is None:
            loop = asyncio.get_running_loop()
            self._too_slow = loop.call_later(self.headers_seconds, self.force_close)

    def _forget(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None


def bind(address: str, port: int) -> socket.socket:
    """A listening TCP socket.

    Raises:
        OSError: the address is not ours or is taken.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server(
        (address, port),
        family=family,
        backlog=_BACKLOG,
        dualstack_ipv6=family == socket.AF_INET6 and address == "::",
    )


@asynccontextmanager
async def listening(
    app: web.Application,
    sock: socket.socket,
    context: ssl.SSLContext,
    *,
    headers_seconds: float = HEADERS_SECONDS,
    write_seconds: float = WRITE_SECONDS,
    connections: Connections | None = None,
) -> AsyncIterator[asyncio.Server]:
    """Serve until the block is left; then accept nothing, and let what is in flight end.

    Handlers are cancelled when their client goes away: a watch of nobody ends at once.

    Args:
        app: what is served.
        sock: where it listens.
        context: of TLS.
        headers_seconds: how long the headers of a request may take.
        write_seconds: how long a reader may leave unread what is written to it.
        connections: how many there may be; as many as is usual where None.
    """
    runner = web.AppRunner(
        app,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=DRAIN_SECONDS,
        **_LIMITS,
    )
    await runner.setup()
    manager = runner.server
    assert manager is not None
    loop = asyncio.get_running_loop()
    counted = connections or Connections()

    def protocol() -> Protocol:
        made = Protocol(manager, loop=loop, **_LIMITS)
        made.headers_seconds = headers_seconds
        made.write_seconds = write_seconds
        made.connections = counted
        return made

    try:
        server = await loop.create_server(
            protocol,
            sock=sock,
            ssl=context,
            backlog=_BACKLOG,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        try:
            yield server
        finally:
            server.close()
    finally:
        await runner.cleanup()
