"""Where our webhooks are not there no VM starts without the GPUs that it names (rule 6.6)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import pytest

from shared import vocabulary as words
from tests.catalog.objects import gpu_class
from tests.cluster.api import Object
from tests.cluster.install import Catalog
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import annotations_of, condition
from tests.kubevirt_live.world import World
from tests.policies.force import remove_webhooks
from tests.policies.people import TENANT, let_edit
from tests.policies.scene import VMI, Scene

Unique = Callable[[str], str]


@pytest.fixture
async def world(catalog: Catalog, scene: Scene, unique: Unique) -> AsyncIterator[World]:
    """A tenant's namespace with a class, and KubeVirt; no webhook of ours, before and after."""
    cluster, namespace = catalog.plane.cluster, unique("tenant-unjudged")
    await cluster.create_namespace(namespace)
    await let_edit(cluster, namespace)
    name = unique("unjudged")
    world = World(cluster, namespace, f"example.com/{name}", unique)
    await cluster.admin.create(gpu_class(name, world.gpu))
    async with world.kubevirt(words.KUBEVIRT_NAMESPACE):
        yield world
    await catalog.stop()
    await remove_webhooks(cluster, scene)


async def make(world: World, name: str, annotations: dict[str, str]) -> None:
    """The tenant makes a VM that starts at once."""
    domain = {"cpu": {"cores": 1}, "memory": {"guest": "1Gi"}, "devices": {}}
    template = {"metadata": {"annotations": annotations}, "spec": {"domain": domain}}
    await world.cluster.api(TENANT).create(
        {
            "apiVersion": w.API_VERSION,
            "kind": words.KIND_VM,
            "metadata": {"name": name, "namespace": world.namespace},
            "spec": {"runStrategy": "Always", "template": template},
        }
    )


async def until_made(world: World, name: str) -> Object:
    """Wait until KubeVirt made the instance of a VM."""

    async def made() -> Object | None:
        return await world.cluster.admin.find(VMI, name, world.namespace)

    return await wait_until(made, f"the instance of {name} is there")


async def test_without_our_webhooks_a_vm_with_gpus_does_not_start_and_says_why(
    catalog: Catalog, world: World
) -> None:
    admin = world.cluster.admin
    entry = {"className": world.gpu.removeprefix("example.com/"), "count": 1}
    asked = {words.ANNOTATION_CLASSES: json.dumps([entry])}
    await make(world, "train", asked)

    async def failure() -> str:
        found = condition(await admin.get(w.VM, "train", world.namespace), "Failure")
        return str(found.get("message", ""))

    told = await wait_until(failure, "KubeVirt says why it does not start")
    assert told.endswith(
        "metadata.annotations[gpu.cozystack.io/classes]: admission did not judge it, and the VM"
        " would start without its GPUs: the webhooks gpu.cozystack.io are not in force"
        " (docs/installing.md), or another one undid what they wrote"
    )
    await make(world, "plain", {"example.com/seen": "yes"})
    await until_made(world, "plain")
    assert await admin.find(VMI, "train", world.namespace) is None

    await catalog.component.start()
    await catalog.enforce(["raw-names"])
    made = await until_made(world, "train")
    assert words.ANNOTATION_ATTACHMENTS in annotations_of(made)
    assert [gpu["deviceName"] for gpu in made["spec"]["domain"]["devices"]["gpus"]] == [world.gpu]
