"""KubeVirt's kinds on the real control plane, and a world of its own for each test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.session import Cluster
from tests.kubevirt import kinds
from tests.kubevirt_live.world import World


@pytest.fixture(scope="session")
async def served(cluster: Cluster) -> Cluster:
    """The control plane with KubeVirt's kinds, and those of Cozystack that go with them."""
    await kinds.install(cluster, kinds.KUBEVIRT, kinds.COZYSTACK)
    return cluster


@pytest.fixture
def world(served: Cluster, namespace: str, unique: Callable[[str], str]) -> World:
    """A namespace, and a resource that only the test's nodes have."""
    return World(served, namespace, f"nvidia.com/{unique('GPU')}", unique)
