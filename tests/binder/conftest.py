"""A control plane with an audit log, our manifests and policies, and binders in a hurry."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.binder.replica import Replica
from tests.cluster.access import GPU_BINDER, User
from tests.cluster.binder import PROGRAM
from tests.cluster.build import Binaries
from tests.cluster.components import Options
from tests.cluster.install import MANIFESTS, Catalog
from tests.cluster.plane import ControlPlane, control_plane

Start = Callable[..., Awaitable[Replica]]


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
    """Starts replicas, each with a certificate of its own, by which the audit log tells them."""
    running: list[Replica] = []

    async def start(port: int | None = None, mind: str = "") -> Replica:
        """`mind` is that of `tests.binder.booker`; the binder's own without."""
        name = unique("replica")
        user = User(GPU_BINDER.name, (*GPU_BINDER.groups, name))
        simple = [sys.executable, "-m", "tests.binder.booker", mind]
        program = simple if mind else [PROGRAM]
        replica = Replica(audited, name, user, port, program)
        running.append(replica)
        await replica.start()
        return replica

    yield start
    for replica in running:
        await replica.end()
