"""The HTTP session to the API server: credentials kept fresh, raw bytes in and out.

Answers of 400 and above become the errors of `shared.errors`, and so do faults of the network.
Proxies in the environment are ignored, redirects are not followed, and no credential gets into a
message or a log.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeVar

import aiohttp
import orjson
import structlog
from yarl import URL

from shared.errors import (
    ApiError,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    from_status,
)
from shared.kube.credentials import Credentials, CredentialsError, Source
from shared.kube.lines import Lines, LineTooLong

logger: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

REREAD_SECONDS: Final = 30.0
"""Credentials older than this are read again before the next request; a mounted token lives an
hour and is replaced well before, a certificate is replaced some days before its end."""

CONNECT_SECONDS: Final = 10.0
"""How long a TCP connection and its TLS handshake may take."""

_ERROR_BODY_MAX: Final = 64 * 1024
_CONNECTIONS_MAX: Final = 256
_IDLE_SECONDS: Final = 60  # kube-apiserver closes idle connections after 90
_RETRY_SECONDS: Final = 2.0
_RETRY_AFTER_MAX: Final = 60
_JSON: Final = "application/json"
_KEEP_ALIVE: Final = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 25_000,  # milliseconds
}

T = TypeVar("T")


class Stalled(TimedOut):
    """A stream was open, and nothing arrived on it for as long as was agreed."""


class Connection:
    """One HTTP session to one API server. Enter it once per process; it is closed at the end.

    Args:
        source: where credentials are read from, now and again.
        clock: monotonic seconds.
        user_agent: who we are in the API server's logs.
    """

    def __init__(self, source: Source, *, clock: Callable[[], float], user_agent: str) -> None:
        self._source = source
        self._clock = clock
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._credentials: Credentials | None = None
        self._context: ssl.SSLContext | None = None
        self._read_at = 0.0
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Read the credentials and open the session.

        Raises:
            CredentialsError: they cannot be read; later on the last good ones stay in use.
        """
        credentials = await self._source.read()
        await self._adopt(credentials)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=_CONNECTIONS_MAX, keepalive_timeout=_IDLE_SECONDS, socket_factory=_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={
                "User-Agent": self._user_agent,
                "Accept": _JSON,
                "Accept-Encoding": "identity",
            },
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """Send one request and return the body of its answer.

        Args:
            method: as HTTP has it.
            path: absolute and already quoted (`shared.kube.paths`).
            params: the query.
            body: bytes as they are; None for none; anything else as JSON.
            headers: added to ours, such as a patch's Content-Type.
            timeout_seconds: for the whole exchange.

        Raises:
            ApiError: what the API server answered, or Unavailable or TimedOut where it did not.
        """
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        limits = _limits(timeout_seconds)

        async def send() -> bytes:
            with _Faults(method, path):
                response = await self._send(method, path, params, data, headers, limits)
                async with response:
                    await _raise_for(response)
                    return await response.read()

        return await self._authorized(send)

    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        idle_seconds: float,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it. Close it with `aclosing`.

        Args:
            path: absolute and already quoted.
            params: the query.
            headers: added to ours.
            idle_seconds: a connection on which nothing arrives for so long is given up.

        Raises:
            ApiError: the watch was refused; Unavailable where the connection broke, or ended
                inside a line; Stalled where nothing arrived any more.
        """
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds
        )

        async def opened() -> aiohttp.ClientResponse:
            response = await self._send("GET", path, params, None, headers, limits)
            if response.status != HTTPStatus.OK:
                async with response:
                    await _raise_for(response)
            return response

        with _Faults("WATCH", path):
            response = await self._authorized(opened)
            lines = Lines()
            try:
                async for chunk in response.content.iter_any():
                    for line in lines.feed(chunk):
                        yield line
            except TimeoutError:
                raise Stalled(f"WATCH {path}: nothing for {idle_seconds:g} seconds") from None
            finally:
                response.close()
            if lines.is_within_line:
                raise Unavailable(f"WATCH {path}: the stream ended inside an event")

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | None,
        headers: Mapping[str, str] | None,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "enter the connection first"
        assert self._credentials is not None
        assert self._context is not None
        sent: dict[str, str] = {}
        if data is not None:
            sent["Content-Type"] = _JSON
        if self._credentials.authorization:
            sent["Authorization"] = self._credentials.authorization
        if headers is not None:
            sent.update(headers)
        return await self._session.request(
            method,
            URL(self._credentials.server + path, encoded=True),
            params=params,
            data=data,
            headers=sent,
            timeout=limits,
            ssl=self._context,
            server_hostname=self._credentials.server_name,
            proxy=self._credentials.proxy,
            allow_redirects=False,
        )

    async def _authorized(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send with credentials that are fresh; where they are refused, once more with newer."""
        await self._refresh(self._clock() - REREAD_SECONDS)
        used, at = self._credentials, self._clock()
        try:
            return await send()
        except Unauthorized:
            await self._refresh(at)
            if self._credentials == used:
                raise
        return await send()

    async def _refresh(self, since: float) -> None:
        """Read the credentials again, unless they were read after `since`."""
        if self._read_at > since:
            return
        async with self._lock:
            if self._read_at > since:
                return
            try:
                await self._adopt(await self._source.read())
            except CredentialsError as error:
                # A file is empty for a moment while it is replaced. What we hold may still do.
                self._read_at = self._clock() - REREAD_SECONDS + _RETRY_SECONDS
                logger.warning("credentials not readable, the last ones stay", error=str(error))

    async def _adopt(self, fresh: Credentials) -> None:
        if self._credentials is None or not fresh.same_tls(self._credentials):
            self._context = await asyncio.to_thread(fresh.context)
        self._credentials = fresh
        self._read_at = self._clock()


async def _raise_for(response: aiohttp.ClientResponse) -> None:
    """Raise the error that an answer stands for.

    Raises:
        ApiError: the status is not 2xx.
    """
    if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    if response.status < HTTPStatus.BAD_REQUEST:
        raise Unavailable(f"the API server redirects: HTTP {response.status}")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _ERROR_BODY_MAX:
            break
    try:
        status: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    error = from_status(response.status, status)
    after = response.headers.get("Retry-After", "")
    if isinstance(error, TooManyRequests) and after.isascii() and after.isdigit():
        error.retry_after = min(int(after[:9]), _RETRY_AFTER_MAX)
    raise error


class _Faults:
    """Turns faults of the network into our errors.

    Without their cause: aiohttp's errors can carry the request's headers, and with them tokens.
    """

    __slots__ = ("_what",)

    def __init__(self, method: str, path: str) -> None:
        self._what = (method, path)

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, ApiError):
            return
        told = f"{' '.join(self._what)}: "
        if isinstance(error, TimeoutError):
            raise TimedOut(told + _told(error)) from None
        if isinstance(error, aiohttp.ClientError | OSError | LineTooLong):
            raise Unavailable(told + _told(error)) from None


@lru_cache(maxsize=64)
def _limits(total: float) -> aiohttp.ClientTimeout:
    """For an exchange that may take so many seconds."""
    return aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_SECONDS)


def _told(error: Exception) -> str:
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{kind}: {error.status} {error.message}"
    return f"{kind}: {error}" if str(error) else kind


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that finds out within half a minute that its peer is gone without a word."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE.items():
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
