"""Which pods are refused, and why (rule 6.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission import pod as rules
from admission.inputs import PodInputs, PodNeeds, Unread
from admission.review import Allow, Refuse
from tests.unit.admission.building import (
    HOSTER,
    KUBEVIRT_USER,
    TENANT,
    request,
)
from tests.unit.admission.launchers import (
    GATE,
    KIND,
    KNOWN,
    MARK,
    MIGRATING,
    RECORD,
    UID,
    VM1,
    changed_launcher,
    launcher,
    owned,
    reviewed,
    target,
)
from tests.unit.scripted_api import Raw

STRANGER = "only pods that KubeVirt makes for a virtual machine with GPUs have it"
EXPECTED = "system:serviceaccount:cozy-kubevirt:kubevirt-controller (setting kubevirtUsernames)"


@pytest.mark.parametrize(
    ("pod", "inputs", "username"),
    [
        # Trouble 30, with our record, which is what brings a pod to us.
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
    told = f'; this one was made by "{username}", expected {EXPECTED}'
    if username == KUBEVIRT_USER:
        told = ""
    assert got.message == f"metadata.annotations[{RECORD}]: {STRANGER}{told}"


@pytest.mark.parametrize("annotation", [RECORD, MARK])
def test_our_annotations_on_any_other_pod_are_refused(annotation: str) -> None:
    pod = {"metadata": {"name": "web", "annotations": {annotation: UID}}, "spec": {}}
    got = reviewed(pod, KNOWN, TENANT)
    assert isinstance(got, Refuse)
    told = f'{STRANGER}; this one was made by "alice", expected {EXPECTED}'
    assert got.message == f"metadata.annotations[{annotation}]: {told}"


def test_our_gate_on_any_other_pod_is_refused() -> None:
    pod = {
        "metadata": {"name": "web"},
        "spec": {"schedulingGates": [{"name": "x.example/y"}, GATE]},
    }
    got = reviewed(pod, PodInputs(HOSTER), TENANT)
    assert isinstance(got, Refuse)
    told = f'{STRANGER}; this one was made by "alice", expected {EXPECTED}'
    assert got.message == f"spec.schedulingGates[1].name: {told}"


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
        # Troubles 26 and 27: it inherits the launcher's tolerations from KubeVirt.
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
