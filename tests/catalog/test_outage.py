"""While our process hangs or died, or kube-apiserver died under it, all else goes on.

What holds while it is stopped in its own way is shown beside the harness (`tests/harness`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from shared import vocabulary as words
from tests.catalog.looking import Note
from tests.catalog.objects import CLASS, OPTION, Gpus, gpu_class, node
from tests.catalog.survival import process_of, readiness, unharmed
from tests.catalog.tenants import Tenant, make_role, make_tenant, wait_until_served
from tests.cluster.api import Object, Refused
from tests.cluster.build import Binaries
from tests.cluster.install import API_SERVICE, API_SERVICE_KIND, Catalog
from tests.cluster.plane import control_plane
from tests.cluster.processes import suspended
from tests.cluster.session import Output
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until

GPUS = Gpus("a100", "example.com/a100", "gpu-1")


@pytest.fixture(scope="module")
async def own(binaries: Binaries, run: Path) -> AsyncIterator[Catalog]:
    """Our server on a control plane that no other test uses, with one class and 8 units."""
    async with control_plane(run / "outage", binaries) as plane:
        catalog = Catalog(plane)
        try:
            await catalog.install()
            await make_role(plane.cluster)
            await plane.cluster.admin.create(node(GPUS.node, GPUS.resource, 8))
            await plane.cluster.admin.create(gpu_class(GPUS.name, GPUS.resource))
            yield catalog
        finally:
            await catalog.stop()


@pytest.fixture(scope="module")
async def tenant(own: Catalog) -> Tenant:
    """A tenant who sees the class."""
    tenant = await make_tenant(own.plane.cluster, "tenant-a")
    await tenant.sees(GPUS.name, orderableUnits=8)
    return tenant


async def what_is_not_ours_works(catalog: Catalog, name: str, note: Note, when: str) -> None:
    """Everything but options: namespaces, kinds of ours, other kinds, discovery, applying."""
    cluster = catalog.plane.cluster
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }

    async def timed(what: str, *arguments: str, stdin: str | None = None) -> Output:
        start = time.monotonic()
        async with asyncio.timeout(DEADLINE_SECONDS):
            output = await cluster.kubectl(*arguments, stdin=stdin)
        note(f"kubectl {what}, {when}", time.monotonic() - start)
        return output

    assert "kube-system" in (await timed("get ns", "get", "ns")).checked
    assert (await timed("get gpuclaims", "get", "gpuclaims", "-A")).code == 0
    assert GPUS.name in (await timed("get gpuclasses", "get", "gpuclasses")).checked
    resources = (await timed("api-resources", "api-resources", "-o", "name")).stdout.split()
    assert {"deployments.apps", "gpuclaims.gpu.cozystack.io"} <= set(resources)
    applied = await timed("apply", "apply", "-f", "-", stdin=json.dumps(settings))
    assert applied.checked == f"configmap/{name} created\n"


async def test_while_our_process_hangs_all_else_works_and_no_call_hangs_for_long(
    own: Catalog, tenant: Tenant, note: Note, tmp_path: Path
) -> None:
    cluster = own.plane.cluster

    def options() -> Awaitable[Output]:
        """As one who has asked before: that kubectl knows where options were served."""
        return cluster.kubectl(
            "get", "gpuopt", user=tenant.user, namespace=tenant.namespace, cache=tmp_path
        )

    assert GPUS.name in (await options()).checked
    async with unharmed(own):
        with suspended(process_of(own)):
            await what_is_not_ours_works(own, "hanging", note, "while our process hangs")

            async def known_to_hang() -> str:
                service = await cluster.admin.get(API_SERVICE_KIND, API_SERVICE)
                (condition,) = service["status"]["conditions"]
                return str(condition["message"]) if condition["status"] == "False" else ""

            # Until it has found out a read of options hangs, for a minute at most.
            await own.have_it_looked_at()
            message = await wait_until(known_to_hang, f"{API_SERVICE} is not Available")
            assert f"/apis/{words.CATALOG_GROUP_VERSION}" in message
            failed = await options()
            assert failed.code == 1
            assert f"{words.RESOURCE_OPTIONS}.{words.CATALOG_GROUP}" in failed.stderr
            assert "kube-system" in (await cluster.kubectl("get", "ns")).checked
        await own.wait_until_available()
        assert GPUS.name in (await options()).checked


async def test_after_our_process_died_all_recovers_by_itself(
    own: Catalog, tenant: Tenant, note: Note
) -> None:
    cluster = own.plane.cluster
    await cluster.create_namespace("made-before")
    await own.component.kill()
    try:
        await what_is_not_ours_works(own, "dead", note, "after our process died")
        with pytest.raises(Refused) as refused:
            await tenant.option(GPUS.name)
        assert refused.value.code == 503
    finally:
        start = time.monotonic()
        await own.component.start()
    note("our process is ready, from its start", time.monotonic() - start)
    await own.wait_until_available()
    note("the APIService is Available, from the start of our process", time.monotonic() - start)
    await tenant.sees(GPUS.name, orderableUnits=8)
    await cluster.admin.delete("v1/Namespace", "made-before")

    async def gone() -> bool:
        return await cluster.admin.find("v1/Namespace", "made-before") is None

    await wait_until(gone, "a namespace that was made before is deleted")


async def test_after_kube_apiserver_died_under_our_server_changes_show_again(
    own: Catalog, tenant: Tenant, note: Note
) -> None:
    """Our process keeps running and stays ready: nobody has to start it again."""
    cluster, apiserver = own.plane.cluster, own.plane.components["kube-apiserver"]
    async with unharmed(own, in_trouble=True):
        async with tenant.watch() as events:
            assert (await anext(events))["type"] == "ADDED"
            await apiserver.kill()
            with pytest.raises(Exception, match="payload"):
                await anext(events)
        status, checks = await readiness(own)
        assert status == 200, checks
        await apiserver.start()
        start = time.monotonic()
        await wait_until_served(cluster, OPTION)

        async def patched() -> Object | None:
            try:
                return await cluster.admin.patch(CLASS, GPUS.name, {"spec": {"maxCount": 3}})
            except Refused:
                return None  # it is ready, but not all of it

        await wait_until(patched, "kube-apiserver writes again")

        async def shows() -> bool:
            try:
                option = await tenant.option(GPUS.name)
            except Refused:
                return False
            return bool(option["status"].get("orderableUnits") == 3)

        await wait_until(shows, "a change made since shows")
        note("a change shows, from when kube-apiserver is back", time.monotonic() - start)
        async with tenant.watch() as events:
            assert (await anext(events))["type"] == "ADDED"
            await cluster.admin.patch(CLASS, GPUS.name, {"spec": {"maxCount": None}})
            async with asyncio.timeout(90):
                event = await anext(events)
            assert event["object"]["status"]["orderableUnits"] == 8
