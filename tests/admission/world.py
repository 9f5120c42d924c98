"""The world of the table (`tests/vmis/world.yaml`), in a real cluster.

Uids and times are the API server's: `World.uids` has the real uid for each of the table's, and
the class that is closed was closed in the very second in which the older VM was made.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Final

from shared import vocabulary as words
from tests.admission.people import VM
from tests.catalog.objects import CLAIM, CLASS
from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.vmis.table import world as table

YOUNGER: Final = "novice"
"""The VM that is made after the class was closed."""

OLDER: Final = "veteran"


@dataclass
class World:
    """What there is."""

    uids: dict[str, str] = field(default_factory=dict)


async def make_world(cluster: Cluster) -> World:
    """Make all of it, statuses included, as the one who may do anything."""
    world, admin = World(), cluster.admin
    raws = sorted(copy.deepcopy(table()), key=lambda raw: raw["metadata"]["name"] == YOUNGER)
    statuses: list[Object] = []
    closed_at = ""
    for raw in raws:
        metadata = raw["metadata"]
        uid = metadata.pop("uid", "")
        going = metadata.pop("deletionTimestamp", None)
        metadata.pop("creationTimestamp", None)
        name, namespace = metadata["name"], metadata.get("namespace")
        if raw["kind"] == "Namespace":
            await cluster.create_namespace(name, metadata.get("labels"))
            continue
        if namespace == words.KUBEVIRT_NAMESPACE:
            await cluster.create_namespace(namespace)
        if raw["kind"] in {words.KIND_VM, words.KIND_VMI}:
            spec: Object = {"domain": {"devices": {}}}
            raw.setdefault(
                "spec", {"template": {"spec": spec}} if raw["kind"] == words.KIND_VM else spec
            )
        if name == YOUNGER:
            await _until_later(cluster, raw, closed_at)
        status = raw.get("status")
        if raw["apiVersion"] == words.GROUP_VERSION:
            status = raw.pop("status", None)  # has a subresource of its own
        made = await admin.create(raw)
        if raw["kind"] == "KubeVirt":
            await admin.patch(
                f"{words.KUBEVIRT_GROUP_VERSION}/KubeVirt",
                name,
                {"status": status},
                namespace,
                subresource="status",
            )
        world.uids[uid] = made["metadata"]["uid"]
        if name == OLDER:
            closed_at = made["metadata"]["creationTimestamp"]
        if going:
            await admin.delete(CLAIM, name, namespace)
        if status and raw["apiVersion"] == words.GROUP_VERSION:
            statuses.append({**raw, "status": status})
    for raw in statuses:
        await _report(cluster, world, raw, closed_at)
    return world


async def _until_later(cluster: Cluster, raw: Object, time: str) -> None:
    """Wait until whatever is made is younger than this, by the API server's clock."""

    async def is_later() -> bool:
        made = await cluster.admin.create(raw, dryRun="All")
        return str(made["metadata"]["creationTimestamp"]) > time

    await wait_until(is_later, f"it is later than {time}")


async def _report(cluster: Cluster, world: World, raw: Object, closed_at: str) -> None:
    status, name = raw["status"], raw["metadata"]["name"]
    if raw["kind"] == words.KIND_CLASS:
        for condition in status["conditions"]:
            condition["lastTransitionTime"] = closed_at
            condition.setdefault("observedGeneration", 1)
        kind, namespace = CLASS, None
    else:
        attached = status.get("attachedTo")
        if attached:
            attached["uid"] = world.uids.get(attached["uid"], attached["uid"])
        kind, namespace = CLAIM, raw["metadata"]["namespace"]
    await cluster.admin.patch(kind, name, {"status": status}, namespace, subresource="status")


__all__ = ["VM", "World", "make_world"]
