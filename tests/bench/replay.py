"""A dump of a cluster on disk, and a server that replays it as kube-apiserver would list it.

The server is a process of its own: `python -m tests.bench.replay FOLDER`. The first line that it
prints is its address.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import sys
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from random import Random

import orjson
from aiohttp import web

from shared.core.model import Object
from shared.kube.collections import PLACING
from tests.bench.raw import COLLECTIONS, Renderer
from tests.bench.storm import Step, changes, part
from tests.bench.world import World

SENT = "bench.example/sent"
"""Annotation on what a storm changed: when that was sent, in seconds of the monotonic clock."""

_FIRST_VERSION = 1_000_000
_EVENTS_MAX = 20_000
_EXPIRED = '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}'
_SETTINGS = "/api/v1/namespaces/cozy-gpu/configmaps"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def write_dump(folder: Path, world: World) -> None:
    """Write one file per collection, an object a line."""
    folder.mkdir(parents=True, exist_ok=True)
    render = Renderer(world)
    by_kind: dict[type, list[Object]] = {kind: [] for kind in COLLECTIONS.values()}
    for value in chain(world.objects(), world.placing_only()):
        by_kind[type(value)].append(value)
    for name, kind in COLLECTIONS.items():
        with (folder / f"{name}.jsonl").open("wb") as file:
            file.writelines(render(value) + b"\n" for value in by_kind[kind])


class Dumped:
    """One collection: the objects of a file, and what changed since."""

    def __init__(self, path: Path | None = None) -> None:
        self._data: bytes | mmap.mmap = b""
        if path is not None and path.stat().st_size:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._ends = array("q", _line_ends(self._data))
        self._changed: dict[int, bytes | None] = {}
        self._added: list[bytes | None] = []
        self._events: deque[bytes] = deque(maxlen=_EVENTS_MAX)
        self._news = asyncio.Condition()
        self.version = _FIRST_VERSION
        """One more with each event."""

    def __len__(self) -> int:
        return len(self._ends) + len(self._added)

    def __getitem__(self, index: int) -> bytes | None:
        """The object at a place as it is now, None where it was deleted."""
        if index in self._changed:
            return self._changed[index]
        if index >= len(self._ends):
            return self._added[index - len(self._ends)]
        begin = self._ends[index - 1] + 1 if index else 0
        return self._data[begin : self._ends[index]]

    def page(self, begin: int, limit: int) -> tuple[bytes, int]:
        """Objects from a place on, as the elements of an array, and where to go on (0: ended)."""
        end = min(len(self), begin + limit)
        found = (self[index] for index in range(begin, end))
        return b",".join(raw for raw in found if raw is not None), end if end < len(self) else 0

    async def take(self, step: Step) -> None:
        """Carry out a change and tell everybody who watches."""
        metadata = part(step.raw, "metadata")
        metadata["resourceVersion"] = str(self.version + 1)
        part(metadata, "annotations")[SENT] = repr(time.monotonic())
        encoded = orjson.dumps(step.raw)
        now = None if step.kind == "DELETED" else encoded
        if step.index is None:
            self._added.append(now)
        elif step.index < len(self._ends):
            self._changed[step.index] = now
        else:
            self._added[step.index - len(self._ends)] = now
        async with self._news:
            self._events.append(
                b'{"type":"' + step.kind.encode() + b'","object":' + encoded + b"}\n"
            )
            self.version += 1
            self._news.notify_all()

    async def events(self, version: int) -> bytes:
        """The events after a version; waits until there is one."""
        async with self._news:
            await self._news.wait_for(lambda: self.version > version)
            missed = self.version - version
            if missed > len(self._events):
                raise web.HTTPGone(text=_EXPIRED)
            return b"".join(islice(self._events, len(self._events) - missed, None))


def _line_ends(data: bytes | mmap.mmap) -> Iterator[int]:
    place = data.find(b"\n")
    while place >= 0:
        yield place
        place = data.find(b"\n", place + 1)


def application(dumped: Mapping[str, Dumped]) -> web.Application:
    """The server: lists in pages, watches, and a storm of changes when asked for one."""
    made = web.Application()
    for each in PLACING:
        made.router.add_get(each.path, _collection(dumped[each.name]))
    made.router.add_get(_SETTINGS, _collection(Dumped()))
    made.router.add_post("/storm", _storm(dumped))
    return made


def _collection(dumped: Dumped) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await _watch(request, dumped)
        # All pages are of one version, the first one's: what came later is told by the watch.
        token = request.query.get("continue", f"{dumped.version}.0")
        version, begin = (int(number) for number in token.split("."))
        limit = int(request.query.get("limit", max(1, len(dumped))))
        items, following = dumped.page(begin, limit)
        metadata = {"resourceVersion": str(version)}
        if following:
            metadata["continue"] = f"{version}.{following}"
        head = b'{"metadata":' + orjson.dumps(metadata) + b',"items":['
        return web.Response(body=head + items + b"]}", content_type="application/json")

    return handle


async def _watch(request: web.Request, dumped: Dumped) -> web.StreamResponse:
    version = int(request.query["resourceVersion"])
    response = web.StreamResponse()
    response.content_type = "application/json"
    try:
        await response.prepare(request)
        async with asyncio.timeout(float(request.query["timeoutSeconds"])):
            while True:
                lines = await dumped.events(version)
                version += lines.count(b"\n")
                await response.write(lines)
    except (TimeoutError, ConnectionResetError):
        return response


def _storm(dumped: Mapping[str, Dumped]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        """Change things at a rate for some seconds; answers when that is over."""
        rate, seconds = float(request.query["rate"]), float(request.query["seconds"])
        clock = asyncio.get_running_loop().time
        began = clock()
        sent, late = 0, 0.0
        for step in changes(dumped, Random(int(request.query["seed"]))):
            due = began + sent / rate
            if due > began + seconds:
                break
            if due > clock():
                await asyncio.sleep(due - clock())
            late = max(late, clock() - due)
            await dumped[step.collection].take(step)
            sent += 1
        return web.json_response({"sent": sent, "latest": late, "seconds": clock() - began})

    return handle


async def serve(folder: Path) -> None:
    """Serve a dump until cancelled."""
    dumped = {name: Dumped(folder / f"{name}.jsonl") for name in COLLECTIONS}
    runner = web.AppRunner(application(dumped), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    asyncio.run(serve(parser.parse_args().folder))


if __name__ == "__main__":
    main()
