"""Each invariant is seen broken by a history made by hand, and by none where all is well.

Every case says what happens in a small cluster: node `n1` with four units of class `a100`, `n2`
with two, and a VM of tenant `tenant-a` that asks for two. Taken out, an invariant finds nothing in
its case, and no other finds anything there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared import vocabulary as v
from tests.simulation import things
from tests.simulation.collector import WHO as COLLECTOR
from tests.simulation.judge import INVARIANTS, SKIP_SECONDS, judged
from tests.simulation.policies import ADMIN, KUBEVIRT
from tests.simulation.tales import HOME, A, B, Cluster, Raw


def overbooks(c: Cluster) -> None:
    c.book(c.claim, "n2")
    c.book(c.order("other", 1), "n2")


def books_what_a_stranger_holds(c: Cluster) -> None:
    stranger = things.launcher(c.vmi, "stranger", a100=1)
    del stranger["metadata"]["annotations"]
    c.put({**stranger, "spec": {**stranger["spec"], "nodeName": "n2"}})
    c.wait()
    c.book(c.claim, "n2")


def books_what_was_freed_before_its_pod_went(c: Cluster) -> None:
    pod = c.start()
    c.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "t"}}, KUBEVIRT)
    c.drop(c.vmi, KUBEVIRT)
    c.drop(c.claim, ADMIN)
    c.wait()
    c.book(c.order("other", 3))


def runs_unplaced(c: Cluster) -> Raw:
    """A launcher that was let go while all was off, on a node where an order is booked now."""
    pod = {**c.pod, "spec": {**c.pod["spec"], "nodeName": "n1", "schedulingGates": []}}
    pod = c.put(pod, ADMIN)
    c.book(c.order("other", 3), "n1")
    return pod


def books_where_a_launcher_ended_long_ago(c: Cluster) -> None:
    c.drop(runs_unplaced(c), KUBEVIRT)
    c.wait()
    c.book(c.claim, "n1")


def pins_without_booking(c: Cluster) -> None:
    c.put(things.pinned(c.pod, "n1"), A)


def pins_before_the_booking(c: Cluster) -> None:
    c.put(things.pinned(c.pod, "n1"), A)
    c.book(c.claim)


def ungates_without_pin(c: Cluster) -> None:
    c.book(c.claim)
    c.put({**c.pod, "spec": {**c.pod["spec"], "schedulingGates": []}}, A)


def ungates_without_pin_long_after_it_was_off(c: Cluster) -> None:
    for enabled in ("false", "true"):
        c.put(things.settings(enabled=enabled))
    c.wait()
    ungates_without_pin(c)


def pins_one_of_two_terms(c: Cluster) -> None:
    c.book(c.claim)
    pod = things.pinned(c.pod, "n1", "n1")
    terms = pod["spec"]["affinity"]["nodeAffinity"]
    terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][1] = {
        "matchExpressions": [{"key": "zone", "operator": "Exists"}]
    }
    c.put(pod, A)


def pins_elsewhere(c: Cluster) -> None:
    c.book(c.claim)
    c.put(things.pinned(c.pod, "n2"), A)


def splits_a_set(c: Cluster) -> None:
    other = c.order("order", 1)
    attached = {"kind": v.KIND_VMI, "name": "vm", "uid": c.vmi["metadata"]["uid"]}
    c.put(things.booked(other, "n2", attachedTo=attached), A)
    c.start()


def books_in_an_old_term(c: Cluster) -> None:
    c.put(things.system(2), B)
    c.book(c.claim)


def shares_a_term(c: Cluster) -> None:
    c.book(c.claim)
    c.book(c.order("other", 1), who=B)


def lowers_the_term(c: Cluster) -> None:
    c.put(things.system(0), B)


def lets_a_tenant_place(c: Cluster) -> None:
    c.book(c.claim, who=ADMIN)


def removes_a_foreign_gate(c: Cluster) -> None:
    gates = (v.GATE, "x.io/other")
    c.pod = c.put(
        {**c.pod, "spec": {**c.pod["spec"], "schedulingGates": [{"name": g} for g in gates]}}
    )
    c.start()


def pins_twice(c: Cluster) -> None:
    c.put(things.pinned(c.pod, "n1", gates=(v.GATE,)), A)
    pod = things.pinned(c.pod, "n1", gates=(v.GATE,))
    required = pod["spec"]["affinity"]["nodeAffinity"]
    fields = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    fields["matchFields"] = [*fields["matchFields"], *fields["matchFields"]]
    c.put(pod, A)


def changes_a_selector(c: Cluster) -> None:
    c.put({**c.pod, "spec": {**c.pod["spec"], "nodeSelector": {"a": "b"}}}, A)


def exceeds_a_budget(c: Cluster) -> None:
    c.put(things.quota(HOME, a100=2))
    c.wait()
    c.book(c.claim)
    c.book(c.order("other", 1))


def forgets_what_is_lost(c: Cluster) -> None:
    c.put(things.quota(HOME, a100=2))
    c.wait()
    lost = {"conditions": [{"type": "Bound", "status": "False", "reason": "NodeLost"}]}
    c.put({**c.claim, "status": lost}, A)
    c.book(c.order("other", 1))


def places_while_off(c: Cluster) -> None:
    c.put(things.settings(enabled="false"))
    c.wait()
    c.book(c.claim)


def tries_a_node_again(c: Cluster) -> None:
    pod = c.start()
    c.put({**pod, "status": {"phase": "Failed", "reason": "OutOfnvidia.com/A100"}}, KUBEVIRT)
    c.wait()
    again = c.put(things.launcher(c.vmi, "again", a100=2), KUBEVIRT)
    c.put(things.pinned(again, "n1"), A)


def writes_a_vmi(c: Cluster) -> None:
    c.put({**c.vmi, "status": {"phase": "Failed"}}, A)


def writes_a_spec(c: Cluster) -> None:
    c.put({**c.claim, "spec": {**c.claim["spec"], "count": 1}}, A)


def makes_an_order(c: Cluster) -> None:
    c.put(things.claim(HOME, "order", "a100"), A)


def writes_settings(c: Cluster) -> None:
    c.put(things.settings(enabled="true"), A)


def deletes_a_gated_pod(c: Cluster) -> None:
    c.drop(c.pod, A)


def deletes_a_running_pod(c: Cluster) -> None:
    pod = c.start()
    c.wait()
    c.drop(pod, A)


def lets_go_too_early(c: Cluster) -> None:
    c.start()
    c.drop(c.claim, A)


def unbinds_under_a_pod(c: Cluster) -> None:
    c.start()
    c.put({**c.claim, "status": {"epoch": 1}}, A)


def lets_go_of_what_a_left_pod_holds(c: Cluster) -> None:
    pod = c.start()
    left = [c.put(unowned(each), COLLECTOR) for each in (pod, c.claim)]
    c.drop(c.vmi, KUBEVIRT)
    c.drop(left[1], A)


def unowned(obj: Raw) -> Raw:
    metadata = {key: each for key, each in obj["metadata"].items() if key != "ownerReferences"}
    return {**obj, "metadata": metadata}


def tells_again_before_half_an_hour(c: Cluster) -> None:
    for time in ("12:04:06", "12:34:05"):
        told = things.event(c.vmi, "NoCapacity", "none free", f"e{time[:2]}{time[3:5]}")
        c.put({**told, "firstTimestamp": f"2026-11-29T{time}Z"}, A)


def repeats_itself(c: Cluster) -> None:
    for number in range(2):
        c.put(things.event(c.vmi, "NoCapacity", f"{number} free", f"e{number}"), A)


BROKEN: dict[Callable[[Cluster], None], str] = {
    overbooks: "no_unit_is_booked_twice",
    books_where_a_launcher_ended_long_ago: "no_unit_is_booked_twice",
    books_what_a_stranger_holds: "no_unit_is_booked_twice",
    books_what_was_freed_before_its_pod_went: "no_unit_is_booked_twice",
    pins_without_booking: "a_launcher_starts_where_its_claims_are",
    pins_before_the_booking: "a_launcher_starts_where_its_claims_are",
    ungates_without_pin: "a_launcher_starts_where_its_claims_are",
    ungates_without_pin_long_after_it_was_off: "a_launcher_starts_where_its_claims_are",
    pins_one_of_two_terms: "a_launcher_starts_where_its_claims_are",
    pins_elsewhere: "a_launcher_starts_where_its_claims_are",
    splits_a_set: "a_set_is_whole_when_it_starts",
    books_in_an_old_term: "a_booking_is_of_the_present_term",
    shares_a_term: "a_booking_is_of_the_present_term",
    lowers_the_term: "a_term_only_grows",
    lets_a_tenant_place: "only_the_binder_places",
    removes_a_foreign_gate: "only_its_own_gate_and_pin",
    pins_twice: "only_its_own_gate_and_pin",
    changes_a_selector: "only_its_own_gate_and_pin",
    exceeds_a_budget: "budgets_hold",
    forgets_what_is_lost: "budgets_hold",
    places_while_off: "nothing_is_placed_while_off",
    tries_a_node_again: "a_node_that_refused_is_skipped",
    writes_a_vmi: "others_are_left_alone",
    writes_a_spec: "others_are_left_alone",
    makes_an_order: "others_are_left_alone",
    writes_settings: "others_are_left_alone",
    deletes_a_gated_pod: "no_launcher_is_taken_away_without_need",
    deletes_a_running_pod: "no_launcher_is_taken_away_without_need",
    lets_go_too_early: "units_are_kept_while_a_pod_holds_them",
    unbinds_under_a_pod: "units_are_kept_while_a_pod_holds_them",
    lets_go_of_what_a_left_pod_holds: "units_are_kept_while_a_pod_holds_them",
    repeats_itself: "a_reason_is_told_once",
    tells_again_before_half_an_hour: "a_reason_is_told_once",
}


@pytest.mark.parametrize("happens", BROKEN, ids=lambda each: each.__name__)
def test_what_may_not_be_is_found_by_its_invariant_alone(
    happens: Callable[[Cluster], None],
) -> None:
    cluster = Cluster()
    happens(cluster)
    found = judged(cluster.changes)
    assert {each.invariant for each in found} == {BROKEN[happens]}, "\n".join(map(str, found))
    others = [each for each in INVARIANTS if each.__name__ != BROKEN[happens]]
    assert judged(cluster.changes, others) == []


def test_every_invariant_was_seen_broken() -> None:
    assert {each.__name__ for each in INVARIANTS} == set(BROKEN.values())


def starts(c: Cluster) -> None:
    c.start()


def tells_again_after_the_claim_that_said_it_went(c: Cluster) -> None:
    c.put(things.event(c.vmi, "NoCapacity", "none free", "e1"), A)
    said = c.put({**c.claim, "status": {"waiting": {"reason": "NoCapacity"}}}, A)
    c.drop(said)
    c.put(things.event(c.vmi, "NoCapacity", "none free", "e2"), B)


def tells_of_something_that_arrives_late(c: Cluster) -> None:
    """Of two events the first is held up on its way until the second is there."""
    for second, name in (("07", "later"), ("06", "earlier")):
        told = things.event(c.vmi, "NoCapacity", "none free", name)
        c.put({**told, "firstTimestamp": f"2026-11-29T12:04:{second}Z"}, A)


def tells_again_after_half_an_hour(c: Cluster) -> None:
    """By the binder's clock; no claim can say it."""
    for time in ("12:04:06", "12:34:06"):
        told = things.event(c.vmi, "NoCapacity", "none free", f"e{time[:2]}{time[3:5]}")
        c.put({**told, "firstTimestamp": f"2026-11-29T{time}Z"}, A)


