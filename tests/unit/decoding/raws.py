"""One object of each kind as the API server sends it, and changes to it."""

from __future__ import annotations

import json

from tests.unit.scripted_api import Raw


def no_problem(problem: str) -> None:
    raise AssertionError(problem)


def owner(
    kind: str, uid: str, *, group: str = "kubevirt.io/v1", controller: bool | None = True
) -> Raw:
    reference = {"apiVersion": group, "kind": kind, "name": "vm1", "uid": uid}
    return reference if controller is None else {**reference, "controller": controller}


NODE: Raw = {
    "metadata": {"name": "gpu-1", "labels": {"kubevirt.io/schedulable": "true"}},
    "spec": {
        "unschedulable": True,
        "taints": [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            {"key": "sku", "effect": "NoExecute", "timeAdded": "2026-11-29T12:00:00Z"},
        ],
    },
    "status": {
        "capacity": {"nvidia.com/GA100": "9"},
        "allocatable": {
            "cpu": "63500m",
            "memory": "263514892Ki",
            "devices.kubevirt.io/kvm": "1k",
            "nvidia.com/GA100": "8",
        },
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": "True"},
        ],
    },
}

POD: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "virt-launcher-vm1-abcde",
        "uid": "pod-1",
        "annotations": {"gpu.cozystack.io/launcher": "vmi-1"},
        "ownerReferences": [owner("VirtualMachineInstance", "vmi-1")],
    },
    "spec": {
        "nodeName": "gpu-1",
        "containers": [{"resources": {"requests": {"nvidia.com/GA100": "2"}}}],
    },
    "status": {"phase": "Running"},
}

CLAIM: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "c1",
        "uid": "claim-1",
        "deletionTimestamp": "2026-11-29T12:00:00Z",
    },
    "spec": {"className": "a100", "count": 4},
    "status": {
        "resourceName": "nvidia.com/GA100",
        "nodeName": "gpu-1",
        "attachedTo": {"kind": "VirtualMachine", "name": "vm1", "uid": "vm-1"},
    },
}

CLASS: Raw = {
    "metadata": {
        "name": "a100",
        "uid": "class-1",
        "creationTimestamp": "2026-11-29T12:00:00Z",
        "labels": {"tier": "gold"},
    },
    "spec": {
        "displayName": "A100",
        "description": "a card",
        "vendor": "NVIDIA",
        "mode": "Passthrough",
        "resourceName": "nvidia.com/GA100",
        "memory": "40Gi",
        "maxCount": 8,
        "entitlement": "Required",
        "lifecycle": "Deprecated",
        "disclosure": "Bucketed",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "sku", "value": "gpu", "tolerationSeconds": 60},
        ],
        "guestLicense": {"secretName": "nvidia-license"},
    },
    "status": {
        "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-29T13:00:00Z"},
            {"type": "Open", "status": "False", "lastTransitionTime": "2026-11-29T14:00:00Z"},
        ]
    },
}

QUOTA: Raw = {
    "metadata": {"namespace": "tenant-a", "name": "tenant-quota"},
    "spec": {"hard": {"requests.nvidia.com/GA100": "2000m", "pods": 10}},
    "status": {"hard": {"pods": "99"}},
}

NAMESPACE: Raw = {"metadata": {"name": "tenant-a", "labels": {"gpu.cozystack.io/vgpu": "denied"}}}

RECORD = [
    {"claim": "c1", "className": "a100", "resourceName": "nvidia.com/GA100", "count": 4},
    {"entry": 0, "className": "t4", "resourceName": "nvidia.com/T4", "count": 1},
]

VMI: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "vm1",
        "uid": "vmi-1",
        "annotations": {"gpu.cozystack.io/attachments": json.dumps(RECORD)},
        "ownerReferences": [owner("VirtualMachine", "vm-1")],
    },
    "status": {
        "phase": "Running",
        "nodeName": "gpu-1",
        "activePods": {"pod-1": "gpu-1", "pod-2": ""},
    },
}

VM: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "vm1",
        "uid": "vm-1",
        "creationTimestamp": "2026-11-29T12:00:00Z",
    },
}

MIGRATION: Raw = {
    "metadata": {"namespace": "tenant-a", "name": "m1", "uid": "migration-1"},
    "spec": {"vmiName": "vm1"},
    "status": {"phase": "Running"},
}

KUBEVIRT: Raw = {
    "metadata": {"namespace": "cozy-kubevirt", "name": "kubevirt"},
    "spec": {
        "configuration": {
            "permittedHostDevices": {
                "pciHostDevices": [
                    {"pciVendorSelector": "10DE:20B0", "resourceName": "nvidia.com/GA100"},
                    {"pciVendorSelector": "10de:1B38", "resourceName": "nvidia.com /P40"},
                ],
                "mediatedDevices": [
                    {"mdevNameSelector": "GRID T4-1Q", "resourceName": "nvidia.com/GRID_T4-1Q"}
                ],
                "usb": [{"resourceName": "kubevirt.io/skyconnect", "selectors": []}],
            }
        }
    },
    "status": {"phase": "Deployed"},
}


def changed(raw: Raw, path: str, value: object) -> Raw:
    """A copy of an object with the field at a dotted path set; None takes it away."""
    copy: Raw = json.loads(json.dumps(raw))
    at = copy
    *parents, last = path.split(".")
    for parent in parents:
        at = at.setdefault(parent, {})
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value
    return copy
