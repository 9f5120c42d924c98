"""What is changed about tenants, classes, KubeVirt and settings shows at once, as one event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

import pytest

from shared import vocabulary as words
from tests.catalog.kubevirt import HOME, KUBEVIRT, NAME, apply_kinds, deploy, kubevirt, remove
from tests.catalog.looking import Look, Note, onlooker
from tests.catalog.objects import (
    CLASS,
    OPTION,
    Gpus,
    class_key,
    gpu_class,
    namespace,
    quota,
    settings_object,
)
from tests.catalog.tenants import Tenant, make_tenant
from tests.cluster.session import Cluster


async def test_the_entitlement_label_of_a_namespace_and_of_the_one_above(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, note: Note
) -> None:
    def label(on: str, value: str | None) -> Awaitable[object]:
        patch = {"metadata": {"labels": {words.LABEL_ENTITLEMENT: value}}}
        return cluster.admin.patch("v1/Namespace", on, patch)

    await cluster.admin.patch(CLASS, gpus.name, {"spec": {"entitlement": "Required"}})
    child = await make_tenant(cluster, f"{tenant.namespace}-lab")
    missing = {
        "entitlement": "Missing",
        "orderableUnits": 0,
        "limitedBy": ["NotEntitled"],
        "selectable": "False",
        "reason": "NotEntitled",
        "freeUnits": 8,
    }
    granted = {
        "entitlement": "Granted",
        "orderableUnits": 8,
        "selectable": "True",
        "reason": "Available",
    }
    async with onlooker(child, gpus.name, note, **missing) as eye:
        await eye.sees("the parent is entitled", label(tenant.namespace, "entitled"), **granted)
        await eye.sees("the child is denied", label(child.namespace, "denied"), **missing)
        await eye.sees("the child is entitled", label(child.namespace, "entitled"), **granted)
        await eye.sees("the child has an odd value", label(child.namespace, "yes"), **missing)
        await eye.sees("the child's label goes", label(child.namespace, None), **granted)
        await eye.sees("the parent's label goes", label(tenant.namespace, None), **missing)


async def test_a_child_tenant_that_takes_from_its_parents_budget_and_goes(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look, note: Note
) -> None:
    key, name = class_key(gpus.name), f"{tenant.namespace}-lab"
    await cluster.admin.create(quota(tenant.namespace, {key: "7"}))
    async with look(remaining=7, orderableUnits=7) as eye:
        child = await make_tenant(cluster, name)
        await eye.sees(
            "a child's budget is carved out",
            cluster.admin.create(quota(name, {key: "3"})),
            hard=7,
            remaining=4,
            orderableUnits=4,
        )
        async with onlooker(child, gpus.name, note, remaining=3, orderableUnits=3) as below:
            await eye.sees(
                "a child tenant is deleted (Kubernetes itself takes 5 s)",
                cluster.admin.delete("v1/Namespace", name),
                remaining=7,
                orderableUnits=7,
            )
            last = ""
            while last != "DELETED":  # its quota goes first, the namespace last
                last, option = await below.event()
                assert option["metadata"]["namespace"] == name
    assert await cluster.admin.list(OPTION, name) == []


async def test_a_namespace_between_two_tenants_that_comes_with_a_label(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, note: Note
) -> None:
    await cluster.admin.patch(CLASS, gpus.name, {"spec": {"entitlement": "Required"}})
    between = f"{tenant.namespace}-lab"
    below = await make_tenant(cluster, f"{between}-team")
    async with onlooker(below, gpus.name, note, entitlement="Missing") as eye:
        entitled = {words.LABEL_ENTITLEMENT: words.ENTITLED}
        await eye.sees(
            "a tenant comes between two",
            cluster.admin.create(namespace(between, entitled)),
            entitlement="Granted",
            orderableUnits=8,
        )


async def test_every_part_of_a_classs_spec(cluster: Cluster, gpus: Gpus, look: Look) -> None:
    def spec(**fields: object) -> Awaitable[object]:
        return cluster.admin.patch(CLASS, gpus.name, {"spec": fields})

    async with look(freeUnits=8, orderableUnits=8) as eye:
        await eye.sees(
            "maxCount",
            spec(maxCount=2),
            orderableUnits=2,
            limitedBy=["MaxCountExceeded"],
        )
        await eye.sees("maxCount goes", spec(maxCount=None), orderableUnits=8)
        await eye.sees("displayName and memory", spec(displayName="L", memory="9Gi"), freeUnits=8)
        option = await eye.tenant.option(gpus.name)
        assert option["spec"]["displayName"] == "L"
        assert option["option"]["label"] == "L 9Gi: up to 8"
        await eye.sees(
            "Hidden",
            spec(disclosure="Hidden"),
            freeUnits=None,
            totalUnits=None,
            orderableUnits=None,
            level="Unknown",
            selectable="True",
        )
        await eye.sees("Bucketed", spec(disclosure="Bucketed"), freeUnits=None, level="High")
        await eye.sees("Exact", spec(disclosure="Exact"), freeUnits=8, orderableUnits=8)
        await eye.sees(
            "Closed",
            spec(lifecycle="Closed"),
            orderableUnits=0,
            selectable="False",
            reason="ClassClosed",
        )
        await eye.sees("Deprecated", spec(lifecycle="Deprecated"), orderableUnits=8)
        await eye.sees(
            "resourceName",
            spec(resourceName=f"{gpus.resource}-2"),
            totalUnits=0,
            freeUnits=0,
            orderableUnits=0,
            reason="NoCapacity",
        )


async def test_a_class_that_names_the_same_resource(
    cluster: Cluster, gpus: Gpus, look: Look, tenant: Tenant
) -> None:
    other = f"{gpus.name}-again"
    async with look(orderableUnits=8) as eye:
        await eye.sees(
            "a class in conflict comes",
            cluster.admin.create(gpu_class(other, gpus.resource)),
            freeUnits=8,
            orderableUnits=0,
            limitedBy=["ClassConflict"],
            reason="ClassConflict",
        )
        await tenant.sees(other, reason="ClassConflict", orderableUnits=0, freeUnits=8)
        await eye.sees(
            "a class in conflict goes",
            cluster.admin.delete(CLASS, other),
            orderableUnits=8,
            reason="Available",
        )


@pytest.fixture
async def in_kubevirt(cluster: Cluster) -> AsyncIterator[None]:
    """KubeVirt's kinds are served; its object is gone afterwards."""
    await apply_kinds(cluster)
    yield
    await remove(cluster)


