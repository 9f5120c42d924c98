"""A write that is slow holds up what it is about, and nobody else (rule 7.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import Replica, replicas
from tests.cluster.components import HOST
from tests.cluster.plane import ControlPlane

PATIENT: Final = (
    "--lease-duration=22",
    "--renew-deadline=8",
    "--retry-period=2",
    "--request-timeout=14",
)
"""Flags of a binder that waits longer for an answer than the API server for the webhook."""

WEBHOOK_SECONDS: Final = 12
"""Until the API server goes on without an answer; the test hangs up before that."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A port that takes connections and says nothing, until it hangs up on all.

    Attributes:
        asked: set by the first connection.
        over: set it to have all hung up on, those to come too.
    """

    port: int
    asked: asyncio.Event
    over: asyncio.Event


@asynccontextmanager
async def silence() -> AsyncIterator[Silence]:
    """One, over at the block's end at the latest."""
    asked, over = asyncio.Event(), asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await over.wait()
        writer.close()

    async with await asyncio.start_server(take, HOST, 0) as server:
        try:
            yield Silence(server.sockets[0].getsockname()[1], asked, over)
        finally:
            over.set()


@asynccontextmanager
async def policed(life: Life, port: int) -> AsyncIterator[None]:
    """Somebody's webhook is asked about each change of a pod of that tenant."""
    metadata = {"name": life.unique("slow")}
    made = await life.api.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata,
            "webhooks": [
                {
                    "name": "slow.example.com",
                    "clientConfig": {"url": f"https://{HOST}:{port}/"},
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["UPDATE"],
                            "resources": ["pods"],
                        }
                    ],
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": life.namespace}
                    },
                    "failurePolicy": "Ignore",
                    "sideEffects": "None",
                    "timeoutSeconds": WEBHOOK_SECONDS,
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }
    )
    try:
        yield
    finally:
        kind = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration"
        await life.api.delete(kind, made["metadata"]["name"])


async def test_a_vm_starts_while_the_write_for_another_tenants_vm_waits_for_a_webhook(
    whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]
) -> None:
    slow = await Life.begin(whole, recorder, unique)
    quick = await Life.begin(whole, recorder, unique)
    await slow.node(1)
    node = await quick.node(1)
    async with (
        silence() as webhook,
        policed(slow, webhook.port),
        replicas(whole, unique, PATIENT) as start,
    ):
        leader = await start()
        await leader.until_in_office()
        await slow.machine("train", 1)
        await webhook.asked.wait()
        await quick.machine("train", 1)
        assert await quick.until_running("train") == node
        webhook.over.set()
        await slow.until_running("train")
    assert started(leader) == [quick.namespace, slow.namespace]


def started(leader: Replica) -> list[str]:
    """In whose namespaces it started pods, in the order of the answers."""
    return [
        event["objectRef"]["namespace"]
        for event in leader.requests()
        if event["verb"] == "patch"
        and event["objectRef"]["resource"] == "pods"
        and event["responseStatus"]["code"] == 200
    ]
