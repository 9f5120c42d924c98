"""A node as a kubelet and the node labellers leave it."""

from __future__ import annotations

from shared.core.model import Node
from tests.bench.hardware import READY_SINCE
from tests.bench.raw_metadata import Field, metadata, written_by

_IMAGES = [
    {
        "names": [
            f"registry.example/platform/component-{number}@sha256:{number:064x}",
            f"registry.example/platform/component-{number}:v1.{number}.0",
        ],
        "sizeBytes": 60_000_000 + number * 1_000_003,
    }
    for number in range(20)
]
_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_FIELDS = [
    *written_by("kubelet", "status", "conditions", "images", "nodeInfo", "capacity"),
    *written_by("virt-handler", "metadata", "labels", "annotations", rows=12),
]


def node(value: Node) -> Field:
    """A Node of 15 to 20 KB: labels and images are most of it."""
    amounts = {
        name: f"{units}m" if name == "cpu" else str(units)
        for name, units in value.allocatable.items()
    }
    spec: Field = {
        "podCIDR": "10.244.7.0/24",
        "podCIDRs": ["10.244.7.0/24"],
        "providerID": f"metal://{value.name}",
        "taints": [
            {"key": each.key, "effect": each.effect, "value": each.value} for each in value.taints
        ],
    }
    if value.unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(
            value.name,
            uid=value.uid,
            labels=value.labels,
            annotations={
                "kubevirt.io/heartbeat": "2026-03-01T10:00:00Z",
                "kubevirt.io/ksm-handler-managed": "false",
                "csi.volume.kubernetes.io/nodeid": '{"storage.example.net":"' + value.name + '"}',
                "node.alpha.kubernetes.io/ttl": "0",
                "ovn.kubernetes.io/allocated": "true",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            fields=_FIELDS,
        ),
        "spec": spec,
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "10.0.7.7"},
                {"type": "Hostname", "address": value.name},
            ],
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [
                *(_condition(kind, "False", f"kubelet has no {kind}") for kind in _CONDITIONS),
                _condition("Ready", "True" if value.ready else "False", "kubelet reports ready"),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": _IMAGES,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "0d9d3e3b-9b45-4c9c-9d7c-1a2b3c4d5e6f",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.44-talos",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.34.1",
                "machineID": "9b454c9c9d7c1a2b3c4d5e6f0d9d3e3b",
                "operatingSystem": "linux",
                "osImage": "Talos (v1.11.2)",
                "systemUUID": "4c4c4544-0042-3510-8052-b7c04f4e3333",
            },
            "volumesAttached": [],
            "volumesInUse": [],
        },
    }


def _condition(kind: str, status: str, message: str) -> Field:
    return {
        "type": kind,
        "status": status,
        "reason": f"Kubelet{kind}",
        "message": message,
        "lastHeartbeatTime": "2026-03-01T10:00:00Z",
        "lastTransitionTime": READY_SINCE,
    }
