"""Kubernetes' garbage collector, which learns of kinds that are new up to half a minute later."""

from __future__ import annotations

from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

NEVER: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "never"}
"""An owner that never was."""


async def until_collected(cluster: Cluster, probe: Object) -> None:
    """Make an object that has lost its owner, and wait until the collector takes it.

    Before that it knows no object of that kind: what an owner is to leave behind it would not let
    go of, and take later.
    """
    probe["metadata"]["ownerReferences"] = [NEVER]
    await cluster.admin.create(probe)
    kind = f"{probe['apiVersion']}/{probe['kind']}"
    name, namespace = probe["metadata"]["name"], probe["metadata"]["namespace"]

    async def gone() -> bool:
        return await cluster.admin.find(kind, name, namespace) is None

    await wait_until(gone, f"the collector knows {probe['kind']}")
