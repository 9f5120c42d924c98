"""Each action is one request, with what must still hold when it is carried out."""

from __future__ import annotations

import re

import pytest

from binder.actions import (
    AddFinalizer,
    BookClaim,
    Condition,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    FencePod,
    Kind,
    Ref,
    ReleaseClaim,
    RemoveFinalizer,
    ReportClaim,
    ReportClass,
    ReportSystem,
    StartPod,
    TellVmi,
    Waiting,
)
from binder.rendering import Create, Delete, Merge, Patch, render
from shared import vocabulary as v
from shared.api.conditions import ConditionType
from shared.api.gpuclaim import GPUClaimStatus
from shared.core.model import Attachment
from shared.core.terms import Truth
from shared.fields import mapping, text
from shared.reasons import Reason

CLAIM = Ref("tenant-a", "c", "u1", "7")
POD = Ref("tenant-a", "virt-launcher-x", "u2", "8")
CLAIM_PATH = "/apis/gpu.cozystack.io/v1alpha1/namespaces/tenant-a/gpuclaims/c"
POD_PATH = "/api/v1/namespaces/tenant-a/pods/virt-launcher-x"
AT = "2026-01-01T00:00:00Z"
BOUND = Condition(ConditionType.BOUND, Truth.TRUE, Reason.PLACED, AT, generation=1)
VM = Attachment("VirtualMachine", "vm", "u3")
SAME_POD = (
    {"op": "test", "path": "/metadata/uid", "value": "u2"},
    {"op": "test", "path": "/metadata/resourceVersion", "value": "8"},
)


def test_a_booking_says_everything_in_one_write_of_the_version_that_was_seen() -> None:
    request = render(BookClaim(CLAIM, "n1", "example.com/a10", AT, VM, (BOUND,)), epoch=5)
    assert request == Merge(
        f"{CLAIM_PATH}/status",
        {
            "status": {
                "epoch": 5,
                "nodeName": "n1",
                "resourceName": "example.com/a10",
                "boundTime": AT,
                "attachedTo": {"kind": "VirtualMachine", "name": "vm", "uid": "u3"},
                "waiting": None,
                "conditions": [
                    {
                        "type": "Bound",
                        "status": "True",
                        "lastTransitionTime": AT,
                        "reason": "Placed",
                        "message": "",
                        "observedGeneration": 1,
                    }
                ],
            }
        },
        "7",
    )
    GPUClaimStatus.model_validate(request.body["status"])


def test_a_release_takes_the_booking_away_and_says_why() -> None:
    waiting = Waiting(Reason.NODE_LOST, "gone", AT)
    request = render(ReleaseClaim(CLAIM, "", None, waiting), epoch=5)
    assert isinstance(request, Merge)
    assert request.body["status"] == {
        "epoch": 5,
        "nodeName": None,
        "resourceName": None,
        "boundTime": None,
        "attachedTo": None,
        "waiting": {"reason": "NodeLost", "message": "gone", "sinceTime": AT},
        "conditions": [],
    }
    kept = render(ReleaseClaim(CLAIM, "example.com/a10"), epoch=5)
    assert isinstance(kept, Merge)
    assert mapping(kept.body["status"])["resourceName"] == "example.com/a10"


def test_a_report_leaves_the_booking_as_it_is_and_is_fenced_all_the_same() -> None:
    request = render(ReportClaim(CLAIM), epoch=5)
    assert isinstance(request, Merge)
    assert request.body["status"] == {
        "epoch": 5,
        "attachedTo": None,
        "waiting": None,
        "conditions": [],
    }


def test_a_template_claim_is_marked_and_owned_by_its_vmi() -> None:
    claim = Ref("tenant-a", "c")
    request = render(CreateClaim(claim, "a10", 2, "vm", "u3"), epoch=5)
    assert request == Create(
        "/apis/gpu.cozystack.io/v1alpha1/namespaces/tenant-a/gpuclaims",
        {
            "apiVersion": "gpu.cozystack.io/v1alpha1",
            "kind": "GPUClaim",
            "metadata": {
                "namespace": "tenant-a",
                "name": "c",
                "labels": {"gpu.cozystack.io/template": "true"},
                "finalizers": ["gpu.cozystack.io/claim"],
                "ownerReferences": [
                    {
                        "apiVersion": "kubevirt.io/v1",
                        "kind": "VirtualMachineInstance",
                        "name": "vm",
                        "uid": "u3",
                    }
                ],
            },
            "spec": {"className": "a10", "count": 2},
        },
    )


def test_deletions_name_the_object_and_a_claim_s_also_its_version() -> None:
    assert render(DeleteClaim(CLAIM), 5) == Delete(CLAIM_PATH, "u1", "7")
    assert render(DeletePod(POD), 5) == Delete(POD_PATH, "u2")


