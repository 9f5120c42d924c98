"""Who may call webhooks, and what callers may take: whoever reaches the port may be one."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import aiohttp
import orjson
import pytest
from prometheus_client import CollectorRegistry

from admission.inputs import (
    ClassInputs,
    ClassNeeds,
    FinalInputs,
    OrderInputs,
    OrderNeeds,
    PodInputs,
    PodNeeds,
    VmiInputs,
    VmiNeeds,
)
from admission.routes import ASIDE_FROM_BYTES, Figures, Limits, Webhooks
from shared import vocabulary as words
from tests.api.pki import Issued, authority, now
from tests.api.served import HOST, Served, options_of
from tests.cluster.waiting import wait_until

LIMITS = Limits(at_once=2, large_at_once=1, body_seconds=1.0)


@dataclass
class Slow:
    """Reads nothing, and that not before its gate is open."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    reading: int = 0

    async def for_class(self, needs: ClassNeeds) -> ClassInputs:
        del needs
        self.reading += 1
        await self.gate.wait()
        return ClassInputs()

    async def for_vmi(self, namespace: str, needs: Callable[[], VmiNeeds]) -> VmiInputs:
        raise AssertionError(namespace, needs)

    async def for_final(self) -> FinalInputs:
        raise AssertionError

    async def for_pod(self, needs: PodNeeds) -> PodInputs:
        raise AssertionError(needs)

    async def for_order(self, needs: OrderNeeds) -> OrderInputs:
        raise AssertionError(needs)


def review(notes: int = 0) -> bytes:
    """A class, with so many bytes of notes."""
    spec = {"resourceName": "nvidia.com/X"}
    obj = {"metadata": {"name": "x", "annotations": {"notes": "x" * notes}}, "spec": spec}
    request = {
        "uid": "review-1",
        "kind": {"group": words.GROUP, "version": "v1alpha1", "kind": words.KIND_CLASS},
        "operation": "CREATE",
        "name": "x",
        "userInfo": {"username": "somebody"},
        "object": obj,
    }
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return orjson.dumps({**kind, "request": request})


@dataclass
class Hooks:
    """A server with webhooks."""

    served: Served
    reader: Slow

    async def call(self, body: bytes, shown: Issued | None = None) -> int:
        """Call one; the status, with -1 where no connection came about."""
        connector = aiohttp.TCPConnector(ssl=self.served.client_context(shown))
        async with aiohttp.ClientSession(connector=connector) as session:
            url = str(self.served.url) + words.WEBHOOK_CLASSES
            try:
                sent = session.post(
                    url,
                    data=io.BytesIO(body),
                    headers={"Content-Type": "application/json"},
                    server_hostname=HOST,
                )
                async with sent as answer:
                    return answer.status
            except aiohttp.ClientError:
                return -1

    async def until_reading(self, count: int) -> None:
        """Wait until so many reviews got to their reads."""

        async def reached() -> bool:
            return self.reader.reading == count

        await wait_until(reached, f"{count} reviews are read for")


@asynccontextmanager
async def hooks(folder: Path, *callers: str) -> AsyncIterator[Hooks]:
    """Serve webhooks."""
    served, reader = Served(folder), Slow()
    figures = Figures("test", CollectorRegistry())
    webhooks = Webhooks(reader, figures, monotonic=monotonic, limits=LIMITS)
    served.admission = webhooks.routes()
    served.webhook_callers = set(callers)
    async with served:
        served.believe()
        yield Hooks(served, reader)


async def test_unless_told_otherwise_whoever_reaches_the_port_is_answered(tmp_path: Path) -> None:
    """As API servers call webhooks: without a certificate."""
    async with hooks(tmp_path) as served:
        served.reader.gate.set()
        assert await served.call(review()) == 200


async def test_only_named_certificates_of_the_clusters_authorities_call_once_there_are_names(
    tmp_path: Path,
) -> None:
    async with hooks(tmp_path, "apiserver", "front-proxy-client") as served:
        served.reader.gate.set()
        users, front = served.served.keys.users, served.served.keys.front
        for shown in (users.issue("apiserver", now=now()), front.issue("apiserver", now=now())):
            assert await served.call(review(), shown) == 200
        assert await served.call(review(), served.served.keys.proxy) == 200
        for other in (None, users.issue("alice", now=now()), users.issue("", now=now())):
            assert await served.call(review(), other) == 401
        stranger = authority("client-ca", now=now()).issue("apiserver", now=now())
        assert await served.call(review(), stranger) == -1


async def test_a_certificate_for_webhooks_opens_nothing_else(tmp_path: Path) -> None:
    async with hooks(tmp_path, "apiserver") as served:
        shown = served.served.keys.users.issue("apiserver", now=now())
        caller = await served.served.caller(("X-Remote-User", "admin"), shown=shown)
        assert (await caller(options_of("tenant-a"))).status == 403


async def test_reviews_beyond_so_many_wait_for_their_turn_and_are_answered(tmp_path: Path) -> None:
    async with hooks(tmp_path) as served, asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(served.call(review())) for _ in range(5)]
        await served.until_reading(2)
        served.reader.gate.set()
        assert [await each for each in calls] == [200] * 5
        assert served.reader.reading == 5


async def test_large_reviews_wait_for_each_other_and_for_nobody_else(tmp_path: Path) -> None:
    async with hooks(tmp_path) as served, asyncio.TaskGroup() as tasks:
        large = review(notes=2 * ASIDE_FROM_BYTES)
        calls = [tasks.create_task(served.call(large)) for _ in range(3)]
        await served.until_reading(1)
        calls.append(tasks.create_task(served.call(review())))
        await served.until_reading(2)
        served.reader.gate.set()
        assert [await each for each in calls] == [200] * 4


@pytest.mark.parametrize("length", ["Content-Length: 5000000", "Transfer-Encoding: chunked"])
async def test_a_review_that_does_not_arrive_is_not_waited_for(tmp_path: Path, length: str) -> None:
    async with hooks(tmp_path) as served:
        kind = "Content-Type: application/json"
        head = f"POST {words.WEBHOOK_CLASSES} HTTP/1.1\r\nHost: x\r\n{kind}\r\n{length}\r\n\r\n"
        async with served.served.connection() as (reader, writer):
            writer.write(head.encode())
            answer = await reader.readuntil(b'"code":504}')
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert b"GPU admission: no review in 1 s" in answer
