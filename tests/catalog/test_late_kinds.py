"""Kinds that come late or never, and settings that are bad from the start.

Each test starts a process of its own, on a control plane that no other module uses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared import vocabulary as words
from tests.catalog.kubevirt import KINDS, apply_kinds, deploy, remove
from tests.catalog.looking import Note
from tests.catalog.objects import CLASS, Gpus, gpu_class, node
from tests.catalog.survival import readiness, unharmed
from tests.catalog.tenants import make_role, make_tenant
from tests.cluster.api import Refused
from tests.cluster.build import Binaries
from tests.cluster.install import MANIFESTS, Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until

GPUS = Gpus("a100", "example.com/a100", "gpu-1")
CRDS = MANIFESTS / "crds"
BASE = f"/apis/{words.CATALOG_GROUP_VERSION}"


@pytest.fixture(scope="module")
async def own(binaries: Binaries, run: Path) -> AsyncIterator[ControlPlane]:
    """A control plane with 8 units on one node. Our kinds are served, KubeVirt's are not."""
    async with control_plane(run / "late-kinds", binaries) as plane:
        await Catalog(plane).apply_base()
        await plane.cluster.admin.create(node(GPUS.node, GPUS.resource, 8))
        yield plane


@asynccontextmanager
async def serving(plane: ControlPlane, *flags: str) -> AsyncIterator[Catalog]:
    """A process of ours that just started: registered and Available, and it stays unharmed."""
    catalog = Catalog(plane, flags)
    try:
        await catalog.component.start()
        async with unharmed(catalog, in_trouble=True):
            await catalog.apply_service()
            await catalog.wait_until_available()
            await make_role(plane.cluster)
            yield catalog
    finally:
        await catalog.stop()


async def make_class(plane: ControlPlane) -> None:
    """Make the class, unless an earlier test did."""
    if await plane.cluster.admin.find(CLASS, GPUS.name) is None:
        await plane.cluster.admin.create(gpu_class(GPUS.name, GPUS.resource))


async def test_without_our_own_kinds_options_alone_are_unavailable_until_the_kinds_come(
    own: ControlPlane, note: Note
) -> None:
    cluster = own.cluster
    path = f"{BASE}/namespaces/default/{words.RESOURCE_OPTIONS}"
    assert (await cluster.kubectl("delete", "-k", str(CRDS), "--wait")).code == 0
    async with serving(own, "--sync-delay=0"):
        try:
            reply = await cluster.admin.request("GET", path)
            assert (reply.status, reply.body["reason"]) == (503, "ServiceUnavailable")
            assert int(reply.headers["Retry-After"]) >= 1
            assert words.RESOURCE_CLASSES in reply.body["message"]
            for query in ("?watch=true", "/a100"):
                assert (await cluster.admin.request("GET", path + query)).status == 503
            for document in ("/apis", f"/apis/{words.CATALOG_GROUP}", BASE, "/openapi/v2"):
                assert (await cluster.admin.request("GET", document)).status == 200
            assert (await cluster.kubectl("get", "ns")).code == 0
            assert (await cluster.kubectl("api-resources")).code == 0
        finally:
            await apply_kinds(cluster, CRDS, kind=CLASS)
        start = time.monotonic()
        await make_class(own)
        await wait_until(lambda: served(own), "options are served once our kinds are there")
        tenant = await make_tenant(cluster, "tenant-a")
        await tenant.sees(GPUS.name, orderableUnits=8)
        note("options are right, from when our kinds were applied", time.monotonic() - start)


async def test_when_our_own_kinds_go_the_server_stays_ready_and_open_watches_are_told(
    own: ControlPlane,
) -> None:
    """Rule 10: the first reading alone may delay readiness, also within its minute."""
    cluster = own.cluster
    await make_class(own)
    async with serving(own) as catalog:
        tenant = await make_tenant(cluster, "tenant-e")
        await tenant.sees(GPUS.name, orderableUnits=8)
        async with tenant.watch() as events:
            assert (await anext(events))["type"] == "ADDED"
            try:
                removed = await cluster.kubectl("delete", "-k", str(CRDS), "--wait")
                assert removed.code == 0
                async with asyncio.timeout(DEADLINE_SECONDS):
                    told = [event async for event in events]
                assert [event["type"] for event in told if event["type"] != "MODIFIED"] == [
                    "DELETED",
                    "ERROR",
                ]
                status = told[-1]["object"]
                assert (status["code"], status["reason"]) == (503, "ServiceUnavailable")
                assert "kinds that are not installed here: gpuc" in status["message"]
                with pytest.raises(Refused) as refused:
                    await tenant.options()
                assert refused.value.code == 503
                code, checks = await readiness(catalog)
                assert (code, "[+]informer-sync ok" in checks) == (200, True), checks
            finally:
                await apply_kinds(cluster, CRDS, kind=CLASS)
                await make_class(own)
        await wait_until(lambda: served(own), "options are served once our kinds are there")
        await tenant.sees(GPUS.name, orderableUnits=8)


