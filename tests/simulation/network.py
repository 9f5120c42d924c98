"""Between a process and the API server: delays, losses, repetitions, pauses, and the end.

A `Port` is what a process holds: it speaks as `shared.kube.connect.Connection` does. What was sent
arrives whether or not the sender still waits for it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from shared.errors import TimedOut, Unavailable, from_status
from shared.kube.connect import Stalled
from tests.simulation.http import Http, bare_event, bare_list, place_of
from tests.simulation.refusals import Refusal

Raw = dict[str, Any]

NEVER: Final = float("inf")


class Fate(StrEnum):
    """What becomes of a request."""

    GOOD = "good"
    LOST = "lost"
    """Never arrives."""
    UNANSWERED = "unanswered"
    """Arrives; the answer does not."""
    TWICE = "twice"
    """Arrives twice; the second answer is the one that comes back."""
    LATE = "late"
    """Arrives long after the sender gave it up."""
    BEATEN = "beaten"
    """Somebody else writes the object right before."""
    BUSY = "busy"
    """The API server answers 503 and does nothing."""
    PAUSED = "paused"
    """The process is stopped right before it sends, for longer than its lease lasts."""


FAULTS: Final = tuple(fate for fate in Fate if fate is not Fate.GOOD)


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad it is. Times in seconds, chances from 0 to 1.

    Attributes:
        latency: of a request or an answer, between which two.
        lag: of a watch, between which two; drawn for each watch, so that collections pass
            each other.
        write_faults: chance of each write, by fate.
        breaks: chance of each event of a watch that the connection breaks instead.
        expires: chance of each watch that its version is forgotten.
        goes_back: chance of each list that it is of up to half a minute ago. Kubernetes does not
            do so to who asks for no version; a binder has to notice by the version all the same.
        pause: how long a stopped process sleeps.
        until: from when on all is well.
    """

    latency: tuple[float, float] = (0.001, 0.02)
    lag: tuple[float, float] = (0.0, 0.05)
    write_faults: Mapping[Fate, float] = field(default_factory=dict)
    breaks: float = 0.0
    expires: float = 0.0
    goes_back: float = 0.0
    pause: tuple[float, float] = (20.0, 40.0)
    until: float = NEVER

    @property
    def view(self) -> float:
        """The oldest view on which a decision may rest that arrives now, in seconds."""
        return 60.0


@dataclass(frozen=True, slots=True)
class Doom:
    """A process ends at its so many-th write (of a Lease aside), before it arrives or after."""

    write: int
    after: bool


