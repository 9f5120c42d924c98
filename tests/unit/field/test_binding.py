"""Troubles 2, 3, 26 and others of the field that the binder's decisions are about."""

from dataclasses import replace

from shared.core.model import Namespace, Quota
from tests.unit.binder.world import World, node, order, quota, started, template, vm


def test_of_two_orders_that_raced_past_one_budget_exactly_one_is_placed() -> None:
    """Trouble 2: one in the tenant, one below it; the budget is the tenant's for both."""
    world = World()
    world.put(Namespace("tenant-a-b"), quota(1), node("n1", a100=8))
    world.put(order("here"), order("there", namespace="tenant-a-b"))
    world.settle()
    assert (world.where(), world.where("tenant-a-b")) == ({"here": "n1"}, {"there": ""})
    assert world.waits_for("there", "tenant-a-b") == "BudgetExceeded"


def test_of_a_burst_that_was_admitted_against_one_use_what_the_budget_lets_is_placed() -> None:
    """Trouble 3."""
    world = World()
    world.put(quota(10), node("n1", a100=100), *(order(f"o{i:03}") for i in range(100)))
    world.settle()
    assert sorted(name for name, at in world.where().items() if at) == [
        f"o{i:03}" for i in range(10)
    ]


def test_a_burst_on_one_node_gets_what_is_there_and_no_more() -> None:
    world = World()
    world.put(node("n1", a100=8), *(order(f"o{i:03}") for i in range(100)))
    world.settle()
    assert len([at for at in world.where().values() if at]) == 8
    assert world.state.capacity("a100").overbooked == 0


def test_between_the_pod_that_binds_volumes_and_the_launcher_nobody_gets_the_units() -> None:
    """Trouble 26."""
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}, age=9))
    world.settle()
    vmi = world.state.holders.vmis["vmi-train"]
    world.gone(world.pod("pod-train"))
    world.put(replace(vmi, active_pods=(), phase="Pending"), *vm("thief", {"a100": 1}))
    assert started(world.settle()) == []
    launcher = replace(vm("train", {"a100": 1})[1], name="real", uid="real")
    world.put(launcher, replace(vmi, active_pods=("real",)))
    world.settle()
    assert world.starts() == {"real": "n1"}


def test_a_node_that_lacks_one_device_still_takes_what_asks_for_the_other() -> None:
    world = World()
    world.put(node("n1", a100=1, l40s=2), order("o1", 4, "n1"), *vm("train", {"l40s": 2}))
    world.settle()
    assert world.starts() == {"pod-train": "n1"}


def test_units_of_a_pod_that_is_being_deleted_are_not_given_away_before_it_is_gone() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("old", {"a100": 1}))
    world.settle()
    world.runs("pod-old", "n1")
    pod = world.pod("pod-old")
    assert pod.placing is not None
    world.put(replace(pod, placing=replace(pod.placing, deleted="2026-11-30T12:00:00Z")))
    world.put(*vm("new", {"a100": 1}))
    assert started(world.settle()) == []
    world.gone(world.pod("pod-old"), world.state.holders.vmis["vmi-old"])
    assert started(world.settle()) == ["pod-new"]


def test_a_vm_whose_start_fails_for_ever_keeps_no_other_waiting() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("bad", {"a100": 1}, age=60), *vm("good", {"a100": 1}))
    for _ in range(5):
        world.backed_off = frozenset({"set/vmi-bad"})
        world.step()
    assert world.starts() == {"pod-good": "n1"}
    world.backed_off = frozenset()
    world.settle()
    assert world.starts() == {"pod-good": "n1", "pod-bad": "n1"}


def test_what_pods_of_others_take_and_give_back_is_seen_by_the_next_pass() -> None:
    world = World()
    _, stranger = vm("stranger", {"a100": 1}, node_name="n1")
    stranger = replace(stranger, owner="", launcher_mark="")
    world.put(node("n1", a100=1), stranger, *vm("train", {"a100": 1}))
    assert started(world.settle()) == []
    world.gone(stranger)
    assert started(world.settle()) == ["pod-train"]


def test_a_claim_whose_vm_or_class_is_gone_can_still_be_deleted() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.settle()
    world.gone(world.state.classes["a100"])
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    world.settle()
    assert template("train") not in world.where()


def test_a_limit_of_nothing_lets_nothing_through() -> None:
    world = World()
    world.put(Quota("tenant-a", "q", {"requests.nvidia.com/A100": 0}), node("n1", a100=8))
    world.put(order("o1"), *vm("train", {"a100": 1}))
    world.settle()
    assert world.where() == {"o1": "", template("train"): ""}
