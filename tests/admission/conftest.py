"""A control plane of admission's own: webhooks judge the whole cluster, other tests' orders too.

It is installed as a user would, on top of the world of the table (`tests/vmis`), which is made
before anything is judged: it holds two classes of one device, and claims beyond any stock.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from shared import vocabulary as words
from tests.admission.calling import Caller
from tests.admission.counting import Reviews
from tests.admission.launching import Launching, permitted_class
from tests.admission.people import make_person
from tests.admission.world import World, make_world
from tests.catalog.kubevirt import apply_kinds
from tests.catalog.tenants import Tenant, make_role
from tests.cluster.build import Binaries
from tests.cluster.components import HOST, Options
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.session import Cluster


@pytest.fixture(scope="session")
async def plane(binaries: Binaries, run: Path) -> AsyncIterator[ControlPlane]:
    """A control plane that writes down which webhooks it called."""
    async with control_plane(run / "admission", binaries, Options(audit=True)) as plane:
        yield plane
        plane.check()


@pytest.fixture(scope="session")
async def cluster(plane: ControlPlane) -> Cluster:
    """That control plane as its users see it."""
    return plane.cluster


@pytest.fixture(scope="session")
async def catalog(plane: ControlPlane) -> AsyncIterator[Catalog]:
    """Our server on it, without webhooks so far."""
    catalog = Catalog(plane)
    try:
        await apply_kinds(plane.cluster)
        await catalog.install()
        await make_role(plane.cluster)
        yield catalog
    finally:
        await catalog.stop()


@pytest.fixture(scope="session")
async def world(catalog: Catalog) -> World:
    """The world of the table, and from then on our webhooks."""
    world = await make_world(catalog.plane.cluster)
    await catalog.enforce()
    return world


@pytest.fixture
async def enforced(world: World, catalog: Catalog) -> Catalog:
    """Our server, with the webhooks in force."""
    del world
    return catalog


@pytest.fixture(scope="session")
async def acme(world: World, cluster: Cluster) -> Tenant:
    """Somebody of tenant-acme."""
    del world
    return await make_person(cluster, "tenant-acme")


@pytest.fixture
async def reviews(enforced: Catalog) -> Reviews:
    """How many reviews our server answered."""
    return await Reviews.of(enforced)


@pytest.fixture(scope="module")
def home() -> str:
    """KubeVirt's namespace."""
    return words.KUBEVIRT_NAMESPACE


@pytest.fixture
async def launching(
    enforced: Catalog, home: str, unique: Callable[[str], str]
) -> AsyncIterator[Launching]:
    """A tenant with a class of the test's own."""
    cluster, namespace = enforced.plane.cluster, unique("tenant-launching")
    await cluster.create_namespace(namespace)
    person = await make_person(cluster, namespace)
    async with permitted_class(cluster, home, unique) as (name, resource):
        yield Launching(
            cluster, namespace, resource, unique, tenant=person, class_name=name, home=home
        )


@pytest.fixture
async def call(enforced: Catalog) -> AsyncIterator[Caller]:
    """Calls our server past kube-apiserver."""
    tls = ssl.create_default_context(cafile=enforced.authority)
    async with aiohttp.ClientSession() as session:
        yield Caller(session, f"https://{HOST}:{enforced.component.port}", tls)
