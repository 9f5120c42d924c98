"""A VM's whole set on one node, its claims before its pod (rules 7.3 to 7.8)."""

from dataclasses import replace

from binder.actions import AddFinalizer, BookClaim, CreateClaim, StartPod, TellVmi
from shared.core.model import Gone, Object, Put, Settings
from shared.core.scheduling import Taint, Toleration
from tests.unit.binder.applier import actions
from tests.unit.binder.world import (
    CLASSES,
    World,
    at,
    booked,
    gpu_class,
    node,
    order,
    quota,
    started,
    template,
    vm,
)


def test_a_vm_with_a_class_entry_gets_its_claim_its_booking_and_its_start_in_that_order() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 2}))
    done = [each for each in world.step() if isinstance(each, CreateClaim | BookClaim | StartPod)]
    assert [type(each) for each in done] == [CreateClaim, BookClaim, StartPod]
    assert world.where() == {template("train"): "n1"}
    assert world.starts() == {"pod-train": "n1"}


def test_a_start_leaves_nothing_to_write() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 2}))
    world.settle()
    assert world.step() == []


def test_the_units_of_every_class_come_from_one_node() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        node("n2", l40s=2),
        node("n3", a100=2, l40s=1),
        *vm("train", {"a100": 2, "l40s": 1}),
    )
    world.settle()
    assert world.where() == {template("train", 0): "n3", template("train", 1): "n3"}


def test_an_order_that_a_vm_names_is_guarded_booked_and_attached_before_the_pod_starts() -> None:
    world = World()
    world.put(node("n1", a100=4), order("o1", 2), *vm("train", claims={"o1": 2}))
    done = [each for each in world.step() if isinstance(each, AddFinalizer | BookClaim | StartPod)]
    assert [type(each) for each in done[:3]] == [AddFinalizer, BookClaim, StartPod]
    attached = world.claim("o1").attached_to
    assert attached is not None
    assert (attached.kind, attached.name, attached.uid) == ("VirtualMachine", "train", "vm-train")


def test_a_claim_is_attached_to_its_vm_by_the_name_that_the_instance_tells() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    assert vmi.placing is not None
    world.put(node("n1", a100=1), pod)
    world.put(replace(vmi, placing=replace(vmi.placing, vm_name="machine")))
    world.settle()
    attached = world.claim(template("train")).attached_to
    assert attached is not None
    assert (attached.name, attached.uid) == ("machine", "vm-train")


def test_claims_of_a_vmi_that_no_vm_controls_are_attached_to_it() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    world.put(node("n1", a100=1), replace(vmi, vm=""), pod)
    world.settle()
    attached = world.claim(template("train")).attached_to
    assert attached is not None
    assert (attached.kind, attached.uid) == ("VirtualMachineInstance", "vmi-train")


def test_a_set_stays_where_its_order_is_booked_when_that_node_takes_all_of_it() -> None:
    world = World()
    world.put(
        node("n1", a100=8),
        node("n2", a100=3),  # fuller, and it fits too
        order("o1", 2, "n1"),
        *vm("train", {"a100": 1}, {"o1": 2}),
    )
    world.settle()
    assert world.where() == {"o1": "n1", template("train"): "n1"}


def test_a_set_whose_node_has_no_room_for_all_of_it_moves_whole() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        node("n2", a100=4),
        order("o1", 2, "n1"),
        *vm("train", {"a100": 2}, {"o1": 2}),
    )
    world.settle()
    assert world.where() == {"o1": "n2", template("train"): "n2"}
    assert world.starts() == {"pod-train": "n2"}


def test_units_that_a_move_frees_are_not_handed_out_before_the_move_is_written() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        node("n2", a100=4),
        order("o1", 2, "n1"),
        *vm("moves", {"a100": 2}, {"o1": 2}, age=9),
        *vm("next", {"a100": 2}),
    )
    assert started(world.step()) == ["pod-moves"]
    assert world.events == []
    assert started(world.step()) == ["pod-next"]
    assert world.starts()["pod-next"] == "n1"