async def served(plane: ControlPlane) -> bool:
    """Whether options are."""
    return (
        await plane.cluster.admin.request("GET", f"{BASE}/{words.RESOURCE_OPTIONS}")
    ).status == 200


async def test_without_kubevirts_kinds_all_is_permitted_and_its_table_counts_once_they_come(
    own: ControlPlane, note: Note
) -> None:
    cluster = own.cluster
    await make_class(own)
    async with serving(own):
        tenant = await make_tenant(cluster, "tenant-b")
        await tenant.sees(GPUS.name, orderableUnits=8, reason="Available")

        await apply_kinds(cluster)
        start = time.monotonic()
        await tenant.sees(GPUS.name, orderableUnits=8, reason="Available")
        await deploy(cluster, ["example.com/other"])
        await tenant.sees(GPUS.name, orderableUnits=0, reason="NotPermitted")
        note("the table counts, from when KubeVirt's kinds were applied", time.monotonic() - start)
        await remove(cluster)
        await tenant.sees(GPUS.name, orderableUnits=8, reason="Available")

        await deploy(cluster, [])
        await tenant.sees(GPUS.name, orderableUnits=0, reason="NotPermitted")
        # KubeVirt is uninstalled, its kinds with it.
        assert (await cluster.kubectl("delete", "-f", str(KINDS), "--wait")).code == 0
        await tenant.sees(GPUS.name, orderableUnits=8, reason="Available")


async def test_settings_that_are_bad_from_the_start_leave_the_defaults(own: ControlPlane) -> None:
    cluster = own.cluster
    await make_class(own)
    place = (words.SETTINGS_NAME, words.NAMESPACE)
    before = await cluster.admin.get("v1/ConfigMap", *place)
    bad = {"enabled": "off", "placement": "by hand", "kubevirtNamespace": "Not A Name"}
    await cluster.admin.replace({**before, "data": bad})
    try:
        async with serving(own):
            tenant = await make_tenant(cluster, "tenant-c")
            await tenant.sees(GPUS.name, orderableUnits=8, reason="Available")
    finally:
        settings = await cluster.admin.get("v1/ConfigMap", *place)
        await cluster.admin.replace({**settings, "data": before["data"]})


async def test_a_right_that_is_missing_makes_figures_unknown_until_it_is_granted(
    own: ControlPlane,
) -> None:
    """What is not known is stated as unknown, with the reason, and not as a number."""
    cluster, rbac = own.cluster, "rbac.authorization.k8s.io/v1"
    await make_class(own)
    async with serving(own):
        tenant = await make_tenant(cluster, "tenant-d")
        await tenant.sees(GPUS.name, orderableUnits=8)
        role = await cluster.admin.get(f"{rbac}/ClusterRole", "gpu-apiserver")
        without = [rule for rule in role["rules"] if "resourcequotas" not in rule["resources"]]
        kept = {**role["rules"][0], "resources": ["nodes", "pods", "namespaces"]}
        assert len(without) == len(role["rules"]) - 1
        await cluster.admin.replace({**role, "rules": [*without, kept]})
        try:
            await tenant.sees(
                GPUS.name,
                selectable="Unknown",
                reason="InputsUnreadable",
                orderableUnits=None,
                state="Unknown",
                remaining=None,
                fresh="False",
            )
        finally:
            role = await cluster.admin.get(f"{rbac}/ClusterRole", "gpu-apiserver")
            rules = [*without, {**kept, "resources": [*kept["resources"], "resourcequotas"]}]
            await cluster.admin.replace({**role, "rules": rules})
        await tenant.sees(
            GPUS.name, orderableUnits=8, state="Unlimited", reason="Available", fresh="True"
        )
