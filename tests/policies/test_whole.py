"""A VM with GPUs from the tenant's template to its node, wherever KubeVirt is (rules 6 and 6.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared import vocabulary as words
from tests.cluster.api import Object, Refused
from tests.cluster.install import Catalog
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt_live.world import World
from tests.policies import attacks, lawful
from tests.policies.attempts import Lawful
from tests.policies.changes import OTHER
from tests.policies.force import remove_webhooks, until_let_in, until_refused
from tests.policies.people import BINDER, TENANT, UPSTREAM, let_edit, virt_controller
from tests.policies.scene import GPU, ONE, POD, VMI, Scene

Unique = Callable[[str], str]

PLACES = [
    pytest.param(words.KUBEVIRT_NAMESPACE, [], id="where Cozystack has it"),
    pytest.param(UPSTREAM, ["kubevirt-namespace"], id="where its own manifests have it"),
]


async def set_place(catalog: Catalog, scene: Scene, place: str, components: list[str]) -> None:
    """Tell settings and policies where KubeVirt is, and wait until the policies know."""
    cluster = catalog.plane.cluster
    account = virt_controller(place)
    said = {"kubevirtNamespace": place, "kubevirtUsernames": account.name}
    await cluster.admin.patch("v1/ConfigMap", words.SETTINGS_NAME, {"data": said}, words.NAMESPACE)
    await catalog.apply_policies(["raw-names", *components])
    (launcher,) = [each for each in lawful.LAWFUL if each.named == "makes a launcher"]
    await until_let_in(cluster, scene, Lawful("there", "launcher", account, launcher.act))
    for other in {words.KUBEVIRT_NAMESPACE, UPSTREAM} - {place}:
        stranger = Lawful("elsewhere", "launcher", virt_controller(other), launcher.act)
        await until_refused(cluster, scene, [stranger])


@pytest.mark.parametrize(("place", "components"), PLACES)
async def test_a_vm_gets_what_it_asks_for_and_no_more_wherever_kubevirt_is(
    catalog: Catalog, scene: Scene, unique: Unique, place: str, components: list[str]
) -> None:
    cluster = catalog.plane.cluster
    await catalog.component.start()
    try:
        await set_place(catalog, scene, place, components)
        await catalog.enforce(components)
        await from_template_to_node(catalog, unique, place)
    finally:
        await catalog.stop()
        await remove_webhooks(cluster, scene)
        await set_place(catalog, scene, words.KUBEVIRT_NAMESPACE, [])
        await until_refused(cluster, scene, attacks.ATTACKS)


async def from_template_to_node(catalog: Catalog, unique: Unique, place: str) -> None:
    cluster = catalog.plane.cluster
    namespace = unique("tenant-whole")
    await cluster.create_namespace(namespace)
    await let_edit(cluster, namespace)
    tenant, binder = cluster.api(TENANT), cluster.api(BINDER)
    world = World(cluster, namespace, GPU, unique)
    node = await world.node(8)

    async with world.kubevirt(place):
        await tenant.create(machine(namespace))
        pod = await world.launcher()
        vmi = await world.vmi()

        # What the template had beforehand is not believed.
        uid = vmi["metadata"]["uid"]
        assert vmi["metadata"]["annotations"][words.ANNOTATION_ATTACHMENTS] != FORGED
        assert [each["deviceName"] for each in vmi["spec"]["domain"]["devices"]["gpus"]] == [GPU]
        assert pod["metadata"]["annotations"][words.ANNOTATION_LAUNCHER] == uid
        assert pod["spec"]["schedulingGates"] == [{"name": words.GATE}]

        name = pod["metadata"]["name"]
        terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
        there = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        pin: list[Object] = [
            {"op": "add", "path": f"{terms}/nodeSelectorTerms/0/matchFields", "value": there},
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": words.GATE},
            {"op": "remove", "path": "/spec/schedulingGates"},
        ]
        with pytest.raises(Refused) as refused:
            await tenant.patch(POD, name, pin, namespace)
        assert "the binder removes gpu.cozystack.io/claims once" in refused.value.message
        await binder.patch(POD, name, pin, namespace)

        async def runs() -> bool:
            found = await world.vmi()
            return bool(found["status"].get("phase") == "Running" and on(found) == node)

        await wait_until(runs, "the VM runs on the node that the binder chose")
        more = {"metadata": {"annotations": {words.ANNOTATION_CLASSES: None}}}
        with pytest.raises(Refused) as refused:
            await tenant.patch(VMI, "train", more, namespace)
        assert "never changed after that" in refused.value.message

        await tenant.delete(w.VM, "train", namespace)

        async def is_gone() -> bool:
            return await cluster.admin.find(VMI, "train", namespace) is None

        await wait_until(is_gone, "the VM is gone")


FORGED = f'[{{"entry":0,"className":"guarded","resourceName":"{GPU}","count":8}}]'


def machine(namespace: str) -> Object:
    """A VM with one unit, whose template claims eight, and somebody else's mark."""
    annotations = {
        words.ANNOTATION_CLASSES: ONE,
        words.ANNOTATION_ATTACHMENTS: FORGED,
        words.ANNOTATION_LAUNCHER: OTHER,
    }
    domain = {"cpu": {"cores": 2}, "memory": {"guest": "2Gi"}, "devices": {}}
    return {
        "apiVersion": w.API_VERSION,
        "kind": words.KIND_VM,
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "runStrategy": "Always",
            "template": {"metadata": {"annotations": annotations}, "spec": {"domain": domain}},
        },
    }


def on(vmi: Object) -> str:
    """The node of a VM."""
    return str(vmi["status"].get("nodeName", ""))