def tells_of_each_change_of_reason(c: Cluster) -> None:
    """The event of the second change is lost."""
    for number, reason in enumerate(("NoCapacity", "BudgetExceeded", "NoCapacity")):
        if reason == "NoCapacity":
            c.put(things.event(c.vmi, reason, "none free", f"e{number}"), A)
        c.put({**c.claim, "status": {"waiting": {"reason": reason}}}, A)


def tells_again_since_an_order_still_says_why_another_vm_waited(c: Cluster) -> None:
    """It passes on to this one, which whoever leads by then takes to have waited for that."""
    order = c.order("order", 1)
    recorded = things.record([], [order])
    first, second = (
        c.put(things.vmi(HOME, name, f"uid-of-{name}", recorded), KUBEVIRT)
        for name in ("first", "second")
    )
    c.put(things.event(second, "ClaimInUse", "of first", "e1"), A)
    c.drop(first)
    c.put(things.event(second, "ClaimInUse", "of another", "e2"), B)


def keeps_a_foreign_gate(c: Cluster) -> None:
    gates = (v.GATE, "x.io/other")
    spec = {**c.pod["spec"], "schedulingGates": [{"name": gate} for gate in gates]}
    c.pod = c.put({**c.pod, "spec": spec})
    c.book(c.claim)
    c.put(things.pinned(c.pod, "n1", gates=("x.io/other",)), A)


