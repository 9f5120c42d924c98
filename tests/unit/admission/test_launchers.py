"""What launchers get (rule 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.inputs import PodInputs
from admission.review import Allow
from shared.core.model import GpuClass, Migration, Placement, RecordEntry
from shared.core.scheduling import Toleration
from tests.unit.admission.building import (
    HOSTER,
    T4_Q,
    hoster,
)
from tests.unit.admission.launchers import (
    CLAIM,
    ENTRY,
    GATE,
    KNOWN,
    L40S_TOLERATION,
    MARK,
    MIGRATING,
    UID,
    VM1,
    got_of,
    launcher,
    reviewed,
    stored,
    target,
    temporary,
)
from tests.unit.scripted_api import Raw


def test_a_launcher_gets_mark_tolerations_and_gate_and_nothing_else() -> None:
    assert reviewed(launcher()) == Allow(
        (
            {
                "op": "add",
                "path": "/metadata/annotations/gpu.cozystack.io~1launcher",
                "value": UID,
            },
            {"op": "add", "path": "/spec/tolerations", "value": [L40S_TOLERATION]},
            {"op": "add", "path": "/spec/schedulingGates", "value": [GATE]},
        )
    )


def test_the_pod_that_binds_volumes_first_is_treated_alike() -> None:
    """Trouble 26: without the gate its node is chosen by nobody who knows of claims."""
    assert got_of(stored(temporary())) == (UID, [L40S_TOLERATION], [GATE])


def test_a_migration_target_is_never_gated() -> None:
    """KubeVirt deletes a target that stays pending (45)."""
    assert got_of(stored(target(), MIGRATING)) == (UID, [L40S_TOLERATION], None)


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(replace(MIGRATING, migration=None), id="no such migration"),
        pytest.param(
            replace(MIGRATING, migration=Migration("tenant-a", "m1", "migration-0", "vm1")),
            id="another migration of the name",
        ),
        pytest.param(
            replace(MIGRATING, migration=Migration("tenant-a", "m1", "migration-1", "vm2")),
            id="a migration of another VM",
        ),
        pytest.param(
            replace(
                MIGRATING, migration=Migration("tenant-a", "m1", "migration-1", "vm1", final=True)
            ),
            id="a migration that is over",
        ),
        pytest.param(
            replace(MIGRATING, migration=Migration("tenant-b", "m1", "migration-1", "vm1")),
            id="a migration of another namespace",
        ),
        pytest.param(replace(MIGRATING, vmi=VM1), id="a VM that runs nowhere"),
    ],
)
def test_a_label_alone_makes_no_migration_target(inputs: PodInputs) -> None:
    """A tenant can have it copied to launchers through the template of a replica set."""
    assert got_of(stored(target(), inputs)) == (UID, [L40S_TOLERATION], [GATE])


@pytest.mark.parametrize(
    ("inputs", "gated"),
    [
        pytest.param(KNOWN, True, id="the binder places"),
        pytest.param(
            PodInputs(hoster(placement=Placement.SCHEDULER), VM1), False, id="the scheduler places"
        ),
        pytest.param(
            PodInputs(hoster(placement=Placement.SCHEDULER), replace(VM1, record=(CLAIM, ENTRY))),
            True,
            id="the scheduler places, but the VM names a claim",
        ),
        pytest.param(PodInputs(hoster(enabled=False), VM1), False, id="switched off"),
        pytest.param(
            PodInputs(hoster(enabled=False), replace(VM1, record=(CLAIM, ENTRY))),
            False,
            id="switched off, with a claim",
        ),
    ],
)
def test_who_waits_at_the_gate_and_everyone_is_marked(inputs: PodInputs, gated: bool) -> None:
    mark, tolerations, gates = got_of(stored(launcher(), inputs))
    assert mark == UID
    assert tolerations
    assert gates == ([GATE] if gated else None)


@pytest.mark.parametrize(
    ("spec", "tolerations", "gates"),
    [
        pytest.param({}, [L40S_TOLERATION], [GATE], id="absent"),
        pytest.param(
            {"tolerations": None, "schedulingGates": None}, [L40S_TOLERATION], [GATE], id="null"
        ),
        pytest.param(
            {"tolerations": [], "schedulingGates": []}, [L40S_TOLERATION], [GATE], id="empty"
        ),
        pytest.param(
            {
                "tolerations": [{"key": "own", "operator": "Exists"}],
                "schedulingGates": [{"name": "x.example/y"}],
            },
            [{"key": "own", "operator": "Exists"}, L40S_TOLERATION],
            [{"name": "x.example/y"}, GATE],
            id="members stay first",
        ),
        pytest.param(
            {"tolerations": [L40S_TOLERATION], "schedulingGates": [GATE]},
            [L40S_TOLERATION],
            [GATE],
            id="there already",
        ),
        # Equal is what an absent operator means.
        pytest.param(
            {
                "tolerations": [
                    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
                ]
            },
            [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            [GATE],
            id="there already in other words",
        ),
    ],
)
def test_lists_are_made_or_added_to(spec: Raw, tolerations: list[Raw], gates: list[Raw]) -> None:
    """Trouble 15."""
    assert got_of(stored(launcher(**spec))) == (UID, tolerations, gates)


def test_annotations_that_are_absent_are_made() -> None:
    """With the gate alone a pod reaches us, though KubeVirt copies the record to each."""
    for absent in ({}, {"annotations": None}):
        pod = launcher(schedulingGates=[GATE])
        del pod["metadata"]["annotations"]
        pod["metadata"] |= absent
        assert got_of(stored(pod)) == (UID, [L40S_TOLERATION], [GATE])


def test_tolerations_of_all_its_classes_come_in_the_order_of_the_record_each_once() -> None:
    both = GpuClass(
        "both",
        "n/both",
        tolerations=(
            Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),
            Toleration("sku", "Exists", "", ""),
        ),
    )
    record = (
        RecordEntry(claim="c", class_name="t4-1q", resource_name=T4_Q, count=1),
        RecordEntry(entry=0, class_name="both", resource_name="n/both", count=1),
        RecordEntry(entry=1, class_name="gone", resource_name="n/gone", count=1),
    )
    pod = stored(launcher(), PodInputs(hoster(both), replace(VM1, record=record)))
    assert pod["spec"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "vgpu", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "sku", "operator": "Exists"},
    ]


def test_a_mark_that_was_copied_is_replaced_by_the_right_one() -> None:
    pod = launcher()
    pod["metadata"]["annotations"][MARK] = "another"
    assert got_of(stored(pod))[0] == UID


def test_what_a_vm_is_called_decides_nothing() -> None:
    """Labels that KubeVirt derives from names are cut at the first dot, and collide (6)."""
    pod = launcher()
    pod["metadata"]["labels"]["vm.kubevirt.io/name"] = "train"
    dotted = replace(VM1, name="train.a")
    pod["metadata"]["ownerReferences"][0]["name"] = "train.a"
    assert got_of(stored(pod, PodInputs(HOSTER, dotted)))[0] == UID


tolerations = st.lists(
    st.sampled_from(
        (
            L40S_TOLERATION,
            {"key": "own", "operator": "Exists"},
            {"operator": "Exists"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        )
    ),
    max_size=4,
)


gates = st.lists(st.sampled_from(({"name": "x.example/y"}, GATE)), max_size=2, unique_by=str)


records = st.lists(
    st.sampled_from(
        (ENTRY, CLAIM, RecordEntry(entry=1, class_name="t4-1q", resource_name=T4_Q, count=1))
    ),
    min_size=1,
    unique=True,
).map(tuple)


@given(tolerations, gates, records, st.sampled_from((launcher, target, temporary)))
def test_applied_twice_is_applied_once_and_nothing_else_is_touched(
    own: list[Raw], named: list[Raw], record: tuple[RecordEntry, ...], make: Callable[[], Raw]
) -> None:
    pod = make()
    pod["spec"] |= {"tolerations": own, "schedulingGates": named}
    inputs = replace(MIGRATING, vmi=replace(VM1, node_name="gpu-1", record=record))
    once = stored(pod, inputs)
    assert reviewed(once, inputs) == Allow()
    _, got, held = got_of(once)
    assert got[: len(own)] == own
    assert held[: len(named)] == named
    assert held.count(GATE) == (1 if make is not target or GATE in named else 0)
    del once["metadata"]["annotations"][MARK]
    once["spec"] |= {"tolerations": own, "schedulingGates": named}
    assert once == pod
