"""Odd budgets, nodes, pods and tables: right figures or a refusal, never a crash or a 500.

What Kubernetes itself refuses is shown as refused. The quantity `1e2147483647` is missing on
purpose: a kube-apiserver that is sent it hangs, and all else with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared import vocabulary as words
from shared.vocabulary import INT32_MAX
from tests.catalog.kubevirt import HOME, KUBEVIRT, NAME, apply_kinds, deploy, remove
from tests.catalog.objects import Gpus, class_key, pod, quota, settings_object
from tests.catalog.tenants import Tenant
from tests.cluster.api import Object, Refused
from tests.cluster.session import Cluster

BUDGETS = {
    "1e400": ("10e399", {"hard": INT32_MAX, "remaining": INT32_MAX, "orderableUnits": 8}),
    "1e-400": ("1e-3", {"hard": 0, "remaining": 0, "orderableUnits": 0}),
    "500m": ("500m", {"hard": 0, "remaining": 0, "orderableUnits": 0}),
    "1500m": ("1500m", {"hard": 1, "remaining": 1, "orderableUnits": 1}),
    "0.0000000000001": ("1m", {"hard": 0, "remaining": 0, "orderableUnits": 0}),
    "9223372036854775808": (
        "9223372036854775808",
        {"hard": INT32_MAX, "remaining": INT32_MAX, "orderableUnits": 8},
    ),
    "2147483648": ("2147483648", {"hard": INT32_MAX, "orderableUnits": 8}),
    "-0": ("0", {"hard": 0, "remaining": 0, "orderableUnits": 0}),
}
"""What is written; what Kubernetes makes of it; what a budget of so much comes to with 8 free."""


async def refusal(cluster: Cluster, obj: Object) -> str:
    """With what message the API server refuses to create an object."""
    with pytest.raises(Refused) as refused:
        await cluster.admin.create(obj)
    assert refused.value.code == 422
    return refused.value.message


@pytest.mark.parametrize("written", [pytest.param(each, id=each) for each in BUDGETS])
@pytest.mark.parametrize("key", ["class", "device"])
async def test_a_budget_of_an_odd_quantity(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, written: str, key: str
) -> None:
    stored, want = BUDGETS[written]
    hard = {class_key(gpus.name) if key == "class" else f"requests.{gpus.resource}": written}
    made = await cluster.admin.create(quota(tenant.namespace, hard))
    assert list(made["spec"]["hard"].values()) == [stored]
    await tenant.sees(gpus.name, freeUnits=8, state="Limited", **want)


async def test_kubernetes_takes_no_negative_budget_and_no_part_of_a_unit_without_requests(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    whole = class_key(gpus.name).removeprefix("requests.")
    for key, written, why in (
        (class_key(gpus.name), "-1", "must be greater than or equal to 0"),
        (f"requests.{gpus.resource}", "-500m", "must be greater than or equal to 0"),
        (whole, "500m", "must be an integer"),
        (gpus.resource, "1500m", "must be an integer"),
        (f"limits.{gpus.resource}", "1e-400", "must be an integer"),
    ):
        assert why in await refusal(cluster, quota(tenant.namespace, {key: written}))
    await tenant.sees(gpus.name, state="Unlimited", orderableUnits=8)


async def test_of_a_hundred_budgets_the_smallest_counts(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    spellings = (
        class_key(gpus.name),
        class_key(gpus.name).removeprefix("requests."),
        f"limits.{gpus.resource}",
        f"requests.{gpus.resource}",
    )
    for number in range(100):
        hard = {spellings[number % 4]: str(104 - number)}
        await cluster.admin.create(quota(tenant.namespace, hard, name=f"gpus-{number}"))
    await tenant.sees(gpus.name, hard=5, remaining=5, orderableUnits=5)
    await cluster.admin.delete("v1/ResourceQuota", "gpus-99", tenant.namespace)
    await tenant.sees(gpus.name, hard=6, remaining=6, orderableUnits=6)


async def test_a_node_with_fewer_units_than_are_in_use(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    await cluster.admin.create(pod(tenant.namespace, "raw", gpus.resource, 6, on=gpus.node))
    await tenant.sees(gpus.name, freeUnits=2)
    for units in ("2", "0"):
        allocatable = {"status": {"allocatable": {gpus.resource: units}}}
        await cluster.admin.patch("v1/Node", gpus.node, allocatable, subresource="status")
        await tenant.sees(
            gpus.name,
            totalUnits=int(units),
            freeUnits=0,
            unavailableUnits=0,
            largestSet=0,
            level="None",
            orderableUnits=0,
            reason="NoCapacity",
        )


@pytest.mark.parametrize(
    ("written", "units"),
    [
        pytest.param("1k", 1000, id="1k"),
        pytest.param("2e1", 20, id="2e1"),
        pytest.param("1e400", INT32_MAX, id="1e400"),
        pytest.param("-0", 0, id="-0"),
    ],
)
async def test_a_node_with_an_odd_quantity(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, written: str, units: int
) -> None:
    allocatable = {"status": {"allocatable": {gpus.resource: written}}}
    await cluster.admin.patch("v1/Node", gpus.node, allocatable, subresource="status")
    await tenant.sees(
        gpus.name,
        totalUnits=units,
        freeUnits=units,
        largestSet=units,
        orderableUnits=min(units, 1024),
    )


@pytest.mark.parametrize(
    ("written", "why"),
    [
        pytest.param("-4", "must be greater than or equal to 0", id="-4"),
        pytest.param("500m", "must be an integer", id="500m"),
    ],
)
async def test_kubernetes_takes_no_negative_and_no_part_of_a_unit_on_a_node(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, written: str, why: str
) -> None:
    allocatable = {"status": {"allocatable": {gpus.resource: written}}}
    with pytest.raises(Refused, match=why) as refused:
        await cluster.admin.patch("v1/Node", gpus.node, allocatable, subresource="status")
    assert refused.value.code == 422
    await tenant.sees(gpus.name, totalUnits=8, freeUnits=8)


async def test_a_pod_that_asks_for_more_than_there_can_be(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    """Kubernetes takes a pod that asks for 1e400 units, if somebody puts it on a node by hand."""
    await cluster.admin.create(quota(tenant.namespace, {f"limits.{gpus.resource}": "5"}))
    greedy = pod(tenant.namespace, "greedy", gpus.resource, 1, on=gpus.node)
    amounts = {gpus.resource: "1e400"}
    greedy["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    await tenant.sees(gpus.name, hard=5, remaining=5)
    await cluster.admin.create(greedy)
    await tenant.sees(
        gpus.name,
        totalUnits=8,
        freeUnits=0,
        hard=5,
        used=INT32_MAX,
        remaining=0,
        orderableUnits=0,
        limitedBy=["BudgetExceeded", "NoCapacity"],
    )


@pytest.fixture
async def kubevirt_permits_nothing(cluster: Cluster) -> AsyncIterator[None]:
    """KubeVirt with an empty table; its object is gone afterwards."""
    await apply_kinds(cluster)
    await deploy(cluster, [])
    yield
    await remove(cluster)


@pytest.mark.usefixtures("kubevirt_permits_nothing")
async def test_a_table_of_permitted_devices_that_is_none(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    """Nothing is permitted that cannot be read, and what can be read beside it is."""
    await tenant.sees(gpus.name, reason="NotPermitted", orderableUnits=0)
    good = {"resourceName": gpus.resource}
    for table, permitted in (
        ({"pciHostDevices": [good, 5, {"resourceName": 5}, None, {}]}, True),
        ("all of them", False),
        ({"pciHostDevices": {"resourceName": gpus.resource}}, False),
        ({"mediatedDevices": [[[good]], good]}, True),
        ({"pciHostDevices": None, "usb": "x"}, False),
        ({"usb": [{**good, "selectors": 7}]}, True),
    ):
        spec = {"configuration": {"permittedHostDevices": table}}
        patch = [{"op": "replace", "path": "/spec", "value": spec}]
        await cluster.admin.patch(KUBEVIRT, NAME, patch, HOME)
        reason, units = ("Available", 8) if permitted else ("NotPermitted", 0)
        await tenant.sees(gpus.name, reason=reason, orderableUnits=units)


async def test_settings_that_cannot_be_used_leave_the_last_good_ones_in_force(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, settings: dict[str, str]
) -> None:
    async def put(**data: str) -> None:
        await cluster.admin.replace(settings_object(data))

    await put(**{**settings, "placement": "scheduler"})
    await tenant.sees(gpus.name, reason="NotOffered")
    # The one bad value stays as it was, the good one beside it holds at once.
    await put(**{**settings, "placement": "by hand", "enabled": "false"})
    await tenant.sees(gpus.name, limitedBy=["Disabled", "NotOffered"])
    await put(**{**settings, "placement": "", "enabled": "TRUE", "nodeLossGrace": "-5s", "new": ""})
    await put(**{**settings, "placement": "binder", "enabled": "maybe"})
    await tenant.sees(gpus.name, limitedBy=["Disabled"], orderableUnits=0)
    await put(resourceNames="cpu,,,not a name," + "x" * 100_000)
    await tenant.sees(gpus.name, reason="Available", orderableUnits=8)
    await put(enabled="false")
    await tenant.sees(gpus.name, reason="Disabled")
    await cluster.admin.delete("v1/ConfigMap", words.SETTINGS_NAME, words.NAMESPACE)
    await tenant.sees(gpus.name, reason="Available", orderableUnits=8)
