"""Orders and classes, as the person who orders and the hoster see them (rules 6.3 and 6.5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from shared import vocabulary as words
from tests.admission.counting import Reviews
from tests.admission.people import make_person
from tests.catalog.objects import (
    CLAIM,
    CLASS,
    Gpus,
    claim,
    class_key,
    gpu_class,
    node,
    quota,
    settings_object,
)
from tests.catalog.tenants import RBAC, Tenant
from tests.cluster.access import GPU_BINDER, service_account
from tests.cluster.api import Object, Refused
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

Unique = Callable[[str], str]

ORDER_HOOK = "gpuclaims.gpu.cozystack.io"
CLASS_HOOK = "gpuclasses.gpu.cozystack.io"


def denied(hook: str, message: str) -> str:
    """How the API server hands on a refusal."""
    return f'admission webhook "{hook}" denied the request: {message}'


@pytest.fixture
async def tenant(enforced: Catalog, unique: Unique) -> Tenant:
    """Somebody of a tenant of the test's own."""
    namespace = unique("tenant-orders")
    await enforced.plane.cluster.create_namespace(namespace)
    return await make_person(enforced.plane.cluster, namespace)


@pytest.fixture
async def gpus(cluster: Cluster, tenant: Tenant, unique: Unique) -> AsyncIterator[Gpus]:
    """8 units of a class of the test's own, which KubeVirt permits and the tenant sees."""
    name = unique("orders")
    gpus = Gpus(name, f"example.com/{name}", unique("orders-node"))
    kubevirt = f"{words.KUBEVIRT_GROUP_VERSION}/KubeVirt"
    device = {"pciVendorSelector": "10DE:2330", "resourceName": gpus.resource}
    devices = "/spec/configuration/permittedHostDevices/pciHostDevices/-"
    permit = [{"op": "add", "path": devices, "value": device}]
    await cluster.admin.patch(kubevirt, "kubevirt", permit, words.KUBEVIRT_NAMESPACE)
    await cluster.admin.create(node(gpus.node, gpus.resource, 8))
    await cluster.admin.create(gpu_class(gpus.name, gpus.resource))
    await tenant.sees(gpus.name, orderableUnits=8)
    yield gpus
    await cluster.admin.delete(CLASS, gpus.name)
    await cluster.admin.delete("v1/Node", gpus.node)


async def refused(tenant: Tenant, thing: Object) -> Refused:
    """What a person is told."""
    with pytest.raises(Refused) as found:
        await tenant.api.create(thing)
    return found.value


async def test_an_order_brings_no_finalizer_that_its_tenant_could_not_take_away(
    tenant: Tenant, gpus: Gpus
) -> None:
    order = claim(tenant.namespace, "kept", gpus.name, 1)
    order["metadata"]["finalizers"] = ["example.com/mine"]
    told = await refused(tenant, order)
    begins = denied(ORDER_HOOK, "metadata.finalizers: 'example.com/mine' would keep the order")
    assert (told.code, told.message.partition(",")[0]) == (403, begins)
    with pytest.raises(Refused, match="cannot patch resource"):
        await tenant.api.patch(CLAIM, "kept", {"metadata": {"finalizers": None}}, tenant.namespace)


