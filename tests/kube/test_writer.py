"""What a real API server answers to writes about objects that are not as they were seen."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.kube.connect import Connection
from shared.kube.outcomes import Done, Missing, Outcome, Refused, Stale
from shared.kube.paths import collection, item
from shared.kube.writer import Writer
from tests.cluster.access import ADMIN
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kube.following import credentials

ADMISSION = "admissionregistration.k8s.io/v1"
OTHER_UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
async def writer(cluster: Cluster) -> AsyncIterator[Writer]:
    """A writer that may do anything."""
    source = credentials(cluster.access, ADMIN)
    async with Connection(source, clock=time.monotonic, user_agent="tests") as connection:
        yield Writer(
            connection, may_write=lambda: True, clock=time.monotonic, chance=random.Random()
        )


def made(outcome: Outcome) -> Any:  # noqa: ANN401 - an object of any kind
    assert isinstance(outcome, Done), outcome
    return outcome.object


async def test_whatever_was_seen_and_is_no_more_so_is_stale_and_changes_nothing(
    writer: Writer, namespace: str
) -> None:
    pods = collection("v1", "pods", namespace)
    path = item("v1", "pods", "gated", namespace)
    gates = [{"name": "example.com/other"}, {"name": "example.com/ours"}]
    spec = {"schedulingGates": gates, "containers": [{"name": "main", "image": "none"}]}
    pod = made(await writer.create(pods, {"metadata": {"name": "gated"}, "spec": spec}))
    version = pod["metadata"]["resourceVersion"]

    def tested(**tests: object) -> list[dict[str, object]]:
        return [
            {"op": "test", "path": f"/{path.replace('__', '/')}", "value": value}
            for path, value in tests.items()
        ] + [{"op": "remove", "path": "/spec/schedulingGates/1"}]

    for outcome in (
        await writer.create(pods, {"metadata": {"name": "gated"}, "spec": spec}),
        await writer.json_patch(path, tested(metadata__uid=OTHER_UID)),
        await writer.json_patch(path, tested(metadata__resourceVersion="1")),
        await writer.json_patch(path, tested(spec__schedulingGates__1__name="example.com/other")),
        await writer.json_patch(path, tested(spec__affinity={})),
        await writer.json_patch(path, tested(spec__schedulingGates__7__name="example.com/ours")),
        await writer.merge_patch(path, {"metadata": {"labels": {"a": "b"}}}, version="1"),
        await writer.delete(path, uid=OTHER_UID),
        await writer.delete(path, version="1"),
    ):
        assert isinstance(outcome, Stale), outcome
    found = await writer.read(path)
    assert found == pod
    done = made(
        await writer.json_patch(
            path,
            tested(
                metadata__uid=pod["metadata"]["uid"],
                metadata__resourceVersion=version,
                spec__schedulingGates__1__name="example.com/ours",
            ),
        )
    )
    assert done["spec"]["schedulingGates"] == gates[:1]
    assert done["metadata"]["resourceVersion"] != version


async def test_what_is_not_there_is_missing(writer: Writer, namespace: str) -> None:
    path = item("v1", "configmaps", "none", namespace)
    elsewhere = collection("v1", "configmaps", "there-is-no-such-namespace")
    assert isinstance(await writer.merge_patch(path, {"data": {}}), Missing)
    assert isinstance(await writer.delete(path), Missing)
    assert isinstance(await writer.json_patch(path, []), Missing)
    assert isinstance(await writer.create(elsewhere, {"metadata": {"name": "a"}}), Missing)
    assert await writer.read(path) is None


async def test_what_breaks_a_rule_is_refused_with_its_causes(
    writer: Writer, namespace: str, cluster: Cluster
) -> None:
    pods = collection("v1", "pods", namespace)
    bad = await writer.create(pods, {"metadata": {"name": "a"}, "spec": {"containers": []}})
    assert isinstance(bad, Refused)
    assert (bad.code, bad.reason, bad.causes) == (422, "Invalid", ("FieldValueRequired",))
    finalizers = {"metadata": {"finalizers": ["example.com/stay"]}}
    stays = {"metadata": {"name": "stays", **finalizers["metadata"]}}
    maps = collection("v1", "configmaps", namespace)
    made(await writer.create(maps, stays))
    await cluster.admin.delete("v1/Namespace", namespace)
    ends = await writer.create(maps, {"metadata": {"name": "late"}})
    assert isinstance(ends, Refused)
    assert ends.causes == ("NamespaceTerminating",)
    path = item("v1", "configmaps", "stays", namespace)
    made(await writer.json_patch(path, [{"op": "remove", "path": "/metadata/finalizers/0"}]))


async def test_a_webhook_that_is_away_refuses_and_leaves_nothing_open(
    writer: Writer, namespace: str
) -> None:
    """Rule 7.3: what nobody carried out need not be waited for."""
    configurations = collection(ADMISSION, "validatingwebhookconfigurations")
    away = {
        "name": "away.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    made(await writer.create(configurations, {"metadata": {"name": namespace}, "webhooks": [away]}))
    maps, numbers = collection("v1", "configmaps", namespace), itertools.count()

    async def refused() -> Refused | None:
        outcome = await writer.create(maps, {"metadata": {"name": f"try-{next(numbers)}"}})
        assert isinstance(outcome, Done | Refused), outcome
        return outcome if isinstance(outcome, Refused) else None

    try:
        found = await wait_until(refused, "the webhook is called")
    finally:
        made(await writer.delete(item(ADMISSION, "validatingwebhookconfigurations", namespace)))
    assert (found.code, found.reason) == (500, "InternalError")
    assert 'failed calling webhook "away.example.com"' in found.message
