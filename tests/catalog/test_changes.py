"""What changes in the cluster shows to a tenant at once, as one event, without a restart."""

from __future__ import annotations

from tests.catalog.looking import Look
from tests.catalog.objects import CLAIM, CLASS, Gpus, bound, claim, class_key, gpu_class, pod, quota
from tests.catalog.tenants import Tenant, make_tenant
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

UNTOUCHED = {
    "freeUnits": 8,
    "totalUnits": 8,
    "largestSet": 8,
    "state": "Unlimited",
    "remaining": None,
    "orderableUnits": 8,
    "limitedBy": ["NoCapacity"],
    "selectable": "True",
    "reason": "Available",
}
"""One node with 8 units that nobody uses, and no budget."""


async def test_allocatable_units_of_a_node(cluster: Cluster, gpus: Gpus, look: Look) -> None:
    def allocatable(units: str) -> object:
        return {"status": {"allocatable": {gpus.resource: units}}}

    async with look(**UNTOUCHED) as eye:
        await eye.sees(
            "a node loses units",
            cluster.admin.patch("v1/Node", gpus.node, allocatable("6"), subresource="status"),
            totalUnits=6,
            freeUnits=6,
            largestSet=6,
            orderableUnits=6,
        )
        await eye.sees(
            "a node gets units",
            cluster.admin.patch("v1/Node", gpus.node, allocatable("9"), subresource="status"),
            totalUnits=9,
            freeUnits=9,
            largestSet=9,
            orderableUnits=9,
        )


async def test_a_cordon(cluster: Cluster, gpus: Gpus, look: Look) -> None:
    async with look(**UNTOUCHED) as eye:
        await eye.sees(
            "a node is cordoned",
            cluster.admin.patch("v1/Node", gpus.node, {"spec": {"unschedulable": True}}),
            totalUnits=8,
            freeUnits=0,
            unavailableUnits=8,
            orderableUnits=0,
            selectable="False",
            reason="NoCapacity",
        )
        await eye.sees(
            "a node is uncordoned",
            cluster.admin.patch("v1/Node", gpus.node, {"spec": {"unschedulable": None}}),
            **UNTOUCHED,
        )


async def test_a_pod_that_comes_ends_or_is_deleted(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look
) -> None:
    admin, home = cluster.admin, tenant.namespace

    async def runs() -> bool:
        found = await admin.get("v1/Pod", "ends", home)
        return bool(found["status"]["phase"] == "Running")

    async with look(**UNTOUCHED) as eye:
        await eye.sees(
            "a pod comes",
            admin.create(pod(home, "ends", gpus.resource, 3, on=gpus.node)),
            freeUnits=5,
            totalUnits=8,
            orderableUnits=5,
        )
        await wait_until(runs, "the pod runs")
        await eye.sees(
            "another pod comes",
            admin.create(pod(home, "goes", gpus.resource, 4, on=gpus.node)),
            freeUnits=1,
            orderableUnits=1,
        )
        await eye.sees(
            "a pod ends",
            admin.patch(
                "v1/Pod",
                "ends",
                {"status": {"phase": "Succeeded"}},
                home,
                subresource="status",
            ),
            freeUnits=4,
            orderableUnits=4,
        )
        await eye.sees(
            "a pod is deleted",
            admin.delete("v1/Pod", "goes", home, gracePeriodSeconds="0"),
            **UNTOUCHED,
        )


async def test_a_claim_that_is_ordered_booked_and_given_back(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look
) -> None:
    home = tenant.namespace
    await cluster.admin.create(quota(home, {class_key(gpus.name): "7"}))
    budget = {"state": "Limited", "hard": 7, "limitingLevel": "Self"}
    async with look(remaining=7, used=0, orderableUnits=7, **budget) as eye:
        await eye.sees(
            "a claim is ordered",
            tenant.api.create(claim(home, "order", gpus.name, 2)),
            freeUnits=8,
            remaining=5,
            used=2,
            orderableUnits=5,
            limitedBy=["BudgetExceeded"],
            **budget,
        )
        await eye.sees(
            "a claim is booked",
            cluster.admin.patch(
                CLAIM, "order", bound(gpus.resource, gpus.node), home, subresource="status"
            ),
            freeUnits=6,
            largestSet=6,
            totalUnits=8,
            remaining=5,
            used=2,
            orderableUnits=5,
        )
        await eye.sees(
            "a claim is given back",
            tenant.api.delete(CLAIM, "order", home),
            freeUnits=8,
            remaining=7,
            used=0,
            orderableUnits=7,
        )


async def test_a_quota_that_comes_changes_and_goes(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look
) -> None:
    key, home = class_key(gpus.name), tenant.namespace
    async with look(**UNTOUCHED) as eye:
        await eye.sees(
            "a quota comes",
            cluster.admin.create(quota(home, {key: "2"})),
            state="Limited",
            hard=2,
            remaining=2,
            orderableUnits=2,
            limitedBy=["BudgetExceeded"],
        )
        await eye.sees(
            "a quota changes",
            cluster.admin.patch("v1/ResourceQuota", "gpus", {"spec": {"hard": {key: "0"}}}, home),
            hard=0,
            remaining=0,
            orderableUnits=0,
            selectable="False",
            reason="BudgetExceeded",
        )
        await eye.sees(
            "a quota goes",
            cluster.admin.delete("v1/ResourceQuota", "gpus", home),
            **UNTOUCHED,
        )


async def test_what_changes_another_class_makes_no_event(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, look: Look
) -> None:
    """Each change shows in the other class first, so it was taken in when the event is missed."""
    admin, home = cluster.admin, tenant.namespace
    other = Gpus(f"{gpus.name}-other", f"{gpus.resource}-other", gpus.node)
    keys = [class_key(gpus.name), class_key(other.name)]
    await admin.create(quota(home, dict.fromkeys(keys, "2")))
    async with look(hard=2, remaining=2, orderableUnits=2) as eye:
        await admin.create(gpu_class(other.name, other.resource))
        try:
            await tenant.sees(other.name, remaining=2, totalUnits=0)
            await eye.nothing_more("another class")
            more = {"status": {"allocatable": {other.resource: "4"}}}
            await admin.patch("v1/Node", gpus.node, more, subresource="status")
            await tenant.sees(other.name, totalUnits=4)
            await eye.nothing_more("its units on the same node")
            await admin.create(pod(home, "other", other.resource, 1, on=gpus.node))
            await tenant.sees(other.name, freeUnits=3)
            await eye.nothing_more("a pod that uses them")
            await admin.create(quota(home, {keys[0]: "3", keys[1]: "1"}, name="second"))
            await tenant.sees(other.name, remaining=1)
            await eye.nothing_more("a quota that is smaller for the other class only")
            child = await make_tenant(cluster, f"{home}-lab")
            await child.sees(gpus.name, remaining=2)
            await eye.nothing_more("a child without a budget")
        finally:
            await admin.delete(CLASS, other.name)
