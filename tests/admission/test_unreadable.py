"""What cannot be read: a refusal that says it is us, with the cause (rules 6 and 4).

And what of ours is gone refuses nothing that is not ours.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from shared import vocabulary as words
from tests.admission.launching import settled
from tests.admission.people import VMI
from tests.admission.test_independence import BARE, ONE, lives, plain, vmi
from tests.catalog.objects import claim, gpu_class
from tests.catalog.tenants import RBAC, Tenant
from tests.cluster.api import Object, Reply
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

UNREAD = "GPU admission: the cluster cannot be read fully at the moment: "
ROLES = f"{RBAC}/v1/ClusterRole"
ROLE = f"{RBAC}/v1/Role"


@contextlib.asynccontextmanager
async def without(cluster: Cluster, resource: str) -> AsyncIterator[None]:
    """Our account may not read a resource for as long as the block runs."""
    if resource == "configmaps":
        kind, name, namespace = ROLE, "gpu-settings-read", words.NAMESPACE
    else:
        kind, name, namespace = ROLES, words.SERVICE_APISERVER, None
    role = await cluster.admin.get(kind, name, namespace)
    kept = [
        {**rule, "resources": [each for each in rule["resources"] if each != resource] or ["none"]}
        for rule in role["rules"]
    ]
    await cluster.admin.patch(kind, name, {"rules": kept}, namespace)
    try:
        yield
    finally:
        await cluster.admin.patch(kind, name, {"rules": role["rules"]}, namespace)


async def refused(person: Tenant, thing: Object, because: str = UNREAD) -> Object:
    """What a person is told once something is refused that is let in otherwise."""
    kind = f"{thing['apiVersion']}/{thing['kind']}"
    path = await person.api.path(kind, person.namespace)

    async def is_unread() -> Object | None:
        reply: Reply = await person.api.request("POST", path, thing, query={"dryRun": "All"})
        unread = reply.status != 201 and because in reply.body["message"]
        return reply.body if unread else None

    return await wait_until(is_unread, "the right is gone")


async def is_let_in(person: Tenant, thing: Object) -> None:
    """Wait until it is let in again."""
    path = await person.api.path(VMI, person.namespace)

    async def let_in() -> bool:
        reply = await person.api.request("POST", path, thing, query={"dryRun": "All"})
        return reply.status == 201

    await wait_until(let_in, "the right is back")


@pytest.mark.parametrize(
    ("resource", "what"),
    [
        pytest.param("kubevirts", "KubeVirt's configuration", id="KubeVirt"),
        pytest.param("configmaps", "the settings", id="the settings"),
        pytest.param("namespaces", "the namespace tenant-acme", id="namespaces"),
    ],
)
async def test_what_cannot_be_read_is_named_in_the_refusal_of_a_vm(
    enforced: Catalog, acme: Tenant, resource: str, what: str
) -> None:
    thing = vmi(acme.namespace, "unseen", {words.ANNOTATION_CLASSES: ONE}) | BARE
    async with without(enforced.plane.cluster, resource):
        told = await refused(acme, thing)
        await acme.api.create(vmi(acme.namespace, "plain"), dryRun="All")
    causes = [cause["message"] for cause in told["details"]["causes"]]
    assert causes[0] == f"{UNREAD}{what}: we may not read it"
    denied = 'admission webhook "vmis.gpu.cozystack.io" denied the request: '
    assert told["message"] == denied + "; ".join(causes)
    assert (told["code"], told["reason"]) == (503, "InputsUnreadable")
    await is_let_in(acme, thing)


@pytest.mark.parametrize("resource", ["kubevirts", "configmaps"])
async def test_what_cannot_be_read_is_named_in_the_refusal_of_an_order(
    enforced: Catalog, acme: Tenant, resource: str
) -> None:
    async with without(enforced.plane.cluster, resource):
        told = await refused(acme, claim(acme.namespace, "unseen", "a100", 1))
    what = {"kubevirts": "KubeVirt's configuration", "configmaps": "the settings"}[resource]
    assert f"{UNREAD}{what}: we may not read it" in told["message"]


async def test_quotas_that_cannot_be_read_refuse_what_depends_on_a_budget_and_nothing_else(
    enforced: Catalog, acme: Tenant
) -> None:
    """They are followed, not read for a decision: it shows when they are listed the next time."""
    cluster = enforced.plane.cluster
    of_quotas = f"{UNREAD}the state of the cluster: we may not list resourcequotas"
    thing = vmi(acme.namespace, "unseen", {words.ANNOTATION_CLASSES: ONE}) | BARE
    try:
        async with asyncio.TaskGroup() as tasks, without(cluster, "resourcequotas"):
            await enforced.stop()
            tasks.create_task(enforced.component.start())  # ready a minute later, or with the right
            await is_let_in(acme, thing)  # a VM waits for the binder, who looks at the budget
            order = claim(acme.namespace, "unseen", "a100", 1)
            told = await refused(acme, order, of_quotas)
            assert (told["code"], told["reason"]) == (503, "InputsUnreadable")
            async with settled(cluster, {"placement": "scheduler"}):
                await refused(acme, thing, of_quotas)  # else nobody would look
    finally:
        await enforced.restart()
    await is_let_in(acme, thing)


async def test_without_our_settings_the_defaults_hold_and_nothing_of_others_is_refused(
    enforced: Catalog, acme: Tenant
) -> None:
    admin = enforced.plane.cluster.admin
    settings = await admin.get("v1/ConfigMap", words.SETTINGS_NAME, words.NAMESPACE)
    for each in await admin.list("v1/ConfigMap", words.NAMESPACE):
        await admin.delete("v1/ConfigMap", each["metadata"]["name"], words.NAMESPACE)
    try:
        for thing in plain(acme.namespace, "plain")[:12]:
            await lives(acme.api, thing)
        gpu = vmi(acme.namespace, "default", {words.ANNOTATION_CLASSES: ONE}) | BARE
        made = await acme.api.create(gpu, dryRun="All")
        assert len(made["spec"]["domain"]["devices"]["gpus"]) == 1
        await admin.create(gpu_class("by-default", "example.com/by-default"), dryRun="All")
    finally:
        await admin.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": words.SETTINGS_NAME, "namespace": words.NAMESPACE},
                "data": settings["data"],
            }
        )
