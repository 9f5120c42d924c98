"""Classes that go while they are looked at; namespaces that are odd, no tenant's, or missing."""

from __future__ import annotations

import asyncio

import pytest

from shared import vocabulary as words
from tests.catalog.looking import Look
from tests.catalog.objects import CLASS, OPTION, Gpus, class_key, gpu_class, namespace, quota
from tests.catalog.tenants import Tenant, figures, make_tenant
from tests.cluster.api import Object, Refused
from tests.cluster.session import Cluster
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until


async def refused(tenant: Tenant, name: str) -> tuple[int, str, str]:
    """How a get of an option that is not there is refused."""
    with pytest.raises(Refused) as caught:
        await tenant.option(name)
    return caught.value.code, caught.value.reason, caught.value.message


async def test_a_class_that_is_deleted_while_it_is_listed_and_watched(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look
) -> None:
    async with look(orderableUnits=8) as eye:
        before = await tenant.option(gpus.name)
        seen = []

        async def list_until_gone() -> None:
            while True:
                items = await tenant.options()  # anything but 200 raises
                seen.append(gpus.name in [item["metadata"]["name"] for item in items])
                if not seen[-1]:
                    return

        async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(list_until_gone())
            await wait_until(lambda: asyncio.sleep(0, len(seen) > 3), "it is being listed")
            await cluster.admin.delete(CLASS, gpus.name)
        assert seen.index(False) == len(seen) - 1
        kind, last = await eye.event()
        assert kind == "DELETED"
        assert last["metadata"]["uid"] == before["metadata"]["uid"]
        assert figures(last) == figures(before)
    message = f'{words.RESOURCE_OPTIONS}.{words.CATALOG_GROUP} "{gpus.name}" not found'
    assert await refused(tenant, gpus.name) == (404, "NotFound", message)


async def test_a_class_that_is_made_anew_under_its_name_is_another_option(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look
) -> None:
    async with look(orderableUnits=8) as eye:
        before = await tenant.option(gpus.name)
        await cluster.admin.delete(CLASS, gpus.name)
        await cluster.admin.create(gpu_class(gpus.name, gpus.resource, maxCount=3))
        await tenant.sees(gpus.name, orderableUnits=3, limitedBy=["MaxCountExceeded"])
        gone, last = await eye.event()
        came, first = await eye.event()
        assert (gone, came) == ("DELETED", "ADDED")
        await eye.nothing_more("a class made anew")
    assert last["metadata"]["uid"] == before["metadata"]["uid"]
    assert first["metadata"]["uid"] != before["metadata"]["uid"]
    made = await cluster.admin.get(CLASS, gpus.name)
    assert first["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


async def test_an_option_keeps_its_uid_and_every_tenant_has_another(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    other = await make_tenant(cluster, f"{tenant.namespace}-lab")
    await tenant.sees(gpus.name, orderableUnits=8)
    uids = [(await who.option(gpus.name))["metadata"]["uid"] for who in (tenant, tenant, other)]
    assert uids[0] == uids[1] != uids[2]


async def test_a_namespace_that_is_no_tenants_has_options_of_its_own_budget_only(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    """It has no ancestors, whatever its name, and is left out where all tenants are listed."""
    await cluster.admin.create(quota(tenant.namespace, {class_key(gpus.name): "5"}))
    name = tenant.namespace.removeprefix(words.TENANT_PREFIX) + "-lab"
    stranger = await make_tenant(cluster, name)
    await stranger.sees(gpus.name, state="Unlimited", orderableUnits=8)
    await cluster.admin.create(quota(name, {class_key(gpus.name): "3"}))
    await stranger.sees(gpus.name, hard=3, limitingLevel="Self", orderableUnits=3)
    await tenant.sees(gpus.name, hard=5, remaining=5, orderableUnits=5)
    everywhere = await cluster.admin.list(OPTION, fieldSelector=f"metadata.name={gpus.name}")
    found = {item["metadata"]["namespace"] for item in everywhere}
    assert tenant.namespace in found
    assert name not in found
    assert all(each.startswith(words.TENANT_PREFIX) for each in found)


async def test_a_namespace_that_does_not_exist_has_no_options_until_it_does(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    name = f"{tenant.namespace}-later"
    await tenant.sees(gpus.name, orderableUnits=8)
    assert await cluster.admin.list(OPTION, name) == []
    assert await cluster.admin.find(OPTION, gpus.name, name) is None
    one = {"fieldSelector": f"metadata.name={gpus.name}"}
    async with cluster.admin.watch(OPTION, name, **one) as events:
        await cluster.admin.create(namespace(name))
        async with asyncio.timeout(DEADLINE_SECONDS):
            event = await anext(events)
    assert event["type"] == "ADDED"
    assert event["object"]["metadata"]["namespace"] == name
    assert figures(event["object"])["orderableUnits"] == 8


@pytest.mark.parametrize(
    ("name", "above"),
    [
        pytest.param("{tenant}-lab", True, id="one segment"),
        pytest.param("{tenant}-no-such-one-between", True, id="missing ones between"),
        pytest.param("{tenant}--lab", True, id="two dashes"),
        pytest.param("{tenant}-1", True, id="a number"),
        pytest.param("{tenant:-<62}x", True, id="63 characters"),
        pytest.param("{tenant}lab", False, id="no dash"),
    ],
)
async def test_the_parent_of_an_odd_name(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, name: str, above: bool
) -> None:
    below = await make_tenant(cluster, name.format(tenant=tenant.namespace))
    await cluster.admin.create(quota(tenant.namespace, {class_key(gpus.name): "5"}))
    if above:
        await below.sees(gpus.name, remaining=5, limitingLevel="Ancestor", hard=None, used=None)
    else:
        await tenant.sees(gpus.name, remaining=5)
        await below.sees(gpus.name, state="Unlimited", remaining=None, orderableUnits=8)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param("no-such-class", 404, id="missing"),
        pytest.param("x" * 300, 404, id="300 characters"),
        pytest.param("A..B", 404, id="no DNS name"),
        pytest.param("%00", 404, id="a NUL"),
        pytest.param("%F0%9F%92%A9", 404, id="no ASCII"),
        pytest.param("a%2Fb", 403, id="a slash, which makes it a subresource"),
    ],
)
async def test_a_get_of_a_name_that_no_class_can_have(tenant: Tenant, name: str, code: int) -> None:
    path = f"/apis/{words.CATALOG_GROUP_VERSION}/namespaces/{tenant.namespace}"
    reply = await tenant.api.request("GET", f"{path}/{words.RESOURCE_OPTIONS}/{name}")
    status: Object = reply.body
    assert (reply.status, status["kind"], status["code"]) == (code, "Status", code)
