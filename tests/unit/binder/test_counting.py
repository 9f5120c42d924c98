"""What counts while others are decided about, in one pass (rules 4.5, 7.3 and 7.7)."""

from dataclasses import replace

import pytest

from shared.core.model import Attachment, Claim
from shared.vocabulary import FINALIZER_CLAIM
from tests.unit.binder.world import (
    CLASSES,
    World,
    gpu_class,
    node,
    order,
    quota,
    started,
    template,
    vm,
)

TRAIN = Attachment("VirtualMachine", "train", "vm-train")


def test_two_vms_that_share_a_budget_do_not_block_each_other_though_both_wait() -> None:
    world = World()
    world.put(
        quota(2),
        node("n1", a100=8),
        *vm("old", {"a100": 2}, age=60),
        *vm("young", {"a100": 2}),
    )
    world.settle()
    assert world.starts() == {"pod-old": "n1"}
    assert world.waits_for(template("young")) == "BudgetExceeded"


def test_an_order_that_came_first_by_age_does_not_take_the_budget_of_a_vm_at_the_gate() -> None:
    world = World()
    world.put(quota(1), node("n1", a100=8), order("o1", age=90), *vm("train", {"a100": 1}))
    world.settle()
    assert world.where() == {"o1": "", template("train"): "n1"}
    assert world.waits_for("o1") == "BudgetExceeded"


def test_a_lost_order_counts_against_the_budget_before_it_is_bound_again() -> None:
    world = World()
    world.put(quota(1), order("lost", lost=True), node("n1", a100=8), *vm("train", {"a100": 1}))
    world.step()
    assert world.where() == {"lost": "n1", template("train"): ""}
    assert world.waits_for(template("train")) == "BudgetExceeded"


def test_a_budget_on_the_device_is_checked_as_well() -> None:
    world = World()
    world.put(quota(1, "requests." + CLASSES["a100"]), node("n1", a100=8), *vm("t", {"a100": 2}))
    world.settle()
    assert world.waits_for(template("t")) == "BudgetExceeded"
    assert world.starts() == {}


def test_the_pod_of_a_vm_that_comes_later_does_not_count_for_the_device_before() -> None:
    world = World()
    world.put(
        quota(2, CLASSES["a100"]),
        node("n1", a100=8),
        *vm("old", {"a100": 2}, age=60),
        *vm("young", {"a100": 2}),
    )
    world.settle()
    assert world.starts() == {"pod-old": "n1"}
    assert world.waits_for(template("young")) == "BudgetExceeded"


def test_a_budget_that_grows_lets_the_vm_start() -> None:
    world = World()
    world.put(quota(1), node("n1", a100=8), *vm("train", {"a100": 2}))
    world.settle()
    world.put(quota(2))
    world.settle()
    assert world.starts() == {"pod-train": "n1"}


def test_the_pod_of_a_vm_whose_claim_is_not_there_counts_for_the_device() -> None:
    world = World()
    world.put(
        quota(3, CLASSES["a100"]),
        node("n1", a100=8),
        *vm("old", {"a100": 1}, {"missing": 2}, age=60),
        *vm("young", {"a100": 1}),
    )
    world.settle()
    assert world.starts() == {}
    assert world.waits_for(template("young")) == "BudgetExceeded"


def test_what_waits_in_back_off_still_counts_before_what_is_younger() -> None:
    world = World()
    world.put(quota(1), *vm("bad", {"a100": 1}, age=60))
    world.settle()
    world.backed_off = frozenset({"set/vmi-bad"})
    world.put(node("n1", a100=8), *vm("young", {"a100": 1}))
    world.settle()
    assert world.starts() == {}
    assert world.waits_for(template("young")) == "BudgetExceeded"


def test_vms_of_a_class_that_got_another_device_meanwhile_share_its_budget_all_the_same() -> None:
    world = World()
    here, new = node("n1", a100=2), "nvidia.com/NEW"
    world.put(quota(2), replace(here, allocatable={**here.allocatable, new: 2}))
    world.put(*vm("old", {"a100": 2}, age=60), gpu_class("a100", new))
    vmi, pod = vm("young", {"a100": 2})
    record = tuple(replace(each, resource_name=new) for each in vmi.record)
    world.put(replace(vmi, record=record), replace(pod, requests={new: 2}))
    world.settle()
    assert world.starts() == {"pod-old": "n1"}
    assert world.waits_for(template("young")) == "BudgetExceeded"


def test_the_pod_of_what_is_in_back_off_still_counts_for_the_device() -> None:
    """Before any claim was made for it."""
    world = World()
    world.put(quota(1, CLASSES["a100"]), *vm("bad", {"a100": 1}, age=60))
    world.backed_off = frozenset({"set/vmi-bad"})
    world.put(node("n1", a100=8), *vm("young", {"a100": 1}))
    world.settle()
    assert world.starts() == {}
    assert world.waits_for(template("young")) == "BudgetExceeded"


def test_what_stays_where_it_is_takes_no_room_twice() -> None:
    world = World()
    world.put(node("n1", a100=3), order("o1", 2, "n1"))
    world.put(*vm("old", claims={"o1": 2}, age=60), *vm("young", {"a100": 1}))
    assert started(world.step()) == ["pod-old", "pod-young"]