@pytest.mark.usefixtures("in_kubevirt")
async def test_kubevirts_table_of_permitted_devices(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look
) -> None:
    def table(devices: list[str] | None) -> Awaitable[object]:
        patch = [{"op": "replace", "path": "/spec", "value": kubevirt(devices)["spec"]}]
        return cluster.admin.patch(KUBEVIRT, NAME, patch, HOME)

    refused = {
        "freeUnits": 8,
        "orderableUnits": 0,
        "limitedBy": ["NotPermitted"],
        "selectable": "False",
        "reason": "NotPermitted",
    }
    permitted = {"orderableUnits": 8, "selectable": "True", "reason": "Available"}
    other = f"{gpus.name}-other"
    await cluster.admin.create(gpu_class(other, f"{gpus.resource}-other"))
    await deploy(cluster, ["example.com/unknown"])
    # Kinds that were not served are asked for again some seconds later.
    async with look(**refused) as eye:
        await eye.sees("the table names it", table([gpus.resource]), **permitted)
        await tenant.sees(other, limitedBy=["NotPermitted", "NoCapacity"])
        await table([gpus.resource, f"{gpus.resource}-other"])
        await tenant.sees(other, limitedBy=["NoCapacity"])
        await eye.nothing_more("the table names another")
        await eye.sees("the table in other case", table([gpus.resource.upper()]), **refused)
        await eye.sees("the table goes", table(None), **permitted)
        await eye.sees("the table is empty", table([]), **refused)
        await eye.sees("KubeVirt goes", remove(cluster), **permitted)
    await cluster.admin.delete(CLASS, other)


async def test_the_settings(cluster: Cluster, look: Look, settings: dict[str, str]) -> None:
    def put(**data: str) -> Awaitable[object]:
        return cluster.admin.replace(settings_object({**settings, **data}))

    async with look(orderableUnits=8) as eye:
        await eye.sees(
            "GPUs are switched off",
            put(enabled="false"),
            freeUnits=8,
            orderableUnits=0,
            limitedBy=["Disabled"],
            reason="Disabled",
        )
        await eye.sees("GPUs are switched on", put(enabled="true"), orderableUnits=8)
        await eye.sees(
            "placement by the scheduler",
            put(placement="scheduler"),
            orderableUnits=0,
            reason="NotOffered",
        )
        await eye.sees("placement by the binder", put(placement="binder"), orderableUnits=8)
