"""A process that reads a cluster as ours do, and tells what that cost it, as JSON.

`python -m tests.bench.reading URL [--placing] [--seconds N …]`: reads until synced, lets the server
make a storm if N is more than 0, follows it, and compares what it then has with a state read anew.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import sys
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import orjson
import structlog
import uvloop

from shared.core.cluster import ClusterState, Touched
from shared.core.model import Change, Object
from shared.core.rooms import Rooms
from shared.fields import Json, mapping
from shared.kube.collections import CLUSTER, PLACING, Collection
from shared.kube.connect import Connection
from shared.kube.credentials import Credentials
from shared.kube.decode import Note
from shared.kube.followed import FollowedSettings
from shared.kube.informer import Informer
from shared.kube.pace import BRISK
from tests.bench.figures import Views, figures
from tests.bench.replay import SENT

COALESCE_SECONDS = 0.05
"""How long changes gather before options are read again, as in the catalog."""

PATIENCE_SECONDS = 600.0
"""For all but the storm."""

_TURN_SECONDS = 0.005


def rss() -> float:
    """Resident memory of this process now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def rss_peak() -> float:
    """The most resident memory that this process had, in MiB."""
    # Not getrusage: its figure begins with that of the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def note_hold_ups(found: list[float]) -> None:
    """Note by how many seconds each turn of the loop came late, until cancelled."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(_TURN_SECONDS)
        found.append(time.monotonic() - began - _TURN_SECONDS)


@dataclass(frozen=True, slots=True)
class Plain:
    """A server without TLS and without accounts."""

    server: str

    async def read(self) -> Credentials:
        """The same every time."""
        return Credentials(self.server)


@dataclass(slots=True)
class Follower:
    """A state that follows, and the options that a few tenants look at; or what the binder has."""

    rooms: Rooms | None = None
    """What stands on nodes, where that is followed too."""
    state: ClusterState = field(default_factory=ClusterState)
    views: Views | None = None
    waiting: list[float] = field(default_factory=list)
    """When each change was sent that came in since; those included that change nothing for us."""
    lags: array[float] = field(default_factory=lambda: array("d"))
    touched: list[Touched] = field(default_factory=list)
    read: int = 0
    """How many options were read again."""
    _progress: asyncio.Event = field(default_factory=asyncio.Event)

    def collections(self) -> list[Collection[Object]]:
        """What to follow; each decoding notes when the object was sent."""
        followed = CLUSTER if self.rooms is None else PLACING
        return [replace(each, decode=self._noting(each.decode)) for each in followed]

    def _noting(self, decode: Callable[[Json, Note], Object]) -> Callable[[Json, Note], Object]:
        def noting(raw: Json, note: Note) -> Object:
            sent = mapping(mapping(raw.get("metadata")).get("annotations")).get(SENT)
            if sent is not None and self.views is not None:
                self.waiting.append(float(str(sent)))
            return decode(raw, note)

        return noting

    def change(self, change: Change) -> None:
        """Take in one change."""
        touched = self.state.apply(change)
        if self.rooms is not None:
            self.rooms.apply(change)
        if self.views is not None:
            self.touched.append(touched)

    async def follow(self) -> None:
        """Read again what was touched, in small batches, until cancelled."""
        assert self.views is not None
        while True:
            await asyncio.sleep(COALESCE_SECONDS)
            waiting, self.waiting = self.waiting, []
            touched, self.touched = self.touched, []
            self.read += self.views.refresh(self.state, touched)
            now = time.monotonic()
            self.lags.extend(now - sent for sent in waiting)
            self._progress.set()

    async def has_read(self, count: int) -> None:
        """Return once what so many changes touched was read again."""
        while len(self.lags) < count:
            self._progress.clear()
            await self._progress.wait()


def informer(connection: Connection, follower: Follower) -> Informer:
    """The informer of a process, with settings."""
    made = Informer(
        connection,
        follower.collections(),
        follower.change,
        clock=time.monotonic,
        chance=Random(1),
        pace=BRISK,
    )
    settings = FollowedSettings(follower.change)
    made.follow(settings.collection, settings)
    return made


async def read(
    server: str, storm: Mapping[str, str], watched: int, rooms: Rooms | None
) -> dict[str, object]:
    """Read, follow a storm if there is one, and tell."""
    found: dict[str, object] = {"rss_started": rss()}
    follower = Follower(rooms)
    began, cpu = time.monotonic(), time.process_time()
    async with Connection(Plain(server), clock=time.monotonic, user_agent="bench") as connection:
        following = informer(connection, follower)
        patience = PATIENCE_SECONDS + float(storm["seconds"])
        async with asyncio.timeout(patience), asyncio.TaskGroup() as tasks:
            hold_ups: list[float] = []
            noting = tasks.create_task(note_hold_ups(hold_ups))
            running = tasks.create_task(following.run())
            await following.wait_until_synced()
            noting.cancel()
            hold_ups.sort()
            found |= {
                "hold_up_p99": hold_ups[len(hold_ups) * 99 // 100],
                "hold_up_most": hold_ups[-1],
                "synced_seconds": time.monotonic() - began,
                "synced_cpu_seconds": time.process_time() - cpu,
                "rss_synced": rss(),
            }
            gc.collect()
            found |= {"rss": rss(), "rss_peak": rss_peak(), "objects": _objects(following)}
            if float(storm["seconds"]) > 0:
                found |= await _storm(connection, follower, storm, watched)
                found |= {"is_equal": await _equals(connection, follower)}
            running.cancel()
    return found


def _objects(following: Informer) -> dict[str, int]:
    return {report.name: report.objects for report in following.reports()}


async def _storm(
    connection: Connection, follower: Follower, storm: Mapping[str, str], watched: int
) -> dict[str, object]:
    state = follower.state
    follower.views = Views.of(state, sorted(state.namespaces)[-watched:])
    async with asyncio.TaskGroup() as tasks:
        refreshing = tasks.create_task(follower.follow())
        cpu, began = time.process_time(), time.monotonic()
        body = await connection.request(
            "POST",
            "/storm",
            params=storm,
            timeout_seconds=float(storm["seconds"]) + 60,
        )
        told = orjson.loads(body)
        await follower.has_read(told["sent"])
        seconds = time.monotonic() - began
        refreshing.cancel()
    gc.collect()
    lags = sorted(follower.lags)
    return {
        "sent": told["sent"],
        "sender_latest": told["latest"],
        "lag_median": lags[len(lags) // 2],
        "lag_p99": lags[len(lags) * 99 // 100],
        "lag_most": lags[-1],
        "cpu_share": (time.process_time() - cpu) / seconds,
        "options_read": follower.read,
        "rss_after_storm": rss(),
    }


async def _equals(connection: Connection, follower: Follower) -> bool:
    """Whether the state is that which another one gets that reads everything now."""
    afresh = Follower()
    following = informer(connection, afresh)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(following.run())
        await following.wait_until_synced()
        running.cancel()
    assert follower.views is not None
    is_current = follower.views.options == Views.of(follower.state, follower.views.names).options
    return is_current and figures(follower.state) == figures(afresh.state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("--rate", default="200")
    parser.add_argument("--seconds", default="0")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--watched", type=int, default=50)
    parser.add_argument("--placing", action="store_true", help="read as the binder does")
    given = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    storm = {"rate": given.rate, "seconds": given.seconds, "seed": given.seed}
    rooms = Rooms() if given.placing else None
    found = uvloop.run(read(given.server, storm, given.watched, rooms))
    sys.stdout.write(orjson.dumps(found).decode() + "\n")


if __name__ == "__main__":
    main()
