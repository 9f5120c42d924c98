"""Objects of a simulated cluster: no more of each than somebody here reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from shared import vocabulary as v
from tests.kubevirt.resources import DEVICES

Raw = dict[str, Any]

_ROOM: Final = {"cpu": "64", "memory": "512Gi", "pods": "250", "ephemeral-storage": "1Ti"}

CLASSES: Final[Mapping[str, str]] = {"a100": "nvidia.com/A100", "l40s": "nvidia.com/L40S"}
"""Classes of the small worlds, and their devices."""


def node(name: str, /, **devices: int) -> Raw:
    """A node that is ready, with devices by the names of their classes."""
    amounts = dict.fromkeys(DEVICES, "1000")  # of KubeVirt's own, one for each launcher
    amounts |= {CLASSES[each]: str(units) for each, units in devices.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {v.LABEL_KUBEVIRT_SCHEDULABLE: "true", "kubernetes.io/hostname": name},
        },
        "spec": {},
        "status": {
            "allocatable": {**_ROOM, **amounts},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def gpu_class(name: str, /, **spec: object) -> Raw:
    """A class that everybody may order."""
    given = {"vendor": "NVIDIA", "mode": "Passthrough", "resourceName": CLASSES[name], **spec}
    return {
        "apiVersion": v.GROUP_VERSION,
        "kind": v.KIND_CLASS,
        "metadata": {"name": name},
        "spec": given,
    }


def namespace(name: str) -> Raw:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def quota(home: str, **units: int) -> Raw:
    """A budget of units by class."""
    hard = {f"{each}{v.CLASS_KEY_SUFFIX}": str(amount) for each, amount in units.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu", "namespace": home},
        "spec": {"hard": hard},
    }


def claim(home: str, name: str, class_name: str, count: int = 1) -> Raw:
    """An order."""
    return {
        "apiVersion": v.GROUP_VERSION,
        "kind": v.KIND_CLAIM,
        "metadata": {"name": name, "namespace": home},
        "spec": {"className": class_name, "count": count},
    }


def template_claim(vmi: Raw, name: str, class_name: str, count: int = 1) -> Raw:
    """A claim for one class entry of a VMI."""
    made = claim(vmi["metadata"]["namespace"], name, class_name, count)
    made["metadata"] |= {"labels": {v.LABEL_TEMPLATE: "true"}, "ownerReferences": [owner(vmi)]}
    return made


def owner(obj: Raw) -> Raw:
    """The reference to what controls something."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def machine(home: str, name: str, /, **annotations: object) -> Raw:
    """A VirtualMachine that runs; annotations `classes` and `claims` as Python values."""
    return {
        "apiVersion": v.KUBEVIRT_GROUP_VERSION,
        "kind": v.KIND_VM,
        "metadata": {"name": name, "namespace": home},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {
                    "annotations": {
                        f"{v.GROUP}/{key}": orjson.dumps(value).decode()
                        for key, value in annotations.items()
                    }
                },
                "spec": {"domain": {"devices": {}, "memory": {"guest": "2Gi"}}},
            },
        },
    }


def with_two_terms(vm: Raw) -> Raw:
    """A VM whose launcher may be on one of two sorts of nodes: all of ours are of both."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "Exists"}]}
        for key in ("kubernetes.io/hostname", v.LABEL_KUBEVIRT_SCHEDULABLE)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    template = vm["spec"]["template"]
    spec = {**template["spec"], "affinity": {"nodeAffinity": required}}
    return {**vm, "spec": {**vm["spec"], "template": {**template, "spec": spec}}}


def record(classes: Sequence[Raw], claims: Sequence[Raw]) -> list[Raw]:
    """What the VMI webhook records: claims by name, then entries by index (section 2)."""
    orders = [
        {
            "claim": each["metadata"]["name"],
            "className": each["spec"]["className"],
            "resourceName": CLASSES[each["spec"]["className"]],
            "count": each["spec"]["count"],
        }
        for each in sorted(claims, key=lambda each: str(each["metadata"]["name"]))
    ]
    entries = [
        {
            "entry": index,
            "className": each["className"],
            "resourceName": CLASSES[each["className"]],
            "count": each["count"],
        }
        for index, each in enumerate(classes)
    ]
    return [*orders, *entries]


def vmi(home: str, name: str, uid: str, recorded: Sequence[Raw], vm: Raw | None = None) -> Raw:
    """A VMI as admitted, with its record."""
    metadata: Raw = {
        "name": name,
        "namespace": home,
        "uid": uid,
        "annotations": {v.ANNOTATION_ATTACHMENTS: orjson.dumps(recorded).decode()},
    }
    if vm is not None:
        metadata["ownerReferences"] = [owner(vm)]
    gpus = [
        {"name": f"gpu-{index}", "deviceName": each["resourceName"]}
        for each in recorded
        for index in range(each["count"])
    ]
    return {
        "apiVersion": v.KUBEVIRT_GROUP_VERSION,
        "kind": v.KIND_VMI,
        "metadata": metadata,
        "spec": {"domain": {"devices": {"gpus": gpus}, "memory": {"guest": "2Gi"}}},
    }


def launcher(of: Raw, name: str, gates: Sequence[str] = (v.GATE,), **devices: int) -> Raw:
    """A launcher of a VMI at its gate, asking for units by class."""
    amounts = {CLASSES[each]: str(units) for each, units in devices.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": of["metadata"]["namespace"],
            "labels": {v.LABEL_KUBEVIRT: v.LAUNCHER},
            "annotations": {v.ANNOTATION_LAUNCHER: of["metadata"]["uid"]},
            "ownerReferences": [owner(of)],
        },
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [
                {
                    "name": "compute",
                    "image": "none",
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
        "status": {"phase": "Pending"},
    }


def pinned(pod: Raw, *nodes: str, gates: Sequence[str] = ()) -> Raw:
    """A pod with a required term for each node, and these gates."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]}]}
        for each in nodes
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {**pod["spec"], "affinity": {"nodeAffinity": required}}
    spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if not gates:
        del spec["schedulingGates"]
    return {**pod, "spec": spec}


def booked(obj: Raw, node_name: str, term: int = 1, **status: object) -> Raw:
    """A claim with a booking on a node."""
    resource = CLASSES[obj["spec"]["className"]]
    booking = {"epoch": term, "resourceName": resource, "nodeName": node_name, "boundTime": "t"}
    return {**obj, "status": {**obj.get("status", {}), **booking, **status}}


def system(term: int) -> Raw:
    """The GPUSystem of a term."""
    return {
        "apiVersion": v.GROUP_VERSION,
        "kind": v.KIND_SYSTEM,
        "metadata": {"name": v.SYSTEM_NAME},
        "status": {"epoch": term},
    }


def settings(**data: str) -> Raw:
    """The hoster's settings."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": v.SETTINGS_NAME, "namespace": v.NAMESPACE},
        "data": data,
    }


def event(about: Raw, reason: str, message: str, name: str) -> Raw:
    """A warning."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about["metadata"]["namespace"]},
        "involvedObject": {
            "kind": about["kind"],
            "name": about["metadata"]["name"],
            "namespace": about["metadata"]["namespace"],
            "uid": about["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
    }
