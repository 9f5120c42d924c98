"""Each task and each hindrance, taken out, flips a case; so does each pair of them, swapped."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import pytest

from binder.agenda import Task
from binder.hindrances import HINDRANCES, Hindrance, class_not_found, over_budget, unusable_claim
from binder.sets import is_gated
from binder.units import PHASES
from shared.core.model import Attachment, Claim, Settings
from tests.unit.binder.world import World, node, order, quota, template, vm

T = TypeVar("T")

Case = Callable[[World], bool]
"""Whether all went as the rules say. It may rest or not."""

TRAIN = Attachment("VirtualMachine", "train", "vm-train")


def a_vm_that_runs_without_a_claim_gets_it_there(world: World) -> bool:
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}, node_name="n1"))
    _passes(world)
    return world.where() == {template("train"): "n1"}


def a_split_set_without_a_pod_is_gathered(world: World) -> bool:
    _split(world)
    _passes(world)
    return world.where() == {"o1": "n2", "o2": "n2"}


def a_vm_at_the_gate_starts(world: World) -> bool:
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    _passes(world)
    return world.starts() == {"pod-train": "n1"}


def a_lost_order_is_bound_again(world: World) -> bool:
    world.put(node("n1", a100=1), order("o1", lost=True))
    _passes(world)
    return world.where() == {"o1": "n1"}


def an_order_is_bound(world: World) -> bool:
    world.put(node("n1", a100=1), order("o1"))
    _passes(world)
    return world.where() == {"o1": "n1"}


def a_template_claim_goes_with_its_vmi(world: World) -> bool:
    a_vm_at_the_gate_starts(world)
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    _passes(world)
    return world.where() == {}


def a_deleted_order_goes(world: World) -> bool:
    world.put(node("n1", a100=1), replace(order("o1", 1, "n1"), deleting=True))
    _passes(world)
    return world.where() == {}


def a_booked_claim_is_guarded(world: World) -> bool:
    bare = order("o1", 1, "n1")
    assert bare.written is not None
    world.put(node("n1", a100=1), replace(bare, written=replace(bare.written, finalizers=())))
    _passes(world)
    return _finalizers(world.claim("o1")) == ("gpu.cozystack.io/claim",)


def an_order_is_let_go_when_its_vm_stops(world: World) -> bool:
    world.put(node("n1", a100=1), order("o1"), *vm("train", claims={"o1": 1}))
    _passes(world)
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    _passes(world)
    return world.claim("o1").attached_to is None


def a_pod_is_let_through_with_the_feature_off(world: World) -> bool:
    world.put(Settings(enabled=False), node("n1", a100=1), *vm("train", {"a100": 1}))
    _passes(world)
    return not is_gated(world.pod("pod-train"))


TASKS: dict[Task, Case] = {
    Task.ELSEWHERE: a_vm_that_runs_without_a_claim_gets_it_there,
    Task.SPLIT: a_split_set_without_a_pod_is_gathered,
    Task.GATED: a_vm_at_the_gate_starts,
    Task.LOST: a_lost_order_is_bound_again,
    Task.UNBOUND: an_order_is_bound,
    Task.OFF: a_pod_is_let_through_with_the_feature_off,
    Task.ENDS: a_template_claim_goes_with_its_vmi,
    Task.LEAVES: a_deleted_order_goes,
    Task.UNGUARDED: a_booked_claim_is_guarded,
    Task.UNTOLD: an_order_is_let_go_when_its_vm_stops,
}


@pytest.mark.parametrize("task", Task)
def test_each_task_decides_a_case(task: Task) -> None:
    case = TASKS[task]
    assert case(World())
    without = World()
    without.phases = [each for each in Task if each is not task]
    assert not case(without)


def a_vm_that_names_a_claim_that_is_not_there_waits(world: World) -> bool:
    world.put(node("n1", a100=4), *vm("train", {"a100": 1}, {"o1": 1}))
    _passes(world)
    return world.waits_for(template("train")) == "ClaimNotFound"


def a_vm_whose_class_is_gone_waits(world: World) -> bool:
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.gone(world.state.classes["a100"])
    _passes(world)
    return world.waits_for(template("train")) == "ClassNotFound"


def a_vm_beyond_the_budget_waits(world: World) -> bool:
    world.put(quota(1), node("n1", a100=4), *vm("train", {"a100": 2}))
    _passes(world)
    return world.waits_for(template("train")) == "BudgetExceeded"


HINDERED: dict[Hindrance, Case] = {
    unusable_claim: a_vm_that_names_a_claim_that_is_not_there_waits,
    class_not_found: a_vm_whose_class_is_gone_waits,
    over_budget: a_vm_beyond_the_budget_waits,
}


@pytest.mark.parametrize("hindrance", HINDRANCES, ids=lambda each: each.__name__)
def test_each_hindrance_decides_a_case(hindrance: Hindrance) -> None:
    case = HINDERED[hindrance]
    assert case(World())
    without = World()
    without.hindrances = [each for each in HINDRANCES if each is not hindrance]
    assert not case(without)


def a_claim_that_is_not_there_is_told_before_a_class_that_is_gone(world: World) -> bool:
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}, {"o1": 1}))
    world.gone(world.state.classes["a100"])
    _passes(world)
    return world.waits_for(template("train")) == "ClaimNotFound"


def a_class_that_is_gone_is_told_before_a_budget(world: World) -> bool:
    world.put(quota(1), node("n1", a100=2, l40s=1), *vm("train", {"a100": 2, "l40s": 1}))
    world.gone(world.state.classes["l40s"])
    _passes(world)
    return world.waits_for(template("train")) == "ClassNotFound"


PRECEDES: dict[Hindrance, Case] = {
    unusable_claim: a_claim_that_is_not_there_is_told_before_a_class_that_is_gone,
    class_not_found: a_class_that_is_gone_is_told_before_a_budget,
}
"""By the first of two hindrances that follow each other (rule 3.4)."""


@pytest.mark.parametrize(("first", "second"), list(pairwise(HINDRANCES)))
def test_each_hindrance_is_told_before_the_next(first: Hindrance, second: Hindrance) -> None:
    case = PRECEDES[first]
    assert case(World())
    swapped = World()
    swapped.hindrances = _swapped(HINDRANCES, first, second)
    assert not case(swapped)


def what_is_split_is_gathered_before_a_vm_takes_the_room(world: World) -> bool:
    _split(world)
    world.put(*vm("waits", {"a100": 2}, age=90))
    _passes(world)
    return world.where()["o1"] == "n2"


def a_vm_comes_before_a_lost_order(world: World) -> bool:
    world.put(order("lost", lost=True, age=90), *vm("train", {"a100": 1}), node("n1", a100=1))
    _passes(world)
    return world.where() == {"lost": "", template("train"): "n1"}


def a_lost_order_comes_before_a_new_one(world: World) -> bool:
    world.put(order("lost", lost=True), order("new", age=90), node("n1", a100=1))
    _passes(world)
    return world.where() == {"lost": "n1", "new": ""}


SWAPS: dict[Task, Case] = {
    Task.SPLIT: what_is_split_is_gathered_before_a_vm_takes_the_room,
    Task.GATED: a_vm_comes_before_a_lost_order,
    Task.LOST: a_lost_order_comes_before_a_new_one,
}
"""By the first of two tasks that follow each other. What is on the ground stands first because it
is no decision, and the next one, repair, takes no room from it: that pair has no case. With the
feature off there is nothing else."""


@pytest.mark.parametrize(("first", "second"), list(pairwise(PHASES))[1:-1])
def test_each_task_comes_before_the_next(first: Task, second: Task) -> None:
    case = SWAPS[first]
    assert case(World())
    swapped = World()
    swapped.phases = _swapped(Task, first, second)
    assert not case(swapped)


def test_what_runs_uses_the_budget_before_a_vm_at_the_gate_does() -> None:
    def case(world: World) -> bool:
        world.put(quota(2), node("n1", a100=4), *vm("runs", {"a100": 2}, node_name="n1"))
        world.put(*vm("waits", {"a100": 1}, age=90))
        world.step()
        return world.starts() == {}

    assert case(World())
    late = World()
    late.phases = [each for each in Task if each is not Task.ELSEWHERE] + [Task.ELSEWHERE]
    assert not case(late)


def _swapped(chain: Iterable[T], one: T, other: T) -> list[T]:
    """A chain with two of its links in each other's place."""
    places = {one: other, other: one}
    return [places.get(each, each) for each in chain]


def _split(world: World) -> None:
    """A set of two orders, one on n1 and one on n2, where both fit; its VM has no pod yet."""
    vmi, _ = vm("train", claims={"o1": 2, "o2": 1})
    world.put(
        node("n1", a100=2),
        node("n2", a100=3),
        order("o1", 2, "n1", attached_to=TRAIN),
        order("o2", 1, "n2", attached_to=TRAIN),
        replace(vmi, active_pods=(), phase="Pending"),
    )


def _passes(world: World) -> None:
    for _ in range(4):
        world.step()


def _finalizers(claim: Claim) -> tuple[str, ...]:
    return claim.written.finalizers if claim.written is not None else ()
