"""What the next pass makes of a set that got a part of what it needs (rule 7.4)."""

from dataclasses import replace

from binder.actions import Action, BookClaim, CreateClaim
from shared.core.model import Attachment
from tests.unit.binder.applier import actions
from tests.unit.binder.world import World, node, order, template, vm

TRAIN = Attachment("VirtualMachine", "train", "vm-train")


def _books(action: Action, name: str) -> bool:
    return isinstance(action, BookClaim) and action.claim.name == name


def _half_booked() -> World:
    """A VM of two entries at the gate, of which the second claim was not booked."""
    world = World()
    world.put(node("n1", a100=1, l40s=1), *vm("train", {"a100": 1, "l40s": 1}))
    world.applier.do(
        world.plan(), lambda each: isinstance(each, BookClaim) and each.claim.name.endswith("-1")
    )
    assert world.where() == {template("train", 0): "n1", template("train", 1): ""}
    return world


def test_what_a_vm_got_a_part_of_it_keeps_none_of_while_it_waits() -> None:
    """Else two that each hold what the other needs wait for ever."""
    world = _half_booked()
    world.put(node("n1", a100=1))
    world.settle()
    assert world.where() == {template("train", 0): "", template("train", 1): ""}
    assert world.says(template("train", 0), "Bound") == ("False", "NodeLost")
    assert world.waits_for(template("train", 0)) == "NoCapacity"
    assert world.claim(template("train", 0)).attached_to == TRAIN


def test_what_a_vm_without_a_pod_got_a_part_of_is_gathered_or_lost_as_well() -> None:
    world = _half_booked()
    world.gone(world.pod("pod-train"))
    world.settle()
    assert world.where() == {template("train", 0): "n1", template("train", 1): "n1"}
    world = _half_booked()
    world.gone(world.pod("pod-train"))
    world.put(node("n1", a100=1))
    world.settle()
    assert world.where() == {template("train", 0): "", template("train", 1): ""}


def test_an_order_that_was_held_before_is_held_on_when_the_rest_is_let_go() -> None:
    """It was not attached yet, so that nothing of it is split."""
    world = World()
    world.put(node("n1", a100=3, l40s=1), order("o1", 2, "n1"))
    world.put(*vm("train", {"a100": 1, "l40s": 1}, {"o1": 2}))
    for each in actions(world.plan()):
        if isinstance(each, CreateClaim) or _books(each, template("train", 0)):
            world.applier.one(each)
    assert world.where() == {"o1": "n1", template("train", 0): "n1", template("train", 1): ""}
    world.put(node("n1", a100=3))
    world.settle()
    assert world.where() == {"o1": "n1", template("train", 0): "", template("train", 1): ""}
    assert world.says("o1", "Bound") == ("True", "Placed")


def test_what_was_made_for_a_vm_goes_together_whether_or_not_it_is_attached() -> None:
    """It waits again for a node that is not ready, holding all; then a part of that vanishes."""
    world = World()
    here = node("n1", a100=1, l40s=1)
    world.put(here, *vm("train", {"a100": 1, "l40s": 1}))
    world.settle()
    world.put(replace(here, ready=False), vm("train", {"a100": 1, "l40s": 1})[1])
    world.settle()
    assert world.claim(template("train", 0)).attached_to is None
    world.gone(world.claim(template("train", 1)))
    world.settle()
    assert world.where() == {template("train", 0): "", template("train", 1): ""}


def test_an_order_is_held_though_a_claim_that_was_made_beside_it_was_not_booked() -> None:
    world = World()
    world.put(node("n1", a100=2, l40s=1), order("o1", 2))
    world.settle()
    world.put(*vm("train", {"l40s": 1}, {"o1": 2}))
    world.applier.do(world.plan(), lambda each: isinstance(each, BookClaim))
    assert world.claim("o1").attached_to == TRAIN
    world.put(node("n1", a100=2))
    world.settle()
    assert world.where() == {"o1": "n1", template("train"): ""}
    assert world.claim("o1").attached_to is None
