"""get, list and watch of gpuclassoptions; every other method is refused (rule 5.1).

The handler acts on what authorization saw (`INFO`), never on the path again.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from aiohttp import web

from apiserver import forms
from apiserver.authentication import USER
from apiserver.authorization import INFO
from apiserver.flow import WATCH_RETRY_SECONDS, WatchLimit
from apiserver.forms import Form
from apiserver.listener import Protocol
from apiserver.listoptions import ListOptions, check_name, list_options
from apiserver.negotiation import Accepted, Endpoint, accepted
from apiserver.requestinfo import RequestInfo
from apiserver.responses import PIECE_BYTES, api_response
from apiserver.versions import VERSIONS_PER_SECOND, parse_version
from apiserver.watch import Kind, Subscription
from shared.errors import (
    Expired,
    MethodNotAllowed,
    NotFound,
    Subject,
    TimedOut,
    TooManyRequests,
    Unavailable,
)
from shared.vocabulary import CATALOG_GROUP, CATALOG_GROUP_VERSION, RESOURCE_OPTIONS

if TYPE_CHECKING:
    from apiserver.catalog import Catalog
    from apiserver.entry import Entry

FUTURE_SECONDS_MAX: Final = 3.0
"""How far ahead of us a version may be for us to wait for it; clocks of replicas differ."""

WATCH_SECONDS_MIN: Final = 1800
"""A watch that names no end lasts this long and up to twice as long, so that watches which
began together do not all come back together."""

BOOKMARK_SECONDS: Final = 50.0
"""Pause between bookmarks; clients expect about one a minute."""

LAST_BOOKMARK_SECONDS: Final = 2.0
"""How long before the end of a watch the last bookmark is sent."""

END_SECONDS: Final = 2.0
"""How long a reader may take before it reads on once its watch is to end."""

_BREATH: Final = 1024
"""How many options are held against a selector before others get the loop."""

_READS: Final = ("GET", "HEAD")


class Options:
    """The handlers.

    Args:
        catalog: what is served.
        limit: how many watches a user may have.
        chance: for the length of watches that name none.
        unavailable: why options cannot be served now, empty when they can (rule 5.4).
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        limit: WatchLimit,
        chance: random.Random,
        unavailable: Callable[[], str],
    ) -> None:
        self._catalog = catalog
        self._limit = limit
        self._chance = chance
        self._unavailable = unavailable

    def routes(self) -> list[web.RouteDef]:
        """Every route of the resource, for every method, with and without a slash at the end."""
        base = f"/apis/{CATALOG_GROUP_VERSION}"
        within = f"{base}/namespaces/{{namespace}}/{RESOURCE_OPTIONS}"
        paths = (f"{base}/{RESOURCE_OPTIONS}", within, f"{within}/{{name}}")
        return [web.route("*", path + slash, self.handle) for path in paths for slash in ("", "/")]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer what was authorized: the path is not looked at again.

        A path with an escaped slash can be one thing to the router and another to
        authorization; only the latter counts.
        """
        info = request[INFO]
        if info.resource != RESOURCE_OPTIONS or info.subresource:
            raise NotFound("the server could not find the requested resource")
        if request.method not in _READS:
            raise _not_allowed(info.verb or request.method)
        self._check()
        match info.verb:
            case "list":
                return await self._list(request, info)
            case "watch":
                return await self._watch(request, info)
            case _:
                return await self._get(request, info)

    def _check(self) -> None:
        """Raises Unavailable: options cannot be served now. For whenever others had the loop."""
        if why := self._unavailable():
            raise Unavailable(why)

    async def _get(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        wanted = _accepted(request, Endpoint.OBJECT)
        check_name(info, request.query.get("fieldSelector", ""))
        await self._wait_for(parse_version(request.query.get("resourceVersion", "")))
        self._check()
        entry = self._catalog.option(info.namespace, info.path_name)
        if entry is None:
            raise NotFound.of(Subject(CATALOG_GROUP, RESOURCE_OPTIONS, info.path_name))
        body = forms.one(entry.encoded, wanted.form, entry.version)
        return await api_response(request, body, wanted.media, pretty=wanted.pretty)

    async def _list(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        wanted = _accepted(request, Endpoint.LIST)
        options = list_options(info, request.query)
        if options.exact and options.version:
            raise Expired(
                f"resource version {options.version} is not kept; "
                "only the newest state can be listed"
            )
        await self._wait_for(options.version)
        if info.namespace:
            entries = self._catalog.options(info.namespace)
        else:
            await self._catalog.prepare_all()
            entries = self._catalog.options_of_all()
        self._check()
        version = self._catalog.versions.current()
        encoded = []
        for number, entry in enumerate(entries, start=1):
            if entry.matches(options.selector):
                encoded.append(entry.encoded)
            if number % _BREATH == 0:  # what is listed stays as it was taken
                await asyncio.sleep(0)
        body = forms.many(encoded, wanted.form, version)
        return await api_response(request, body, wanted.media, pretty=wanted.pretty)

    async def _watch(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        if isinstance(request.protocol, Protocol) and request.protocol.is_surplus:
            raise TooManyRequests(
                "this server has as many connections as it may have",
                retry_after=WATCH_RETRY_SECONDS,
            )
        wanted = _accepted(request, Endpoint.WATCH)
        options = list_options(info, request.query)
        await self._wait_for(options.version)
        with self._limit.hold(request[USER].name):
            if not info.namespace:
                await self._catalog.prepare_all()
            self._check()
            subscription = self._catalog.subscribe(
                info.namespace or None,
                options.selector,
                options.version or 0,
                on_overflow=lambda: _abort(request),
            )
            try:
                return await self._stream(request, subscription, wanted.form, options)
            finally:
                self._catalog.unsubscribe(subscription)

    async def _stream(
        self, request: web.Request, subscription: Subscription, form: Form, options: ListOptions
    ) -> web.StreamResponse:
        """Write events until the time is over, the process ends or the client goes.

        Where options cannot be served any more the last event is the error that a list gets:
        whoever watches lists again, and learns from that when they can be.
        """
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        loop = asyncio.get_running_loop()
        seconds = options.seconds or WATCH_SECONDS_MIN * (1 + self._chance.random())
        end = loop.time() + seconds
        bookmarks = Bookmarks(loop.time(), end) if options.bookmarks else None
        lines = Lines(form)
        while not subscription.ended and loop.time() < end:
            until = end if bookmarks is None else min(end, bookmarks.due)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await subscription.wait()
            told = [lines.event(kind, entry) for kind, entry in subscription.take()]
            if bookmarks is not None and loop.time() >= bookmarks.due:
                # Nothing is awaited between taking and this: all up to here has been told.
                told.append(lines.bookmark(self._catalog.versions.current()))
                bookmarks.sent(loop.time())
            # In pieces: TLS swallows one write whole, however slow its reader is.
            lines_told = b"".join(told)
            for at in range(0, len(lines_told), PIECE_BYTES):
                async with self._patience(request, subscription):
                    await response.write(lines_told[at : at + PIECE_BYTES])
        async with self._patience(request, subscription):
            if subscription.failure is not None:
                await response.write(forms.error(subscription.failure.to_status()))
            await response.write_eof()
        return response

    @asynccontextmanager
    async def _patience(
        self, request: web.Request, subscription: Subscription
    ) -> AsyncIterator[None]:
        """Write, but not for long once the watch is to end; else its connection has a limit.

        Raises:
            ConnectionError: the reader did not read; its connection is cut.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(END_SECONDS if subscription.ended else None) as limit:

                def hurry() -> None:
                    if limit.when() is None:
                        limit.reschedule(loop.time() + END_SECONDS)

                subscription.on_end = hurry
                try:
                    yield
                finally:
                    subscription.on_end = None
        except TimeoutError:
            _abort(request)
            raise ConnectionResetError("the reader of a watch does not read") from None

    async def _wait_for(self, version: int | None) -> None:
        """Wait until a version is not ahead of us, if that is soon.

        Raises:
            TimedOut: it lies too far ahead.
        """
        if version is None:
            return
        while version > (current := self._catalog.versions.current()):
            ahead = (version - current) / VERSIONS_PER_SECOND
            if ahead > FUTURE_SECONDS_MAX:
                raise TimedOut.version_too_large(version, current)
            await asyncio.sleep(ahead)