async def test_an_order_beyond_the_budget_quotes_the_figure_that_the_catalog_shows(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    await cluster.admin.create(quota(tenant.namespace, {class_key(gpus.name): "3"}))
    await tenant.sees(gpus.name, remaining=3, orderableUnits=3)
    await tenant.api.create(claim(tenant.namespace, "first", gpus.name, 1))
    await tenant.sees(gpus.name, remaining=2, orderableUnits=2)

    told = await refused(tenant, claim(tenant.namespace, "second", gpus.name, 3))

    option = await tenant.option(gpus.name)
    remaining = option["status"]["budget"]["remaining"]
    free = option["status"]["availability"]["freeUnits"]
    assert (remaining, free) == (2, 8)
    why = f"asked 3, up to 2: this tenant's budget has {remaining} left, {free} free"
    assert told.message == denied(ORDER_HOOK, why)
    assert (told.code, told.reason) == (403, "BudgetExceeded")
    (cause,) = told.status["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("BudgetExceeded", "spec.count")


async def test_an_order_of_more_than_there_is_says_how_many_there_are(
    tenant: Tenant, gpus: Gpus
) -> None:
    told = await refused(tenant, claim(tenant.namespace, "much", gpus.name, 9))
    assert told.message == denied(ORDER_HOOK, "asked 9, up to 8: 8 free")
    assert (told.code, told.reason) == (403, "NoCapacity")


async def test_an_order_of_a_class_that_does_not_exist_says_so(tenant: Tenant) -> None:
    told = await refused(tenant, claim(tenant.namespace, "none", "b200", 1))
    assert told.message == denied(ORDER_HOOK, "spec.className: there is no class b200")
    assert (told.code, told.reason) == (422, "ClassNotFound")


async def test_nobody_but_the_binder_makes_a_claim_for_a_vms_entry(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, reviews: Reviews
) -> None:
    template = claim(tenant.namespace, "template", gpus.name, 1000)
    template["metadata"]["labels"] = {words.LABEL_TEMPLATE: "true"}
    told = await refused(tenant, template)
    assert told.code == 403
    assert "'cozystack-gpu-template-claim-policy'" in told.message

    before = await reviews.counted()
    await cluster.api(GPU_BINDER).create(template)
    assert await reviews.counted() == before, "ours are not judged, so they need no server"
    await cluster.admin.delete(CLAIM, "template", tenant.namespace)


async def test_nobody_of_a_tenant_passes_for_the_binder(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, reviews: Reviews
) -> None:
    order = claim(tenant.namespace, "much", gpus.name, 9)
    with pytest.raises(Refused) as found:
        await tenant.api.call(
            "POST",
            await tenant.api.path(CLAIM, tenant.namespace),
            order,
            headers={"Impersonate-User": GPU_BINDER.name},
        )
    assert (found.value.code, "cannot impersonate" in found.value.message) == (403, True)

    namesake = service_account(tenant.namespace, "gpu-binder")
    await cluster.admin.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "namesake", "namespace": tenant.namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": namesake.name}],
        }
    )
    before = await reviews.counted()

    async def judged() -> str | None:
        with pytest.raises(Refused) as found:
            await cluster.api(namesake).create(order)
        return found.value.message if await reviews.counted() > before else None

    told = await wait_until(judged, "his right to order has come about")
    assert told == denied(ORDER_HOOK, "asked 9, up to 8: 8 free")


async def test_a_switch_counts_for_the_very_next_order(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    installed = await cluster.admin.get("v1/ConfigMap", words.SETTINGS_NAME, words.NAMESPACE)
    data: dict[str, str] = installed["data"]
    await cluster.admin.apply(settings_object(data | {"enabled": "false"}))
    told = await refused(tenant, claim(tenant.namespace, "off", gpus.name, 1))
    await cluster.admin.apply(settings_object(data))
    assert told.message == denied(ORDER_HOOK, "GPUs are switched off on this platform")
    await tenant.api.create(claim(tenant.namespace, "on", gpus.name, 1), dryRun="All")


async def test_two_classes_never_name_one_device(cluster: Cluster, gpus: Gpus) -> None:
    with pytest.raises(Refused) as found:
        await cluster.admin.create(gpu_class("second", gpus.resource))
    why = f'"{gpus.resource}" is the resource of the class {gpus.name} already'
    assert found.value.message == denied(CLASS_HOOK, f"spec.resourceName: {why}")
    assert (found.value.code, found.value.reason) == (403, "ClassConflict")


async def test_what_changes_no_spec_of_a_class_is_never_judged(
    cluster: Cluster, gpus: Gpus, reviews: Reviews
) -> None:
    before = await reviews.counted()
    await cluster.admin.patch(CLASS, gpus.name, {"metadata": {"labels": {"seen": "yes"}}})
    assert await reviews.counted() == before
    await cluster.admin.patch(CLASS, gpus.name, {"spec": {"description": "fast"}})
    assert await reviews.counted() == before + 1


async def test_a_change_of_a_class_in_use_comes_with_a_warning(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    await tenant.api.create(claim(tenant.namespace, "held", gpus.name, 1))
    await tenant.sees(gpus.name, freeUnits=8)
    told = await cluster.kubectl(
        *("patch", "gpuclass", gpus.name, "--type=merge", "-p", '{"spec":{"maxCount":4}}')
    )
    assert told.checked
    assert "claims and VMs that have more keep it" in told.stderr
