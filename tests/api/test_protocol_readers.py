"""Readers that do not read, and more connections than there may be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from apiserver.listener import DRAIN_SECONDS, Connections
from tests.api.served import ALL, PATIENCE_SECONDS, Served, options_of
from tests.api.source import a_class
from tests.cluster.waiting import wait_until

A = options_of("tenant-a")
WATCH = f"{A}?watch=1"
ADMIN = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n"

MANY = 8000
"""Classes whose options are more than the buffers of a connection hold."""


def filled(folder: Path) -> Served:
    """A server with much to tell."""
    served = Served(folder)
    for number in range(MANY):
        served.table.put(a_class(f"class-{number}"))
    return served


BUFFER = 64 * 1024


@asynccontextmanager
async def stalled(served: Served, target: str) -> AsyncIterator[None]:
    """A reader that takes the head of its answer and then reads no more."""
    async with served.connection(served.keys.proxy, buffer=BUFFER) as (reader, writer):
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n".encode())
        await reader.readuntil(b"\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined] # it reads, too
        yield
        writer.transport.abort()


async def until(served: Served, *, connections: int) -> None:
    """Wait until there are so many connections."""

    async def reached() -> bool:
        return served.connections.count == connections

    await wait_until(reached, f"{connections} connections")


@pytest.mark.parametrize("target", [WATCH, A, f"{A}?pretty=1", ALL])
async def test_who_reads_nothing_for_long_is_cut_off_though_nothing_changes(
    tmp_path: Path, target: str
) -> None:
    served = filled(tmp_path)
    served.write_seconds = 0.5
    async with served:
        served.believe()
        async with stalled(served, target):
            assert served.connections.count == 1
            await until(served, connections=0)
        assert served.catalog.watchers == 0


async def test_who_reads_slowly_but_reads_gets_all_of_a_list(tmp_path: Path) -> None:
    served = filled(tmp_path)
    served.write_seconds = 1.0  # less than all of it takes
    async with served:
        served.believe()
        whole = await (await served.admin())(A)
        async with served.connection(served.keys.proxy, buffer=BUFFER) as (reader, writer):
            writer.write(f"GET {A} HTTP/1.1\r\nHost: x\r\n{ADMIN}\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            got = 0
            while got < len(whole.body):
                got += len(await reader.read(64 * 1024))
                await asyncio.sleep(0.01)
        assert got == len(whole.body)


async def test_check_104_readers_that_read_nothing_do_not_hold_up_the_end(tmp_path: Path) -> None:
    async with filled(tmp_path) as served:
        served.believe()
        async with stalled(served, WATCH), stalled(served, WATCH), stalled(served, WATCH):
            assert served.catalog.watchers == 3

            async with asyncio.timeout(DRAIN_SECONDS / 2):
                await served.stop()


@pytest.fixture
async def crowded(tmp_path: Path) -> AsyncIterator[Served]:
    """A server of two connections, and a third for a while, with both of them taken."""
    served = Served(tmp_path)
    served.connections = Connections(2, 3)
    async with served, AsyncExitStack() as held:
        served.believe()
        admin = await served.admin()
        for _ in range(2):
            stream = await held.enter_async_context(admin.watch(WATCH))
            await stream.take(2)
        yield served


async def test_one_connection_too_many_is_answered_once(crowded: Served) -> None:
    """Else the probes of a crowded server failed, and it were started anew for that."""
    admin = await crowded.admin()
    for target in ("/livez", "/readyz", "/apis", A):
        answer = await admin(target)
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
    await until(crowded, connections=2)


async def test_one_connection_too_many_may_not_watch_and_is_told_when_to_come_back(
    crowded: Served,
) -> None:
    answer = await (await crowded.admin())(WATCH)

    assert (answer.status, answer.json["reason"]) == (429, "TooManyRequests")
    assert answer.headers["Retry-After"] == "5"
    assert answer.headers["Connection"] == "close"
    assert "connections" in answer.json["message"]
    assert crowded.catalog.watchers == 2


async def test_beyond_that_a_connection_is_closed_at_once_and_room_made_is_used(
    crowded: Served,
) -> None:
    async with crowded.connection():
        await until(crowded, connections=3)
        with pytest.raises(aiohttp.ClientError):
            await (await crowded.admin())("/livez")
    await until(crowded, connections=2)

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await (await crowded.admin())("/livez")).status == 200