class Bookmarks:
    """When the next bookmark of a watch is due, in the loop's seconds.

    About one a minute, and one shortly before the end, so that whoever comes back continues
    from there.
    """

    def __init__(self, start: float, end: float) -> None:
        self._last = end - min(LAST_BOOKMARK_SECONDS, (end - start) / 2)
        self.due = min(start + BOOKMARK_SECONDS, self._last)

    def sent(self, now: float) -> None:
        """One was sent."""
        self.due = math.inf if now >= self._last else min(now + BOOKMARK_SECONDS, self._last)


class Lines:
    """The lines of one stream."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._first = True

    def event(self, kind: Kind, entry: Entry) -> bytes:
        """A line that tells of an option."""
        first, self._first = self._first, False
        return forms.event(kind.value, entry.encoded, self._form, entry.version, first=first)

    def bookmark(self, version: int) -> bytes:
        """A line that tells how far the stream has come."""
        first, self._first = self._first, False
        return forms.bookmark(self._form, version, first=first)


def _not_allowed(verb: str) -> MethodNotAllowed:
    return MethodNotAllowed(
        f'{verb} is not supported on resources of kind "{RESOURCE_OPTIONS}.{CATALOG_GROUP}"',
        subject=Subject(CATALOG_GROUP, RESOURCE_OPTIONS),
        allowed=_READS,
    )


def _accepted(request: web.Request, endpoint: Endpoint) -> Accepted:
    return accepted(
        request.headers.get("Accept", ""),
        endpoint,
        request.query,
        request.headers.get("User-Agent", ""),
    )


def _abort(request: web.Request) -> None:
    """Cut a connection whose other end does not read; the handler notices when it writes."""
    if request.transport is not None:
        request.transport.abort()
