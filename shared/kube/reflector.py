"""One collection followed: listed, then watched, for as long as the process lives.

What goes wrong on the way (a broken connection, a version that expired, a kind that is not there)
is handled here: the values that the sink got are at every moment those of some recent state of
the API server, and after a gap the difference is delivered, the deleted included. How recent, and
why not more, can be asked.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

import orjson
import structlog

from shared.core.model import Key
from shared.errors import (
    ApiError,
    Expired,
    Forbidden,
    NotFound,
    TimedOut,
    Unavailable,
    from_status,
)
from shared.fields import Json, elements, mapping, mappings, text, version_of, whole
from shared.kube.collections import Collection
from shared.kube.connect import Stalled
from shared.kube.garbage import paused
from shared.kube.kept import Kept, Sink
from shared.kube.pace import BRISK, Pace, backoff

logger: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

T = TypeVar("T")

_BREATH: Final = 20
_SHORT_WATCH_SECONDS: Final = 1.0
_GAP_SECONDS_MAX: Final = 300.0
_REFUSALS_MIN: Final = 3


class Reading(Protocol):
    """The part of a connection that a reflector needs."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """As `Connection.request`."""
        ...

    def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        idle_seconds: float,
    ) -> AsyncGenerator[bytes, None]:
        """As `Connection.stream`."""
        ...


class Standing(StrEnum):
    """How a collection stands."""

    STARTING = "Starting"
    """Not listed yet."""
    SYNCED = "Synced"
    """Listed, and followed since; perhaps with a gap that is being closed."""
    ABSENT = "Absent"
    """The kind is not served: the collection is empty, and known to be."""
    UNREADABLE = "Unreadable"
    """We may not read it. What was read before may be out of date."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a collection stands, for health checks, metrics and people.

    Attributes:
        age: seconds since the values were last proven to be those of the API server: by a list,
            an event, a bookmark, a watch that the server ended when its time was up, or the
            answer that the kind is not served. Infinite before.
        problems: of objects that could not be read, or not wholly, by namespace and name.
        trouble: the last fault, empty while all is well.
    """

    name: str
    standing: Standing
    age: float
    objects: int
    lists: int
    watches: int
    problems: Mapping[Key, str]
    trouble: str


class Reflector(Generic[T]):
    """Follows one collection into a sink. Run it once."""

    def __init__(
        self,
        collection: Collection[T],
        connection: Reading,
        sink: Sink[T],
        *,
        clock: Callable[[], float],
        chance: random.Random,
        pace: Pace = BRISK,
        on_standing: Callable[[], None] = lambda: None,
    ) -> None:
        self._collection = collection
        self._connection = connection
        self._clock = clock
        self._chance = chance
        self._pace = pace
        self._on_standing = on_standing
        self._kept = Kept(collection, sink)
        self._version = ""
        self._standing = Standing.STARTING
        self._fresh_at = float("-inf")
        self._failures = 0
        self._refusals = 0
        self._lacks_watch = False
        self._expiries = 0
        self._is_doubtful = False
        self._is_paged = True
        self._lists = 0
        self._watches = 0
        self._trouble = ""
        self._asked: list[asyncio.Event] = []
        self._nudge = asyncio.Event()
        self._watching: asyncio.Timeout | None = None

    @property
    def name(self) -> str:
        """The collection's."""
        return self._collection.name

    @property
    def standing(self) -> Standing:
        """How the collection stands."""
        return self._standing

    @property
    def is_synced(self) -> bool:
        """Whether the sink has the whole collection, or knows that there is none."""
        return self._standing in {Standing.SYNCED, Standing.ABSENT}

    def age(self, now: float) -> float:
        """Seconds since the values were last proven fresh, on the clock given."""
        return now - self._fresh_at

    def report(self, now: float) -> Report:
        """How the collection stands."""
        return Report(
            self.name,
            self._standing,
            self.age(now),
            len(self._kept),
            self._lists,
            self._watches,
            self._kept.problems(),
            self._trouble,
        )

    def wrote(self, raw: Json) -> None:
        """Take in an object as the API server answered a write of ours, or a read past its cache.

        Until the watch has come that far, what it tells of the object is older and is passed over.
        """
        self._kept.wrote(raw, self._version)

    async def reread(self) -> None:
        """List anew, and return once the sink has what a list that began after this call says.

        Also once it stands that there is nothing to read, or that we may not.
        """
        done = asyncio.Event()
        self._asked.append(done)
        self._nudge.set()
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(asyncio.get_running_loop().time())
        await done.wait()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                if self._version and self._is_doubtful and not self._asked:
                    await self._verify()
                if not self._version or self._asked:
                    await self._list()
                await self._watch()
            except NotFound as error:
                self._forget()
                await self._pause(error, self._pace.absent)
            except Forbidden as error:
                await self._pause(error, self._refused(error))
            except Expired as error:
                self._version = ""
                self._expiries += 1
                # At once the first time. A server that expires what it has just listed is ailing.
                await self._pause(error, self._backoff(error) if self._expiries > 1 else 0.0)
            except ApiError as error:
                await self._pause(error, self._backoff(error))

    async def _verify(self) -> None:
        """After a gap, find out whether the server still is in the future of our version.

        Where etcd was restored from a backup it is not, and a watch from our version would wait,
        silently, until the server has written as much again (seen on 1.36). Versions of one
        server can be compared (KEP-5504). After a long gap they say nothing: list anew.
        """
        page = self._page(await self._body({**self._collection.params, "limit": "1"}))
        now = version_of(page)
        is_comparable = now.isdecimal() and self._version.isdecimal()
        gap = self._clock() - self._fresh_at
        if gap > _GAP_SECONDS_MAX or not is_comparable or int(now) < int(self._version):
            self._version = ""
        self._is_doubtful = False

    async def _list(self) -> None:
        """Read the whole collection and deliver what changed since the last time."""
        began = self._clock()
        asked, self._asked = self._asked, []
        try:
            await self._list_whole(began)
        except NotFound:
            self._forget()  # which is known now, too
            _set(asked)
            raise
        except BaseException:
            self._asked = asked + self._asked
            raise
        _set(asked)

    def _give_up(self) -> None:
        """Nobody waits for a list that may not be read: that it may not be is known."""
        asked, self._asked = self._asked, []
        _set(asked)

    async def _list_whole(self, began: float) -> None:
        self._lists += 1
        self._kept.begin_list()
        seen: set[Key] = set()
        params = dict(self._collection.params)
        if self._is_paged:
            params["limit"] = str(self._collection.page_size)
        # A list that expires between two pages is too large for the pace of this server.
        self._is_paged = True
        while True:
            body = await self._body(params)
            with paused():
                page = self._page(body)
                items = elements(page.get("items"))
                items.reverse()
                while items:  # each is let go once it is read
                    for raw in mappings([items.pop()]):
                        seen.add(self._kept.listed(raw))
                    if len(items) % _BREATH == 0:
                        await asyncio.sleep(0)
            metadata = mapping(page.get("metadata"))
            if not text(metadata.get("continue")):
                break
            params["continue"] = text(metadata.get("continue"))
        version = version_of(page)
        self._kept.end_list(seen, version)
        self._version = version
        self._fresh_at = began
        if not self._lacks_watch:
            self._refusals = 0
            self._stand(Standing.SYNCED)

    async def _body(self, params: Mapping[str, str]) -> bytes:
        try:
            return await self._connection.request(
                "GET",
                self._collection.path,
                params=params,
                headers=self._accept("PartialObjectMetadataList"),
                timeout_seconds=self._pace.page,
            )
        except Expired:
            self._is_paged = False
            raise
        except Forbidden:
            self._lacks_watch = False  # it lacks more than that
            raise

    def _accept(self, kind: str) -> Mapping[str, str]:
        if not self._collection.metadata_only:
            return {}
        return {"Accept": f"application/json;as={kind};g=meta.k8s.io;v=v1"}

    def _page(self, body: bytes) -> Json:
        try:
            page = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Unavailable(f"{self._collection.path}: a list that is not JSON") from error
        if not elements(mapping(page).get("items")) and "metadata" not in mapping(page):
            raise Unavailable(f"{self._collection.path}: an answer that is not a list")
        return mapping(page)

    async def _watch(self) -> None:
        """Take in events from the last version on, until the server ends the watch."""
        self._nudge.clear()
        if self._asked:
            return
        seconds = self._chance.randint(*self._pace.watch)
        params = {
            **self._collection.params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        began = self._clock()
        self._watches += 1
        self._is_doubtful = True
        is_silent = True
        stream = self._connection.stream(
            self._collection.path,
            params,
            headers=self._accept("PartialObjectMetadata"),
            idle_seconds=self._pace.stall,
        )
        try:
            async with asyncio.timeout(seconds + self._pace.overtime) as self._watching:
                async with aclosing(stream) as lines:
                    async for line in lines:
                        self._event(line)
                        self._recovered()
                        is_silent = False
        except Forbidden:
            self._lacks_watch = True
            raise
        except Stalled:
            # Perhaps nothing happened, perhaps nobody is there any more: asking anew tells.
            return
        except TimeoutError as error:
            if self._asked:
                return
            raise TimedOut(f"{self._collection.path}: the watch did not end in time") from error
        finally:
            self._watching = None
        lasted = self._clock() - began
        if is_silent and lasted < _SHORT_WATCH_SECONDS:
            raise Unavailable(f"{self._collection.path}: the watch ended at once")
        if lasted > seconds - _SHORT_WATCH_SECONDS:
            # Ended by the server at the time agreed: until then it had no more to tell.
            self._fresh_at = self._clock()
            self._is_doubtful = False
        self._recovered()

    def _event(self, line: bytes) -> None:
        """Take in one event of a watch.

        Raises:
            ApiError: it is an ERROR event, or no event at all.
        """
        try:
            event = mapping(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise Unavailable(f"{self._collection.path}: an event that is not JSON") from error
        raw = mapping(event.get("object"))
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                self._kept.changed(raw)
            case "DELETED":
                self._kept.deleted(raw)
            case "BOOKMARK":
                pass
            case "ERROR":
                code = whole(raw.get("code")) or 500
                raise from_status(code if code >= 400 else 500, raw)
            case other:
                raise Unavailable(f"{self._collection.path}: an event of the type {other!r:.40}")
        version = version_of(raw)
        self._version = version or self._version
        self._kept.reached(version)
        self._fresh_at = self._clock()

    def _forget(self) -> None:
        """The kind is not served: nothing of it exists."""
        self._version = ""
        self._kept.clear()
        self._failures = 0
        self._lacks_watch = False
        self._fresh_at = self._clock()
        self._stand(Standing.ABSENT)

    def _stand(self, standing: Standing) -> None:
        if standing is not self._standing:
            self._standing = standing
            logger.info("collection changed its standing", collection=self.name, standing=standing)
            self._on_standing()

    def _recovered(self) -> None:
        self._failures = self._refusals = self._expiries = 0
        self._trouble = ""
        if self._lacks_watch:
            self._lacks_watch = False
            self._stand(Standing.SYNCED)

    def _refused(self, error: Forbidden) -> float:
        """We may not read this, or nobody may: seconds to wait.

        A kube-apiserver that has just started knows no roles yet and refuses everybody (seen on
        1.36), so it has to say so several times. Who is let in again lists anew: a watch that
        goes on where it ended would not show that the collection can be read. Where only the watch
        is refused a list shows nothing: one that is let in does.
        """
        self._refusals += 1
        if self._refusals < _REFUSALS_MIN:
            return self._backoff(error)
        self._stand(Standing.UNREADABLE)
        if not self._lacks_watch:
            self._version = ""
            self._give_up()
        return self._pace.absent

    def _backoff(self, error: ApiError) -> float:
        self._failures += 1
        pause = backoff(self._failures, self._chance.random())
        return max(pause, float(error.retry_after or 0)) if error.code == 429 else pause

    async def _pause(self, error: ApiError, seconds: float) -> None:
        trouble = f"{type(error).__name__}: {error}"
        is_news, self._trouble = trouble != self._trouble, trouble
        logger.log(
            logging.WARNING if is_news else logging.DEBUG,
            "collection not followed for now",
            collection=self.name,
            standing=self._standing,
            error=trouble,
            hint=_HINTS.get(type(error), ""),
            again_in_seconds=round(seconds, 1),
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nudge.wait()
        self._nudge.clear()


_HINTS: Final[Mapping[type[ApiError], str]] = {
    Forbidden: "grant the verbs list and watch on this resource, see the role of this process",
    NotFound: "the kind is not served; it is followed once it is",
}


def _set(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        event.set()
