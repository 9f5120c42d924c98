"""A pod that outlives its VM instance, on the real control plane (rules 3.2, 4.5 and 6.6).

By a tenant with Kubernetes' role `edit`, who may patch pods and delete VM instances. The plane has
KubeVirt's stand-in only at times: it deletes the pods of an instance that goes, and whether it
does so before the garbage collector took them from the instance is chance.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from shared import vocabulary as v
from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import replicas
from tests.binder.truth import claim_names, mark_of, node_of
from tests.catalog.objects import CLAIM, claim, class_key, quota
from tests.cluster.api import Object
from tests.cluster.install import Catalog
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import name_of, phase_of, status_of, uid_of
from tests.kubevirt.standin import kubevirt
from tests.kubevirt.timing import Timing
from tests.policies.changes import FREED
from tests.policies.collecting import until_collected
from tests.policies.people import TENANT, introduce

OPTION = f"{v.CATALOG_GROUP_VERSION}/{v.KIND_OPTION}"


@pytest.fixture
async def life(
    server: Catalog, recorder: Recorder, unique: Callable[[str], str]
) -> AsyncIterator[Life]:
    """A tenant with a budget of six, four units on one node, and a binder that leads."""
    plane = server.plane
    life = await Life.begin(plane, recorder, unique)
    await life.node(4)
    await life.api.create(quota(life.namespace, {class_key(life.class_name): "6"}))
    await introduce(plane.cluster, life.namespace)
    async with replicas(plane, unique) as start:
        leader = await start()
        await leader.until_in_office()
        yield life


def working(life: Life) -> AbstractAsyncContextManager[object]:
    """KubeVirt is there."""
    return kubevirt(life.plane.cluster, timing=Timing(speed=20))


async def make(life: Life, name: str) -> None:
    """The tenant makes an instance with four units, of no machine: nothing starts it again."""
    entries = [{"className": life.class_name, "count": 4}]
    await life.plane.cluster.api(TENANT).create(
        {
            "apiVersion": w.API_VERSION,
            "kind": v.KIND_VMI,
            "metadata": {
                "name": name,
                "namespace": life.namespace,
                "annotations": {v.ANNOTATION_CLASSES: json.dumps(entries)},
            },
            "spec": {"domain": {"devices": {}}},
        }
    )


async def pod_of(life: Life, vmi: Object) -> Object:
    (found,) = [p for p in await life.api.list(w.POD, life.namespace) if mark_of(p) == uid_of(vmi)]
    return found


async def used(life: Life) -> int:
    option = await life.api.get(OPTION, life.class_name, life.namespace)
    return int(status_of(option)["budget"]["used"])


async def until_used(life: Life, units: int) -> None:
    async def so_many() -> bool:
        return await used(life) == units

    await wait_until(so_many, f"{units} units are used")


async def until_gone(life: Life, kind: str, name: str) -> None:
    async def gone() -> bool:
        return await life.api.find(kind, name, life.namespace) is None

    await wait_until(gone, f"{name} is gone")


async def until_freed(life: Life, kind: str, name: str) -> None:
    async def freed() -> bool:
        found = await life.api.get(kind, name, life.namespace)
        return "ownerReferences" not in found["metadata"]

    await wait_until(freed, f"{name} has no owner")


async def stays(life: Life, vmi: Object, pod: Object, node: str) -> None:
    """The instance is gone; the pod it left keeps claim and budget until it ends."""
    tenant, (its,) = life.plane.cluster.api(TENANT), claim_names(vmi)
    await until_gone(life, w.VMI, "esc")
    assert phase_of(await life.api.get(w.POD, name_of(pod), life.namespace)) == "Running"
    # What the binder says of one that comes after that rests on what is left.
    await make(life, "next")
    assert await life.until_waiting("next") == "BudgetExceeded"
    assert node_of(await life.api.get(CLAIM, its, life.namespace)) == node
    await until_used(life, 8)  # what waits counts as well
    await life.until_stock(bound=4, outside=0, free=0)

    await tenant.delete(w.POD, name_of(pod), life.namespace)
    await until_gone(life, CLAIM, its)
    assert await life.until_running("next") == node
    await until_used(life, 4)
    assert (await life.ledger()).wrong == []


async def test_a_tenant_who_takes_a_pod_from_its_instance_is_refused_and_told(life: Life) -> None:
    async with working(life):
        await make(life, "esc")
        node = await life.until_running("esc")
        vmi = await life.vmi("esc")
        pod = await pod_of(life, vmi)
        await until_used(life, 4)
        patched = await life.plane.cluster.kubectl(
            *("patch", "pod", name_of(pod), "--type=merge", "-p", json.dumps(FREED)),
            user=TENANT,
            namespace=life.namespace,
        )
        assert (
            "metadata.ownerReferences: the VirtualMachineInstance with the uid in" in patched.stderr
        )
        assert (await pod_of(life, vmi))["metadata"]["ownerReferences"]

        # Somebody whom no policy stops can; it gains the tenant nothing.
        await life.api.patch(w.POD, name_of(pod), FREED, life.namespace)
        await life.plane.cluster.api(TENANT).delete(w.VMI, "esc", life.namespace)
        await stays(life, vmi, pod, node)


async def test_a_pod_that_the_collector_leaves_keeps_claim_and_budget_until_it_ends(
    life: Life,
) -> None:
    probe = claim(life.namespace, "probe", life.class_name, 1)
    await until_collected(life.plane.cluster, probe)
    async with working(life):
        await make(life, "esc")
        node = await life.until_running("esc")
        vmi = await life.vmi("esc")
        pod = await pod_of(life, vmi)
    deleted = await life.plane.cluster.kubectl(
        *("delete", "vmi", "esc", "--cascade=orphan", "--wait=false"),
        user=TENANT,
        namespace=life.namespace,
    )
    assert deleted.checked
    for kind, name in ((w.POD, name_of(pod)), (CLAIM, claim_names(vmi)[0])):
        await until_freed(life, kind, name)
    async with working(life):
        await stays(life, vmi, pod, node)
