"""A control plane with an audit log, our manifests and policies, and binders in a hurry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.binder.history import Recorder, recording
from tests.binder.replica import Start, replicas
from tests.cluster.build import Binaries
from tests.cluster.components import Options
from tests.cluster.install import MANIFESTS, Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.kubevirt import kinds
from tests.kubevirt.standin import kubevirt
from tests.kubevirt.timing import Timing


@pytest.fixture(scope="session")
async def audited(binaries: Binaries, run: Path) -> AsyncIterator[ControlPlane]:
    """The plane of these tests: kinds, rights, settings and policies are in it."""
    async with control_plane(run / "binder", binaries, Options(audit=True)) as plane:
        catalog = Catalog(plane)
        await catalog.apply_base()
        policies = await plane.cluster.kubectl("apply", "-k", str(MANIFESTS / "policies"))
        assert policies.checked
        yield plane
        plane.check()


@pytest.fixture
async def start(audited: ControlPlane, unique: Callable[[str], str]) -> AsyncIterator[Start]:
    """Starts replicas on that plane."""
    async with replicas(audited, unique) as start:
        yield start


@pytest.fixture(scope="session")
async def server(binaries: Binaries, run: Path) -> AsyncIterator[Catalog]:
    """Our server on another plane, with all else installed but KubeVirt's stand-in."""
    async with control_plane(run / "machines", binaries, Options(audit=True)) as plane:
        catalog = Catalog(plane)
        try:
            await kinds.install(plane.cluster)
            await catalog.install()
            await catalog.enforce()
            yield catalog
        finally:
            await catalog.stop()


@pytest.fixture(scope="module")
async def whole(server: Catalog) -> AsyncIterator[ControlPlane]:
    """That plane with the stand-in, in a hurry; some modules are about how it is without."""
    async with kubevirt(server.plane.cluster, timing=Timing(speed=20)):
        yield server.plane


@pytest.fixture(scope="session")
async def recorder(server: Catalog) -> AsyncIterator[Recorder]:
    """Everything that becomes of claims, pods and instances there."""
    async with recording(server.plane) as recorder:
        yield recorder
