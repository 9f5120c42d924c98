"""Troubles 2, 3, 26 and others of the field that the binder's decisions are about."""

from dataclasses import replace

import pytest

from binder.actions import TellVmi
from binder.agenda import Agenda
from shared.core.model import Attachment, Namespace, Quota
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


def test_a_dip_of_what_a_node_offers_frees_nothing_and_moves_nothing() -> None:
    """Trouble 31: eight, none, eight again within a minute, six of them held."""
    world = World()
    world.put(node("n1", a100=8), *(o for i in range(3) for o in vm(f"v{i}", {"a100": 2})))
    world.settle()
    world.put(node("n1"), order("o1"))
    world.settle()
    assert world.where() == {**{template(f"v{i}"): "n1" for i in range(3)}, "o1": ""}
    assert world.state.capacity("a100").free == 0
    world.put(node("n1", a100=8))
    world.settle()
    assert world.where()["o1"] == "n1"
    assert world.state.capacity("a100").free == 1


def test_names_of_any_length_make_claims_of_their_own_and_a_second_pass_makes_none() -> None:
    """Trouble 33."""
    names = ["a" * 63, "a" * 58 + "-" + "b" * 4, ".".join(["a" * 49] * 5)]
    world = World()
    world.put(node("n1", a100=8, l40s=8))
    for name in names:
        world.put(*vm(name, {"a100": 1, "l40s": 1}))
    world.settle()
    assert len(world.where()) == 6
    assert all(len(name) <= 253 for name in world.where())
    assert world.step() == []


def test_a_vm_that_waited_starts_in_the_pass_after_a_unit_was_given_back() -> None:
    """Trouble 29."""
    world = World()
    world.put(node("n1", a100=1), *vm("first", {"a100": 1}, age=9), *vm("waits", {"a100": 1}))
    world.settle()
    world.gone(world.pod("pod-first"), world.state.holders.vmis["vmi-first"])
    world.step()
    assert started(world.step()) == ["pod-waits"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_what_a_vm_that_ended_held_is_free_after_a_pass_but_what_was_ordered(phase: str) -> None:
    """Trouble 36."""
    world = World()
    world.put(node("n1", a100=3), order("o1", 2), *vm("train", {"a100": 1}, {"o1": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.put(replace(world.pod("pod-train"), ended=True))
    world.put(replace(world.state.holders.vmis["vmi-train"], phase=phase))
    world.step()
    assert world.where() == {"o1": "n1"}
    assert world.says("o1", "Attached") == ("False", "NotInUse")


def test_nothing_is_freed_behind_a_pod_that_may_still_start() -> None:
    """Trouble 36: pinned, not bound, and not listed by its VM instance for a while."""
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.settle()
    vmi = world.state.holders.vmis["vmi-train"]
    leaving = replace(world.claim(template("train")), deleting=True)
    world.put(replace(vmi, active_pods=()), leaving, order("o1"))
    world.settle()
    assert world.where() == {template("train"): "n1", "o1": ""}


def test_a_set_that_no_node_could_ever_take_waits_with_that_reason_and_no_node_in_it() -> None:
    """Trouble 37: six of one class, where each node has four."""
    world = World()
    world.put(*(node(f"machine-{i}", a100=4) for i in range(4)), *vm("train", {"a100": 6}))
    world.settle()
    assert world.waits_for(template("train")) == "SetDoesNotFitOneNode"
    assert "machine" not in world.waiting(template("train")).message
    assert "4" in world.waiting(template("train")).message


def test_a_user_of_the_same_name_and_another_uid_is_let_go() -> None:
    """Trouble 38."""
    stale = Attachment("VirtualMachineInstance", "train", "uid-of-a-former-one")
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    world.put(node("n1", a100=4), order("o1", 1, "n1", attached_to=stale), vmi, pod)
    world.settle()
    assert world.claim("o1").attached_to is None


def test_events_tell_of_each_change_of_reason_and_of_nothing_else() -> None:
    """Trouble 39: no capacity, budget, no capacity; figures change; the binder starts anew."""
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 4}))
    world.settle()
    world.put(node("n1", a100=2))
    world.settle()
    world.put(quota(3))
    world.settle()
    world.put(quota(9))
    world.settle()
    world.memory.forget()
    world.applier.agenda = Agenda(world.state)
    world.settle()
    assert [reason for _, reason in world.events] == ["NoCapacity", "BudgetExceeded", "NoCapacity"]


def test_events_that_are_refused_hold_up_nothing() -> None:
    """Trouble 39. That a refused one ends no work is shown in `test_apply.py`."""
    world = World()
    world.put(*vm("train", {"a100": 1}))
    world.applier.do(world.plan(), lambda each: isinstance(each, TellVmi))
    assert world.waits_for(template("train")) == "NoCapacity"
    world.put(node("n1", a100=1))
    assert started(world.step()) == ["pod-train"]


def test_a_large_set_gets_the_node_that_empties_before_any_younger_one() -> None:
    """Trouble 40: small ones come and go on one node; the large one waits for the other."""
    world = World()
    world.put(node("n1", a100=4), node("n2", a100=4))
    world.put(*(o for i in range(8) for o in vm(f"small{i}", {"a100": 1}, age=90)))
    world.settle()
    world.put(*vm("large", {"a100": 4}, age=60))
    world.settle()
    there = [name for name, at in world.starts().items() if at == "n2"]
    for name in there:
        world.gone(world.state.holders.vmis[world.pod(name).owner], world.pod(name))
    world.put(*vm("late", {"a100": 1}), order("o1"))
    world.settle()
    assert world.starts()["pod-large"] == "n2"
    assert "pod-late" not in world.starts()