def could_not_know_that_it_is_on_again(c: Cluster) -> None:
    for enabled in ("false", "true"):
        c.put(things.settings(enabled=enabled))
    ungates_without_pin(c)


def lets_go_of_a_set_in_parts_while_it_is_off(c: Cluster) -> None:
    attached = {"kind": v.KIND_VMI, "name": "vm", "uid": c.vmi["metadata"]["uid"]}
    c.put(things.booked(c.order("order", 1), "n2", attachedTo=attached), A)
    could_not_know_that_it_is_on_again(c)


def could_not_know_of_a_stranger(c: Cluster) -> None:
    books_stranger = things.launcher(c.vmi, "stranger", a100=1)
    del books_stranger["metadata"]["annotations"]
    c.put({**books_stranger, "spec": {**books_stranger["spec"], "nodeName": "n2"}})
    c.book(c.claim, "n2")


def books_where_a_launcher_runs(c: Cluster) -> None:
    c.book(c.order("other", 3), "n1")
    c.wait()
    c.put({**c.pod, "spec": {**c.pod["spec"], "nodeName": "n1", "schedulingGates": []}}, ADMIN)
    c.wait()
    c.book(c.claim, "n1")


def could_not_know_that_a_launcher_ended(c: Cluster) -> None:
    pod = runs_unplaced(c)
    c.drop(pod, KUBEVIRT)
    c.book(c.claim, "n1")


