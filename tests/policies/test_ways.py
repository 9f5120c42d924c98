"""What the policies need not look at: ways that the API server closes by itself (rule 6.6)."""

from __future__ import annotations

import pytest

from shared import vocabulary as words
from tests.catalog.objects import CLAIM, claim
from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.policies.changes import NO_OWNERS
from tests.policies.force import POLICY
from tests.policies.scene import CLASS, NAMESPACE, POD, SYSTEM, Scene

FORGED: Object = {
    "metadata": {
        "annotations": {words.ANNOTATION_LAUNCHER: "forged"},
        "labels": {words.LABEL_TEMPLATE: "true"},
        "finalizers": [words.FINALIZER_CLAIM],
    }
}


def seen(found: Object) -> tuple[object, ...]:
    metadata = found["metadata"]
    return tuple(metadata.get(key) for key in ("annotations", "labels", "finalizers"))


@pytest.mark.parametrize(
    ("kind", "name", "subresource"),
    [
        (POD, "plain", "resize"),
        (POD, "plain", "ephemeralcontainers"),
        (CLAIM, "new", "status"),
        (CLASS, "free", "status"),
        (SYSTEM, words.SYSTEM_NAME, "status"),
    ],
)
async def test_these_leave_metadata_alone_whoever_writes(
    cluster: Cluster, scene: Scene, kind: str, name: str, subresource: str
) -> None:
    """As the one whom no policy keeps from anything."""
    del scene
    before = await cluster.admin.get(kind, name, NAMESPACE)
    await cluster.admin.patch(kind, name, FORGED, NAMESPACE, subresource=subresource)
    assert seen(await cluster.admin.get(kind, name, NAMESPACE)) == seen(before)


async def test_a_pod_keeps_its_gates_when_its_status_is_written(
    cluster: Cluster, scene: Scene
) -> None:
    del scene
    patch = {"spec": {"schedulingGates": None}}
    await cluster.admin.patch(POD, "launcher", patch, NAMESPACE, subresource="status")
    found = await cluster.admin.get(POD, "launcher", NAMESPACE)
    assert {"name": words.GATE} in found["spec"]["schedulingGates"]


@pytest.mark.parametrize("subresource", ["status", "resize", "ephemeralcontainers"])
async def test_a_pod_keeps_its_owner_when_a_part_of_it_is_written(
    cluster: Cluster, scene: Scene, subresource: str
) -> None:
    before = await cluster.admin.get(POD, "launcher", NAMESPACE)
    assert scene.vmi["metadata"]["uid"] in str(before["metadata"]["ownerReferences"])
    await cluster.admin.patch(POD, "launcher", NO_OWNERS, NAMESPACE, subresource=subresource)
    after = await cluster.admin.get(POD, "launcher", NAMESPACE)
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


async def test_a_claim_that_is_made_with_a_status_has_none_of_it(
    cluster: Cluster, scene: Scene
) -> None:
    del scene
    forged = claim(NAMESPACE, "forged", "guarded", 1)
    forged["status"] = {"nodeName": "gpu-1", "epoch": 99}
    made = await cluster.admin.create(forged, dryRun="All")
    assert made["status"].keys() == {"conditions"}, "what it says before anybody looked at it"


async def test_the_api_server_finds_no_fault_with_the_policies(
    cluster: Cluster, scene: Scene
) -> None:
    """It checks each expression against the schemas of all kinds that it is about."""
    del scene
    found = [
        policy
        for policy in await cluster.admin.list(POLICY)
        if policy["metadata"]["name"].startswith(words.POLICY_PREFIX)
    ]
    assert len(found) == 10
    assert {str(policy["status"]["typeChecking"]) for policy in found} == {"{}"}
