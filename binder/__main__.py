"""The process that acts: what it is made of, in which order it starts, and how it ends.

Everything real is made here: clocks, chance, sockets, signals. Nothing else reads them.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Final, Protocol

import structlog
import uvloop
from aiohttp import web
from pydantic import Field

from binder import office, system
from binder.actions import Plan, Result, Tell, TellQuota, Work
from binder.agenda import Agenda
from binder.apply import Hand
from binder.classes import disclosed
from binder.loop import Figures, Loop, Superseded
from binder.memory import Memory
from binder.metrics import Metrics, Told
from binder.plan import View, plan
from binder.report import waiting
from binder.underway import UnderWay
from shared.core.cluster import ClusterState
from shared.core.model import Change, Gone, Vmi
from shared.core.sites import Sites
from shared.errors import ApiError
from shared.fields import NOTHING, Json
from shared.kube.collections import PLACING, Collection
from shared.kube.connect import Connection
from shared.kube.credentials import CredentialsError
from shared.kube.followed import FollowedSettings
from shared.kube.informer import Informer
from shared.kube.leases import Candidate, Elector, Times
from shared.kube.reflector import Reading, Standing
from shared.kube.requests import Requests
from shared.kube.source import source
from shared.kube.writer import Writer
from shared.observability import probes
from shared.observability.health import PING, Check
from shared.observability.logs import configure
from shared.settings import BadSettings, ProcessSettings, read
from shared.times import rfc3339
from shared.vocabulary import LEASE_NAME, NAMESPACE, RESOURCE_SYSTEMS

log = structlog.get_logger(__name__)

PROGRAM: Final = "gpu-binder"
DISTRIBUTION: Final = "cozystack-gpu"


class BinderSettings(ProcessSettings):
    """Flags of the binder, or variables such as GPU_HEALTH_PORT."""

    bind_address: str = Field(
        default="::", description="address for health and metrics; :: is every one of both families"
    )
    health_port: int = Field(
        default=8081, ge=1, le=65535, description="port for health and metrics (HTTP)"
    )
    lease_duration: float = Field(
        default=15.0, description="seconds after which a leader that is not heard of is replaced"
    )
    renew_deadline: float = Field(
        default=10.0, description="seconds after which a leader that cannot renew stops"
    )
    retry_period: float = Field(
        default=2.0, description="seconds between two attempts to lead, or to go on leading"
    )
    request_timeout: float = Field(default=5.0, gt=0, description="seconds that one write may take")
    end_deadline: float = Field(
        default=10.0,
        ge=0,
        le=300,
        description="seconds for the writes that are under way at SIGTERM",
    )

    def times(self) -> Times:
        """The times of the election.

        Raises:
            BadSettings: they do not leave room for each other.
        """
        try:
            times = Times(self.lease_duration, self.renew_deadline, self.retry_period)
        except ValueError as error:
            raise BadSettings(
                f"--lease-duration, --renew-deadline, --retry-period: {error}"
            ) from None
        room = times.lease - times.renew
        if self.request_timeout > room:
            # What a leader sent last must be given up before another may lead (rule 7.1).
            raise BadSettings(
                f"--request-timeout: {self.request_timeout:g} s, expected at most {room:g} s, "
                "which is --lease-duration without --renew-deadline"
            )
        return times


class Api(Requests, Reading, Protocol):
    """The part of a connection that the process needs."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is not the process's own.

    Attributes:
        identity: by which it holds the Lease; no other process has the same.
        clock: monotonic seconds that go on while the machine sleeps: a lease does.
        wall: POSIX seconds.
        chance: spreads watches, retries and pauses.
    """

    identity: str
    clock: Callable[[], float]
    wall: Callable[[], float]
    chance: random.Random


class Process:
    """What the process is made of. Made, nothing runs yet; `jobs` is what has to."""

    def __init__(self, settings: BinderSettings, connection: Api, at: Surroundings) -> None:
        self.leaving = asyncio.Event()
        self._connection = connection
        self._clock, self._wall, self._chance = at.clock, at.wall, at.chance
        self._state = ClusterState(Sites())
        self._agenda = Agenda(self._state)
        self._memory = Memory()
        self._loop: Loop | None = None
        self._no_term = ""
        self._figures = Figures()
        self._terms = 0
        self._epoch = 0
        self._refused: frozenset[str] = frozenset()
        self._informer = Informer(
            connection,
            [each for each in PLACING if each.name != RESOURCE_SYSTEMS],
            self._apply,
            clock=self._clock,
            chance=self._chance,
            on_standing=self._judge,
        )
        self._settings = FollowedSettings(self._apply)
        self._informer.follow(FollowedSettings.collection, _Waking(self._settings, self._wake))
        self._system = office.FollowedSystem(self._wake)
        self._informer.follow(
            Collection(RESOURCE_SYSTEMS, office.SYSTEMS, lambda raw, _: raw), self._system
        )
        times = settings.times()
        lease = (NAMESPACE, LEASE_NAME)
        self._elector = Elector(
            connection,
            Candidate(at.identity, LEASE_NAME, NAMESPACE, times),
            times,
            lease=lease,
            clock=self._clock,
            wall=self._wall,
            chance=self._chance,
        )
        self._writer = Writer(
            connection,
            may_write=self._elector.leads,
            clock=self._clock,
            chance=self._chance,
            timeout=settings.request_timeout,
        )
        metrics = Metrics(self._tell, self._informer.reports)
        self.app = web.Application()
        self.app.router.add_get("/metrics", metrics.expose)
        self.app.add_routes(
            probes.routes(
                {
                    "healthz": [PING],
                    "livez": [PING],
                    "readyz": [
                        PING,
                        Check("informer-sync", self._unsynced),
                        Check("lease", lambda: self._elector.trouble),
                        Check("term", lambda: self._no_term),
                        Check("shutdown", lambda: "asked to end" if self.leaving.is_set() else ""),
                    ],
                }
            )
        )

    def jobs(self) -> dict[str, Coroutine[None, None, None]]:
        """What runs until the process ends, by name."""
        return {"informer": self._informer.run(), "lease": self._elector.run(self._lead)}

    async def finish(self) -> None:
        """Let the works that are under way end; begin no pass."""
        if self._loop is not None:
            await self._loop.end()

    async def _lead(self) -> None:
        """One term of office; returns when another has begun."""
        try:
            self._epoch = await office.take(
                self._writer,
                self._connection,
                self._informer.reread,
                self._system,
                wrote=lambda raw: self._informer.wrote(RESOURCE_SYSTEMS, raw),
                chance=self._chance,
                hindered=self._has_no_term,
            )
            self._terms += 1
            self._no_term = ""
            self._memory.forget()  # others may have told more since
            self._agenda.budget_keys.forget()
            self._agenda.note_all()
            hand = Hand(
                self._writer,
                self._epoch,
                wrote=self._informer.wrote,
                told=self._was_told,
                clock=self._clock,
            )

            async def perform(work: Work) -> Result:
                result = await hand.perform(work)
                self._memory.performed(work, result)
                return result

            self._loop = Loop(
                self._decide,
                perform,
                self._check,
                figures=self._figures,
                clock=self._clock,
                chance=self._chance,
            )
            await self._loop.run()
        except Superseded as why:
            log.warning("term over", epoch=self._epoch, why=str(why))
        finally:
            self._loop = None
            self._no_term = ""
            self._memory.forget()

    def _decide(self, held: frozenset[str], under_way: UnderWay) -> Plan:
        """What is to be done now. Where the cluster is not known nothing is decided about it."""
        now = datetime.fromtimestamp(self._wall(), UTC)
        decided = Plan()
        if not self._state.unreadable & system.PLACING_READS:
            decided = self._plan(held, under_way, now)
        report = system.report(
            self._system.raw,
            self._state,
            self._settings.in_force,
            self._settings.problems,
            rfc3339(now),
        )
        return Plan((*decided.works, *(() if report is None else (report,))), decided.wake_in)

    def _plan(self, held: frozenset[str], under_way: UnderWay, now: datetime) -> Plan:
        """What is to be done about sets, claims and classes."""
        return plan(View(self._state, self._agenda, held, under_way, self._memory), now)

    async def _check(self, is_refused: bool) -> None:
        """Find out whether this is still our term.

        Args:
            is_refused: whether a write was refused, so that it has to be asked for.

        Raises:
            Superseded: it is not.
        """
        raw: Json | None = self._system.raw
        if is_refused:
            try:
                raw = await self._writer.read(office.SYSTEM)
            except ApiError as error:
                log.warning("epoch not read", error=f"{type(error).__name__}: {error}")
        epoch = office.epoch_of(raw or NOTHING)
        if epoch != self._epoch:
            raise Superseded(f"the GPUSystem says {epoch}")

    def _apply(self, change: Change) -> None:
        self._agenda.note(change, self._state.apply(change))
        if isinstance(change, Gone) and isinstance(change.object, Vmi):
            self._memory.gone(change.object.uid)
        self._wake()

    def _was_told(self, event: Tell) -> None:
        if isinstance(event, TellQuota):
            self._agenda.budget_keys.told(event)
        elif event.uid in self._state.holders.vmis:
            self._memory.told(event)

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _judge(self) -> None:
        refused = self._informer.unreadable
        if refused != self._refused:
            self._refused = refused
            if refused:
                log.error("rights are missing", may_not_read=sorted(refused))
        if self._state.set_unreadable(refused).everything:
            self._agenda.note_all()
        self._wake()

    def _has_no_term(self, why: str) -> None:
        self._no_term = f"leads, but has no term: {why}"

    def _unsynced(self) -> str:
        """Which collections are not known; those of KubeVirt may be missing (rule 7.15)."""
        return ", ".join(
            f"{report.name}: {report.trouble or report.standing}"
            for report in self._informer.reports()
            if report.standing in {Standing.STARTING, Standing.UNREADABLE}
        )

    def _tell(self) -> Told:
        figures = self._figures
        return Told(
            leads=self._elector.leads(),
            in_term=self._loop is not None and self._elector.leads(),
            terms=self._terms,
            epoch=self._epoch,
            passes=figures.passes,
            seconds=figures.seconds,
            deciding_seconds=figures.deciding_seconds,
            since_pass=self._clock() - figures.last_at,
            held=figures.held,
            under_way=len(figures.under_way),
            oldest=max((self._clock() - each.at for each in figures.under_way.values()), default=0),
            works=figures.works,
            writes=self._writer.counts,
            capacities=disclosed(self._state),
            waiting=waiting(self._state),
            unknown_keys=len(self._agenda.budget_keys),
            starts_refused=self._memory.starts_refused,
        )


class _Waking:
    """The settings, and a pass after each change of the ConfigMap: also one of its mistakes."""

    def __init__(self, followed: FollowedSettings, wake: Callable[[], None]) -> None:
        self._followed = followed
        self._wake = wake

    def put(self, value: Json) -> None:
        self._followed.put(value)
        self._wake()

    def gone(self, value: Json) -> None:
        self._followed.gone(value)
        self._wake()


async def serve(settings: BinderSettings) -> None:
    """Run the process.

    Start: follow the cluster, and wait to lead. End, on SIGTERM: begin no other pass; let the
    writes that are under way end, for so long; give the Lease back; last of all the readers.
    """
    user_agent = f"{PROGRAM}/{metadata.version(DISTRIBUTION)}"
    credentials = source(settings.kubeconfig, settings.context)
    async with (
        Connection(credentials, clock=time.monotonic, user_agent=user_agent) as connection,
        asyncio.TaskGroup() as tasks,
    ):
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        at = Surroundings(identity, _clock, _wall, random.SystemRandom())
        process = Process(settings, connection, at)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.leaving.set)
        async with _listening(process.app, settings.bind_address, settings.health_port):
            jobs = {name: tasks.create_task(job, name=name) for name, job in process.jobs().items()}
            log.info("serving", address=settings.bind_address, port=settings.health_port)
            await process.leaving.wait()
            log.info("ending")
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.end_deadline):
                    await process.finish()
            jobs["lease"].cancel()
            await asyncio.wait([jobs["lease"]])
            jobs["informer"].cancel()
    log.info("ended")


@asynccontextmanager
async def _listening(app: web.Application, address: str, port: int) -> AsyncIterator[None]:
    """Serve health and metrics, in plain HTTP: there is nothing of any tenant in it."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
        yield
    finally:
        await runner.cleanup()


def main() -> None:
    """Read the settings, run, and end as told."""
    try:
        settings = read(BinderSettings, sys.argv[1:])
        settings.times()
        configure(settings.log_level, settings.log_format)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except* (BadSettings, CredentialsError, OSError) as errors:
        sys.exit("\n".join(f"{PROGRAM}: {error}" for error in errors.exceptions))


def _clock() -> float:
    """Monotonic seconds that go on while the machine sleeps: a lease does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _wall() -> float:
    """POSIX seconds."""
    return time.time_ns() / 1e9


if __name__ == "__main__":
    main()