def test_what_an_order_holds_is_not_given_away_while_its_vm_waits_for_more() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        order("o1", 2, "n1"),
        *vm("waits", {"a100": 1}, {"o1": 2}, age=60),
        *vm("young", {"a100": 2}),
    )
    assert started(world.step()) == []
    assert world.state.capacity("a100").overbooked == 0


def test_nor_while_it_is_not_decided_because_something_moved() -> None:
    world = World()
    world.put(
        node("n1", a100=1),
        node("n2", a100=2),
        node("n3", a100=2),
        order("a", 1, "n1"),
        order("b", 2, "n3"),
        *vm("moves", {"a100": 1}, {"a": 1}, age=90),
        *vm("waits", {"a100": 1}, {"b": 2}, age=60),
        *vm("young", {"a100": 2}),
    )
    assert started(world.step()) == ["pod-moves"]
    assert world.state.capacity("a100").overbooked == 0
    assert world.events == []


def test_a_lost_set_without_a_pod_is_bound_again_and_stays_with_its_vm() -> None:
    world = World()
    vmi, _ = vm("train", claims={"o1": 1})
    world.put(
        node("n1", a100=1),
        order("o1", 1, lost=True, attached_to=TRAIN),
        replace(vmi, active_pods=(), phase="Pending"),
    )
    world.settle()
    assert world.where() == {"o1": "n1"}
    assert world.claim("o1").attached_to == TRAIN


def test_a_strangers_pod_holds_nothing_of_a_claim() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 1), *vm("train", claims={"o1": 1}))
    world.settle()
    forged = replace(world.pod("pod-train"), launcher_mark="", node_name="n1")
    world.put(forged, replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {}


def test_a_claim_of_nobody_is_not_held_by_the_pod_of_another_vm() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 1), *vm("other", {"a100": 1}))
    world.settle()
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {template("other"): "n1"}


def test_of_vms_that_are_gone_each_one_s_pod_holds_its_own_template_claim_only() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("one", {"a100": 1}), *vm("two", {"a100": 1}))
    world.settle()
    vmis = world.state.holders.vmis
    world.gone(vmis["vmi-one"], vmis["vmi-two"], world.pod("pod-one"))
    world.settle()
    assert world.where() == {template("two"): "n1"}


@pytest.mark.parametrize(("where", "mark"), [("tenant-b", "vmi-one"), ("tenant-a", "")])
def test_a_strangers_pod_of_a_vm_that_nobody_knows_holds_no_claim(where: str, mark: str) -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 1))
    world.settle()
    _, pod = vm("one", {"a100": 1}, node_name="n1")
    world.put(replace(pod, namespace=where, launcher_mark=mark))
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {}


def test_a_template_claim_without_an_owner_goes_when_the_last_unknown_pod_has_ended() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.settle()
    world.runs("pod-train", "n1")
    world.gone(world.state.holders.vmis["vmi-train"])
    world.put(replace(world.claim(template("train")), owner=""))
    world.settle()
    assert world.where() == {template("train"): "n1"}
    world.put(replace(world.pod("pod-train"), ended=True))
    world.settle()
    assert world.where() == {}


def test_the_last_pod_of_a_vm_that_is_gone_holds_claims_of_its_devices_only() -> None:
    world = World()
    world.put(node("n1", a100=1, l40s=1), order("o1", 1, of="l40s"), *vm("one", {"a100": 1}))
    world.settle()
    world.gone(world.state.holders.vmis["vmi-one"])
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {template("one"): "n1"}


def test_a_claim_without_a_place_whose_vm_is_gone_keeps_no_other_waiting() -> None:
    """A new leader finds many of them."""
    world = World()
    old = vm("old", {"a100": 3}, age=60)
    world.put(quota(3), *old)
    world.settle()
    world.gone(*old)
    world.put(node("n1", a100=8), *vm("young", {"a100": 2}))
    told = len(world.events)
    world.carry_out()
    assert world.starts() == {"pod-young": "n1"}
    assert world.events[told:] == []
    assert world.where() == {template("young"): "n1"}


@pytest.mark.parametrize(
    ("leaving", "starts"),
    [
        pytest.param(order("o1", 3), {"pod-young": "n1"}, id="without a place"),
        pytest.param(order("o1", 3, "n1"), {}, id="booked"),
        pytest.param(order("o1", 3, lost=True), {}, id="lost"),
    ],
)
def test_an_order_that_leaves_counts_for_as_long_as_it_has_what_others_may_get(
    leaving: Claim, starts: dict[str, str]
) -> None:
    world = World()
    assert leaving.written is not None
    written = replace(leaving.written, finalizers=(FINALIZER_CLAIM,))
    world.put(quota(3), node("n1", a100=8), *vm("young", {"a100": 2}))
    world.put(replace(leaving, deleting=True, written=written))
    world.carry_out()
    assert world.starts() == starts
    assert (world.waits_for(template("young")) == "BudgetExceeded") == (not starts)
    world.settle()
    assert world.starts() == {"pod-young": "n1"}
