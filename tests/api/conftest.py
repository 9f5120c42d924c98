"""Our kinds on the run's control plane, and a server of each test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.served import Served
from tests.cluster.build import REPOSITORY
from tests.cluster.session import Cluster


@pytest.fixture(scope="session")
async def kinds(cluster: Cluster) -> Cluster:
    """The control plane with the CRDs applied and served."""
    applied = await cluster.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "crds"))
    assert "gpuclasses.gpu.cozystack.io" in applied.checked
    crds = [f"crd/{kind}.gpu.cozystack.io" for kind in ("gpuclasses", "gpuclaims", "gpusystems")]
    waited = await cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
    assert waited.checked.count("condition met") == 3
    return cluster


@pytest.fixture
async def starting(tmp_path: Path) -> AsyncIterator[Served]:
    """A server that does not know yet whom to trust."""
    async with Served(tmp_path) as served:
        yield served


@pytest.fixture
async def served(starting: Served) -> Served:
    """A server that knows whom to trust."""
    starting.believe()
    return starting
