"""Our kinds on the run's control plane."""

from __future__ import annotations

import pytest

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
