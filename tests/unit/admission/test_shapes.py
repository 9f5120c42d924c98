"""Objects of any shape: free-form fields reach webhooks before anybody checks their types."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admission import claim, final, gpuclass, pod, vmi
from admission.inputs import (
    ClassInputs,
    FinalInputs,
    OrderInputs,
    PodInputs,
    View,
    VmiInputs,
)
from admission.review import Allow, Decision, answer
from shared.core.model import Claim, RecordEntry, Vmi
from tests.unit.admission import building
from tests.unit.admission.building import GA100, HOSTER, KUBEVIRT_USER, T4_Q, changed_by, request
from tests.unit.admission.launchers import UID, launcher
from tests.unit.admission.test_gpuclass_rules import gpu_class
from tests.unit.scripted_api import Raw

Path = tuple[str | int, ...]

VMI = building.vmi(
    building.entries(("t4-1q", 1), ("a100", 2)),
    '["train"]',
    annotations={"gpu.cozystack.io/launcher": "x", "gpu.cozystack.io/attachments": "[]"},
    vm=("vm1", "vm-1"),
    devices={
        "disks": [{"name": "root", "disk": {"bus": "sata"}, "bootOrder": 1}],
        "filesystems": [{"name": "fs", "virtiofs": {}}],
        "hostDevices": [{"name": "nic", "deviceName": building.NIC}],
        "gpus": [],
    },
    resources={"requests": {"memory": "8Gi"}, "limits": {"cpu": "2"}},
    spec={
        "volumes": [{"name": "root", "dataVolume": {"name": "root", "hotpluggable": False}}],
        "networks": [{"name": "n", "resourceClaim": {"claimName": "c", "requestName": "r"}}],
        "resourceClaims": [{"name": "c", "resourceClaimName": "vf"}],
        "architecture": "amd64",
    },
)
TRAIN = Claim("tenant-a", "train", "a100", 1)
VMI_INPUTS = VmiInputs(HOSTER, claims={"train": TRAIN})
ADMITTED = changed_by(
    vmi.decide(request(VMI, kind=("kubevirt.io", "VirtualMachineInstance")), VMI_INPUTS), VMI
)
TOLERATION = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
POD = launcher(tolerations=[TOLERATION], schedulingGates=[{"name": "x"}])
RECORD = (RecordEntry(entry=0, class_name="t4-1q", resource_name=T4_Q, count=1),)
CLAIM: Raw = {
    "metadata": {"name": "c", "labels": {"app": "x"}},
    "spec": {"className": "a100", "count": 2},
}

Decide = Callable[[Raw], Decision]


def vmis(thing: Raw) -> Decision:
    asked = request(thing, kind=("kubevirt.io", "VirtualMachineInstance"))
    return vmi.decide(asked, VMI_INPUTS)


def finals(thing: Raw) -> Decision:
    asked = request(thing, kind=("kubevirt.io", "VirtualMachineInstance"))
    return final.decide(asked, FinalInputs(frozenset({GA100, T4_Q})))


def pods(thing: Raw) -> Decision:
    asked = request(thing, kind=("", "Pod"), username=KUBEVIRT_USER)
    return pod.decide(asked, PodInputs(HOSTER, Vmi("tenant-a", "vm1", UID, record=RECORD)))


def claims(thing: Raw) -> Decision:
    asked = request(thing, kind=("gpu.cozystack.io", "GPUClaim"))
    return claim.decide(asked, OrderInputs(HOSTER, View(1.0, GA100)))


def classes(thing: Raw) -> Decision:
    asked = request(thing, kind=("gpu.cozystack.io", "GPUClass"))
    return gpuclass.decide(asked, ClassInputs(HOSTER))


def places(value: object, path: Path = ()) -> Iterator[Path]:
    """Every place in a JSON value but the whole of it."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def put(document: Raw, path: Path, value: object) -> Raw:
    made: Any = copy.deepcopy(document)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    changed: Raw = made
    return changed


ODD: tuple[object, ...] = (None, [], {}, "x", 0, True, 1.5, [None], [[]], {"a": None}, ["x"])


@pytest.mark.parametrize(
    ("decide", "document"),
    [
        pytest.param(vmis, VMI, id="VMI"),
        pytest.param(vmis, ADMITTED, id="VMI, once more"),
        pytest.param(finals, ADMITTED, id="VMI, the last look"),
        pytest.param(pods, POD, id="pod"),
        pytest.param(claims, CLAIM, id="order"),
        pytest.param(classes, gpu_class(), id="class"),
    ],
)
def test_whatever_stands_in_any_place_there_is_a_decision(decide: Decide, document: Raw) -> None:
    tried = 0
    for path in places(document):
        for odd in ODD:
            thing = put(document, path, odd)
            decision = decide(thing)
            assert answer(request(thing, kind=("", "")), decision)
            if isinstance(decision, Allow):
                changed_by(decision, thing)  # every operation fits
            tried += 1
    assert tried > 50
