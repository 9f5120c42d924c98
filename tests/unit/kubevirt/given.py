"""Objects to decide about: a test states only what matters to it."""

from __future__ import annotations

import datetime

from tests.cluster.api import Object

NOW = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.UTC)
MOMENT = "2026-03-01T12:00:00Z"
GPU = "nvidia.com/GA100_A100_PCIE_40GB"


def instance(
    name: str = "train",
    *,
    phase: str = "",
    spec: Object | None = None,
    status: Object | None = None,
    **metadata: object,
) -> Object:
    """An instance of namespace `tenant-x`, 2 CPUs and 2 GiB, its uid `uid-of-<name>`."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": name,
            "namespace": "tenant-x",
            "uid": f"uid-of-{name}",
            "finalizers": ["kubevirt.io/foregroundDeleteVirtualMachine"],
            **metadata,
        },
        "spec": {"domain": domain(), **(spec or {})},
        "status": {**({"phase": phase} if phase else {}), **(status or {})},
    }


def domain(**fields: object) -> Object:
    """A guest of 2 CPUs and 2 GiB."""
    return {"cpu": {"cores": 2}, "memory": {"guest": "2Gi"}, "devices": {}, **fields}


def gpus(*resources: str) -> Object:
    """A guest with GPUs of these resources, one entry each."""
    entries = [{"name": f"gpu{n}", "deviceName": each} for n, each in enumerate(resources)]
    return domain(devices={"gpus": entries})


def launcher(
    name: str = "virt-launcher-train-abcde",
    *,
    phase: str = "Pending",
    node: str = "",
    gate: bool = False,
    created: str = MOMENT,
    status: Object | None = None,
    **metadata: object,
) -> Object:
    """A launcher of the instance `train`, its uid `uid-of-<name>`."""
    blocked = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": None,
        "lastTransitionTime": MOMENT,
    }
    running = {"containerStatuses": [{"name": "compute", "state": {"running": {}}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "tenant-x",
            "uid": f"uid-of-{name}",
            "creationTimestamp": created,
            "labels": {"kubevirt.io": "virt-launcher"},
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": "train",
                    "uid": "uid-of-train",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            **metadata,
        },
        "spec": {
            "containers": [{"name": "compute"}],
            **({"nodeName": node} if node else {}),
            **({"schedulingGates": [{"name": "gpu.cozystack.io/claims"}]} if gate else {}),
        },
        "status": {
            "phase": phase,
            "qosClass": "Burstable",
            **({"conditions": [blocked]} if gate else {}),
            **(running if phase == "Running" else {}),
            **(status or {}),
        },
    }


def machine(
    strategy: str = "Always", *, status: Object | None = None, **metadata: object
) -> Object:
    """A machine `train` of namespace `tenant-x` that KubeVirt has seen before."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {
            "name": "train",
            "namespace": "tenant-x",
            "uid": "uid-of-machine",
            "generation": 1,
            "finalizers": ["kubevirt.io/virtualMachineControllerFinalize"],
            **metadata,
        },
        "spec": {"runStrategy": strategy, "template": {"spec": {"domain": gpus(GPU)}}},
        **({"status": status} if status else {}),
    }


def conditions(obj: Object) -> dict[str, tuple[str, str, str]]:
    """Conditions of an object's status: status, reason and message by type."""
    return {
        each["type"]: (each["status"], each.get("reason", ""), each.get("message", ""))
        for each in obj["status"].get("conditions", ())
    }
