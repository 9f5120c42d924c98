"""VMs as KubeVirt stores them: their instances."""

from __future__ import annotations

import orjson

from shared import vocabulary as v
from shared.core.model import RecordEntry, Vmi
from tests.bench.raw_metadata import Field, metadata, owner, written_by

_FIELDS = [
    *written_by("virt-controller", "spec", "domain", "networks", "volumes", rows=8),
    *written_by("virt-handler", "status", "conditions", "interfaces", "volumeStatus", rows=6),
]


def record(entries: tuple[RecordEntry, ...]) -> str:
    """The record of admission."""
    return orjson.dumps(
        [
            {
                **({"claim": each.claim} if each.claim else {"entry": each.entry}),
                "className": each.class_name,
                "resourceName": each.resource_name,
                "count": each.count,
            }
            for each in entries
        ]
    ).decode()


def annotations_of(value: Vmi) -> dict[str, str]:
    """What the webhook and the tenant wrote."""
    annotations = {"vm.kubevirt.io/flavor": "large", "vm.kubevirt.io/os": "ubuntu"}
    if value.record:
        annotations[v.ANNOTATION_ATTACHMENTS] = record(value.record)
    return annotations


def vmi(value: Vmi) -> Field:
    """A running VirtualMachineInstance."""
    devices = [
        {"name": f"device-{number}", "deviceName": entry.resource_name}
        for entry in value.record
        for number in range(entry.count)
    ]
    return {
        "apiVersion": v.KUBEVIRT_GROUP_VERSION,
        "kind": "VirtualMachineInstance",
        "metadata": metadata(
            value.name,
            value.namespace,
            uid=value.uid,
            labels={"app.kubernetes.io/instance": value.name, "kubevirt.io/nodeName": "node-1"},
            annotations=annotations_of(value),
            owners=[owner(v.KUBEVIRT_GROUP_VERSION, "VirtualMachine", value.name, value.vm)],
            finalizers=["kubevirt.io/virtualMachineControllerFinalize"],
            fields=_FIELDS,
        ),
        "spec": {
            "architecture": "amd64",
            "domain": {
                "cpu": {"cores": 8, "model": "host-model", "sockets": 1, "threads": 1},
                "devices": {
                    "disks": [{"name": name, "disk": {"bus": "virtio"}} for name in ("a", "b")],
                    "gpus": devices,
                    "interfaces": [{"name": "default", "bridge": {}, "macAddress": "02:00"}],
                    "rng": {},
                },
                "features": {"acpi": {"enabled": True}, "smm": {"enabled": True}},
                "firmware": {"uuid": value.uid, "bootloader": {"efi": {"secureBoot": False}}},
                "machine": {"type": "q35"},
                "memory": {"guest": "32Gi", "maxGuest": "128Gi"},
                "resources": {"requests": {"memory": "32Gi"}},
            },
            "evictionStrategy": "LiveMigrateIfPossible",
            "networks": [{"name": "default", "pod": {}}],
            "terminationGracePeriodSeconds": 30,
            "volumes": [
                {"name": "a", "dataVolume": {"name": f"{value.name}-system"}},
                {"name": "b", "cloudInitNoCloud": {"secretRef": {"name": f"{value.name}-init"}}},
            ],
        },
        "status": {
            "activePods": dict.fromkeys(sorted(value.active_pods), "node-1"),
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-03-01T10:00:00Z"}
                for kind in ("Ready", "DataVolumesReady", "LiveMigratable", "AgentConnected")
            ],
            "guestOSInfo": {"name": "Ubuntu", "kernelRelease": "6.8.0", "version": "24.04"},
            "interfaces": [{"name": "default", "ipAddress": "10.0.0.1", "mac": "02:00"}],
            "launcherContainerImageVersion": "registry.example/kubevirt/virt-launcher:v1.9.0",
            "memory": {"guestAtBoot": "32Gi", "guestCurrent": "32Gi", "guestRequested": "32Gi"},
            "migrationMethod": "LiveMigration",
            "phase": value.phase,
            "phaseTransitionTimestamps": [
                {"phase": phase, "phaseTransitionTimestamp": "2026-03-01T10:00:00Z"}
                for phase in ("Pending", "Scheduling", "Scheduled", "Running")
            ],
            "volumeStatus": [
                {"name": "a", "target": "vda", "persistentVolumeClaimInfo": {"capacity": {}}},
                {"name": "b", "target": "vdb", "size": 1048576},
            ],
        },
    }
