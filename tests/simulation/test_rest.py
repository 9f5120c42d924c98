"""What must hold at rest: each thing seen missing once, in the small cluster of the tales."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared import vocabulary as v
from tests.simulation import rest, things
from tests.simulation.judge import Judge
from tests.simulation.policies import ADMIN, KUBEVIRT
from tests.simulation.tales import A, Cluster


def wrongs(happens: Callable[[Cluster], None]) -> list[str]:
    """What is wrong at the end of a tale."""
    cluster = Cluster()
    happens(cluster)
    judge = Judge(())
    for change in cluster.changes:
        judge.see(change)
    return rest.wrongs(judge.seen)


def waits(c: Cluster, reason: str = "NoCapacity") -> None:
    """The VM's claim says that it waits."""
    told = {"type": "Bound", "status": "False", "reason": reason}
    c.claim = c.put({**c.claim, "status": {"conditions": [told]}}, A)


def starts(c: Cluster) -> None:
    c.start()


def waits_for_room(c: Cluster) -> None:
    waits(c)
    for node in (c.n1, c.n2):
        c.put({**node, "spec": {"unschedulable": True}})


def waits_for_its_budget(c: Cluster) -> None:
    waits(c, "BudgetExceeded")
    c.put(things.quota("tenant-a", a100=1))


def another_waits(c: Cluster, pod: str, units: int) -> None:
    """Another VM at its gate; of pods without a time that is older whose name comes first."""
    vmi = c.vmi_of("other", units)
    c.put(things.launcher(vmi, pod, a100=units), KUBEVIRT)
    claim = c.put(things.template_claim(vmi, "of-other", "a100", units), A)
    told = {"type": "Bound", "status": "False", "reason": "BudgetExceeded"}
    c.put({**claim, "status": {"conditions": [told]}}, A)


def waits_for_a_budget_that_an_older_one_waits_for(c: Cluster) -> None:
    waits(c, "BudgetExceeded")
    c.put(things.quota("tenant-a", a100=3))
    another_waits(c, "elder", 4)


def waits_for_a_claim_that_is_gone(c: Cluster) -> None:
    order = c.order("order", 1)
    recorded = things.record([], [order])
    vmi = c.put(things.vmi("tenant-a", "other", "uid-of-other", recorded), KUBEVIRT)
    c.put(things.launcher(vmi, "other", a100=1), KUBEVIRT)
    c.drop(order, ADMIN)
    c.start()


def waits_for_a_claim_that_another_names(c: Cluster) -> None:
    order = c.order("order", 1)
    recorded = things.record([], [order])
    for name in ("older", "younger"):
        vmi = c.put(things.vmi("tenant-a", name, f"uid-of-{name}", recorded), KUBEVIRT)
        c.put(things.launcher(vmi, name, a100=1), KUBEVIRT)
    c.book(order, "n2")
    c.start()


def waits_with_an_order_that_stays_booked(c: Cluster) -> None:
    order = c.order("order", 1)
    recorded = things.record([{"className": "a100", "count": 4}], [order])
    vmi = c.put(things.vmi("tenant-a", "other", "uid-of-other", recorded), KUBEVIRT)
    c.put(things.launcher(vmi, "other", a100=5), KUBEVIRT)
    c.book(order, "n1")
    claim = c.put(things.template_claim(vmi, "more", "a100", 4), A)
    told = {"type": "Bound", "status": "False", "reason": "NoCapacity"}
    c.put({**claim, "status": {"conditions": [told]}}, A)
    c.start()


@pytest.mark.parametrize(
    "happens",
    [
        starts,
        waits_for_room,
        waits_for_its_budget,
        waits_for_a_budget_that_an_older_one_waits_for,
        waits_for_a_claim_that_is_gone,
        waits_for_a_claim_that_another_names,
        waits_with_an_order_that_stays_booked,
    ],
    ids=lambda each: each.__name__,
)
def test_what_is_well_is_not_complained_of(happens: Callable[[Cluster], None]) -> None:
    assert wrongs(happens) == []


def tears_a_set(c: Cluster) -> None:
    c.start()
    attached = {"kind": v.KIND_VMI, "name": "vm", "uid": c.vmi["metadata"]["uid"]}
    c.put(things.booked(c.order("order", 1), "n2", attachedTo=attached), A)


def leaves_room_unused(c: Cluster) -> None:
    waits(c)


def waits_behind_a_younger_one(c: Cluster) -> None:
    waits(c, "BudgetExceeded")
    c.put(things.quota("tenant-a", a100=3))
    another_waits(c, "younger", 4)


def waits_in_silence(c: Cluster) -> None:
    for node in (c.n1, c.n2):
        c.put({**node, "spec": {"unschedulable": True}})


def has_not_looked(c: Cluster) -> None:
    waits_for_room(c)
    waits(c, "Unevaluated")


def makes_no_claims(c: Cluster) -> None:
    waits_for_room(c)
    c.drop(c.claim, A)


def forgets_a_template_claim(c: Cluster) -> None:
    c.drop(c.pod, KUBEVIRT)
    c.drop(c.vmi, KUBEVIRT)


def keeps_what_was_deleted(c: Cluster) -> None:
    c.drop(c.pod, KUBEVIRT)
    order = c.order("order", 1)
    c.put({**order, "metadata": {**order["metadata"], "deletionTimestamp": "t"}})


def keeps_an_attachment(c: Cluster) -> None:
    c.start()
    attached = {"kind": v.KIND_VM, "name": "gone", "uid": "uid-of-gone"}
    c.put({**c.order("order", 1), "status": {"attachedTo": attached}}, A)


def complains_of_a_start_that_went_well(c: Cluster) -> None:
    c.start()
    told = {"type": "Attached", "status": "True", "reason": "InUse", "message": "it is refused"}
    claim = things.booked(c.claim, "n1")
    c.put({**claim, "status": {**claim["status"], "conditions": [told]}}, A)


WRONG: dict[Callable[[Cluster], None], str] = {
    tears_a_set: "the set of tenant-a/vm is in parts: n1, n2",
    leaves_room_unused: "tenant-a/launcher waits, and fits on n1",
    waits_behind_a_younger_one: "tenant-a/launcher waits, and fits on n1",
    waits_in_silence: "tenant-a/uid-of-vm-0 waits and does not say so",
    has_not_looked: "tenant-a/uid-of-vm-0 waits and does not say why",
    makes_no_claims: "tenant-a/launcher waits and has no claims",
    forgets_a_template_claim: "tenant-a/uid-of-vm-0 is a template claim of nobody",
    keeps_what_was_deleted: "tenant-a/order was deleted and stays",
    keeps_an_attachment: "tenant-a/order is attached to what is gone",
    complains_of_a_start_that_went_well: (
        "tenant-a/uid-of-vm-0 is attached, and says: it is refused"
    ),
}


@pytest.mark.parametrize("happens", WRONG, ids=lambda each: each.__name__)
def test_what_is_wrong_is_told(happens: Callable[[Cluster], None]) -> None:
    assert wrongs(happens) == [WRONG[happens]]
