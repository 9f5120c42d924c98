"""Tenants, GPUs of a test's own, and proof that our process went through all of it unharmed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from shared import vocabulary as words
from tests.catalog.looking import Look, Note, onlooker
from tests.catalog.objects import CLASS, Gpus, gpu_class, node
from tests.catalog.survival import unharmed
from tests.catalog.tenants import Tenant, make_role, make_tenant
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster

Unique = Callable[[str], str]


@pytest.fixture(scope="session")
async def installed_for_tenants(cluster: Cluster, catalog: Catalog) -> Catalog:
    """Our server answers, and the tenant role exists."""
    await make_role(cluster)
    return catalog


@pytest.fixture
async def healthy(installed_for_tenants: Catalog) -> AsyncIterator[Catalog]:
    """Our server, which the test must leave unharmed."""
    async with unharmed(installed_for_tenants):
        yield installed_for_tenants


@pytest.fixture
async def tenant(healthy: Catalog, unique: Unique) -> Tenant:
    """A tenant without budgets, not entitled."""
    return await make_tenant(healthy.plane.cluster, unique("tenant-live"))


@pytest.fixture
async def gpus(cluster: Cluster, unique: Unique) -> AsyncIterator[Gpus]:
    """GPUs that no other test has."""
    name = unique("live")
    gpus = Gpus(name, f"example.com/{name}", unique("live-node"))
    admin = cluster.admin
    await admin.create(node(gpus.node, gpus.resource, 8))
    await admin.create(gpu_class(gpus.name, gpus.resource))
    yield gpus
    if await admin.find(CLASS, gpus.name):  # some tests delete it themselves
        await admin.delete(CLASS, gpus.name)
    await admin.delete("v1/Node", gpus.node)


@pytest.fixture
async def settings(installed_for_tenants: Catalog) -> AsyncIterator[dict[str, str]]:
    """The settings as they were installed, which are in force again afterwards."""
    admin = installed_for_tenants.plane.cluster.admin
    installed = await admin.get("v1/ConfigMap", words.SETTINGS_NAME, words.NAMESPACE)
    yield dict(installed["data"])
    del installed["metadata"]["resourceVersion"]
    if await admin.find("v1/ConfigMap", words.SETTINGS_NAME, words.NAMESPACE):
        await admin.replace(installed)
    else:
        await admin.create(installed)


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    """Where delays are written down: the run's summary shows them, nothing is judged by them."""
    return lambda what, seconds: record_property("shown", f"{seconds * 1000:6.0f} ms  {what}")


@pytest.fixture
def look(tenant: Tenant, gpus: Gpus, note: Note) -> Look:
    """Looks at the test's GPUs as the test's tenant, from the figures given on."""
    return lambda **first: onlooker(tenant, gpus.name, note, **first)
