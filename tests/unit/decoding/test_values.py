"""Everything that a rule reads is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.core.model import (
    Attachment,
    Claim,
    Disclosure,
    Entitlement,
    GpuClass,
    KubeVirt,
    Lifecycle,
    Migration,
    Mode,
    Namespace,
    Node,
    Pod,
    Quota,
    RecordEntry,
    Vm,
    Vmi,
)
from shared.core.scheduling import Taint, Toleration
from shared.kube import decode
from tests.unit.decoding.raws import (
    CLAIM,
    CLASS,
    KUBEVIRT,
    MIGRATION,
    NAMESPACE,
    NODE,
    POD,
    QUOTA,
    VM,
    VMI,
    no_problem,
)
from tests.unit.scripted_api import Raw


@pytest.mark.parametrize(
    ("read", "raw", "want"),
    [
        (
            decode.node,
            NODE,
            Node(
                name="gpu-1",
                allocatable={
                    "cpu": 63500,
                    "memory": 269839249408,
                    "devices.kubevirt.io/kvm": 1000,
                    "nvidia.com/GA100": 8,
                },
                labels={"kubevirt.io/schedulable": "true"},
                taints=(
                    Taint("nvidia.com/gpu", "NoSchedule", "present"),
                    Taint("sku", "NoExecute", since="2026-11-29T12:00:00Z"),
                ),
                unschedulable=True,
                ready=True,
            ),
        ),
        (
            decode.pod,
            POD,
            Pod(
                namespace="tenant-a",
                name="virt-launcher-vm1-abcde",
                uid="pod-1",
                node_name="gpu-1",
                requests={"nvidia.com/GA100": 2},
                owner="vmi-1",
                launcher_mark="vmi-1",
            ),
        ),
        (
            decode.claim,
            CLAIM,
            Claim(
                namespace="tenant-a",
                name="c1",
                class_name="a100",
                count=4,
                uid="claim-1",
                resource_name="nvidia.com/GA100",
                node_name="gpu-1",
                attached_to=Attachment("VirtualMachine", "vm1", "vm-1"),
                deleting=True,
            ),
        ),
        (
            decode.gpu_class,
            CLASS,
            GpuClass(
                name="a100",
                resource_name="nvidia.com/GA100",
                mode=Mode.PASSTHROUGH,
                uid="class-1",
                created="2026-11-29T12:00:00Z",
                labels={"tier": "gold"},
                display_name="A100",
                description="a card",
                vendor="NVIDIA",
                memory="40Gi",
                max_count=8,
                entitlement=Entitlement.REQUIRED,
                lifecycle=Lifecycle.DEPRECATED,
                disclosure=Disclosure.BUCKETED,
                tolerations=(
                    Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),
                    Toleration("sku", "Equal", "gpu", "", 60),
                ),
                closed_since="2026-11-29T14:00:00Z",
                license_secret="nvidia-license",
            ),
        ),
        (
            decode.quota,
            QUOTA,
            Quota("tenant-a", "tenant-quota", {"requests.nvidia.com/GA100": 2, "pods": 10}),
        ),
        (decode.namespace, NAMESPACE, Namespace("tenant-a", "denied")),
        (
            decode.vmi,
            VMI,
            Vmi(
                namespace="tenant-a",
                name="vm1",
                uid="vmi-1",
                vm="vm-1",
                active_pods=("pod-1", "pod-2"),
                record=(
                    RecordEntry(
                        claim="c1", class_name="a100", resource_name="nvidia.com/GA100", count=4
                    ),
                    RecordEntry(entry=0, class_name="t4", resource_name="nvidia.com/T4", count=1),
                ),
                phase="Running",
                node_name="gpu-1",
            ),
        ),
        (decode.vm, VM, Vm("tenant-a", "vm1", "vm-1", "2026-11-29T12:00:00Z")),
        (decode.migration, MIGRATION, Migration("tenant-a", "m1", "migration-1", "vm1")),
        (
            decode.kubevirt,
            KUBEVIRT,
            KubeVirt(
                namespace="cozy-kubevirt",
                name="kubevirt",
                phase="Deployed",
                permitted=frozenset(
                    {
                        "nvidia.com/GA100",
                        "nvidia.com /P40",
                        "nvidia.com/GRID_T4-1Q",
                        "kubevirt.io/skyconnect",
                    }
                ),
                mediated=frozenset({"nvidia.com/GRID_T4-1Q"}),
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if not callable(value) else value.__name__,
)
def test_everything_that_a_rule_reads_is_read(
    read: Callable[[Raw, decode.Note], object], raw: Raw, want: object
) -> None:
    assert read(raw, no_problem) == want
