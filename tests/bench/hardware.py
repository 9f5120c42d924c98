"""What a GPU node of a KubeVirt cluster says of itself besides its devices."""

from __future__ import annotations

from collections.abc import Mapping

from shared.vocabulary import LABEL_KUBEVIRT_SCHEDULABLE
from tests.bench.shapes import KUBEVIRT_DEVICES

# Each kind of processor has models that it can play and features that it has.
_MODELS = (
    ("EPYC", "EPYC-IBPB", "EPYC-Rome", "EPYC-Milan", "EPYC-Genoa", "Opteron_G3", "Opteron_G2"),
    ("Broadwell", "Cascadelake-Server", "Haswell", "Icelake-Server", "Nehalem", "Skylake-Server"),
)
_FEATURES = tuple(
    f"{stem}{number}"
    for stem in ("avx512", "amd-ssbd", "vmx-page-walk-", "svm-", "xsave", "umip")
    for number in range(1, 11)
)
READY_SINCE = "2026-03-01T09:00:00Z"
_MACHINES = ("q35", "pc-q35-rhel9.6.0", "pc-q35-rhel9.4.0", "pc-q35-rhel9.2.0", "pc-q35-rhel8.6.0")


def native_of(index: int) -> Mapping[str, int]:
    """The allocatable amounts of a node's own resources; CPU in thousandths."""
    cores = 96 if index % 3 else 192
    return {
        "cpu": cores * 1000 - 500,
        "ephemeral-storage": 1_600_000_000_000,
        "hugepages-1Gi": 0,
        "hugepages-2Mi": 0,
        "memory": cores * 8 * 2**30 - 2**30 - index * 2**12,
        "pods": 250,
        **dict.fromkeys(KUBEVIRT_DEVICES, 1000),
    }


def labels_of(name: str, index: int) -> Mapping[str, str]:
    """The labels of a node: Kubernetes', KubeVirt's node labeller's, the device operator's."""
    kind = index % 3 % 2
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "dc1",
        "topology.kubernetes.io/zone": f"dc1-{index % 3}",
        LABEL_KUBEVIRT_SCHEDULABLE: "true",
        "cpumanager": "false",
        f"cpu-vendor.node.kubevirt.io/{('AMD', 'Intel')[kind]}": "true",
        "scheduling.node.kubevirt.io/tsc-frequency": ("2450000000", "2600000000")[kind],
        "nvidia.com/gfd.timestamp": str(1_764_000_000 + index),
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.sandbox-device-plugin": "true",
        "nvidia.com/gpu.deploy.vfio-manager": "true",
    }
    for model in _MODELS[kind]:
        labels[f"cpu-model.node.kubevirt.io/{model}"] = "true"
        labels[f"cpu-model-migration.node.kubevirt.io/{model}"] = "true"
    for feature in _FEATURES:
        labels[f"cpu-feature.node.kubevirt.io/{feature}"] = "true"
    for machine in _MACHINES:
        labels[f"machine-type.node.kubevirt.io/{machine}"] = "true"
    return labels
