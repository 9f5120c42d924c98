"""A control plane of its own, since policies judge the whole cluster, with one of each object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.build import Binaries
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.session import Cluster
from tests.kubevirt import kinds
from tests.policies import attacks, raw_names
from tests.policies.force import until_refused
from tests.policies.people import introduce
from tests.policies.scene import NAMESPACE, Scene, make_scene


@pytest.fixture(scope="session")
async def plane(binaries: Binaries, run: Path) -> AsyncIterator[ControlPlane]:
    """The control plane."""
    async with control_plane(run / "policies", binaries) as plane:
        yield plane
        plane.check()


@pytest.fixture(scope="session")
async def cluster(plane: ControlPlane) -> Cluster:
    """That control plane as its users see it."""
    return plane.cluster


@pytest.fixture(scope="session")
async def catalog(plane: ControlPlane) -> AsyncIterator[Catalog]:
    """Kinds, rights and settings; our server is not needed, and does not run."""
    catalog = Catalog(plane)
    await kinds.install(plane.cluster, kinds.KUBEVIRT, kinds.COZYSTACK)
    await catalog.apply_base()
    yield catalog
    await catalog.stop()


@pytest.fixture(scope="session")
async def scene(catalog: Catalog) -> Scene:
    """What there is, with all policies in force, the optional one too."""
    cluster = catalog.plane.cluster
    await cluster.create_namespace(NAMESPACE)
    await introduce(cluster, NAMESPACE)
    scene = await make_scene(cluster)
    await catalog.apply_policies(["raw-names"])
    await until_refused(cluster, scene, (*attacks.ATTACKS, *raw_names.ATTACKS))
    return scene
