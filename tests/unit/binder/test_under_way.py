"""What is decided while an earlier decision is still being written (rules 7.2 and 7.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binder.actions import BookClaim, CreateClaim, DeleteClaim, Kind, RemoveFinalizer, Work
from binder.units import claim_ref
from shared.core.model import Attachment, Claim
from shared.vocabulary import FINALIZER_CLASS
from tests.unit.binder.world import (
    World,
    booked,
    gpu_class,
    node,
    order,
    quota,
    started,
    template,
    vm,
)


def begin(world: World, key: str) -> Work:
    """A pass begins to write a work and is not answered; nothing else of it was written."""
    (work,) = (each for each in world.plan().works if each.key == key)
    world.under_way = (work,)
    return work


def test_others_start_while_a_write_is_not_answered() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("slow", {"a100": 2}, age=9))
    begin(world, "set/vmi-slow")
    world.put(*vm("other", {"a100": 2}))
    world.settle()
    assert world.starts() == {"pod-other": "n1"}


def test_nobody_gets_the_room_of_a_booking_that_is_not_answered() -> None:
    world = World()
    world.put(node("n1", a100=3), *vm("slow", {"a100": 2}, age=9))
    begin(world, "set/vmi-slow")
    world.put(*vm("other", {"a100": 2}))
    world.settle()
    assert world.starts() == {}
    assert world.waits_for(template("other")) == "NoCapacity"
    world.under_way = ()
    world.gone(*vm("slow", {"a100": 2}))
    world.settle()
    assert world.starts() == {"pod-other": "n1"}


def test_a_pod_that_may_have_been_started_takes_its_room() -> None:
    world = World()
    world.put(
        replace(node("n1", a100=4), allocatable={**node("n1", a100=4).allocatable, "cpu": 1500})
    )
    world.put(*vm("slow", {"a100": 1}, age=9))
    begin(world, "set/vmi-slow")
    world.put(*vm("other", {"a100": 1}))
    assert started(world.settle()) == []


def test_a_booking_that_is_seen_before_it_is_answered_counts_once() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("slow", {"a100": 2}, age=9))
    work = begin(world, "set/vmi-slow")
    world.under_way = ()
    world.step()
    assert work.laid
    world.under_way = (work,)
    world.put(*vm("other", {"a100": 2}))
    world.settle()
    assert world.starts() == {"pod-slow": "n1", "pod-other": "n1"}


def test_what_may_have_been_made_counts_for_the_budget() -> None:
    world = World()
    world.put(quota(3), node("n1", a100=8), *vm("slow", {"a100": 2}, age=9))
    begin(world, "set/vmi-slow")
    world.put(*vm("other", {"a100": 2}))
    world.settle()
    assert world.starts() == {}
    assert world.waits_for(template("other")) == "BudgetExceeded"


def test_a_claim_that_moves_is_held_at_both_places_until_it_is_known_to_have_moved() -> None:
    world = World()
    moving = order("o1", 2, "n1", attached_to=Attachment("VirtualMachine", "slow", "vm-slow"))
    world.put(node("n1", a100=2), node("n2", a100=2), moving)
    world.put(*vm("slow", claims={"o1": 2}, node_name="n2"))
    work = begin(world, "set/vmi-slow")
    world.put(*vm("other", {"a100": 1}))
    assert started(world.settle()) == []
    world.under_way = ()
    world.step()
    assert world.where()["o1"] == "n2"
    world.under_way = (work,)
    assert started(world.settle()) == ["pod-other"]


def test_an_order_whose_vm_is_gone_is_not_decided_about_while_its_booking_is_not_answered() -> None:
    """Its set was written under another key."""
    world = World()
    world.put(node("n1", a100=4), order("o1", 2), *vm("slow", claims={"o1": 2}))
    work = begin(world, "set/vmi-slow")
    world.gone(*vm("slow", claims={"o1": 2}))
    assert all(each.key.startswith("class/") for each in world.plan().works)
    world.under_way = ()
    assert "claim/tenant-a/o1" in {each.key for each in world.plan().works}
    assert work.key != "claim/tenant-a/o1"


def test_an_order_that_only_has_to_be_started_is_not_let_go_meanwhile() -> None:
    """Its pod may run a moment later."""
    world = World()
    held = order("o1", 2, "n1", attached_to=Attachment("VirtualMachine", "slow", "vm-slow"))
    world.put(node("n1", a100=2), held, *vm("slow", claims={"o1": 2}))
    begin(world, "set/vmi-slow")
    assert [each.name for each in world.under_way[0].laid] == ["o1", "pod-slow"]
    world.put(replace(world.claim("o1"), deleting=True))
    assert _lets_go(world, Kind.CLAIM) is False
    world.under_way = ()
    assert _lets_go(world, Kind.CLAIM) is True, "it goes once nothing is under way"


def test_a_claim_made_anew_under_its_name_counts_as_it_is() -> None:
    """The booking that is not answered was of another, which is gone for good."""
    world = World()
    world.put(quota(4), node("n1", a100=8), order("o1", 1), *vm("slow", claims={"o1": 1}, age=9))
    begin(world, "set/vmi-slow")
    world.gone(*vm("slow", claims={"o1": 1}), world.claim("o1"))
    world.put(replace(order("o1", 3, age=8), uid="another"))
    world.put(order("other", 2))
    # The three units of the older count first, though nothing is decided about it yet.
    assert booked(world.settle()) == []


def test_the_older_of_two_that_share_a_budget_comes_first_also_while_the_younger_is_written() -> (
    None
):
    """Rule 7.7: what waits counts after those before it, also if its words are not written yet."""
    world = World()
    world.put(quota(4), node("n1", a100=1), order("young", 4, age=1))
    world.step()
    world.under_way = (
        Work("claim/tenant-a/young", ((DeleteClaim(claim_ref(world.claim("young"))),),)),
    )
    world.put(node("n1", a100=8), *vm("old", {"a100": 4}, age=9))
    assert started(world.settle()) == ["pod-old"]


def test_a_set_is_not_given_up_for_lack_of_room_that_something_under_way_may_leave_free() -> None:
    """Rule 7.4: only a set that cannot be gathered is lost."""
    vm_name = Attachment("VirtualMachine", "split", "vm-split")
    world = World()
    world.put(
        node("n1", a100=2),
        node("n2", a100=2),
        order("o1", 1, "n1", attached_to=vm_name),
        order("o2", 1, "n2", attached_to=vm_name),
        *vm("slow", {"a100": 1}, age=99),
    )
    begin(world, "set/vmi-slow")
    world.put(*vm("other", {"a100": 1}, age=9))
    world.settle()
    world.put(*vm("split", claims={"o1": 1, "o2": 1}))
    world.settle()
    assert (world.where()["o1"], world.where()["o2"]) == ("n1", "n2")


def test_a_class_keeps_its_finalizer_while_a_claim_of_it_is_being_made() -> None:
    world = World()
    guarded = gpu_class("a100", "nvidia.com/A100")
    assert guarded.written is not None
    written = replace(guarded.written, finalizers=(FINALIZER_CLASS,))
    world.put(replace(guarded, written=written), node("n1", a100=2), *vm("slow", {"a100": 1}))
    work = begin(world, "set/vmi-slow")
    assert _lets_go(world, Kind.CLASS) is False
    world.under_way = ()
    assert any(isinstance(each, CreateClaim) for step in work.steps for each in step)
    assert _lets_go(world, Kind.CLASS) is False, "nor in the pass that makes it"
    world.gone(*vm("slow", {"a100": 1}))
    assert _lets_go(world, Kind.CLASS) is True


@pytest.mark.parametrize("units", [1, 3])
def test_a_work_says_what_it_comes_to_at_most(units: int) -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("train", {"a100": units}))
    (work,) = (each for each in world.plan().works if each.key == "set/vmi-train")
    (claim,) = (each for each in work.laid if isinstance(each, Claim))
    assert (claim.name, claim.count) == (template("train"), units)
    assert claim.node_name == ("n1" if units == 1 else "")
    assert any(isinstance(each, BookClaim) for step in work.steps for each in step) == (units == 1)


def _lets_go(world: World, kind: Kind) -> bool:
    return any(
        isinstance(action, RemoveFinalizer) and action.kind is kind
        for work in world.plan().works
        for step in work.steps
        for action in step
    )
