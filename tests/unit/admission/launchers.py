"""Pods as KubeVirt makes them, and a stranger with what they carry."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from admission import pod as rules
from admission.inputs import PodInputs
from shared.core.model import Migration, RecordEntry, Vmi
from tests.unit.admission.building import (
    GA100,
    HOSTER,
    KUBEVIRT_USER,
    L40S,
    changed_by,
    request,
)
from tests.unit.scripted_api import Raw

KIND = ("", "Pod")
UID = "7b1f9a52-6f1e-4f0a-9d0e-0c1f4b1f8a11"
GATE = {"name": "gpu.cozystack.io/claims"}
MARK = "gpu.cozystack.io/launcher"
RECORD = "gpu.cozystack.io/attachments"
ENTRY = RecordEntry(entry=0, class_name="l40s", resource_name=L40S, count=2)
CLAIM = RecordEntry(claim="train", class_name="a100", resource_name=GA100, count=1)
VM1 = Vmi("tenant-a", "vm1", UID, record=(ENTRY,), phase="Pending")
KNOWN = PodInputs(HOSTER, VM1)
L40S_TOLERATION = {
    "key": "nvidia.com/gpu",
    "operator": "Equal",
    "value": "present",
    "effect": "NoSchedule",
}


def launcher(**spec: object) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "virt-launcher-vm1-",
            "namespace": "tenant-a",
            "labels": {
                "kubevirt.io": "virt-launcher",
                "kubevirt.io/created-by": UID,
                "vm.kubevirt.io/name": "vm1",
                "vmi.kubevirt.io/id": "vm1",
            },
            "annotations": {
                "gpu.cozystack.io/classes": '[{"className":"l40s","count":2}]',
                RECORD: "copied from the VMI, and not read",
                "kubevirt.io/domain": "vm1",
            },
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": "vm1",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeSelector": {"kubevirt.io/schedulable": "true"},
            "containers": [{"name": "compute", "resources": {"limits": {L40S: "2"}}}],
            **spec,
        },
    }


def target() -> Raw:
    """A migration target: the label, the annotation, and nothing else differs (43)."""
    pod = launcher()
    pod["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "migration-1"
    pod["metadata"]["annotations"]["kubevirt.io/migrationJobName"] = "m1"
    return pod


def temporary() -> Raw:
    """The pod that binds volumes before the launcher comes (38)."""
    pod = launcher()
    pod["metadata"]["annotations"]["kubevirt.io/ephemeral-provisioning"] = "true"
    return pod


MIGRATING = PodInputs(
    HOSTER,
    replace(VM1, phase="Running", node_name="gpu-1"),
    Migration("tenant-a", "m1", "migration-1", "vm1"),
)


def reviewed(pod: Raw, inputs: PodInputs = KNOWN, username: str = KUBEVIRT_USER) -> Any:  # noqa: ANN401 - a decision
    return rules.decide(request(pod, kind=KIND, username=username), inputs)


def stored(pod: Raw, inputs: PodInputs = KNOWN) -> Raw:
    return changed_by(reviewed(pod, inputs), pod)


def got_of(pod: Raw) -> tuple[Any, Any, Any]:
    """Mark, tolerations and gates."""
    spec = pod["spec"]
    annotations = pod["metadata"].get("annotations") or {}
    return annotations.get(MARK), spec.get("tolerations"), spec.get("schedulingGates")


def changed_launcher(change: Callable[[Raw], Any]) -> Raw:
    pod = copy.deepcopy(launcher())
    change(pod)
    return pod


def owned(**changes: object) -> Callable[[Raw], Any]:
    return lambda pod: pod["metadata"]["ownerReferences"][0].update(changes)
