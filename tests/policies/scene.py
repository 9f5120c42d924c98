"""What is there before anybody tries anything: one of each object that the policies guard."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.catalog.objects import CLAIM, bound, claim, gpu_class
from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.kubevirt import words as w
from tests.policies.people import KUBEVIRT

NAMESPACE: Final = "tenant-guarded"
LABELLED: Final = "tenant-guarded-entitled"
GPU: Final = "nvidia.com/GA100_GUARDED"
EPOCH: Final = 5
"""Of the GPUSystem."""

KEEPS: Final = "example.com/mine"
"""A finalizer of somebody else's."""

SYSTEM: Final = f"{words.GROUP_VERSION}/{words.KIND_SYSTEM}"
CLASS: Final = f"{words.GROUP_VERSION}/{words.KIND_CLASS}"
WORKLOAD: Final = "cozystack.io/v1alpha1/Workload"
SECRET: Final = "v1/Secret"
POD: Final = w.POD
VMI: Final = w.VMI

ONE: Final = '[{"className":"guarded","count":1}]'
RECORD: Final = f'[{{"entry":0,"className":"guarded","resourceName":"{GPU}","count":1}}]'


class Scene:
    """The objects, as the API server keeps them."""

    def __init__(self) -> None:
        self.vmi: Object = {}
        self.order: Object = {}

    def launcher(self, name: str = "copy") -> Object:
        """A launcher of the VM as it comes to the policies: KubeVirt's pod, our mark and gate."""
        vm, uid = self.vmi["metadata"]["name"], self.vmi["metadata"]["uid"]
        made = pod(name, gates=["example.com/other", words.GATE])
        made["metadata"] |= {
            "annotations": {words.ANNOTATION_LAUNCHER: uid, words.ANNOTATION_ATTACHMENTS: RECORD},
            "labels": {words.LABEL_KUBEVIRT: words.LAUNCHER},
            "ownerReferences": [owner(words.KUBEVIRT_GROUP_VERSION, words.KIND_VMI, vm, uid)],
        }
        return made

    def record(self, name: str) -> Object:
        """A usage record of the order, by its owner alone."""
        uid = self.order["metadata"]["uid"]
        return workload(name, [owner(words.GROUP_VERSION, words.KIND_CLAIM, "order", uid)])


def owner(version: str, kind: str, name: str, uid: str) -> Object:
    """The controller of an object."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def pod(name: str, gates: list[str] | None = None, **metadata: object) -> Object:
    """A pod that nobody schedules, with nothing in its metadata that need not be there."""
    gated: Object = {} if gates is None else {"schedulingGates": [{"name": gate} for gate in gates]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "main", "image": "none"}],
            **gated,
        },
    }


def vmi(name: str, annotations: dict[str, str] | None = None) -> Object:
    """A VM instance."""
    given = {} if annotations is None else {"annotations": annotations}
    return {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VMI,
        "metadata": {"name": name, "namespace": NAMESPACE, **given},
        "spec": {"domain": {"devices": {}}},
    }


def with_devices(machine: Object, **devices: object) -> Object:
    """A VM instance with these devices."""
    machine["spec"]["domain"]["devices"] |= devices
    return machine


def admitted() -> Object:
    """A VM instance as our webhook lets it in."""
    asked = {words.ANNOTATION_CLASSES: ONE, words.ANNOTATION_ATTACHMENTS: RECORD}
    return with_devices(vmi("v", asked), gpus=[{"name": "class-0-0", "deviceName": GPU}])


def workload(name: str, owners: list[Object] | None = None, **metadata: object) -> Object:
    """A record of use."""
    given = {} if owners is None else {"ownerReferences": owners}
    return {
        "apiVersion": "cozystack.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE, **given, **metadata},
        "status": {"kind": "gpu", "type": "guarded", "operational": True, "resources": {}},
    }


def secret(name: str, labels: dict[str, str] | None = None) -> Object:
    """A secret."""
    given = {} if labels is None else {"labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE, **given},
        "stringData": {"token": "x"},
    }


OURS: Final = {words.LABEL_MANAGED_BY: words.MANAGED_BY}


async def make_scene(cluster: Cluster) -> Scene:
    """Make everything, as the one whom no policy keeps from it."""
    admin, scene = cluster.admin, Scene()
    await cluster.create_namespace(LABELLED, {words.LABEL_ENTITLEMENT: words.ENTITLED})
    await admin.create(
        {
            "apiVersion": words.GROUP_VERSION,
            "kind": words.KIND_SYSTEM,
            "metadata": {"name": words.SYSTEM_NAME},
        }
    )
    told = {"status": {"epoch": EPOCH, "resourceNames": [GPU]}}
    await admin.patch(SYSTEM, words.SYSTEM_NAME, told, subresource="status")
    guarded = gpu_class("guarded", GPU)
    guarded["metadata"]["finalizers"] = [words.FINALIZER_CLASS]
    await admin.create(guarded)
    await admin.create(gpu_class("free", "nvidia.com/GA100_FREE"))

    order = claim(NAMESPACE, "order", "guarded", 1)
    order["metadata"]["finalizers"] = [words.FINALIZER_CLAIM]
    scene.order = await admin.create(order)
    await admin.patch(CLAIM, "order", bound(GPU, "gpu-1"), NAMESPACE, subresource="status")
    template = claim(NAMESPACE, "template", "guarded", 1)
    template["metadata"]["labels"] = {words.LABEL_TEMPLATE: "true"}
    await admin.create(template)
    await admin.create(claim(NAMESPACE, "new", "guarded", 1))

    asked = {words.ANNOTATION_CLASSES: ONE, words.ANNOTATION_ATTACHMENTS: RECORD}
    scene.vmi = await admin.create(vmi("vm", asked))
    await admin.create(vmi("bare"))
    await admin.create(with_devices(vmi("raw"), gpus=[{"name": "a", "deviceName": GPU}]))

    await cluster.api(KUBEVIRT).create(scene.launcher("launcher"))
    leaving = scene.launcher("leaving")
    leaving["metadata"]["finalizers"] = [KEEPS]
    await cluster.api(KUBEVIRT).create(leaving)
    await admin.delete(POD, "leaving", NAMESPACE)
    await admin.create(pod("plain"))
    # A tenant may write that, and it says nothing.
    its = scene.launcher()["metadata"]["ownerReferences"]
    await admin.create(pod("owned", ownerReferences=its))
    await admin.create(scene.record("gpu-order") | {"status": workload("x")["status"]})
    await admin.create(workload("labelled", labels=OURS))
    await admin.create(workload("other"))
    await admin.create(secret("gpu-license-guarded", OURS))
    await admin.create(secret("own"))
    return scene
