"""What judges the rush finds what is wrong: worked out by hand, with one node of four units."""

from __future__ import annotations

import pytest

from shared import vocabulary as v
from tests.binder.bookings import Ledger
from tests.binder.judged import Scene, judge
from tests.cluster.access import GPU_BINDER
from tests.cluster.api import Object

NODE: Object = {
    "metadata": {"name": "node"},
    "status": {"allocatable": {"example.com/a": "4"}},
}


def machine(name: str) -> Object:
    return {"metadata": {"namespace": "t", "name": name}, "spec": {"runStrategy": "Always"}}


def instance(name: str, phase: str) -> Object:
    record = '[{"entry":0,"className":"a","resourceName":"example.com/a","count":2}]'
    metadata = {
        "namespace": "t",
        "name": name,
        "uid": name,
        "annotations": {v.ANNOTATION_ATTACHMENTS: record},
    }
    status = {"phase": phase, "nodeName": "node"} if phase == "Running" else {"phase": phase}
    return {"kind": v.KIND_VMI, "metadata": metadata, "status": status}


def pod(name: str, *, gated: bool) -> Object:
    metadata = {
        "namespace": "t",
        "name": name,
        "creationTimestamp": "2026-11-29T12:00:00Z",
        "annotations": {v.ANNOTATION_LAUNCHER: name},
    }
    spec = {"schedulingGates": [{"name": v.GATE}]} if gated else {"nodeName": "node"}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def claim(name: str, count: int, node: str = "", reason: str = "") -> Object:
    status: Object = {"nodeName": node, "resourceName": "example.com/a"} if node else {}
    if reason:
        bound = {"type": "Bound", "status": "False", "reason": reason}
        status = {"waiting": {"reason": reason}, "conditions": [bound]}
    return {
        "kind": v.KIND_CLAIM,
        "metadata": {"namespace": "t", "name": f"{name}-0", "labels": {v.LABEL_TEMPLATE: "true"}},
        "spec": {"className": "a", "count": count},
        "status": status,
    }


def scene(first: int, reason: str, *, budget: int | None = None) -> Scene:
    """One VM runs with so many units; another one of two waits for a reason."""
    return Scene(
        machines=[machine("runs"), machine("waits")],
        instances=[instance("runs", "Running"), instance("waits", "Scheduling")],
        pods=[pod("runs", gated=False), pod("waits", gated=True)],
        claims=[claim("runs", first, "node"), claim("waits", 2, reason=reason)],
        nodes=[NODE],
        resources={"a": "example.com/a"},
        budgets={} if budget is None else {("t", "a"): budget},
        told={"waits": reason},
    )


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        pytest.param(scene(3, "NoCapacity"), "", id="one is left, of two"),
        pytest.param(scene(2, "NoCapacity"), "it is fits on node", id="two are left"),
        pytest.param(scene(2, "BudgetExceeded", budget=3), "", id="two are left, not to it"),
        pytest.param(scene(3, "NoCapacity", budget=4), "it is BudgetExceeded", id="budget first"),
        pytest.param(scene(2, "BudgetExceeded", budget=4), "it is fits on node", id="just enough"),
        pytest.param(scene(3, "SetDoesNotFitOneNode"), "it is NoCapacity", id="another reason"),
    ],
)
def test_a_reason_is_true_or_found_out(seen: Scene, wrong: str) -> None:
    found = judge(seen).wrong
    assert (wrong in found[0]) if wrong else found == ()


def test_a_vm_that_runs_beside_its_claims_is_found_out() -> None:
    seen = scene(3, "NoCapacity")
    seen.claims[0]["status"]["nodeName"] = "other"
    assert any("its claims are on {'other'}" in each for each in judge(seen).wrong)


def written(found: Object, resource: str, verb: str = "patch") -> Object:
    return {
        "auditID": "id",
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/",
        "user": {"username": GPU_BINDER.name},
        "objectRef": {"resource": resource},
        "responseStatus": {"code": 200},
        "responseObject": found,
    }


def test_a_unit_that_is_booked_twice_for_a_moment_is_found_out() -> None:
    ledger = Ledger({("node", "example.com/a"): 4})
    bookings = [claim("a", 2, "node"), claim("b", 2, "node"), claim("c", 1, "node"), claim("c", 1)]
    ledger.follow(written(each, "gpuclaims") for each in bookings)
    assert ledger.wrong == ["5 units of ('node', 'example.com/a') booked: id patch /"]


def test_a_start_without_the_whole_set_is_found_out() -> None:
    ledger = Ledger({("node", "example.com/a"): 4})
    pinned = pod("a", gated=False)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pinned["spec"]["affinity"] = {"nodeAffinity": required}
    ledger.follow(
        [
            written(instance("a", "Scheduling"), "virtualmachineinstances", "create"),
            written(pinned, "pods"),
            written(claim("a", 2, "node"), "gpuclaims"),
            written(pinned, "pods"),
        ]
    )
    assert ledger.wrong == ["started on node, a-0 has 0 on '': id patch /"]
