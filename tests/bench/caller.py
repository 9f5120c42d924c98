"""A caller of a webhook that costs next to nothing: one connection over TLS, bytes made before.

In life kube-apiserver calls, in Go; what a client in Python costs beside that is no webhook's.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from typing_extensions import override

from tests.cluster.components import HOST

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"


def post(path: str, body: bytes) -> bytes:
    """A request with a JSON body, as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Caller(asyncio.Protocol):
    """One connection; a call at a time. For servers that tell the length of what they answer."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        """Given once the connection is made."""
        self._arrived = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    async def call(self, request: bytes) -> bytes:
        """Send a request; returns the body of its answer.

        Raises:
            ConnectionError: the connection ended before it was answered.
            RuntimeError: the answer is another than 200, or of unknown length.
        """
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    @override
    def data_received(self, data: bytes) -> None:
        self._arrived += data
        head = self._arrived.find(_END_OF_HEAD)
        if head < 0 or self._answer is None or self._answer.done():
            return
        begin = head + len(_END_OF_HEAD)
        length = _LENGTH.search(self._arrived, 0, begin)
        if length is None or not self._arrived.startswith(b"HTTP/1.1 200 "):
            self._answer.set_exception(RuntimeError(f"answered {bytes(self._arrived)!r:.500}"))
        elif len(self._arrived) >= begin + int(length[1]):
            self._answer.set_result(bytes(self._arrived[begin:]))
            self._arrived.clear()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("ended before it was answered"))


@asynccontextmanager
async def calling(port: int, tls: ssl.SSLContext) -> AsyncIterator[Caller]:
    """A caller of a server of this machine; its connection ends with the block."""
    loop = asyncio.get_running_loop()
    transport, caller = await loop.create_connection(
        Caller, HOST, port, ssl=tls, server_hostname=HOST
    )
    caller.transport = transport
    try:
        yield caller
    finally:
        transport.close()
