"""Why a VM waits, worked out by hand: one node of four units, unless a case says otherwise."""

from __future__ import annotations

import json

import pytest

from shared import vocabulary as v
from tests.binder.objects import DEVICE, NOON, claim, instance, moment, node, pod, world
from tests.binder.truth import Moment, World, reasons
from tests.cluster.api import Object

FAST = {"disk": "fast"}


def waits(taken: int, **where: object) -> Moment:
    """One VM runs with so many units; another one waits for two."""
    launcher = pod("waits", gated=True)
    launcher["spec"] |= where
    return moment(
        instance("runs", "Running"),
        pod("runs", on="node", count=taken),
        claim("runs", taken, on="node"),
        instance("waits"),
        launcher,
        claim("waits"),
    )


def disk(name: str) -> list[Object]:
    return [{"name": "root", "persistentVolumeClaim": {"claimName": name}}]


@pytest.mark.parametrize(
    ("known", "seen", "why"),
    [
        pytest.param(world(), waits(3), "NoCapacity", id="one is left, of two"),
        pytest.param(world(), waits(2), "fits on node", id="two are left"),
        pytest.param(world(budget=3), waits(2), "BudgetExceeded", id="two are left, not to it"),
        pytest.param(world(budget=5), waits(3), "NoCapacity", id="the budget is just enough"),
        pytest.param(world(budget=4), waits(4), "BudgetExceeded", id="the budget comes first"),
        pytest.param(
            world(node(), node("other", 1)), waits(3), "SetDoesNotFitOneNode", id="one on each"
        ),
        pytest.param(
            world(node(), node("other", labels=FAST)),
            waits(3, nodeSelector=FAST),
            "fits on other",
            id="where it wants to be",
        ),
        pytest.param(
            world(node(labels=FAST), node("other")),
            waits(3, nodeSelector=FAST),
            "NoEligibleNode",
            id="not where it wants to be",
        ),
        pytest.param(
            world(node(), node("other"), disks={"d": "other"}),
            waits(3, volumes=disk("d")),
            "fits on other",
            id="where its disk is",
        ),
        pytest.param(
            world(node(), node("other"), disks={"d": "node"}),
            waits(3, volumes=disk("d")),
            "VolumeOutOfReach",
            id="not where its disk is",
        ),
    ],
)
def test_there_is_one_reason_for_a_vm_to_wait(known: World, seen: Moment, why: str) -> None:
    ((each, found),) = reasons(known, seen)
    assert each.who == "t/waits"
    assert set(found) == {why}


def test_of_a_budget_what_an_older_one_waits_for_is_taken() -> None:
    """Four units of budget: the older one of two waits for room, the younger one for budget."""
    seen = [instance("older", count=3), instance("younger", count=2)]
    pods = [pod("older", gated=True), pod("younger", gated=True)]
    found = reasons(world(node(units=2), budget=4), moment(*seen, *pods, claim("older", 3)))
    assert [(each.who, *why) for each, why in found] == [
        ("t/older", "NoCapacity"),
        ("t/younger", "BudgetExceeded"),
    ]


def test_a_claim_whose_vm_is_about_to_go_can_be_seen_as_counted_and_as_gone() -> None:
    seen = moment(instance("waits"), pod("waits", gated=True), claim("waits"), claim("left", 3))
    ((_, found),) = reasons(world(budget=4), seen)
    assert set(found) == {"BudgetExceeded", "fits on node"}


def test_a_pod_without_a_claim_whose_vm_is_about_to_go_can_be_seen_both_ways() -> None:
    going = instance("left", count=3)
    going["metadata"]["deletionTimestamp"] = NOON
    seen = moment(going, pod("left", gated=True), instance("waits"), pod("waits", gated=True))
    ((_, found),) = reasons(world(budget=4), seen)
    assert set(found) == {"BudgetExceeded", "fits on node"}


def test_what_is_about_to_be_an_older_ones_can_be_seen_as_free_and_as_taken() -> None:
    """Four units: the older one of three is about to get them, and one is left of two."""
    seen = [instance("older", count=3), instance("younger", count=2)]
    pods = [pod("older", gated=True), pod("younger", gated=True)]
    found = reasons(world(), moment(*seen, *pods, claim("older", 3)))
    assert [sorted(why) for _, why in found] == [["fits on node"], ["NoCapacity", "fits on node"]]


def test_without_an_order_that_it_names_a_vm_waits_for_that() -> None:
    vmi = instance("waits")
    record = [{"claim": "o", "className": "a", "resourceName": DEVICE, "count": 2}]
    vmi["metadata"]["annotations"] = {v.ANNOTATION_ATTACHMENTS: json.dumps(record)}
    order = claim("o")
    order["metadata"] |= {"name": "o", "labels": {}}
    going = order | {"metadata": order["metadata"] | {"deletionTimestamp": NOON}}
    launcher = pod("waits", gated=True)
    for seen, why in [
        (moment(vmi, launcher, order), "fits on node"),
        (moment(vmi, launcher, going), "ClaimNotFound"),
        (moment(vmi, launcher), "ClaimNotFound"),
    ]:
        ((_, found),) = reasons(world(), seen)
        assert set(found) == {why}