def test_the_oldest_pod_at_the_gate_is_served_first() -> None:
    world = World()
    world.put(
        node("n1", a100=1),
        *vm("a-young", {"a100": 1}),
        *vm("z-old", {"a100": 1}, age=60),
    )
    assert started(world.step()) == ["pod-z-old"]


def test_pods_at_the_gate_come_before_orders_and_lost_orders_before_new_ones() -> None:
    world = World()
    world.put(
        order("new", age=90),
        order("lost", age=60, lost=True),
        *vm("train", {"a100": 1}),
        node("n1", a100=2),
    )
    world.step()
    assert world.where() == {"new": "", "lost": "n1", template("train"): "n1"}


def test_each_placement_counts_for_the_next_one_of_the_same_pass() -> None:
    world = World()
    world.put(node("n1", a100=3), *(o for i in range(5) for o in vm(f"v{i}", {"a100": 1})))
    assert len(started(world.step())) == 3


def test_a_pod_that_starts_takes_its_processors_from_the_next_one() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        *vm("one", {"a100": 1}, requests={"cpu": 40000}, age=5),
        *vm("two", {"a100": 1}, requests={"cpu": 40000}),
    )
    assert started(world.step()) == ["pod-one"]
    assert ("two", "NoEligibleNode") in world.events


def test_a_foreign_gate_is_neither_waited_for_nor_touched() -> None:
    world = World()
    world.put(
        node("n1", a100=1),
        *vm("train", {"a100": 1}, gates=("other/gate", "gpu.cozystack.io/claims")),
    )
    world.settle()
    placing = world.pod("pod-train").placing
    assert placing is not None
    assert (placing.gates, world.pod("pod-train").pinned_to) == (("other/gate",), "n1")


def test_a_pod_without_our_gate_is_not_touched() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}, gates=("other/gate",)))
    assert world.settle() == [] or started(world.settle()) == []
    assert world.starts() == {}


def test_a_pod_that_the_vmi_does_not_list_is_no_launcher() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    world.put(node("n1", a100=1), replace(vmi, active_pods=()), pod)
    assert started(world.settle()) == []
    world.put(vmi)
    assert started(world.settle()) == ["pod-train"]


def test_a_pod_without_our_mark_is_no_launcher_whoever_lists_it() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    world.put(node("n1", a100=1), vmi, replace(pod, launcher_mark=""))
    assert started(world.settle()) == []


def test_a_pod_that_is_being_deleted_is_not_started() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    assert pod.placing is not None
    world.put(node("n1", a100=1), vmi, replace(pod, placing=replace(pod.placing, deleted=at(0))))
    assert started(world.settle()) == []


def test_of_two_launchers_at_the_gate_the_older_one_is_started() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1}, age=60)
    younger = replace(vm("train", {"a100": 1})[1], name="a-younger", uid="younger")
    world.put(node("n1", a100=1), replace(vmi, active_pods=(pod.uid, "younger")), pod, younger)
    assert started(world.settle()) == ["pod-train"]


def test_works_come_in_the_order_of_precedence() -> None:
    """What starts, then what claims need else, then what waits, then classes."""
    world = World()
    world.put(node("n1", a100=1), *vm("starts", {"a100": 1}, age=60), *vm("waits", {"a100": 1}))
    for name in ("z-leaves", "a-leaves"):
        world.put(replace(order(name, 1, "gone"), deleting=True))
    keys = [work.key for work in world.plan().works]
    assert keys == [
        "set/vmi-starts",
        "claim/tenant-a/a-leaves",
        "claim/tenant-a/z-leaves",
        "set/vmi-waits",
        "class/a100",
        "class/l40s",
    ]


def test_a_pod_that_ended_at_the_gate_is_not_started() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    world.put(node("n1", a100=1), vmi, replace(pod, ended=True))
    assert started(world.settle()) == []


def test_a_vmi_that_is_being_deleted_is_not_started() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    assert vmi.placing is not None
    world.put(node("n1", a100=1), replace(vmi, placing=replace(vmi.placing, deleted=at(0))), pod)
    assert started(world.settle()) == []


