"""The manifests of step one, applied; our process need not run for what is looked at here."""

from __future__ import annotations

import pytest

from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane


@pytest.fixture(scope="session")
async def installed(plane: ControlPlane) -> Catalog:
    """Kinds, rights and settings are in the cluster."""
    catalog = Catalog(plane)
    await catalog.apply_base()
    return catalog
