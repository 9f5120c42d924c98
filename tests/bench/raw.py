"""Values rendered as the API server would send them, with all that our decoding leaves out."""

from __future__ import annotations

import orjson

from shared import vocabulary as v
from shared.core.model import (
    Claim,
    GpuClass,
    KubeVirt,
    Namespace,
    Node,
    Object,
    Pod,
    Quota,
    Secret,
    System,
    Vmi,
    Volume,
    VolumeClaim,
)
from tests.bench.raw_machine import vmi
from tests.bench.raw_metadata import metadata, owner, written_by
from tests.bench.raw_node import node
from tests.bench.raw_pod import launcher, ordinary
from tests.bench.raw_storage import secret, system, volume, volume_claim
from tests.bench.shapes import Shape
from tests.bench.world import World

COLLECTIONS = {
    "namespaces": Namespace,
    "kubevirts": KubeVirt,
    v.RESOURCE_CLASSES: GpuClass,
    "nodes": Node,
    v.RESOURCE_QUOTAS: Quota,
    v.RESOURCE_CLAIMS: Claim,
    "virtualmachineinstances": Vmi,
    "pods": Pod,
    "persistentvolumeclaims": VolumeClaim,
    "persistentvolumes": Volume,
    "secrets": Secret,
    v.RESOURCE_SYSTEMS: System,
}
"""The kinds of values by the resource under which they are listed."""


class Renderer:
    """Renders the objects of one world."""

    def __init__(self, world: World) -> None:
        self._shapes = world.shapes
        self._machines = {each.uid: each for each in world.vmis}

    def __call__(self, value: Object) -> bytes:
        """One object as JSON."""
        return orjson.dumps(self._raw(value))

    def _raw(self, value: Object) -> dict[str, object]:
        match value:
            case Node():
                return node(value)
            case Pod():
                return self._pod(value)
            case Claim():
                return claim(value)
            case GpuClass():
                return gpu_class(value)
            case Quota():
                return quota(value)
            case Namespace():
                return namespace(value)
            case Vmi():
                return vmi(value)
            case KubeVirt():
                return kubevirt(value)
            case VolumeClaim():
                return volume_claim(value)
            case Volume():
                return volume(value)
            case Secret():
                return secret(value)
            case System():
                return system(value)
            case _:
                raise TypeError(f"{type(value).__name__} has no raw form here")

    def _pod(self, value: Pod) -> dict[str, object]:
        shape: Shape = self._shapes[value.uid]
        if shape.is_launcher:
            return launcher(value, shape, self._machines[value.owner])
        return ordinary(value, shape)


def claim(value: Claim) -> dict[str, object]:
    """A GPUClaim with its conditions."""
    is_bound = bool(value.node_name)
    attached = value.attached_to
    conditions = [
        ("Ready", is_bound, "Placed"),
        ("Bound", is_bound, "Placed"),
        ("Attached", attached is not None, "InUse"),
        ("Disrupted", False, "Undisturbed"),
    ]
    status: dict[str, object] = {
        "epoch": 7,
        "conditions": [
            {
                "type": kind,
                "status": "True" if holds else "False",
                "reason": reason,
                "message": "",
                "lastTransitionTime": "2026-03-01T10:00:00Z",
                "observedGeneration": 1,
            }
            for kind, holds, reason in conditions
        ],
    }
    if is_bound:
        status |= {"nodeName": value.node_name, "boundTime": "2026-03-01T10:00:00Z"}
    if value.resource_name:
        status["resourceName"] = value.resource_name
    if attached is not None:
        status["attachedTo"] = {"kind": attached.kind, "name": attached.name, "uid": attached.uid}
    return {
        "apiVersion": v.GROUP_VERSION,
        "kind": v.KIND_CLAIM,
        "metadata": metadata(
            value.name,
            value.namespace,
            uid=value.uid,
            labels={v.LABEL_TEMPLATE: "true"} if value.is_template else {"app": "train"},
            owners=[owner(v.KUBEVIRT_GROUP_VERSION, "VirtualMachineInstance", "vm", value.owner)]
            if value.owner
            else [],
            finalizers=[v.FINALIZER_CLAIM],
            fields=written_by("kubectl-create", "spec", "className", "count")
            + written_by("gpu-binder", "status", "conditions", "nodeName", "resourceName"),
        ),
        "spec": {"className": value.class_name, "count": value.count},
        "status": status,
    }


def gpu_class(value: GpuClass) -> dict[str, object]:
    """A GPUClass."""
    return {
        "apiVersion": v.GROUP_VERSION,
        "kind": v.KIND_CLASS,
        "metadata": metadata(value.name, uid=value.uid, created=value.created),
        "spec": {
            "displayName": value.display_name,
            "description": value.description,
            "vendor": value.vendor,
            "mode": value.mode,
            "resourceName": value.resource_name,
            "memory": value.memory,
            "maxCount": value.max_count,
            "entitlement": value.entitlement,
            "lifecycle": value.lifecycle,
            "disclosure": value.disclosure,
            "tolerations": [
                {"key": each.key, "operator": each.operator, "effect": each.effect}
                for each in value.tolerations
            ],
        },
    }


def quota(value: Quota) -> dict[str, object]:
    """A ResourceQuota, with what the controller says of it."""
    hard = {key: str(units) for key, units in value.hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata(
            value.name,
            value.namespace,
            uid=value.uid,
            labels={"helm.toolkit.fluxcd.io/name": value.namespace},
            fields=written_by("helm-controller", "spec", "hard")
            + written_by("kube-controller-manager", "status", "hard", "used"),
        ),
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": dict.fromkeys(hard, "0")},
    }


def namespace(value: Namespace) -> dict[str, object]:
    """A namespace as Cozystack makes them for tenants."""
    labels = {
        "kubernetes.io/metadata.name": value.name,
        "namespace.cozystack.io/etcd": "tenant-root",
        "namespace.cozystack.io/host": "example.net",
        "namespace.cozystack.io/ingress": "tenant-root",
        "namespace.cozystack.io/monitoring": "tenant-root",
        "pod-security.kubernetes.io/enforce": "baseline",
    }
    if value.entitlement is not None:
        labels[v.LABEL_ENTITLEMENT] = value.entitlement
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata(
            value.name, labels=labels, fields=written_by("helm-controller", "metadata", "labels")
        ),
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def kubevirt(value: KubeVirt) -> dict[str, object]:
    """The KubeVirt object with its table."""
    table = [
        {"pciVendorSelector": "10DE:2330", "resourceName": name, "externalResourceProvider": True}
        for name in sorted(value.permitted or ())
    ]
    return {
        "apiVersion": v.KUBEVIRT_GROUP_VERSION,
        "kind": "KubeVirt",
        "metadata": metadata(value.name, value.namespace),
        "spec": {"configuration": {"permittedHostDevices": {"pciHostDevices": table}}},
        "status": {"phase": value.phase},
    }
