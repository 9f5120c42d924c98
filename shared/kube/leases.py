"""Leader election on a Lease (coordination.k8s.io/v1): one process of several leads, or none.

`Candidate` decides, and is pure: time comes in as monotonic seconds. `Elector` carries that out.
Three rules make it safe:

- A leader leads until `Times.renew` seconds after it SENT the last write that was accepted. Others
  first see that write later than that, and take the Lease no sooner than `Times.lease` seconds
  after they saw it. So there is a gap, in which what the old leader sent last is given up.
- Nobody's clock is believed. What counts is when a change was seen here, on our clock. The times in
  the Lease are for people; each write must only differ from the last.
- A Lease that is gone, emptied, or given to us by hand does not tell whether its holder noticed.
  One that is changed is waited for; one that is gone is made anew at once, so that its old holder
  notices, and its maker leads only `Times.lease` seconds later. Only a holder that ends says that
  nobody has to wait: it takes away, too, since when it held the Lease, which an edit leaves there.

This excludes two leaders as long as clocks run at about one rate. A process that was stopped
between looking at its clock and sending is beyond it: rule 7.1 has a second fence for that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson
import structlog

from shared.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from shared.fields import NOTHING, Json, mapping, text, version_of, whole
from shared.kube.paths import collection, item
from shared.kube.requests import Requests
from shared.vocabulary import INT32_MAX

logger: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

GROUP_VERSION: Final = "coordination.k8s.io/v1"
RESOURCE: Final = "leases"

RELEASED_SECONDS: Final = 1
"""Duration in a Lease that its holder gave back; client-go writes the same."""

_BELIEVED_SECONDS_MAX: Final = 120
"""Another's lease may be longer than ours, during an upgrade; a longer one is a mistake."""

_SHORTEST_ATTEMPT: Final = 0.001
"""Seconds. No request is answered in less, and a clock need not tell less apart."""


@dataclass(frozen=True, slots=True)
class Times:
    """Durations in seconds.

    Attributes:
        lease: for how long others leave a Lease alone that does not change.
        renew: for how long after sending it a write counts; what the leader sends must have
            been answered or given up `lease - renew` seconds after that.
        retry: between two attempts, lengthened by chance up to a fifth.

    Raises:
        ValueError: they do not leave room for each other.
    """

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease >= 1:
            raise ValueError(f"lease: {self.lease:g} s, expected at least 1 s")
        if not 0 < self.renew < self.lease:
            raise ValueError(
                f"renew: {self.renew:g} s, expected less than the lease of {self.lease:g} s"
            )
        if not 0 < self.retry * 3 <= self.renew:
            raise ValueError(
                f"retry: {self.retry:g} s, expected at most a third of the {self.renew:g} s for "
                "renewing"
            )

    @property
    def attempt(self) -> float:
        """How long one request may take, so that a lost one leaves time for another."""
        return self.renew / 4


@dataclass(frozen=True, slots=True)
class Bid:
    """A Lease to write: to create it where it replaces no version."""

    body: Json
    is_new: bool


