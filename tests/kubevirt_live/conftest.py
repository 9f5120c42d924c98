"""KubeVirt's kinds are served; what a test needs to make machines and to see what becomes of them."""

from __future__ import annotations

import pytest

from tests.cluster.session import Cluster
from tests.kubevirt import kinds


@pytest.fixture(scope="session")
async def served(cluster: Cluster) -> Cluster:
    """The control plane with KubeVirt's kinds."""
    await kinds.install(cluster)
    return cluster
