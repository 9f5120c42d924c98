"""Objects as the API server hands them to a webhook, and a hoster: state only what matters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from admission.inputs import Classes, Hoster
from admission.review import Allow, Decision, Request
from shared.core.model import (
    Entitlement,
    GpuClass,
    KubeVirt,
    Lifecycle,
    Mode,
    Namespace,
    Placement,
    Settings,
)
from shared.core.scheduling import Toleration
from shared.fields import mapping, text
from shared.settings import GpuSettings
from tests.unit.admission.jsonpatch import applied
from tests.unit.scripted_api import Raw

KUBEVIRT_USER = "system:serviceaccount:cozy-kubevirt:kubevirt-controller"
TENANT = "alice"

GA100 = "nvidia.com/GA100_A100_PCIE_40GB"
L40S = "nvidia.com/AD102GL_L40S"
T4_Q = "nvidia.com/GRID_T4-1Q"
NIC = "mellanox.com/cx6_vf"

A100 = GpuClass("a100", GA100, max_count=8)
L40S_CLASS = GpuClass(
    "l40s",
    L40S,
    tolerations=(Toleration("nvidia.com/gpu", "Equal", "present", "NoSchedule"),),
)
VGPU = GpuClass(
    "t4-1q",
    T4_Q,
    mode=Mode.VIRTUAL_GPU,
    entitlement=Entitlement.REQUIRED,
    license_secret="nvidia-license",
    tolerations=(
        Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),
        Toleration("vgpu", "Equal", "", "NoExecute", 300),
    ),
)
OLD = GpuClass("v100", "nvidia.com/GV100", lifecycle=Lifecycle.DEPRECATED)
CLOSED = GpuClass(
    "p40",
    "nvidia.com/GP102GL_Tesla_P40",
    lifecycle=Lifecycle.CLOSED,
    closed_since="2026-11-29T12:00:00Z",
)
CLASSES = Classes((each.name, each) for each in (A100, L40S_CLASS, VGPU, OLD, CLOSED))

PERMITTED = KubeVirt(
    "cozy-kubevirt",
    "kubevirt",
    "Deployed",
    permitted=frozenset({each.resource_name for each in CLASSES.values()} | {NIC, "intel.com/qat"}),
    mediated=frozenset({T4_Q, "nvidia.com/GRID_T4-8Q"}),
)
ENTITLED = {
    "tenant-a": Namespace("tenant-a"),
    "tenant-root": Namespace("tenant-root", "entitled"),
}
HOSTER = Hoster(
    classes=CLASSES,
    kubevirt=PERMITTED,
    line=("tenant-a", "tenant-root"),
    namespaces=ENTITLED,
)


def hoster(
    *classes: GpuClass,
    enabled: bool = True,
    placement: Placement = Placement.BINDER,
    listed: frozenset[str] = frozenset(),
    kubevirt: KubeVirt | None = PERMITTED,
    namespaces: Mapping[str, Namespace] = ENTITLED,
) -> Hoster:
    """The hoster of these tests with further classes (or others of a name) and settings."""
    reading = Settings(enabled=enabled, placement=placement, resource_names=listed)
    return replace(
        HOSTER,
        settings=GpuSettings(reading=reading),
        classes=Classes(CLASSES | {each.name: each for each in classes}),
        kubevirt=kubevirt,
        namespaces=namespaces,
    )


def request(
    thing: Raw | None,
    *,
    kind: tuple[str, str],
    operation: str = "CREATE",
    username: str = TENANT,
    namespace: str = "tenant-a",
    old: Raw | None = None,
) -> Request:
    """A review of this object."""
    metadata = mapping((thing or {}).get("metadata"))
    return Request(
        uid="review-1",
        operation=operation,
        group=kind[0],
        kind=kind[1],
        resource=f"{kind[1].lower()}s",
        namespace=namespace,
        name=text(metadata.get("name")),
        username=username,
        object=thing,
        old_object=old,
    )


def entries(*pairs: tuple[str, int]) -> str:
    """The class annotation for these classes and counts."""
    return json.dumps([{"className": name, "count": count} for name, count in pairs])


def vmi(
    classes: str | None = None,
    claims: str | None = None,
    *,
    name: str = "vm1",
    annotations: Mapping[str, str] | None = None,
    vm: tuple[str, str] | None = None,
    devices: Raw | None = None,
    resources: Raw | None = None,
    spec: Raw | None = None,
) -> Raw:
    """A VMI with these annotations; `vm` is name and uid of the VM that it says controls it."""
    found = dict(annotations or {})
    if classes is not None:
        found["gpu.cozystack.io/classes"] = classes
    if claims is not None:
        found["gpu.cozystack.io/claims"] = claims
    metadata: Raw = {"name": name} if name else {"generateName": "rs1"}
    metadata["namespace"] = "tenant-a"
    if found:
        metadata["annotations"] = found
    if vm is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachine",
                "name": vm[0],
                "uid": vm[1],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    domain: Raw = {"memory": {"guest": "8Gi"}, "devices": {} if devices is None else devices}
    if resources is not None:
        domain["resources"] = resources
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": metadata,
        "spec": {"domain": domain, **(spec or {})},
    }


def changed_by(decision: Decision, thing: Raw) -> Raw:
    """The object as it is stored after a decision that lets it in."""
    assert isinstance(decision, Allow), decision
    return applied(thing, decision.patch)