def lets_go_after_the_pod(c: Cluster) -> None:
    pod = c.start()
    c.drop(pod, KUBEVIRT)
    c.drop(c.claim, A)


def lets_go_after_a_left_pod(c: Cluster) -> None:
    pod = c.start()
    left = [c.put(unowned(each), COLLECTOR) for each in (pod, c.claim)]
    c.drop(c.vmi, KUBEVIRT)
    c.drop(left[0], ADMIN)
    c.drop(left[1], A)


def books_beside_a_left_pod(c: Cluster) -> None:
    """It holds two of four units, and its claim says so."""
    pod = c.start()
    for each in (pod, c.claim):
        c.put(unowned(each), COLLECTOR)
    c.drop(c.vmi, KUBEVIRT)
    c.wait()
    c.book(c.order("other", 2))


def asks_a_node_again_after_its_time(c: Cluster) -> None:
    tries_after = c.start()
    status = {"phase": "Failed", "reason": "OutOfnvidia.com/A100"}
    c.put({**tries_after, "status": status}, KUBEVIRT)
    c.wait(SKIP_SECONDS)
    again = c.put(things.launcher(c.vmi, "again", a100=2), KUBEVIRT)
    c.put(things.pinned(again, "n1"), A)


def asks_a_node_again_that_changed(c: Cluster) -> None:
    pod = c.start()
    c.put({**pod, "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}, KUBEVIRT)
    c.put(things.node("n1", a100=3))
    c.wait()
    again = c.put(things.launcher(c.vmi, "again", a100=2), KUBEVIRT)
    c.put(things.pinned(again, "n1"), A)


def moves_within_its_budget(c: Cluster) -> None:
    c.put(things.quota(HOME, a100=2))
    c.wait()
    c.claim = c.book(c.claim)
    c.put(things.quota(HOME, a100=1))
    c.wait()
    c.book(c.claim, "n2")


def could_not_know_that_the_vm_just_ended(c: Cluster) -> None:
    """It ran where its order is booked then, past the budget; a view may be so late."""
    attached = {"kind": v.KIND_VM, "name": "vm", "uid": "uid-of-machine"}
    owner = {"kind": v.KIND_VM, "name": "vm", "uid": "uid-of-machine", "controller": True}
    vmi = c.put({**c.vmi, "metadata": {**c.vmi["metadata"], "ownerReferences": [owner]}}, KUBEVIRT)
    c.put(things.quota(HOME, a100=2))
    order = c.order("order", 3)
    pod = c.start()
    c.wait()
    c.drop(pod, KUBEVIRT)
    c.drop(vmi, KUBEVIRT)
    c.put(things.booked(order, "n1", 1, attachedTo=attached), A)


def starts_anew_beside_its_last_claim(c: Cluster) -> None:
    """The VM's last instance is gone, and its claim not yet."""
    attached = {"kind": v.KIND_VM, "name": "vm", "uid": "uid-of-machine"}
    last = {**c.claim, "metadata": {**c.claim["metadata"], "name": "last", "uid": "uid-of-last"}}
    last["metadata"]["ownerReferences"] = [{"kind": v.KIND_VMI, "name": "vm", "uid": "gone"}]
    c.put(things.booked(last, "n2", attachedTo=attached), A)
    owner = {"kind": v.KIND_VM, "name": "vm", "uid": "uid-of-machine", "controller": True}
    c.put({**c.vmi, "metadata": {**c.vmi["metadata"], "ownerReferences": [owner]}}, KUBEVIRT)
    c.claim = {**c.claim, "status": {"attachedTo": attached}}
    c.start()


FINE: tuple[Callable[[Cluster], None], ...] = (
    starts,
    tells_again_after_the_claim_that_said_it_went,
    tells_of_each_change_of_reason,
    tells_of_something_that_arrives_late,
    tells_again_after_half_an_hour,
    tells_again_since_an_order_still_says_why_another_vm_waited,
    keeps_a_foreign_gate,
    could_not_know_that_it_is_on_again,
    lets_go_of_a_set_in_parts_while_it_is_off,
    could_not_know_of_a_stranger,
    books_where_a_launcher_runs,
    could_not_know_that_a_launcher_ended,
    lets_go_after_the_pod,
    lets_go_after_a_left_pod,
    books_beside_a_left_pod,
    asks_a_node_again_after_its_time,
    asks_a_node_again_that_changed,
    moves_within_its_budget,
    could_not_know_that_the_vm_just_ended,
    starts_anew_beside_its_last_claim,
)


@pytest.mark.parametrize("happens", FINE, ids=lambda each: each.__name__)
def test_what_may_be_is_not_held_against_a_binder(happens: Callable[[Cluster], None]) -> None:
    cluster = Cluster()
    happens(cluster)
    assert judged(cluster.changes) == []