@dataclass(slots=True)
class Process:
    """One process on the network.

    Attributes:
        who: `<account>#<name>`.
        doom: when it ends, if it does.
        fates: of some of its writes, by their number.
        writes: how many writes it has sent, those of Leases aside.
        ended: set when its doom came.
        awake_at: until then it is stopped.
        is_dead: whether it was killed: nothing of it reaches anybody any more.
    """

    who: str
    doom: Doom | None = None
    fates: Mapping[int, Fate] = field(default_factory=dict)
    writes: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    awake_at: float = 0.0
    is_dead: bool = False

    async def awake(self) -> None:
        """Go on once it is not stopped.

        Raises:
            Unavailable: it is dead.
        """
        if self.is_dead:
            raise Unavailable("this process was killed")
        left = self.awake_at - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that arrived, and how it was answered."""

    at: float
    who: str
    method: str
    path: str
    code: int


@dataclass(slots=True)
class Network:
    """All connections to one API server.

    Attributes:
        weather: may be changed while it runs.
        told: gets each request that arrived.
    """

    http: Http
    chance: random.Random
    weather: Weather
    told: Callable[[Exchange], None]

    def port(self, process: Process) -> Port:
        """The connection of a process."""
        return Port(self, process)

    def now(self) -> float:
        """Virtual seconds."""
        return self.http.api.store.clock()

    def is_calm(self) -> bool:
        """Whether nothing goes wrong any more."""
        return self.now() >= self.weather.until

    def latency(self) -> float:
        """Of one way."""
        return self.chance.uniform(*self.weather.latency)

    def fate(self) -> Fate:
        """Of a write."""
        if self.is_calm():
            return Fate.GOOD
        drawn = self.chance.random()
        for fate, share in self.weather.write_faults.items():
            drawn -= share
            if drawn < 0:
                return fate
        return Fate.GOOD

    def arrive(self, request: Request) -> tuple[int, bytes]:
        """A request reaches the API server."""
        code, answer = self.http.answer(
            request.who, request.method, request.path, request.query, request.body, request.form
        )
        self.told(Exchange(self.now(), request.who, request.method, request.path, code))
        return code, answer


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    who: str
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    form: str


@dataclass(frozen=True, slots=True)
class Port:
    """What a process holds of the network."""

    network: Network
    process: Process

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
        """As `Connection.request`."""
        data = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        form = (headers or {}).get("Content-Type", "application/json")
        request = Request(self.process.who, method, path, dict(params or {}), data, form)
        await self.process.awake()
        try:
            async with asyncio.timeout(timeout_seconds):
                code, answer = await self._sent(request, timeout_seconds)
        except TimeoutError:
            await self.process.awake()  # who is stopped does not notice before
            raise TimedOut(f"{method} {path}: nothing came back") from None
        await self.process.awake()
        if code >= 400:
            raise from_status(code, _status(answer))
        return bare_list(answer) if _wants_metadata(headers) else answer

    async def _sent(self, request: Request, patience: float) -> tuple[int, bytes]:
        network, process = self.network, self.process
        loop = asyncio.get_running_loop()
        back: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        if request.method == "GET":
            loop.call_later(network.latency(), self._arrives, request, back, 1)
            return self._aged(request, await back)
        counts = "/leases" not in request.path
        process.writes += counts
        doom = process.doom
        if counts and doom is not None and doom.write == process.writes:
            if doom.after:
                loop.call_later(network.latency(), self._arrives, request, back, 1)
                await back
            process.ended.set()
            await asyncio.Event().wait()
        given = process.fates.get(process.writes) if counts else None
        match given or network.fate():
            case Fate.GOOD:
                loop.call_later(network.latency(), self._arrives, request, back, 1)
            case Fate.LOST:
                pass
            case Fate.UNANSWERED:
                loop.call_later(network.latency(), self._arrives, request, None, 1)
            case Fate.TWICE:
                loop.call_later(network.latency(), self._arrives, request, back, 2)
            case Fate.LATE:
                late = patience + network.chance.uniform(0, patience)
                loop.call_later(late, self._arrives, request, None, 1)
            case Fate.BEATEN:
                beat(network.http, request)
                loop.call_later(network.latency(), self._arrives, request, back, 1)
            case Fate.BUSY:
                raise Unavailable(f"{request.method} {request.path}: try again")
            case Fate.PAUSED:
                process.awake_at = loop.time() + network.chance.uniform(*network.weather.pause)
                wakes = process.awake_at - loop.time() + network.latency()
                loop.call_later(wakes, self._arrives, request, back, 1)
        return await back

    def _arrives(
        self, request: Request, back: asyncio.Future[tuple[int, bytes]] | None, times: int
    ) -> None:
        answer = (0, b"")
        for _ in range(times):
            answer = self.network.arrive(request)
        if back is not None and not back.done():
            loop = asyncio.get_running_loop()
            loop.call_later(self.network.latency(), _settle, back, answer)

    def _aged(self, request: Request, answer: tuple[int, bytes]) -> tuple[int, bytes]:
        """Sometimes a list is of some time ago: an API server that lags answers."""
        network = self.network
        place = place_of(request.path)
        if place is None or place.name or "continue" in request.query or answer[0] != 200:
            return answer
        if network.is_calm() or network.chance.random() >= network.weather.goes_back:
            return answer
        return 200, orjson.dumps(network.http.past(place, network.chance.uniform(0, 30)))

    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        idle_seconds: float,
    ) -> AsyncGenerator[bytes, None]:
        """As `Connection.stream`."""
        is_bare = _wants_metadata(headers)
        network, loop = self.network, asyncio.get_running_loop()
        await self.process.awake()
        lag = network.chance.uniform(*network.weather.lag)
        place = place_of(path)
        if place and not network.is_calm() and network.chance.random() < network.weather.expires:
            network.http.api.store.forget(place.kind)
        due = loop.time()
        try:
            async with aclosing(network.http.watch(path, params)) as events:
                async for told in events:
                    if not network.is_calm():
                        due = max(due, told.at + lag)
                        if due > loop.time():
                            await asyncio.sleep(due - loop.time())
                        if network.chance.random() < network.weather.breaks:
                            if network.chance.random() < 0.2:
                                await asyncio.sleep(idle_seconds)
                                raise Stalled(f"WATCH {path}: nothing came any more")
                            raise Unavailable(f"WATCH {path}: the connection broke")
                    await self.process.awake()
                    yield bare_event(told.line) if is_bare else told.line
        except Refusal as refusal:
            raise from_status(refusal.code, refusal.status) from None


def _wants_metadata(headers: Mapping[str, str] | None) -> bool:
    return "as=PartialObjectMetadata" in (headers or {}).get("Accept", "")


def beat(http: Http, request: Request) -> None:
    """Write an object right before somebody else does, so that his version of it is old."""
    place = place_of(request.path)
    if place is None or not place.name:
        return
    found = http.api.store.get(place.kind, place.key)
    if found is not None:
        turn = found["metadata"]["resourceVersion"]
        label = {"metadata": {"labels": {"somebody.io/was-here": turn}}}
        http.api.merge(place.kind, place.key, label, "admin")


def _settle(back: asyncio.Future[tuple[int, bytes]], answer: tuple[int, bytes]) -> None:
    if not back.done():
        back.set_result(answer)


def _status(answer: bytes) -> object:
    try:
        status: object = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return None
    return status
