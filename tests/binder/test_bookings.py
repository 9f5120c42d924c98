"""Each account finds what is wrong: histories made by hand, with a node of four units."""

from __future__ import annotations

import pytest

from tests.binder.bookings import Ledger
from tests.binder.history import State, writers
from tests.binder.objects import DEVICE, claim, instance, pod
from tests.cluster.api import Object
from tests.kubevirt import words as w

BY = ", the audit log does not tell by whom"


def gone(obj: Object) -> State:
    return State(0, obj, is_gone=True)


def ended(obj: Object, phase: str) -> Object:
    return obj | {"status": {"phase": phase}}


def found(*history: Object | State, nodes: int = 1) -> list[str]:
    """What a ledger says of a history in which each object is of the version of its place."""
    ledger = Ledger({(name, DEVICE): 4 for name in ("node", "other")[:nodes]})
    ledger.follow(
        State(version, each.object, is_gone=True)
        if isinstance(each, State)
        else State(version, each)
        for version, each in enumerate(history)
    )
    return ledger.wrong


START = (
    instance("a"),
    pod("a", gated=True),
    claim("a", on="node"),
    pod("a", pin="node"),
)
"""A VM of two units starts as it should."""
RUNS = (*START, pod("a", pin="node", on="node"))


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(RUNS, id="it runs"),
        pytest.param((*RUNS, gone(pod("a", on="node")), claim("a")), id="it ends"),
        pytest.param((*RUNS, ended(pod("a", on="node"), "Failed"), claim("a")), id="it fails"),
        pytest.param((*START, gone(pod("a", pin="node")), claim("a")), id="it ends unscheduled"),
        pytest.param((*RUNS, claim("b", on="node"), gone(claim("b"))), id="another comes and goes"),
    ],
)
def test_what_is_as_it_should_be_is_let_pass(history: tuple[Object | State, ...]) -> None:
    assert found(*history) == []


def test_a_unit_that_is_booked_twice_for_a_moment_is_found_out() -> None:
    history = [claim("a", on="node"), claim("b", on="node"), claim("c", 1, on="node"), claim("c")]
    assert found(*history) == [f"5 units of ('node', '{DEVICE}') are booked: version 2{BY}"]


def test_a_start_without_the_whole_set_is_found_out() -> None:
    history = [instance("a"), pod("a", gated=True), pod("a", pin="node")]
    assert found(*history) == [f"started on node, a-0 has 0 on '': version 2{BY}"]


def test_units_that_pods_hold_twice_are_found_out_though_each_is_booked_once() -> None:
    """The first pod still ends when the unit is booked for the second one."""
    second = (instance("b", count=3), pod("b", gated=True), claim("b", 3, on="node"))
    let_go = pod("b", pin="node", count=3)
    assert found(*RUNS, gone(claim("a")), *second, let_go) == [
        f"a-0 left node for '', under a pod: version 5{BY}",
        f"5 units of ('node', '{DEVICE}') are held by pods: version 9{BY}",
    ]
    assert found(*RUNS, gone(pod("a", on="node")), gone(claim("a")), *second, let_go) == []


def test_a_pod_that_goes_elsewhere_than_where_it_was_let_go_to_is_found_out() -> None:
    history = [*START, pod("a", pin="node", on="other")]
    assert found(*history, nodes=2) == [f"a is on other, and was let go to node: version 4{BY}"]


def test_a_launcher_that_runs_and_was_never_let_go_is_found_out() -> None:
    history = [instance("a"), claim("a", on="node"), pod("a", on="node")]
    assert found(*history) == [f"a is on node, and nobody let it go: version 2{BY}"]
    target = pod("a", on="node")
    target["metadata"]["labels"] = {w.LABEL_MIGRATION_JOB: "move"}
    assert found(instance("a"), claim("a", on="node"), target) == [], "KubeVirt placed it"


def test_a_claim_that_is_taken_from_under_a_pod_is_found_out() -> None:
    history = [*RUNS, claim("a", on="other")]
    assert found(*history, nodes=2) == [f"a-0 left node for 'other', under a pod: version 5{BY}"]
    target = pod("a", on="other")
    target["metadata"] |= {"uid": "target", "labels": {w.LABEL_MIGRATION_JOB: "move"}}
    assert found(*RUNS, target, claim("a", on="other"), nodes=2) == [], "it migrated"


def test_what_the_audit_log_knows_and_nobody_saw_is_found_out() -> None:
    ledger = Ledger({}, {2: "id get /", 3: "id create /", 4: "id patch /"})
    ledger.follow([State(3, claim("a")), State(5, claim("a", reason="NoCapacity"))])
    assert ledger.unseen == ["id patch /: no watch showed version 4"]


def answered(version: int, **more: object) -> Object:
    metadata = {"resourceVersion": str(version)}
    return {
        "auditID": "id",
        "stage": "ResponseComplete",
        "verb": "patch",
        "requestURI": "/",
        "responseStatus": {"code": 200},
        "responseObject": claim("a") | {"metadata": metadata},
        **more,
    }


def test_the_audit_log_tells_who_wrote_what_was_answered_well() -> None:
    status = {"kind": "Status", "metadata": {}}
    events = [
        answered(1),
        answered(2, verb="list"),
        answered(3, responseStatus={"code": 409}),
        answered(4, stage="ResponseStarted"),
        answered(5, responseObject=status),
    ]
    assert writers(events) == {1: "id patch /"}
