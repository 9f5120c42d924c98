"""Brings a world into a real cluster and takes it out again, object by object.

The controllers must not run: they would go on from these states. Nothing but a world may be in
the cluster, so namespaces are finalized here instead of by their controller, which waits.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from shared import vocabulary as words
from tests.cluster.api import Api, Object
from tests.worlds.reading import Json, World

CONTROLLERS: Final = ("kwok", "kube-scheduler", "kube-controller-manager")
"""Components that act by themselves, in the order in which they are stopped."""

WITH_STATUS_SUBRESOURCE: Final = frozenset({"Pod", "GPUClaim", "KubeVirt"})
"""Kinds whose status the API server ignores on creation. A node's it takes, and in KubeVirt the
others' is an ordinary field."""

MINE: Final = frozenset({("Namespace", words.NAMESPACE), ("ConfigMap", words.SETTINGS_NAME)})
"""What an installation has made already."""


class Stage:
    """A cluster in which one world after the other is set up, by somebody who may do anything."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin
        self._uids: dict[str, str] = {}
        self._made: list[Object] = []

    async def set_up(self, world: World) -> None:
        """Create a world's objects in their order, then write what only exists afterwards."""
        for raw in world.objects:
            await self._create(raw)
        for raw in world.objects:
            await self._complete(self._here(raw))

    async def clear(self) -> None:
        """Take everything out again, last things first."""
        for obj in reversed(self._made):
            if obj["kind"] != "Namespace":
                await self._remove(obj)
        async with asyncio.TaskGroup() as tasks:
            for obj in self._made:
                if obj["kind"] == "Namespace":
                    tasks.create_task(self._finalize(obj["metadata"]["name"]))
        self._made.clear()
        self._uids.clear()

    async def _create(self, raw: Json) -> None:
        obj = self._here(raw)
        meta = obj["metadata"]
        if (obj["kind"], meta["name"]) in MINE:
            if obj["kind"] == "ConfigMap":
                await self._admin.replace(obj)
            return
        uid = meta.pop("uid", None)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            meta.pop(field, None)
        if obj["kind"] == "VirtualMachineInstance":
            del obj["status"]  # it names pods that are created after it
        made = await self._admin.create(obj)
        self._made.append(made)
        if uid:
            self._uids[uid] = made["metadata"]["uid"]
        if obj["kind"] == "Namespace":
            await self._admin.apply(service_account(meta["name"]))

    async def _complete(self, obj: Object) -> None:
        """Write the status and begin to delete, where the world says so."""
        kind, meta = f"{obj['apiVersion']}/{obj['kind']}", obj["metadata"]
        place = (kind, meta["name"])
        status = {"status": obj.get("status")}
        if obj["kind"] in WITH_STATUS_SUBRESOURCE and obj.get("status"):
            await self._admin.patch(*place, status, meta["namespace"], subresource="status")
        elif obj["kind"] == "VirtualMachineInstance":
            await self._admin.patch(*place, status, meta["namespace"])
        if "deletionTimestamp" in meta:
            await self._admin.delete(*place, meta["namespace"])

    async def _remove(self, obj: Object) -> None:
        kind, meta = f"{obj['apiVersion']}/{obj['kind']}", obj["metadata"]
        place = (kind, meta["name"], meta.get("namespace"))
        if meta.get("finalizers"):
            patch = {"metadata": {"finalizers": None}}
            await self._admin.patch(kind, meta["name"], patch, meta.get("namespace"))
        if await self._admin.find(*place):
            await self._admin.delete(*place, gracePeriodSeconds="0")

    async def _finalize(self, name: str) -> None:
        await self._admin.delete("v1/Namespace", name)
        namespace = await self._admin.get("v1/Namespace", name)
        namespace["spec"]["finalizers"] = []
        await self._admin.replace(namespace, subresource="finalize")

    def _here(self, raw: Json) -> Object:
        """An object with the uids that this cluster has given."""
        text = json.dumps(raw)
        for told, given in self._uids.items():
            text = text.replace(told, given)
        made: Object = json.loads(text)
        return made


def service_account(namespace: str) -> Object:
    """What its controller would make: without it the namespace takes no pods."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    }