def test_the_devices_are_those_of_the_record_though_the_class_names_others_now() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}), gpu_class("a100", "nvidia.com/NEW"))
    world.settle()
    assert world.claim(template("train")).resource_name == CLASSES["a100"]


def test_an_order_stays_under_the_name_it_was_booked_by_when_its_vm_starts_anew() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2, "n1"), gpu_class("a100", "nvidia.com/NEW"))
    world.put(*vm("train", claims={"o1": 2}))
    world.settle()
    assert world.starts() == {"pod-train": "n1"}
    assert world.claim("o1").resource_name == CLASSES["a100"]


def test_a_node_with_a_taint_that_the_class_does_not_tolerate_is_not_chosen() -> None:
    world = World()
    tainted = replace(node("n1", a100=1), taints=(Taint("gpu", "NoSchedule"),))
    every = (Toleration("gpu", "Exists"),)
    vmi, pod = vm("train", {"a100": 1})
    assert pod.placing is not None
    world.put(tainted, vmi, replace(pod, placing=replace(pod.placing, tolerations=every)))
    world.settle()
    assert world.starts() == {}
    world.put(gpu_class("a100", CLASSES["a100"], every))
    world.settle()
    assert world.starts() == {"pod-train": "n1"}


def test_with_the_feature_off_nothing_is_placed_and_the_gate_is_open() -> None:
    world = World()
    world.put(Settings(enabled=False), node("n1", a100=4), order("o1"), *vm("train", {"a100": 1}))
    done = world.settle()
    assert (booked(done), started(done)) == ([], ["pod-train"])
    guarded = [each.object.name for each in done if isinstance(each, AddFinalizer)]
    assert guarded == ["a100"], "an order that holds nothing needs no finalizer, its class does"
    assert world.starts() == {}
    acts = [type(each) for each in done if isinstance(each, TellVmi | StartPod)]
    assert acts == [TellVmi, StartPod], "it is told before it is so"
    (told,) = (each.message for each in done if isinstance(each, TellVmi))
    assert told == (
        "GPUs are switched off on this platform; the VM no longer waits, and starts where its "
        "devices are free"
    )
    assert world.events == [("train", "Disabled")]
    assert world.waits_for("o1") == "Disabled"
    world.put(Settings())
    assert booked(world.settle()) == ["o1"]


def test_a_set_in_back_off_is_left_alone_and_blocks_nobody() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("bad", {"a100": 1}, age=60), *vm("good", {"a100": 1}))
    world.backed_off = frozenset({"set/vmi-bad"})
    assert started(world.step()) == ["pod-good"]


def test_a_failed_write_of_one_set_does_not_hold_up_the_others() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("bad", {"a100": 1}, age=60), *vm("good", {"a100": 1}))
    found = world.plan()
    world.applier.do(found, lambda each: isinstance(each, BookClaim) and "bad" in each.claim.name)
    assert world.where() == {template("bad"): "", template("good"): "n1"}
    assert world.starts() == {"pod-good": "n1"}
    world.settle()
    assert world.starts() == {"pod-good": "n1", "pod-bad": "n1"}


def test_when_only_the_start_failed_only_the_start_is_tried_again() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.applier.do(world.plan(), lambda each: isinstance(each, StartPod))
    [work] = [each for each in world.plan().works if each.key == "set/vmi-train"]
    assert [[type(each) for each in step] for step in work.steps] == [[StartPod]]


def test_an_order_that_is_booked_under_another_name_than_its_vm_asks_for_is_booked_anew() -> None:
    world = World()
    new = "nvidia.com/NEW"
    here = node("n1", a100=1)
    vmi, pod = vm("train", claims={"o1": 1})
    record = tuple(replace(each, resource_name=new) for each in vmi.record)
    world.put(replace(here, allocatable={**here.allocatable, new: 1}), order("o1", 1, "n1"))
    world.put(replace(vmi, record=record), replace(pod, requests={new: 1}))
    world.settle()
    assert world.starts() == {"pod-train": "n1"}
    assert world.claim("o1").resource_name == new


