"""The GPUSystem as the binder keeps it, and what is when there is none."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from shared import vocabulary as words
from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.policies import attacks, raw_names
from tests.policies.force import until_refused
from tests.policies.scene import EPOCH, GPU, SYSTEM, Scene


async def make_system(cluster: Cluster, status: Object) -> None:
    """Make the GPUSystem anew."""
    system = {"name": words.SYSTEM_NAME}
    made = {"apiVersion": words.GROUP_VERSION, "kind": words.KIND_SYSTEM, "metadata": system}
    if await cluster.admin.find(SYSTEM, words.SYSTEM_NAME) is None:
        await cluster.admin.create(made)
    patch = {"status": status}
    await cluster.admin.patch(SYSTEM, words.SYSTEM_NAME, patch, subresource="status")


@contextlib.asynccontextmanager
async def no_system(cluster: Cluster, scene: Scene) -> AsyncIterator[None]:
    """There is no GPUSystem for as long as the block runs."""
    await cluster.admin.delete(SYSTEM, words.SYSTEM_NAME)
    try:
        yield
    finally:
        await make_system(cluster, {"epoch": EPOCH, "resourceNames": [GPU]})
        await until_refused(cluster, scene, (*attacks.ATTACKS, *raw_names.ATTACKS))
