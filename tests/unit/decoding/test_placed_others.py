"""What placing needs of VMs, claims, classes and namespaces, and the kinds that it alone reads."""

from __future__ import annotations

import pytest

from shared.core.model import Secret, System, Volume, VolumeClaim
from shared.core.placing import (
    ClaimWritten,
    ClassWritten,
    Condition,
    Moving,
    VmiPlacing,
    VmiVolume,
    Waiting,
)
from shared.core.scheduling import NodeTerm, Requirement
from shared.kube import decode
from tests.unit.decoding.placed import (
    CONDITION,
    MACHINE,
    METADATA,
    MOMENT,
    SECRET,
    SYSTEM,
    VOLUME,
    VOLUME_CLAIM,
    named,
)
from tests.unit.decoding.raws import CLAIM, CLASS, NAMESPACE, VMI, changed, no_problem

READY = Condition("Ready", "False", "NoCapacity", "asked 4, up to 2", MOMENT, 3)


def test_everything_that_placing_needs_of_a_vm_is_read() -> None:
    assert decode.vmi(MACHINE, no_problem, placing=True).placing == VmiPlacing(
        created=MOMENT,
        deleted="2026-11-30T12:00:00Z",
        labels={"apps.cozystack.io/application.name": "train"},
        vm_name="vm1",
        pods={"pod-1": "gpu-1", "pod-2": ""},
        classes='[{"className":"a100"}]',
        claims='["c1"]',
        volumes=(
            VmiVolume("root-disk"),
            VmiVolume("data", is_hotpluggable=True),
            VmiVolume("more", is_hotpluggable=True),
            VmiVolume("base"),
            VmiVolume("dump", is_hotpluggable=True),
        ),
        moving=Moving(
            "migration-1",
            "gpu-1",
            "gpu-2",
            "virt-launcher-vm1-fghij",
            is_completed=True,
            is_failed=True,
        ),
        start_strategy="Paused",
    )


def test_a_vm_of_nobody_that_never_moved_says_so() -> None:
    raw = changed(VMI, "metadata.ownerReferences", None)
    placing = decode.vmi(raw, no_problem, placing=True).placing
    assert placing is not None
    assert (placing.vm_name, placing.moving) == ("", None)


def test_what_was_last_written_to_a_claim_is_read() -> None:
    raw = {
        **CLAIM,
        "metadata": {**CLAIM["metadata"], **METADATA},
        "status": {
            "epoch": 7,
            "boundTime": MOMENT,
            "waiting": {"reason": "NoCapacity", "message": "m", "sinceTime": MOMENT},
            "conditions": [CONDITION],
        },
    }
    assert decode.claim(raw, no_problem, placing=True).written == ClaimWritten(
        resource_version="77",
        generation=3,
        created=MOMENT,
        deleted="2026-11-30T12:00:00Z",
        labels={"team": "a"},
        finalizers=("gpu.cozystack.io/claim", "example.com/other"),
        epoch=7,
        bound=MOMENT,
        waiting=Waiting("NoCapacity", "m", MOMENT),
        conditions=(READY,),
    )


def test_what_a_claim_says_at_first_was_not_written_by_anybody() -> None:
    """Else its conditions would be taken over with the time that stands there until then."""
    at_first = {"conditions": [{**CONDITION, "lastTransitionTime": "1970-01-01T00:00:00Z"}]}
    got = decode.claim(changed(CLAIM, "status", at_first), no_problem, placing=True).written
    assert got is not None
    assert got.conditions == ()


def test_nothing_was_written_to_a_claim_without_a_status() -> None:
    raw = changed(CLAIM, "status", None)
    got = decode.claim(raw, no_problem, placing=True).written
    assert got == ClaimWritten(deleted=MOMENT)


def test_what_was_last_written_to_a_class_is_read() -> None:
    raw = {
        **CLASS,
        "metadata": {**CLASS["metadata"], **METADATA},
        "status": {
            "capacity": {"total": 8, "free": 0, "largestSet": 0, "observedTime": MOMENT},
            "conditions": [CONDITION],
        },
    }
    assert decode.gpu_class(raw, no_problem, placing=True).written == ClassWritten(
        resource_version="77",
        generation=3,
        deleted="2026-11-30T12:00:00Z",
        finalizers=("gpu.cozystack.io/claim", "example.com/other"),
        conditions=(READY,),
        capacity={"total": 8, "free": 0, "largestSet": 0},
        observed=MOMENT,
    )


@pytest.mark.parametrize(("capacity", "want"), [(None, None), ({}, {})])
def test_a_class_without_figures_is_not_one_with_none(
    capacity: object, want: dict[str, int] | None
) -> None:
    raw = changed(CLASS, "status", {"capacity": capacity})
    written = decode.gpu_class(raw, no_problem, placing=True).written
    assert written is not None
    assert written.capacity == want


def test_a_namespace_has_labels_for_placing() -> None:
    assert decode.namespace(NAMESPACE, no_problem, placing=True).labels == {
        "gpu.cozystack.io/vgpu": "denied"
    }


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(decode.vmi(VMI, no_problem).placing, id="a VM"),
        pytest.param(decode.claim(CLAIM, no_problem).written, id="a claim"),
        pytest.param(decode.gpu_class(CLASS, no_problem).written, id="a class"),
        pytest.param(decode.namespace(NAMESPACE, no_problem).labels or None, id="a namespace"),
    ],
)
def test_who_does_not_place_reads_nothing_of_it(value: object) -> None:
    assert value is None


def test_a_volume_claim_says_which_volume_it_has() -> None:
    want = VolumeClaim("tenant-a", "root", "u", "pv-1", "Bound", "gpu-1")
    assert decode.volume_claim(VOLUME_CLAIM, no_problem) == want
    raw = {"metadata": named("root", "tenant-a"), "status": {"phase": "Pending"}}
    assert decode.volume_claim(raw, no_problem) == VolumeClaim("tenant-a", "root", phase="Pending")


def test_a_volume_says_which_nodes_reach_it() -> None:
    want = (NodeTerm((Requirement("kubernetes.io/hostname", "In", ("gpu-1",)),)),)
    assert decode.volume(VOLUME, no_problem) == Volume("pv-1", want)


def test_a_volume_that_says_nothing_is_reached_from_everywhere() -> None:
    assert decode.volume({"metadata": named("pv-1")}, no_problem) == Volume("pv-1", None)


def test_a_volume_may_be_of_zones_by_its_labels() -> None:
    """As kube-scheduler's VolumeZone reads them: several values are joined by two underscores."""
    labels = {"topology.kubernetes.io/zone": "a__b", "topology.kubernetes.io/region": "r", "x": "y"}
    got = decode.volume({"metadata": named("pv-1", labels=labels)}, no_problem)
    assert got.zones == {
        "topology.kubernetes.io/zone": frozenset({"a", "b"}),
        "topology.kubernetes.io/region": frozenset({"r"}),
    }


def test_of_a_secret_only_its_name_is_kept() -> None:
    assert decode.secret(SECRET, no_problem) == Secret("tenant-a", "gpu-license-a100")


def test_the_state_of_the_system_is_read_as_last_written() -> None:
    assert decode.system(SYSTEM, no_problem) == System(
        "default",
        "5",
        2,
        7,
        ("nvidia.com/A", "nvidia.com/B"),
        {"placement": "binder", "trustedGroups": ("admins",)},
        (READY,),
    )
