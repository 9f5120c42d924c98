"""Pods: launchers are marked, gated and tolerate; whoever poses as one is refused (rule 6.2).

Launchers are written by hand from what KubeVirt 1.9 was seen to make: no name and no uid at
admission, `generateName`, one controlling owner, the VMI's annotations and labels copied.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission import pod as rules
from admission.inputs import PodInputs, PodNeeds, Unread
from admission.review import Allow, Refuse
from shared.core.model import GpuClass, Migration, Placement, RecordEntry, Vmi
from shared.core.scheduling import Toleration
from tests.unit.admission.building import (
    GA100,
    HOSTER,
    KUBEVIRT_USER,
    L40S,
    T4_Q,
    TENANT,
    changed_by,
    hoster,
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
    """FR-046: without the gate its node is chosen by nobody who knows of claims."""
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
    """FR-022."""
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


def changed_launcher(change: Callable[[Raw], Any]) -> Raw:
    pod = copy.deepcopy(launcher())
    change(pod)
    return pod


def owned(**changes: object) -> Callable[[Raw], Any]:
    return lambda pod: pod["metadata"]["ownerReferences"][0].update(changes)


STRANGER = "only pods that KubeVirt makes for a virtual machine with GPUs have it"


@pytest.mark.parametrize(
    ("pod", "inputs", "username"),
    [
        # FR-085, with our record, which is what brings a pod to us.
        pytest.param(launcher(), KNOWN, TENANT, id="a tenant makes it"),
        pytest.param(
            launcher(),
            KNOWN,
            "system:serviceaccount:tenant-a:kubevirt-controller",
            id="an account of the same name elsewhere",
        ),
        pytest.param(target(), MIGRATING, TENANT, id="a tenant makes a migration target"),
        pytest.param(launcher(), PodInputs(HOSTER), KUBEVIRT_USER, id="no such VMI"),
        pytest.param(
            changed_launcher(owned(uid="another")), KNOWN, KUBEVIRT_USER, id="the uid of another"
        ),
        pytest.param(
            launcher(),
            PodInputs(HOSTER, replace(VM1, uid="next")),
            KUBEVIRT_USER,
            id="the VMI was made anew in between",
        ),
        pytest.param(
            changed_launcher(owned(controller=False)), KNOWN, KUBEVIRT_USER, id="no controller"
        ),
        pytest.param(
            changed_launcher(owned(kind="VirtualMachine")), KNOWN, KUBEVIRT_USER, id="another kind"
        ),
        pytest.param(
            changed_launcher(owned(apiVersion="evil.io/v1")), KNOWN, KUBEVIRT_USER, id="a group"
        ),
        pytest.param(
            changed_launcher(lambda pod: pod["metadata"].pop("ownerReferences")),
            KNOWN,
            KUBEVIRT_USER,
            id="no owner",
        ),
        pytest.param(
            launcher(),
            PodInputs(HOSTER, replace(VM1, record=())),
            KUBEVIRT_USER,
            id="a VMI without our record",
        ),
        pytest.param(
            changed_launcher(
                lambda pod: pod["metadata"]["labels"].update({"kubevirt.io": "hotplug-disk"})
            ),
            KNOWN,
            KUBEVIRT_USER,
            id="another sort of pod",
        ),
    ],
)
def test_who_poses_as_a_launcher_is_refused(pod: Raw, inputs: PodInputs, username: str) -> None:
    got = reviewed(pod, inputs, username)
    assert isinstance(got, Refuse)
    assert (got.code, got.reason) == (403, "Forbidden")
    assert got.message == f"metadata.annotations[{RECORD}]: {STRANGER}"


@pytest.mark.parametrize("annotation", [RECORD, MARK])
def test_our_annotations_on_any_other_pod_are_refused(annotation: str) -> None:
    pod = {"metadata": {"name": "web", "annotations": {annotation: UID}}, "spec": {}}
    got = reviewed(pod, KNOWN, TENANT)
    assert isinstance(got, Refuse)
    assert got.message == f"metadata.annotations[{annotation}]: {STRANGER}"


def test_our_gate_on_any_other_pod_is_refused() -> None:
    pod = {
        "metadata": {"name": "web"},
        "spec": {"schedulingGates": [{"name": "x.example/y"}, GATE]},
    }
    got = reviewed(pod, PodInputs(HOSTER), TENANT)
    assert isinstance(got, Refuse)
    assert got.message == f"spec.schedulingGates[1].name: {STRANGER}"


def test_what_cannot_be_read_refuses_and_kubevirt_tries_again() -> None:
    got = reviewed(launcher(), replace(KNOWN, unread=(Unread("the VM", "no answer in time"),)))
    assert isinstance(got, Refuse)
    assert (got.code, got.reason) == (503, "InputsUnreadable")
    assert got.message == (
        "GPU admission: the cluster cannot be read fully at the moment: the VM: no answer in time"
    )


def test_a_pod_of_another_shape_is_refused_by_the_field() -> None:
    """The API server hands on none; nobody else may either."""
    got = reviewed(launcher(tolerations="all"))
    assert isinstance(got, Refuse)
    assert got.causes[0].field == "spec.tolerations"


# For each rule a case that it alone decides.
ALONE: dict[str, tuple[Raw, PodInputs, str]] = {
    "inputs_unreadable": (launcher(), replace(KNOWN, unread=(Unread("x", "y"),)), KUBEVIRT_USER),
    "poses": (launcher(), KNOWN, TENANT),
    "names_the_gate": (
        {"metadata": {}, "spec": {"schedulingGates": [GATE]}},
        KNOWN,
        TENANT,
    ),
}


def test_there_is_a_case_for_each_rule() -> None:
    assert [rule.__name__ for rule in rules.CHAIN] == list(ALONE)


@pytest.mark.parametrize("rule", ALONE)
def test_without_its_rule_each_case_is_let_in(rule: str) -> None:
    pod, inputs, username = ALONE[rule]
    asked = request(pod, kind=KIND, username=username)
    assert isinstance(rules.decide(asked, inputs), Refuse)
    chain = tuple(each for each in rules.CHAIN if each.__name__ != rule)
    assert isinstance(rules.decide(asked, inputs, chain), Allow)


@pytest.mark.parametrize(
    ("pod", "operation"),
    [
        pytest.param({"metadata": {"labels": {"app": "web"}}, "spec": {}}, "CREATE", id="any pod"),
        pytest.param({"metadata": {}, "spec": {}}, "CREATE", id="no labels and annotations"),
        pytest.param({"metadata": {"annotations": None}, "spec": None}, "CREATE", id="nulls"),
        pytest.param(
            {"metadata": {}, "spec": {"schedulingGates": [{"name": "x.example/y"}]}},
            "CREATE",
            id="another gate",
        ),
        pytest.param(
            {
                "metadata": {
                    "labels": {"kubevirt.io": "virt-launcher"},
                    "annotations": {"kubevirt.io/domain": "plain"},
                    "ownerReferences": launcher()["metadata"]["ownerReferences"],
                },
                "spec": {},
            },
            "CREATE",
            id="a launcher of a VM without GPU classes",
        ),
        # FR-048 and 46: it inherits the launcher's tolerations from KubeVirt.
        pytest.param(
            {
                "metadata": {
                    "labels": {"kubevirt.io": "hotplug-disk"},
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "Pod",
                            "name": "l",
                            "uid": "p",
                            "controller": True,
                        }
                    ],
                },
                "spec": {},
            },
            "CREATE",
            id="a pod that plugs in volumes",
        ),
        pytest.param(launcher(), "UPDATE", id="an update"),
        pytest.param(None, "DELETE", id="a deletion"),
    ],
)
def test_a_pod_that_is_none_of_ours_is_let_in_untouched_and_needs_no_read(
    pod: Raw | None, operation: str
) -> None:
    asked = request(pod, kind=KIND, operation=operation)
    assert rules.needs(asked) is None
    down = PodInputs(HOSTER, unread=(Unread("everything", "down"),))
    assert rules.decide(asked, down) == Allow()


def test_what_is_read_for_a_decision_is_named_before() -> None:
    asked = request(launcher(), kind=KIND, namespace="tenant-x")
    assert rules.needs(asked) == PodNeeds("tenant-x", "vm1", "")
    asked = request(target(), kind=KIND, namespace="tenant-x")
    assert rules.needs(asked) == PodNeeds("tenant-x", "vm1", "m1")


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
