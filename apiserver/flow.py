"""Limits, deadlines, and the graceful end.

The end, after a signal (architecture of kube-apiserver's own, and rule 5.1): `/readyz` fails at
once; requests are served on until load balancers have noticed; then watches end cleanly and
what is in flight gets time to finish.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from aiohttp import web

from apiserver.authorization import INFO
from apiserver.trust import TrustSource
from shared.errors import BadRequest, TimedOut, TooManyRequests, Unavailable

DEADLINE_SECONDS: Final = 60.0
"""How long anything but a watch may take."""

WATCHES_PER_USER_MAX: Final = 500
"""How many watches one user may have; each holds a connection here."""

WATCH_RETRY_SECONDS: Final = 5

_DURATION_LENGTH_MAX: Final = 64
_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)")
_UNIT_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


class Stage(IntEnum):
    """How far the process is; it only ever goes forward."""

    SERVING = 0
    LEAVING = 1
    """Asked to end: no longer ready, everything is still answered, each time for the last
    time on its connection."""


class Lifecycle:
    """The stage of the process, and a way to wait for its end."""

    def __init__(self) -> None:
        self.stage = Stage.SERVING
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """The process was asked to end."""
        self.stage = Stage.LEAVING
        self._leaving.set()

    async def wait_until_leaving(self) -> None:
        """Return once the process was asked to end."""
        await self._leaving.wait()


class WatchLimit:
    """Counts the watches of each user."""

    def __init__(self, per_user_max: int = WATCHES_PER_USER_MAX) -> None:
        self._max = per_user_max
        self._held: Counter[str] = Counter()

    @contextmanager
    def hold(self, user: str) -> Iterator[None]:
        """One more watch of this user, until the block is left.

        Raises:
            TooManyRequests: it has as many as it may.
        """
        if self._held[user] >= self._max:
            raise TooManyRequests(
                f"user has {self._max} watches here, which is the most that one may have",
                retry_after=WATCH_RETRY_SECONDS,
            )
        self._held[user] += 1
        try:
            yield
        finally:
            self._held[user] -= 1
            if not self._held[user]:
                del self._held[user]


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as `30s`, `1m30s` or `1.5h`.

    Raises:
        BadRequest: it is none.
    """
    # Anybody can send one, known or not: length first, since the pattern is slow on long digits.
    if len(text) > _DURATION_LENGTH_MAX:
        raise BadRequest(
            f"timeout={text[:_DURATION_LENGTH_MAX]!r}… is no duration such as 30s or 1m30s: "
            f"{len(text)} characters, of which at most {_DURATION_LENGTH_MAX} are read"
        )
    sign = -1.0 if text[:1] == "-" else 1.0
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0.0
    parts = _DURATION.findall(rest)
    if not parts or "".join(parts) != rest:
        raise BadRequest(f"timeout={text!r} is no duration such as 30s or 1m30s")
    seconds = 0.0
    for part in parts:
        number = part.rstrip("nuµμmsh")
        seconds += float(number) * _UNIT_SECONDS[part[len(number) :]]
    return sign * seconds


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Middleware = Callable[..., Awaitable[web.StreamResponse]]


def deadline(seconds_max: float = DEADLINE_SECONDS) -> Middleware:
    """The middleware: `?timeout=` shortens the deadline; a watch has its own end.

    Answers 504 when the time is over.
    """

    @web.middleware
    async def limit(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request[INFO].verb == "watch":
            return await handler(request)
        seconds = seconds_max
        if asked := request.query.get("timeout"):
            wanted = parse_duration(asked)
            if 0 < wanted < seconds_max:
                seconds = wanted
        try:
            async with asyncio.timeout(seconds):
                return await handler(request)
        except TimeoutError:
            raise TimedOut(
                "Timeout: request did not complete within the allotted timeout"
            ) from None

    return limit


def closing(lifecycle: Lifecycle) -> Middleware:
    """The middleware: once the process was asked to end, each answer closes its connection.

    HTTP/1.1 has no other way to send a client that keeps connections to the other replica.
    """

    @web.middleware
    async def close(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if lifecycle.stage >= Stage.LEAVING and not response.prepared:
            response.force_close()
        return response

    return close


FREE_OF_TRUST: Final = ("/healthz", "/livez", "/readyz", "/metrics")
"""Paths that are answered before anybody can be believed."""


def readiness(trust: TrustSource) -> Middleware:
    """The middleware: 503 until the front proxy's authority is known.

    An answer of 404 or an empty list in that time would be remembered by kube-apiserver (the
    OpenAPI index for ever). The connection is closed, since it was made without asking for a
    certificate and can therefore never be a front proxy's.
    """

    @web.middleware
    async def wait(request: web.Request, handler: Handler) -> web.StreamResponse:
        if trust.current.front_proxy is not None or request.path.startswith(FREE_OF_TRUST):
            return await handler(request)
        raise Unavailable(f"not ready: request-header authority: {trust.problem}")

    return wait
