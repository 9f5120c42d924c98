"""Pods whose VM instance is gone, whoever owns them: what they hold stays booked, and counts once.

Owners are taken off pods and claims by Kubernetes' garbage collector, where somebody deletes an
instance and leaves its dependents (rules 3.2, 4.5, 4.6 and 7.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations

import pytest

from binder.actions import DeleteClaim, RemoveFinalizer
from shared.core.model import Claim, Placement, Settings
from shared.core.templates import made_for, template_name
from tests.unit.binder.world import (
    CLASSES,
    TENANT,
    World,
    at,
    booked,
    node,
    order,
    quota,
    started,
    template,
    vm,
)

ESC = template("esc")


def running(*, units: int = 4, there: int = 4) -> World:
    """A VM runs with units of its class entry, on one of two nodes."""
    world = World()
    world.put(node("n1", a100=there), quota(6), *vm("esc", {"a100": units}))
    world.settle()
    world.runs("pod-esc", "n1")
    world.settle()
    assert world.where() == {ESC: "n1"}
    return world


def frees_pod(world: World) -> None:
    world.put(replace(world.pod("pod-esc"), owner="", placing=None))


def frees_claim(world: World) -> None:
    world.put(replace(world.claim(ESC), owner=""))


def leaves(world: World) -> None:
    vmi = world.state.holders.vmis["vmi-esc"]
    assert vmi.placing is not None
    world.put(replace(vmi, placing=replace(vmi.placing, deleted=at(0))))


def goes(world: World) -> None:
    world.gone(world.state.holders.vmis["vmi-esc"])


STEPS = (frees_pod, frees_claim, leaves, goes)


def orders() -> Iterator[tuple[Callable[[World], None], ...]]:
    """As the watches may tell it; an instance begins to leave before it is gone."""
    for steps in permutations(STEPS):
        if steps.index(leaves) < steps.index(goes):
            yield steps


def used(world: World) -> int:
    left = world.state.remaining(TENANT, "a100")
    assert left is not None
    assert left.used is not None
    return left.used


@pytest.mark.parametrize(
    "steps", [*orders()], ids=lambda steps: " ".join(s.__name__ for s in steps)
)
def test_a_vms_claim_stays_for_its_pod_in_whatever_order_it_is_told(
    steps: tuple[Callable[[World], None], ...],
) -> None:
    world = running()
    for step in steps:
        step(world)
        done = world.settle()
        assert not [each for each in done if isinstance(each, DeleteClaim | RemoveFinalizer)]
        assert world.where() == {ESC: "n1"}
        assert used(world) == 4
    stock = world.state.capacity("a100")
    assert (stock.bound, stock.outside, stock.free, stock.overbooked) == (4, 0, 0, 0)
    world.put(replace(world.pod("pod-esc"), ended=True))
    world.settle()
    assert world.where() == {}
    assert used(world) == 0


def orphaned(**given: int) -> World:
    """The same VM, once the collector took the owners off, and it is gone."""
    world = running(**given)
    for step in STEPS:
        step(world)
    world.settle()
    return world


def test_the_claim_goes_with_the_pod_that_is_gone_as_with_one_that_ended() -> None:
    world = orphaned()
    world.gone(world.pod("pod-esc"))
    world.settle()
    assert world.where() == {}


def test_what_a_left_pod_holds_is_no_budget_for_the_next_vm() -> None:
    world = orphaned()
    world.put(node("n2", a100=4), *vm("next", {"a100": 4}))
    assert started(world.settle()) == []
    assert world.waits_for(template("next")) == "BudgetExceeded"
    world.put(replace(world.pod("pod-esc"), ended=True))
    assert started(world.settle()) == ["pod-next"]


def test_a_left_pod_counts_once_under_the_devices_key() -> None:
    world = orphaned()
    world.gone(quota(6))
    world.put(quota(6, CLASSES["a100"]))
    assert used(world) == 4


def test_where_no_claims_are_made_a_left_pod_counts_under_both_keys() -> None:
    """As of the class that has its device: what the VM was admitted with is gone."""
    world = World()
    world.put(Settings(placement=Placement.SCHEDULER), node("n1", a100=4), quota(6))
    vmi, pod = vm("esc", {"a100": 4}, node_name="n1")
    world.put(vmi, pod)
    world.settle()
    assert (world.where(), used(world)) == ({}, 4)
    world.gone(vmi)
    assert used(world) == 4
    gpu_class = world.state.classes["a100"]
    world.put(replace(gpu_class, resource_name="nvidia.com/OTHER"))
    assert used(world) == 0
    world.put(gpu_class)
    assert used(world) == 4
    world.put(Settings(placement=Placement.BINDER))
    assert used(world) == 0, "it counts under the device's key alone"
    world.put(Settings(placement=Placement.SCHEDULER))
    assert used(world) == 4
    world.put(replace(pod, ended=True))
    assert used(world) == 0


def test_a_left_pod_that_migrates_counts_once_and_holds_both_places() -> None:
    world = orphaned()
    world.gone(quota(6))
    target = replace(world.pod("pod-esc"), name="target", uid="uid-target", node_name="n2")
    world.put(quota(6, CLASSES["a100"]), node("n2", a100=4), target)
    assert used(world) == 4
    stock = world.state.capacity("a100")
    assert (stock.bound, stock.outside, stock.free) == (4, 4, 0)


def test_what_a_left_pod_holds_beyond_its_claims_is_outside() -> None:
    world = orphaned(units=2)
    world.put(replace(world.pod("pod-esc"), requests={CLASSES["a100"]: 3}))
    stock = world.state.capacity("a100")
    assert (stock.bound, stock.outside, stock.free) == (2, 1, 1)


def test_a_lost_claim_stays_while_its_pod_is_on_a_node_that_nobody_hears_of() -> None:
    world = orphaned()
    world.put(replace(world.claim(ESC), node_name=""))
    world.settle()
    assert world.where() == {ESC: ""}
    assert used(world) == 4
    world.gone(world.pod("pod-esc"))
    world.settle()
    assert world.where() == {}


def test_a_left_pod_keeps_no_claim_of_another_vm() -> None:
    world = orphaned(units=2)
    world.put(*vm("other", {"a100": 2}))
    world.settle()
    world.runs("pod-other", "n1")
    other = template("other")
    world.put(replace(world.claim(other), owner=""))
    world.gone(world.state.holders.vmis["vmi-other"], world.pod("pod-other"))
    world.settle()
    assert world.where() == {ESC: "n1"}


def test_a_pod_in_another_namespace_keeps_no_claim() -> None:
    world = running()
    frees_claim(world)
    moved = replace(world.pod("pod-esc"), namespace="tenant-b")
    world.gone(world.pod("pod-esc"))
    goes(world)
    world.put(moved)
    world.settle()
    assert world.where() == {}


def test_the_claim_of_a_vm_that_lives_stays_its_own_where_its_owner_was_taken_away() -> None:
    """An administrator can do that; the claim covers what the launcher holds all the same."""
    world = running()
    frees_claim(world)
    assert world.settle() == []
    stock = world.state.capacity("a100")
    assert (stock.bound, stock.outside) == (4, 0)
    assert world.says(ESC, "Attached") == ("True", "InUse")


def test_when_the_vm_comes_back_its_pods_are_its_launchers_again() -> None:
    """A watch may lose an instance for a moment."""
    world = running()
    vmi = world.state.holders.vmis["vmi-esc"]
    world.gone(vmi)
    world.settle()
    world.put(vmi)
    world.settle()
    stock = world.state.capacity("a100")
    assert (stock.bound, stock.outside, used(world)) == (4, 0, 4)


def left_with_an_order() -> World:
    """A VM that names an order was deleted, and its pod left; its VM starts the next instance."""
    world = World()
    world.put(node("n1", a100=4), order("o1", 4), *vm("train", claims={"o1": 4}))
    world.settle()
    world.runs("pod-train", "n1")
    world.settle()
    world.gone(world.state.holders.vmis["vmi-train"])
    world.put(replace(world.pod("pod-train"), owner="", placing=None), node("n2", a100=4))
    vmi, pod = vm("train", claims={"o1": 4})
    world.put(
        replace(vmi, uid="vmi-2", active_pods=("uid-2",)),
        replace(pod, name="pod-2", uid="uid-2", owner="vmi-2", launcher_mark="vmi-2"),
    )
    return world


def test_an_order_is_nobody_elses_while_a_left_pod_holds_units_where_it_is() -> None:
    world = left_with_an_order()
    done = world.settle()
    assert started(done) == booked(done) == []
    assert world.where() == {"o1": "n1"}
    assert world.says("o1", "Attached") == ("True", "InUse")
    (told,) = world.applier.events
    assert told.message == (
        "the claim o1 belongs to a pod of a deleted VM instance, until that pod ends"
    )
    world.put(replace(world.pod("pod-train"), ended=True))
    assert started(world.settle()) == ["pod-2"]
    assert world.where() == {"o1": "n1"}


@pytest.mark.parametrize("change", [{"namespace": "tenant-b"}, {"launcher_mark": ""}])
def test_but_not_for_the_pod_of_a_stranger(change: dict[str, str]) -> None:
    world = left_with_an_order()
    pod = world.pod("pod-train")
    world.gone(pod)
    world.put(replace(pod, **change))  # type: ignore[arg-type] # names and values of a Pod
    assert started(world.settle()) == ["pod-2"]


def test_nor_for_a_pod_whose_own_claims_are_all_that_it_holds() -> None:
    world = orphaned(there=8)
    world.put(order("o1", 2, "n1"), *vm("train", claims={"o1": 2}))
    assert started(world.settle()) == ["pod-train"]


def test_a_deleted_order_stays_while_a_left_pod_holds_units_where_it_is() -> None:
    world = left_with_an_order()
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.put(replace(world.pod("pod-train"), ended=True))
    world.settle()
    assert world.where() == {}


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        (Claim(TENANT, "a-b-0", "a100"), ""),
        (Claim(TENANT, "a-b-0", "a100", is_template=True, owner="c"), "c"),
        (Claim(TENANT, "a-b-0", "a100", is_template=True), "a-b"),
        (Claim(TENANT, "a-b-31", "a100", is_template=True), "a-b"),
        (Claim(TENANT, "a-b", "a100", is_template=True), ""),
        (Claim(TENANT, template_name("u" * 300, 0), "a100", is_template=True), ""),
    ],
    ids=["an order", "owned", "by its name", "two digits", "no index", "a name that was cut"],
)
def test_for_whom_a_claim_was_made_is_told_by_its_owner_or_its_name(
    claim: Claim, want: str
) -> None:
    assert made_for(claim) == want
