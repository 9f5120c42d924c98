"""A control plane with an audit log, our manifests and policies, and binders in a hurry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.binder.replica import Start, replicas
from tests.cluster.build import Binaries
from tests.cluster.components import Options
from tests.cluster.install import MANIFESTS, Catalog
from tests.cluster.plane import ControlPlane, control_plane


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
