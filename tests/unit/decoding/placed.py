"""Objects as placing reads them, with all that it needs."""

from __future__ import annotations

from tests.unit.decoding.raws import VMI, owner
from tests.unit.scripted_api import Raw


def named(name: str, namespace: str = "", **metadata: object) -> Raw:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **metadata}


MOMENT = "2026-11-29T12:00:00Z"
NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["gpu-a", "gpu-b"]},
                    {
                        "key": "node-labeller.kubevirt.io/obsolete-host-model",
                        "operator": "DoesNotExist",
                    },
                ],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["gpu-7"]}],
            },
            {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]},
        ]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
}
AFFINITY = {
    "nodeAffinity": NODE_AFFINITY,
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "zone",
                "labelSelector": {"matchLabels": {"app": "db", "a": "1"}},
                "namespaces": ["tenant-b"],
                "namespaceSelector": {},
            }
        ]
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {
                    "matchLabels": {"kubevirt.io/created-by": "vmi-1"},
                    "matchExpressions": [{"key": "tier", "operator": "Exists"}],
                },
            }
        ],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}],
    },
}
GATED: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "virt-launcher-vm1-abcde",
        "uid": "pod-1",
        "resourceVersion": "1504",
        "creationTimestamp": MOMENT,
        "deletionTimestamp": "2026-11-29T19:00:00Z",
        "labels": {"app": "train", "kubevirt.io/migrationJobUID": "migration-1"},
        "annotations": {"kubevirt.io/ephemeral-provisioning": "true"},
        "ownerReferences": [owner("VirtualMachineInstance", "vmi-1")],
    },
    "spec": {
        "schedulingGates": [{"name": "example.com/other"}, {"name": "gpu.cozystack.io/claims"}],
        "nodeSelector": {"kubevirt.io/schedulable": "true", "kubernetes.io/arch": "amd64"},
        "affinity": AFFINITY,
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "train"}},
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["revision"],
            },
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
        ],
        "tolerations": [
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "sku", "value": "x", "tolerationSeconds": 300},
        ],
        "volumes": [
            {"name": "private", "emptyDir": {}},
            {"name": "root", "persistentVolumeClaim": {"claimName": "root-disk"}},
            {"name": "boot", "persistentVolumeClaim": {"claimName": "boot"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
        "containers": [{"name": "compute", "ports": [{"containerPort": 80}]}],
    },
    "status": {
        "phase": "Failed",
        "reason": "OutOfnvidia.com/GA100",
        "message": "Pod was rejected",
        "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": MOMENT},
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": MOMENT,
            },
        ],
    },
}
CONDITION: Raw = {
    "type": "Ready",
    "status": "False",
    "reason": "NoCapacity",
    "message": "asked 4, up to 2",
    "lastTransitionTime": MOMENT,
    "observedGeneration": 3,
}
METADATA: Raw = {
    "resourceVersion": "77",
    "generation": 3,
    "creationTimestamp": MOMENT,
    "deletionTimestamp": "2026-11-30T12:00:00Z",
    "finalizers": ["gpu.cozystack.io/claim", "example.com/other"],
    "labels": {"team": "a"},
}
MACHINE: Raw = {
    "metadata": {
        **VMI["metadata"],
        "creationTimestamp": MOMENT,
        "deletionTimestamp": "2026-11-30T12:00:00Z",
        "labels": {"apps.cozystack.io/application.name": "train"},
        "annotations": {
            "gpu.cozystack.io/classes": '[{"className":"a100"}]',
            "gpu.cozystack.io/claims": '["c1"]',
        },
    },
    "spec": {
        "startStrategy": "Paused",
        "volumes": [
            {"name": "image", "containerDisk": {"image": "fedora"}},
            {"name": "root", "dataVolume": {"name": "root-disk"}},
            {
                "name": "data",
                "persistentVolumeClaim": {"claimName": "data", "hotpluggable": True},
            },
            {"name": "more", "dataVolume": {"name": "more", "hotpluggable": True}},
            {"name": "copy", "ephemeral": {"persistentVolumeClaim": {"claimName": "base"}}},
            {"name": "dump", "memoryDump": {"claimName": "dump", "hotpluggable": True}},
        ],
    },
    "status": {
        "activePods": {"pod-1": "gpu-1", "pod-2": ""},
        "migrationState": {
            "migrationUid": "migration-1",
            "sourceNode": "gpu-1",
            "targetNode": "gpu-2",
            "targetPod": "virt-launcher-vm1-fghij",
            "completed": True,
            "failed": True,
        },
    },
}
VOLUME_CLAIM: Raw = {
    "metadata": named(
        "root",
        "tenant-a",
        uid="u",
        annotations={"volume.kubernetes.io/selected-node": "gpu-1"},
    ),
    "spec": {"volumeName": "pv-1"},
    "status": {"phase": "Bound"},
}
VOLUME: Raw = {
    "metadata": named("pv-1"),
    "spec": {
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-1"]}
                        ]
                    }
                ]
            }
        }
    },
}
SECRET: Raw = {"metadata": named("gpu-license-a100", "tenant-a"), "data": {"token": "x"}}
SYSTEM: Raw = {
    "metadata": named("default", resourceVersion="5", generation=2),
    "status": {
        "epoch": 7,
        "resourceNames": ["nvidia.com/A", "nvidia.com/B"],
        "effectiveSettings": {"placement": "binder", "trustedGroups": ["admins"]},
        "conditions": [CONDITION],
    },
}