def test_a_pod_is_not_started_while_a_booking_of_its_set_failed() -> None:
    world = World()
    world.put(node("n1", a100=2, l40s=1), *vm("train", {"a100": 1, "l40s": 1}))
    found = world.plan()
    world.applier.do(
        found, lambda each: isinstance(each, BookClaim) and each.claim.name.endswith("-1")
    )
    assert world.starts() == {}
    world.settle()
    assert world.starts() == {"pod-train": "n1"}


def test_orders_that_no_vm_names_are_booked_and_not_attached() -> None:
    world = World()
    world.put(node("n1", a100=4), order("o1", 3))
    world.settle()
    assert world.where() == {"o1": "n1"}
    assert world.claim("o1").attached_to is None


def test_an_order_is_of_the_device_that_its_class_has_now() -> None:
    world = World()
    new = "nvidia.com/NEW"
    bare = node("n1")
    world.put(gpu_class("a100", new), replace(bare, allocatable={**bare.allocatable, new: 1}))
    world.put(order("o1"))
    world.settle()
    assert world.claim("o1").resource_name == new


def test_orders_are_booked_in_the_order_of_their_age_then_by_name() -> None:
    world = World()
    world.put(order("a", age=1), order("b", age=2), order("c", age=2), node("n1", a100=2))
    world.step()
    assert world.where() == {"a": "", "b": "n1", "c": "n1"}


def test_one_vm_may_have_two_entries_of_one_class() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1, "l40s": 1})
    record = tuple(
        replace(each, class_name="a100", resource_name=CLASSES["a100"]) for each in vmi.record
    )
    world.put(node("n1", a100=1), node("n2", a100=2), replace(vmi, record=record))
    world.put(replace(pod, requests={CLASSES["a100"]: 2}))
    world.settle()
    assert world.where() == {template("train", 0): "n2", template("train", 1): "n2"}


def test_a_vm_is_told_of_nothing_when_it_starts() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 2}))
    assert not any(isinstance(each, TellVmi) for each in world.settle())


def test_a_plan_leaves_the_state_as_it_was() -> None:
    world = World()
    world.put(
        quota(3),
        node("n1", a100=4),
        order("o1", 2),
        order("o2", 2, "n1"),
        *vm("train", {"a100": 1}, {"o2": 2}),
    )
    before = dict(world.state.holders.claims), dict(world.state.holders.pods)
    remaining, capacity = world.state.remaining("tenant-a", "a100"), world.state.capacity("a100")
    world.plan()
    assert (world.state.holders.claims, world.state.holders.pods) == before
    assert world.state.remaining("tenant-a", "a100") == remaining
    assert world.state.capacity("a100") == capacity


def test_a_plan_that_starts_what_a_budget_just_lets_through_leaves_the_state_as_it_was() -> None:
    world = World()
    world.put(quota(1, CLASSES["a100"]), node("n1", a100=4))
    world.put(*vm("old", {"a100": 1}, age=60), *vm("young", {"a100": 1}))
    before = dict(world.state.holders.claims), dict(world.state.holders.pods)
    assert any(isinstance(each, StartPod) for each in actions(world.plan()))
    assert (world.state.holders.claims, world.state.holders.pods) == before


def test_what_is_planned_does_not_depend_on_the_order_in_which_objects_came() -> None:
    objects: list[Object] = [
        quota(6),
        node("n1", a100=4),
        node("n2", a100=4),
        order("o1", 2, age=5),
        order("o2", 2, age=5),
        *vm("a", {"a100": 1}),
        *vm("b", {"a100": 3}),
    ]
    worlds = [World(), World()]
    worlds[0].put(*objects)
    worlds[1].put(*reversed(objects))
    assert worlds[0].plan() == worlds[1].plan()


def test_a_vm_starts_by_itself_when_room_appears() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("one", {"a100": 1}, age=9), *vm("two", {"a100": 1}))
    world.settle()
    assert world.starts() == {"pod-one": "n1"}
    world.applier.change(Gone(world.state.holders.vmis["vmi-one"]))
    world.applier.change(Gone(world.pod("pod-one")))
    world.settle()
    assert world.starts() == {"pod-two": "n1"}
    world.applier.change(Put(node("n2", a100=1)))
    assert started(world.settle()) == []