def test_a_fence_changes_nothing_of_a_pod_but_its_version() -> None:
    body = {"metadata": {"annotations": {"gpu.cozystack.io/epoch": "5"}}}
    assert render(FencePod(POD), 5) == Merge(POD_PATH, body, POD.version)


def test_finalizers_come_and_go_one_by_one() -> None:
    same = (
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
    )
    path = "/metadata/finalizers"
    ours, theirs = v.FINALIZER_CLAIM, "example.com/theirs"
    assert render(AddFinalizer(Kind.CLAIM, CLAIM, ours), 5) == Patch(
        CLAIM_PATH, (*same, {"op": "add", "path": path, "value": [ours]})
    )
    assert render(AddFinalizer(Kind.CLAIM, CLAIM, ours, (theirs,)), 5) == Patch(
        CLAIM_PATH,
        (
            *same,
            {"op": "test", "path": path, "value": [theirs]},
            {"op": "add", "path": f"{path}/-", "value": ours},
        ),
    )
    assert render(RemoveFinalizer(Kind.CLAIM, CLAIM, ours, (theirs, ours)), 5) == Patch(
        CLAIM_PATH,
        (
            *same,
            {"op": "test", "path": path, "value": [theirs, ours]},
            {"op": "remove", "path": f"{path}/1"},
        ),
    )


def test_a_start_pins_and_takes_off_our_gate_alone_in_one_patch() -> None:
    """Rule 7.8."""
    affinity: dict[str, object] = {"podAffinity": {}}
    request = render(StartPod(POD, "n1", ("example.com/theirs", v.GATE), affinity), 5)
    assert isinstance(request, Patch)
    assert request.path == POD_PATH
    *tests, pin, ungate = request.operations
    assert tests == [
        *SAME_POD,
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": v.GATE},
        {"op": "test", "path": "/spec/affinity", "value": affinity},
    ]
    assert (pin["op"], pin["path"]) == ("add", "/spec/affinity")
    assert "n1" in str(pin["value"])
    assert ungate == {"op": "remove", "path": "/spec/schedulingGates/1"}


def test_a_pod_without_affinity_is_not_tested_for_one() -> None:
    request = render(StartPod(POD, "n1", (v.GATE,)), 5)
    assert isinstance(request, Patch)
    assert [each["path"] for each in request.operations if each["op"] == "test"] == [
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/spec/schedulingGates/0/name",
    ]


def test_a_pod_that_is_released_unpinned_keeps_its_affinity() -> None:
    """Rule 7.15."""
    request = render(StartPod(POD, "", (v.GATE,), {"podAffinity": {}}), 5)
    assert isinstance(request, Patch)
    assert request.operations == (
        *SAME_POD,
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": v.GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    )


def test_a_pod_without_our_gate_is_not_started() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        render(StartPod(POD, "n1", ("example.com/theirs",)), 5)


def test_an_event_is_named_after_its_occasion_whoever_tells_it_and_when() -> None:
    def name(
        message: str = "2 free", at: str = AT, uid: str = "u3", occasion: str = "first"
    ) -> str:
        event = TellVmi("tenant-a", "vm", uid, Reason.NO_CAPACITY, message, at, occasion=occasion)
        request = render(event, 5)
        assert isinstance(request, Create)
        return text(mapping(request.body["metadata"])["name"])

    assert name() == name(message="1 free") == name(at="later")
    assert len({name(), name(uid="u4"), name(occasion="second")}) == 3
    assert name().startswith("vm.")
    long = render(TellVmi("a", "v" * 253, "u", Reason.NO_CAPACITY, "", AT), 5)
    assert isinstance(long, Create)
    assert len(text(mapping(long.body["metadata"])["name"])) == 253


@pytest.mark.parametrize("end", ["-", ".", "--"])
def test_the_name_of_an_event_is_one_wherever_the_vm_s_is_cut(end: str) -> None:
    cut = "v" * (253 - 17 - len(end))
    event = TellVmi("a", f"{cut}{end}more", "u", Reason.NO_CAPACITY, "", AT)
    assert re.fullmatch(rf"{cut}\.[0-9a-f]{{16}}", event.event_name)


def test_statuses_of_classes_and_the_system_are_written_whole() -> None:
    status: dict[str, object] = {"conditions": []}
    assert render(ReportClass(Ref("", "a10", "u", "9"), status), 5) == Merge(
        "/apis/gpu.cozystack.io/v1alpha1/gpuclasses/a10/status", {"status": status}, "9"
    )
    assert render(ReportSystem(Ref("", "default", "u", "9"), status), 5) == Merge(
        "/apis/gpu.cozystack.io/v1alpha1/gpusystems/default/status", {"status": status}, "9"
    )
