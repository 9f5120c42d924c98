"""KubeVirt's stand-in under our webhooks: a tenant's VMs, and the pods that it makes for them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass

from shared import vocabulary as words
from tests.catalog.objects import CLASS, gpu_class, settings_object
from tests.catalog.tenants import Tenant
from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kubevirt import nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition
from tests.kubevirt_live.world import World

TAINT: Object = {"key": "gpu.example/class", "value": "a100", "effect": "NoSchedule"}
"""Of the nodes here: who does not tolerate it is not placed."""

TOLERATION: Object = {
    "key": "gpu.example/class",
    "operator": "Equal",
    "value": "a100",
    "effect": "NoSchedule",
}
"""Of the class."""


@dataclass(slots=True)
class Launching(World):
    """One test's own: a tenant, a class, and as many nodes with its device as are asked for.

    `home` is KubeVirt's namespace, `gpu` the resource of the class.
    """

    tenant: Tenant | None = None
    class_name: str = ""
    home: str = words.KUBEVIRT_NAMESPACE

    @property
    def person(self) -> Tenant:
        """Who makes VMs here."""
        assert self.tenant is not None
        return self.tenant

    def entries(self, count: int) -> dict[str, str]:
        """The annotation that names the class."""
        named = [{"className": self.class_name, "count": count}]
        return {words.ANNOTATION_CLASSES: json.dumps(named)}

    def record(self, count: int) -> str:
        """What admission writes about that, letter by letter."""
        return (
            f'[{{"entry":0,"className":"{self.class_name}","resourceName":"{self.gpu}",'
            f'"count":{count}}}]'
        )

    async def tainted(self, count: int = 4) -> str:
        """A node with so many devices, which only the class's pods get to."""
        name = self.unique("gpu")
        node = nodes.node(name, {self.gpu: count})
        await self.api.create({**node, "spec": {"taints": [TAINT]}})

        async def ready() -> bool:
            found = await self.api.get(w.NODE, name)
            is_ready = condition(found, "Ready").get("status") == "True"
            return is_ready and found["spec"].get("taints") == [TAINT]

        await wait_until(ready, f"node {name} is ready")
        return name

    def template(self, annotations: Mapping[str, str], **spec: object) -> Object:
        """What an instance is made of; it asks for no device by name."""
        return {
            "metadata": {
                "labels": {"app": "train"},
                "annotations": {"note": "copied", **annotations},
            },
            "spec": {
                "domain": {"cpu": {"cores": 2}, "memory": {"guest": "2Gi"}, "devices": {}},
                **spec,
            },
        }

    async def start(
        self, annotations: Mapping[str, str], name: str = "train", **spec: object
    ) -> Object:
        """The tenant makes a VM."""
        template = self.template(annotations, **spec)
        return await self.person.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachine",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"runStrategy": "Always", "template": template},
            }
        )

    async def standalone(self, annotations: Mapping[str, str], name: str = "train") -> Object:
        """The tenant makes an instance without a VM: it is judged now, and waits for KubeVirt."""
        template = self.template(annotations)
        metadata = {**template["metadata"], "name": name, "namespace": self.namespace}
        return await self.person.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachineInstance",
                "metadata": metadata,
                "spec": template["spec"],
            }
        )


def shown(pod: Object) -> Object:
    """Of a pod what the findings tell and what our webhook writes, without the API server's own."""
    metadata, spec = pod["metadata"], pod["spec"]
    (owner,) = metadata["ownerReferences"]
    resources = spec["containers"][0]["resources"]
    return {
        "generateName": metadata["generateName"],
        "labels": metadata["labels"],
        "annotations": dict(_told(metadata["annotations"])),
        "owner": (owner["kind"], owner["name"], owner["uid"], owner["controller"]),
        "gates": [each["name"] for each in spec.get("schedulingGates", ())],
        "tolerations": [
            each
            for each in spec["tolerations"]
            if not each.get("key", "").startswith("node.kubernetes.io/")
        ],
        "nodeSelector": spec["nodeSelector"],
        "affinity": spec["affinity"],
        "container": spec["containers"][0]["name"],
        "cpu": resources["requests"]["cpu"],
        "memory": resources["requests"]["memory"],
        "devices": [
            {name: count for name, count in resources[which].items() if "example" in name}
            for which in ("requests", "limits")
        ],
    }


def _told(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in annotations.items():
        if name in _TOLD or name.startswith(words.GROUP):
            yield name, value


_TOLD = ("note", w.ANNOTATION_DOMAIN, w.ANNOTATION_EPHEMERAL, w.ANNOTATION_MIGRATION_NAME)


@contextlib.asynccontextmanager
async def settled(cluster: Cluster, changed: Mapping[str, str]) -> AsyncIterator[None]:
    """Settings for as long as the block runs."""
    installed = await cluster.admin.get("v1/ConfigMap", words.SETTINGS_NAME, words.NAMESPACE)
    data: dict[str, str] = installed["data"]
    await cluster.admin.apply(settings_object({**data, **changed}))
    try:
        yield
    finally:
        await cluster.admin.apply(settings_object(data))


@contextlib.asynccontextmanager
async def at_home(cluster: Cluster, home: str) -> AsyncIterator[None]:
    """KubeVirt in a namespace, for as long as the block runs: its object, and our settings."""
    admin, kind = cluster.admin, w.KUBEVIRT
    if await admin.find(kind, "kubevirt", home) is None:
        usual = await admin.get(kind, "kubevirt", words.KUBEVIRT_NAMESPACE)
        if await admin.find("v1/Namespace", home) is None:
            await cluster.create_namespace(home)
        await admin.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "KubeVirt",
                "metadata": {"name": "kubevirt", "namespace": home},
                "spec": usual["spec"],
            }
        )
        deployed = {"status": {"phase": "Deployed"}}
        await admin.patch(kind, "kubevirt", deployed, home, subresource="status")
    account = f"system:serviceaccount:{home}:{w.ACCOUNT_CONTROLLER}"
    async with settled(cluster, {"kubevirtNamespace": home, "kubevirtUsernames": account}):
        yield


@contextlib.asynccontextmanager
async def permitted_class(
    cluster: Cluster, home: str, unique: Callable[[str], str]
) -> AsyncIterator[tuple[str, str]]:
    """A class with a toleration, and its resource, which KubeVirt permits."""
    name = unique("launched")
    resource = f"example.com/{name}"
    device = {"pciVendorSelector": "10DE:2330", "resourceName": resource}
    devices = "/spec/configuration/permittedHostDevices/pciHostDevices/-"
    permit = [{"op": "add", "path": devices, "value": device}]
    await cluster.admin.patch(w.KUBEVIRT, "kubevirt", permit, home)
    await cluster.admin.create(gpu_class(name, resource, tolerations=[TOLERATION]))
    yield name, resource
    await cluster.admin.delete(CLASS, name)