class Candidate:
    """What one process knows of the Lease, and what follows.

    Args:
        identity: unique to this process and start, never to a host or name alone.
        name: the Lease's.
        namespace: the Lease's.
        times: our durations.
    """

    def __init__(self, identity: str, name: str, namespace: str, times: Times) -> None:
        self.identity = identity
        self._name = name
        self._namespace = namespace
        self._times = times
        self._raw: Json | None = None
        self._changed_at: float | None = None
        self._leads_from = float("-inf")
        self._leads_until = float("-inf")
        self._is_maker = False
        self._acquired = ""
        self._sent: Json = NOTHING
        self._told = 0
        self.must_read = True
        """Whether the Lease has to be read before anything can be decided."""

    @property
    def leads_until(self) -> float:
        """When leading ends unless it is renewed, monotonic; in the past where it has."""
        return self._leads_until

    def leads(self, now: float) -> bool:
        """Whether this process leads."""
        return self._leads_from <= now < self._leads_until

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as is known; empty for nobody."""
        return text(self._spec.get("holderIdentity"))

    @property
    def _spec(self) -> Json:
        return mapping((self._raw or NOTHING).get("spec"))

    def saw(self, raw: Json | None, now: float) -> None:
        """The Lease was read just now; None where there is none."""
        if self._changed_at is None or _version(raw) != _version(self._raw):
            self._changed_at = now
        self._raw = raw
        self.must_read = False
        if self.holder != self.identity:
            self.resign()

    def bid(self, now: float, wall: float) -> Bid | None:
        """What to write now: to renew, or to take what nobody holds; None where we must wait.

        Args:
            now: monotonic.
            wall: the time for people, POSIX seconds.
        """
        assert self._changed_at is not None, "nothing was read yet"
        # Perhaps the answer was lost, or the term ended by itself: the Lease is as we wrote it.
        is_ours = self.leads(now) or (bool(self._sent) and self._spec == self._sent)
        is_gone = self._raw is None
        if not is_ours and not is_gone and now < self._changed_at + self._left_alone():
            return None
        told = self._told_time(wall)
        if not is_ours:
            self._acquired = told
            self._is_maker = is_gone
        before = whole(self._spec.get("leaseTransitions")) or 0
        self._sent = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.lease)),
            "acquireTime": self._acquired,
            "renewTime": told,
            "leaseTransitions": min(max(before, 0) + (self.holder != self.identity), INT32_MAX),
        }
        return self._writing(self._sent)

    def won(self, raw: Json, sent: float, now: float) -> None:
        """A bid that was sent at that time was accepted."""
        self.saw(raw, now)
        if self.holder != self.identity:
            return
        if self._is_maker:
            # Whoever held the Lease that was deleted led before this was made, not after.
            self._leads_from = now + self._times.lease
            self._is_maker = False
        self._leads_until = sent + self._times.renew

    def doubt(self) -> None:
        """A bid was not accepted, or nobody knows: the Lease has to be read."""
        self.must_read = True

    def resign(self) -> None:
        """Lead no longer, whatever the Lease says."""
        self._leads_until = float("-inf")

    def release(self, now: float, wall: float) -> Bid | None:
        """What to write after all work has ended; None where there is nothing to give back.

        Nor is there where we hold the Lease but were never to lead: it was made anew or given to
        us by hand, and its old holder may not have noticed. Then it has to run out.
        """
        self.resign()
        is_ours = bool(self._sent) and self._spec == self._sent
        if not is_ours or self._is_maker or now < self._leads_from:
            return None
        kept = {name: value for name, value in self._spec.items() if name != "acquireTime"}
        return self._writing(
            {
                **kept,
                "holderIdentity": "",
                "leaseDurationSeconds": RELEASED_SECONDS,
                "renewTime": self._told_time(wall),
            }
        )

    def _told_time(self, wall: float) -> str:
        """Always later than the last one: a clock that stands still must not look like a death."""
        self._told = max(int(wall * 1e6), self._told + 1)
        seconds, micros = divmod(self._told, 1_000_000)
        at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
        return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _left_alone(self) -> float:
        """Seconds for which a Lease that is not ours has to stay as it is before it is taken."""
        seconds = whole(self._spec.get("leaseDurationSeconds")) or 0
        if seconds == RELEASED_SECONDS and not (self.holder or self._spec.get("acquireTime")):
            return 0.0
        return max(self._times.lease, min(seconds, _BELIEVED_SECONDS_MAX))

    def _writing(self, spec: Json) -> Bid:
        if self._raw is None:
            return Bid(
                {
                    "apiVersion": GROUP_VERSION,
                    "kind": "Lease",
                    "metadata": {"name": self._name, "namespace": self._namespace},
                    "spec": spec,
                },
                is_new=True,
            )
        # With the version that was read: of two that bid at once one is refused.
        return Bid({**self._raw, "spec": spec}, is_new=False)


class Lost(Exception):
    """Leading is over: it could not be renewed in time, or somebody else holds the Lease."""


class Elector:
    """Takes part in an election for as long as it runs. Run it once.

    Args:
        connection: to the API server.
        candidate: what it decides with.
        times: the candidate's.
        clock: monotonic seconds, going on while the machine sleeps.
        wall: POSIX seconds, for people.
        chance: spreads attempts over time.
    """

    def __init__(
        self,
        connection: Requests,
        candidate: Candidate,
        times: Times,
        *,
        lease: tuple[str, str],
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self._connection = connection
        self._candidate = candidate
        self._times = times
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._collection = collection(GROUP_VERSION, RESOURCE, lease[0])
        self._path = item(GROUP_VERSION, RESOURCE, lease[1], lease[0])
        self._trouble = ""

    def leads(self) -> bool:
        """Whether this process leads, now. Ask right before every write."""
        return self._candidate.leads(self._clock())

    @property
    def trouble(self) -> str:
        """The last fault, empty while all is well."""
        return self._trouble

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait to lead, then lead, and so on until cancelled; then give the Lease back.

        Args:
            lead: begun once leading; cancelled, and waited for, when leading ends. Where it
                returns by itself, leading ends with it, and may begin anew.
        """
        try:
            while True:
                while not self.leads():
                    await self._round(self._times.attempt)
                    if not self.leads():
                        await self._pause()
                logger.info("leading", identity=self._candidate.identity)
                await self._term(lead)
                self._candidate.resign()
                self._candidate.doubt()
                await self._pause()
        finally:
            await self._release()

    async def _term(self, lead: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew(), name="lease")
                await lead()
                renewing.cancel()
        except* Lost:
            logger.warning("leading no longer", holder=self._candidate.holder, why=self._trouble)

    async def _renew(self) -> None:
        """Keep the Lease.

        Raises:
            Lost: it is not ours any more, or may soon not be.
        """
        while True:
            await self._pause(at_most=self._candidate.leads_until)
            left = self._candidate.leads_until - self._clock()
            if left < _SHORTEST_ATTEMPT:
                raise Lost
            await self._round(min(self._times.attempt, left))
            if not self.leads():
                raise Lost

    async def _round(self, seconds: float) -> None:
        """Read the Lease if need be, and write it if that is for us to do."""
        try:
            async with asyncio.timeout(seconds):
                if self._candidate.must_read:
                    raw = await self._read(seconds)
                    self._candidate.saw(raw, self._clock())
                bid = self._candidate.bid(self._clock(), self._wall())
                if bid is not None:
                    await self._write(bid, seconds)
                else:
                    self._candidate.doubt()
            self._trouble = ""
        except (ApiError, TimeoutError) as error:
            self._candidate.doubt()
            self._troubled(f"{type(error).__name__}: {error}")

    async def _read(self, seconds: float) -> Json | None:
        try:
            return _object(
                await self._connection.request("GET", self._path, timeout_seconds=seconds)
            )
        except NotFound:
            return None

    async def _write(self, bid: Bid, seconds: float) -> None:
        """Send a bid, once: whether it may be sent again is for the next reading to say."""
        sent = self._clock()
        try:
            answer = await self._connection.request(
                "POST" if bid.is_new else "PUT",
                self._collection if bid.is_new else self._path,
                body=bid.body,
                timeout_seconds=seconds,
            )
            self._candidate.won(_object(answer), sent, self._clock())
        except (Conflict, AlreadyExists, NotFound):
            # Somebody wrote in between. Who, the next reading tells, at once where we lead.
            self._candidate.doubt()
            if self.leads():
                self._candidate.saw(await self._read(seconds), self._clock())

    async def _release(self) -> None:
        """Give the Lease back, so that nobody has to wait; as well as that goes."""
        bid = self._candidate.release(self._clock(), self._wall())
        if bid is None or bid.is_new:
            return
        try:
            async with asyncio.timeout(self._times.attempt):
                await self._connection.request(
                    "PUT", self._path, body=bid.body, timeout_seconds=self._times.attempt
                )
            logger.info("lease given back")
        except (ApiError, TimeoutError) as error:
            logger.warning("lease not given back, it will run out", error=str(error))

    async def _pause(self, at_most: float = float("inf")) -> None:
        """Sleep until the next attempt, never past the end of leading."""
        seconds = self._times.retry * (1 + self._chance.random() / 5)
        await asyncio.sleep(max(0.0, min(seconds, at_most - self._clock())))

    def _troubled(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.warning("lease not renewed" if self.leads() else "lease not read", error=trouble)
        self._trouble = trouble


def _version(raw: Json | None) -> object:
    """What changes with every change of an object; None where there is none."""
    return None if raw is None else version_of(raw)


def _object(body: bytes) -> Json:
    """A Lease from the bytes of an answer.

    Raises:
        Unavailable: it is none; a proxy on the way can answer anything.
    """
    try:
        raw = mapping(orjson.loads(body))
    except orjson.JSONDecodeError:
        raw = NOTHING
    if not version_of(raw):
        raise Unavailable("the answer is no Lease")
    return raw
