"""Objects of ours come and go with the policies in force, by Kubernetes' own controllers (6.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared import vocabulary as words
from tests.catalog.objects import CLAIM, claim
from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.policies.collecting import until_collected
from tests.policies.people import BINDER, HELM, KUBEVIRT, MIGHTY, TENANT
from tests.policies.scene import (
    NAMESPACE,
    OURS,
    POD,
    SECRET,
    VMI,
    WORKLOAD,
    Scene,
    owner,
    pod,
    secret,
    vmi,
    workload,
)
from tests.policies.system import no_system

Unique = Callable[[str], str]
REPLICA_SET = "apps/v1/ReplicaSet"


async def until_gone(cluster: Cluster, kind: str, name: str, namespace: str = "") -> None:
    async def gone() -> bool:
        return await cluster.admin.find(kind, name, namespace or None) is None

    await wait_until(gone, f"{kind} {name} is gone")


async def ordered(cluster: Cluster, name: str) -> None:
    """An order with a usage record and a Secret of ours, both owned by it."""
    made = await cluster.api(TENANT).create(claim(NAMESPACE, name, "guarded", 1))
    theirs = {**owner(words.GROUP_VERSION, words.KIND_CLAIM, name, made["metadata"]["uid"])}
    theirs["blockOwnerDeletion"] = True
    binder = cluster.api(BINDER)
    await binder.create(workload(f"gpu-{name}", [theirs], labels=OURS))
    licence = secret(f"of-{name}", OURS)
    licence["metadata"]["ownerReferences"] = [theirs]
    await binder.create(licence)


@pytest.mark.parametrize("how", ["Background", "Foreground"])
async def test_the_records_of_a_claim_go_with_it(
    cluster: Cluster, scene: Scene, unique: Unique, how: str
) -> None:
    del scene
    name = unique("claim")
    await ordered(cluster, name)
    await cluster.api(TENANT).delete(CLAIM, name, NAMESPACE, propagationPolicy=how)
    for kind, gone in ((CLAIM, name), (WORKLOAD, f"gpu-{name}"), (SECRET, f"of-{name}")):
        await until_gone(cluster, kind, gone, NAMESPACE)


async def test_a_claim_that_leaves_its_records_behind_goes_too(
    cluster: Cluster, scene: Scene, unique: Unique
) -> None:
    """The garbage collector takes the owner off them, which nobody else may."""
    del scene
    await until_collected(cluster, workload(unique("probe")))
    name = unique("claim")
    await ordered(cluster, name)
    await cluster.api(TENANT).delete(CLAIM, name, NAMESPACE, propagationPolicy="Orphan")
    await until_gone(cluster, CLAIM, name, NAMESPACE)
    for kind, left in ((WORKLOAD, f"gpu-{name}"), (SECRET, f"of-{name}")):
        found = await cluster.admin.get(kind, left, NAMESPACE)
        assert "ownerReferences" not in found["metadata"]


async def test_a_namespace_with_one_of_each_can_be_deleted(
    cluster: Cluster, scene: Scene, unique: Unique
) -> None:
    name = unique("tenant-ending")
    admin, binder = cluster.admin, cluster.api(BINDER)
    await cluster.create_namespace(name, {words.LABEL_ENTITLEMENT: words.ENTITLED})

    def here(thing: Object, **metadata: object) -> Object:
        thing["metadata"] |= {"namespace": name, **metadata}
        return thing

    await admin.create(here(claim(name, "order", "guarded", 1)))
    held = {"finalizers": [words.FINALIZER_CLAIM]}
    marked = {"labels": {words.LABEL_TEMPLATE: "true"}}
    await binder.create(here(claim(name, "template", "guarded", 1), **held, **marked))
    await binder.create(here(scene.record("gpu-order")))
    await binder.create(here(workload("labelled", labels=OURS)))
    await binder.create(here(secret("gpu-license-guarded", OURS)))
    machine = await admin.create(here(vmi("vm", scene.vmi["metadata"]["annotations"])))
    uid = machine["metadata"]["uid"]
    theirs = owner(words.KUBEVIRT_GROUP_VERSION, words.KIND_VMI, "vm", uid)
    launcher = here(scene.launcher("launcher"), ownerReferences=[theirs])
    launcher["metadata"]["annotations"][words.ANNOTATION_LAUNCHER] = uid
    await cluster.api(KUBEVIRT).create(launcher)

    await cluster.api(MIGHTY).delete("v1/Namespace", name)

    async def only_the_claim_is_left() -> bool:
        left: list[Any] = []
        for kind in (POD, VMI, WORKLOAD, SECRET, CLAIM):
            left += await admin.list(kind, name)
        return [each["metadata"]["name"] for each in left] == ["template"]

    await wait_until(only_the_claim_is_left, "all but what has our finalizer is gone")
    await binder.patch(CLAIM, "template", {"metadata": {"finalizers": None}}, name)
    await until_gone(cluster, "v1/Namespace", name)


async def test_a_namespace_ends_also_without_a_system(
    cluster: Cluster, scene: Scene, unique: Unique
) -> None:
    """Nobody has to write the status of a claim for it to go."""
    name = unique("tenant-ending")
    await cluster.create_namespace(name)
    held = claim(name, "order", "guarded", 1)
    held["metadata"]["finalizers"] = [words.FINALIZER_CLAIM]
    await cluster.admin.create(held)
    async with no_system(cluster, scene):
        await cluster.api(MIGHTY).delete("v1/Namespace", name)
        await cluster.api(HELM).patch(CLAIM, "order", {"metadata": {"finalizers": None}}, name)
        await until_gone(cluster, "v1/Namespace", name)


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        pytest.param({"annotations": {words.ANNOTATION_LAUNCHER: "x"}}, {}, id="with a mark"),
        pytest.param({}, {"schedulingGates": [{"name": words.GATE}]}, id="with our gate"),
    ],
)
async def test_a_template_makes_no_pod_that_poses_as_a_launcher(
    cluster: Cluster, scene: Scene, unique: Unique, metadata: Object, spec: Object
) -> None:
    """Its controller is of a trusted group: it may do more than the tenant who wrote it."""
    del scene
    name = unique("rs")
    labels = {"app": name}
    template = {"metadata": {"labels": labels, **metadata}, "spec": {**pod(name)["spec"], **spec}}
    tenant = cluster.api(TENANT)
    await tenant.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        }
    )

    async def failure() -> str:
        found = await tenant.get(REPLICA_SET, name, NAMESPACE)
        conditions = found.get("status", {}).get("conditions", ())
        return next(
            (each["message"] for each in conditions if each["type"] == "ReplicaFailure"), ""
        )

    message = await wait_until(failure, "its owner is told")
    assert "only pods that KubeVirt makes for a virtual machine with GPUs have" in message
    assert await tenant.list(POD, NAMESPACE, labelSelector=f"app={name}") == []
    await tenant.delete(REPLICA_SET, name, NAMESPACE)
