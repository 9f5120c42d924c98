"""Claims that a VM names: whose they are, and what of them is judged again (rule 6.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.inputs import VmiInputs
from shared.core.model import (
    Attachment,
    Claim,
    GpuClass,
    Vm,
)
from tests.unit.admission.building import (
    GA100,
    entries,
    hoster,
    vmi,
)
from tests.unit.admission.vms import TRAIN, claimed, units, verdict
from tests.unit.scripted_api import Raw


@pytest.mark.parametrize(("number", "want"), [(32, "32"), (33, "TooManyUnits")])
def test_how_many_claims_a_vm_may_name(number: int, want: str) -> None:
    names = [f"c{n}" for n in range(number)]
    inputs = claimed(*(Claim("tenant-a", name, "l40s", 1) for name in names))
    assert verdict(vmi(claims=str(names).replace("'", '"')), inputs) == want


def attached(kind: str, name: str, uid: str) -> Claim:
    return replace(TRAIN, attached_to=Attachment(kind, name, uid))


OWNED = vmi(claims='["train"]', vm=("vm1", "vm-1"))
OWNER = Vm("tenant-a", "vm1", "vm-1", "2026-11-29T10:00:00Z")


@units(
    of_nobody=(vmi(claims='["train"]'), claimed(TRAIN), "2"),
    of_nobody_yet_for_a_vm=(OWNED, claimed(TRAIN, owner=OWNER), "2"),
    being_deleted=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, deleting=True)),
        "ClaimNotFound",
    ),
    made_for_a_class_entry=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, is_template=True, owner="vmi-9")),
        "ClaimNotFound",
    ),
    of_a_vm_that_is_gone=(
        vmi(claims='["train"]'),
        claimed(attached("VirtualMachine", "other", "vm-2")),
        "2",
    ),
    of_a_vmi_that_runs=(
        vmi(claims='["train"]'),
        claimed(attached("VirtualMachineInstance", "other", "vmi-2"), present=frozenset({"vmi-2"})),
        "ClaimInUse",
    ),
    of_the_same_vm=(
        OWNED,
        claimed(
            attached("VirtualMachine", "vm1", "vm-1"), present=frozenset({"vm-1"}), owner=OWNER
        ),
        "2",
    ),
    of_the_same_vm_whatever_others_name_it=(
        OWNED,
        claimed(
            attached("VirtualMachine", "vm1", "vm-1"),
            present=frozenset({"vm-1"}),
            owner=OWNER,
            rivals={"train": frozenset({"thief"})},
        ),
        "2",
    ),
    # An owner reference proves nothing: KubeVirt names a VM's instance as the VM.
    of_a_vm_that_a_stranger_poses_for=(
        vmi(claims='["train"]', name="thief", vm=("vm1", "vm-1")),
        claimed(
            attached("VirtualMachine", "vm1", "vm-1"), present=frozenset({"vm-1"}), owner=OWNER
        ),
        "ClaimInUse",
    ),
    of_a_vm_of_the_same_name_before=(
        vmi(claims='["train"]', vm=("vm1", "vm-0")),
        claimed(
            attached("VirtualMachine", "vm1", "vm-0"), present=frozenset({"vm-0"}), owner=OWNER
        ),
        "ClaimInUse",
    ),
    named_by_an_older_vmi=(
        vmi(claims='["train"]'),
        claimed(TRAIN, rivals={"train": frozenset({"elder"})}),
        "ClaimInUse",
    ),
    named_by_the_vmi_before_it_of_the_same_name=(
        vmi(claims='["train"]'),
        claimed(TRAIN, rivals={"train": frozenset({"vm1"})}),
        "2",
    ),
    named_by_an_older_one_of_a_replica_set=(
        vmi(claims='["train"]', name=""),
        claimed(TRAIN, rivals={"train": frozenset({"rs1abcd"})}),
        "ClaimInUse",
    ),
)
def test_a_claim_is_used_by_one_vm(thing: Raw, inputs: VmiInputs, want: str) -> None:
    assert verdict(thing, inputs) == want


HELD_OF_CLOSED = claimed(Claim("tenant-a", "train", "p40", 9))


@units(
    closed=(vmi(claims='["train"]'), HELD_OF_CLOSED, "9"),
    not_entitled=(
        vmi(claims='["train"]'),
        VmiInputs(hoster(namespaces={}), claims={"train": Claim("tenant-a", "train", "t4-1q")}),
        "1",
    ),
    beyond_the_maximum_of_the_class=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, count=16)),
        "16",
    ),
    with_entries_of_the_class_beside_it=(
        vmi(entries(("a100", 8)), '["train"]'),
        claimed(TRAIN),
        "10",
    ),
    class_gone=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, class_name="gone")),
        "ClassNotFound",
    ),
    in_conflict=(
        vmi(claims='["train"]'),
        VmiInputs(hoster(GpuClass("too", GA100)), claims={"train": TRAIN}),
        "ClassConflict",
    ),
    device_not_permitted_by_the_name_it_was_bound_with=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, resource_name="nvidia.com/OLD", node_name="gpu-1")),
        "NotPermitted",
    ),
)
def test_of_a_claim_only_what_changed_since_its_order_is_judged(
    thing: Raw, inputs: VmiInputs, want: str
) -> None:
    assert verdict(thing, inputs) == want
