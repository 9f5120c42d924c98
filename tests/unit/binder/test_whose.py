"""Whose a claim is, where a VM is, and what is left alone (rules 3.2, 6.1.4, 7.13 and 7.17)."""

from dataclasses import replace

from binder.actions import AddFinalizer
from shared.core.model import Attachment, Volume, VolumeClaim
from shared.core.placing import VmiVolume
from shared.core.scheduling import NodeTerm, Requirement
from tests.unit.binder.world import World, at, booked, node, order, started, template, vm

TRAIN = Attachment("VirtualMachine", "train", "vm-train")


def test_of_two_vms_that_name_an_order_the_older_has_it_whatever_their_uids() -> None:
    world = World()
    world.put(
        node("n1", a100=8),
        order("o1", 2),
        *vm("a-young", claims={"o1": 2}),
        *vm("z-old", claims={"o1": 2}, age=30),
    )
    world.settle()
    assert world.starts() == {"pod-z-old": "n1"}


def test_a_vm_on_a_node_that_nobody_knows_is_booked_nowhere() -> None:
    world = World()
    world.put(*vm("train", {"a100": 1}, node_name="gone"))
    assert booked(world.settle()) == []
    world.put(node("gone", a100=1))
    world.settle()
    assert world.where() == {template("train"): "gone"}


def test_a_claim_of_somebody_else_under_the_name_of_a_template_claim_is_not_used() -> None:
    world = World()
    forged = replace(order(template("train")), is_template=True, owner="vmi-other")
    world.put(node("n1", a100=4), forged, *vm("train", {"a100": 1, "l40s": 1}))
    assert started(world.step()) == []
    assert world.events == [("train", "ClaimInUse")]


def test_nobody_is_named_where_a_claim_is_not_known_to_be_a_vm_s() -> None:
    world = World()
    forged = replace(order(template("train")), is_template=True, owner="vmi-other")
    world.put(node("n1", a100=4), forged, *vm("train", {"a100": 1, "l40s": 1}))
    world.step()
    told = world.waiting(template("train", 1)).message
    assert told == "the claim vmi-train-0 belongs to another VM"


def test_an_order_that_says_it_is_another_vm_s_is_not_left_so_when_its_own_waits() -> None:
    world = World()
    vmi, _ = vm("train", claims={"o1": 4})
    stale = Attachment("VirtualMachine", "other", "vm-other")
    world.put(order("o1", 4, attached_to=stale), replace(vmi, active_pods=(), phase="Pending"))
    world.settle()
    assert world.waits_for("o1") == "NoCapacity"
    assert world.claim("o1").attached_to is None


def test_a_pod_of_another_namespace_holds_nothing_of_a_claim() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 1, "n1"), *vm("train", claims={"o1": 1}))
    pod = world.pod("pod-train")
    world.gone(pod)
    world.put(replace(pod, namespace="tenant-b", node_name="n1"))
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {}


def test_a_template_claim_of_another_vm_is_no_order_that_one_can_name() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("other", {"a100": 1}))
    world.settle()
    world.put(*vm("train", claims={template("other"): 1}))
    world.settle()
    assert world.starts() == {"pod-other": "n1"}
    assert world.events == [("train", "ClaimNotFound")]


def test_a_vm_that_runs_without_an_order_that_is_gone_is_nothing_to_look_at_again() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 1, "n1"))
    world.put(*vm("train", claims={"o1": 1, "o2": 1}, node_name="n1"))
    world.settle()
    assert world.applier.agenda.sets() == {}


def test_a_launcher_of_a_vmi_without_a_record_is_left_at_its_gate() -> None:
    """Nobody knows what it is to get."""
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    world.put(node("n1", a100=1), replace(vmi, record=()), pod)
    assert started(world.settle()) == []
    world.put(vmi)
    assert started(world.settle()) == ["pod-train"]


def test_a_vmi_that_failed_is_booked_where_its_pod_still_is() -> None:
    world = World()
    world.put(node("n1", a100=1), node("n2", a100=1), order("o1", 1, "n1"))
    world.put(*vm("train", claims={"o1": 1}, node_name="n2"))
    world.put(replace(world.state.holders.vmis["vmi-train"], phase="Failed"))
    world.settle()
    assert world.where() == {"o1": "n2"}


def test_a_pod_whose_owner_is_taken_away_is_no_launcher_any_more() -> None:
    """Who may edit pods may do that; it must not end the process."""
    world = World()
    world.put(*vm("train", {"a100": 1}))
    world.settle()
    pod = world.pod("pod-train")
    world.put(replace(pod, owner="", placing=None), node("n1", a100=1))
    world.settle()
    assert world.starts() == {}
    world.put(pod)
    world.settle()
    assert world.starts() == {"pod-train": "n1"}


def test_a_pod_that_is_given_another_owner_is_not_started_for_it() -> None:
    world = World()
    world.put(*vm("train", {"a100": 1}), *vm("other", {"a100": 1}))
    world.settle()
    world.put(replace(world.pod("pod-train"), owner="vmi-other"), node("n1", a100=2))
    world.settle()
    assert world.starts() == {"pod-other": "n1"}


def test_a_deleted_order_goes_when_the_pod_that_held_its_units_is_not_marked_any_more() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 1), *vm("train", claims={"o1": 1}))
    world.settle()
    world.runs("pod-train", "n1")
    world.gone(world.state.holders.vmis["vmi-train"])
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.put(replace(world.pod("pod-train"), owner=""))
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.put(replace(world.pod("pod-train"), launcher_mark=""))
    world.settle()
    assert world.where() == {}


def test_a_vm_that_is_gone_while_all_is_looked_at_anew_is_forgotten() -> None:
    world = World()
    world.put(*vm("train", {"a100": 1}))
    world.settle()
    world.applier.agenda.note_all()
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    world.settle()
    assert world.where() == {}


def test_a_vm_that_runs_gets_an_order_that_another_one_let_go() -> None:
    world = World()
    world.put(node("n1", a100=2), node("n2", a100=2), order("o1", 1))
    world.put(*vm("elder", claims={"o1": 1}, age=30))
    world.settle()
    world.put(*vm("train", claims={"o1": 1}, node_name="n2"))
    world.put(replace(world.pod("pod-train"), node_name="n2"))
    world.settle()
    assert world.claim("o1").attached_to == Attachment("VirtualMachine", "elder", "vm-elder")
    world.gone(world.pod("pod-elder"), world.state.holders.vmis["vmi-elder"])
    world.settle()
    assert world.where() == {"o1": "n2"}
    assert world.claim("o1").attached_to == TRAIN


def test_an_order_that_leaves_gets_no_finalizer_when_its_vm_migrates() -> None:
    """Kubernetes refuses one on what is being deleted."""
    world = World()
    bare = order("o1", 1, "n1")
    assert bare.written is not None
    leaving = replace(bare, deleting=True, written=replace(bare.written, finalizers=("other",)))
    world.put(node("n1", a100=1), node("n2", a100=1), leaving)
    world.put(*vm("train", claims={"o1": 1}, node_name="n2"))
    done = world.settle()
    assert booked(done) == ["o1"]
    assert not any(isinstance(each, AddFinalizer) and each.object.name == "o1" for each in done)


def test_a_claim_that_vanishes_under_a_vm_that_runs_is_made_anew_where_it_runs() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.settle()
    world.runs("pod-train", "n1")
    world.settle()
    world.gone(world.claim(template("train")))
    world.settle()
    assert world.where() == {template("train"): "n1"}


def test_a_template_claim_that_no_entry_of_its_vmi_stands_for_is_deleted() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 1}))
    world.settle()
    stray = replace(order("stray"), is_template=True, owner="vmi-train")
    world.gone(world.pod("pod-train"))
    world.put(stray)
    world.settle()
    assert world.where() == {template("train"): "n1"}


def test_a_template_claim_of_a_vmi_elsewhere_is_deleted() -> None:
    world = World()
    stray = replace(order("vmi-train-0", namespace="tenant-b"), is_template=True, owner="vmi-train")
    world.put(node("n1", a100=4), stray, *vm("train", {"a100": 1}))
    world.settle()
    assert world.where("tenant-b") == {}


def test_while_a_vm_migrates_it_is_where_its_instance_says() -> None:
    world = World()
    world.put(node("n1", a100=1), node("n2", a100=1), *vm("train", {"a100": 1}, node_name="n2"))
    vmi = world.state.holders.vmis["vmi-train"]
    target = replace(world.pod("pod-train"), name="target", uid="target", node_name="n1")
    assert target.placing is not None
    target = replace(target, placing=replace(target.placing, migration="job"))
    world.put(replace(vmi, active_pods=(*vmi.active_pods, "target")), target)
    world.settle()
    assert world.where() == {template("train"): "n2"}


def test_a_vm_has_moved_when_its_instance_says_so_though_its_old_pod_is_still_there() -> None:
    world = World()
    world.put(node("n1", a100=1), node("n2", a100=1), order("o1"))
    world.put(*vm("train", claims={"o1": 1}))
    world.settle()
    here = world.where()["o1"]
    there = "n2" if here == "n1" else "n1"
    world.runs("pod-train", here)
    world.put(replace(world.claim("o1"), deleting=True))
    vmi = world.state.holders.vmis["vmi-train"]
    target = replace(world.pod("pod-train"), name="target", uid="target", node_name=there)
    assert target.placing is not None
    target = replace(target, placing=replace(target.placing, migration="job"))
    world.put(replace(vmi, active_pods=(*vmi.active_pods, "target")), target)
    world.settle()
    assert world.where() == {"o1": here}
    vmi = world.state.holders.vmis["vmi-train"]
    world.put(replace(vmi, node_name=there))
    world.settle()
    assert world.where() == {"o1": there}


def test_while_its_instance_does_not_say_a_vm_is_where_its_migration_began() -> None:
    world = World()
    world.put(node("n1", a100=1), node("n2", a100=1), *vm("train", {"a100": 1}, node_name="n2"))
    vmi = world.state.holders.vmis["vmi-train"]
    target = replace(world.pod("pod-train"), name="target", uid="target", node_name="n1")
    assert target.placing is not None
    target = replace(target, placing=replace(target.placing, migration="job"))
    world.put(replace(vmi, node_name="", active_pods=(*vmi.active_pods, "target")), target)
    world.settle()
    assert world.where() == {template("train"): "n2"}


def test_a_failed_vmi_with_a_pod_at_the_gate_is_not_started() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    world.put(node("n1", a100=1), replace(vmi, phase="Failed"), pod)
    assert started(world.settle()) == []


def test_a_failed_vmi_keeps_its_order_while_its_pod_holds_the_units() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.put(replace(world.state.holders.vmis["vmi-train"], phase="Failed"))
    world.settle()
    assert world.claim("o1").attached_to == TRAIN


def test_a_deleted_order_whose_units_are_held_stays_attached() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.claim("o1").attached_to == TRAIN
    assert world.events == []


def test_a_deleted_order_stays_while_the_last_pod_of_a_vmi_that_is_gone_holds_its_units() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.gone(world.state.holders.vmis["vmi-train"])
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.gone(world.pod("pod-train"))
    world.settle()
    assert world.where() == {}


def test_a_deleted_order_goes_when_the_last_pod_of_a_vmi_that_is_gone_has_ended() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.put(replace(world.claim("o1"), deleting=True))
    world.gone(world.state.holders.vmis["vmi-train"])
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.put(replace(world.pod("pod-train"), ended=True))
    world.settle()
    assert world.where() == {}


def test_a_deleted_order_stays_while_a_pod_of_the_vm_s_last_instance_holds_its_units() -> None:
    """The next instance names it already, and has no pod yet."""
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.gone(world.state.holders.vmis["vmi-train"])
    vmi, _ = vm("train", claims={"o1": 2})
    world.put(replace(vmi, uid="vmi-2", active_pods=(), phase="Pending"))
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.gone(world.pod("pod-train"))
    world.settle()
    assert world.where() == {}


def test_a_deleted_order_is_not_kept_for_a_pod_whose_vmi_was_seen_later() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 1))
    world.settle()
    vmi, pod = vm("other", {"a100": 1}, node_name="n1")
    world.put(pod, replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.put(vmi)
    world.settle()
    assert world.where() == {template("other"): "n1"}


def test_an_order_that_is_being_deleted_is_not_bound_any_more() -> None:
    world = World()
    bare = order("o1", 2)
    assert bare.written is not None
    kept = replace(bare, deleting=True, written=replace(bare.written, finalizers=("other",)))
    world.put(node("n1", a100=4), kept)
    assert booked(world.settle()) == []


def test_a_vm_does_not_start_with_a_template_claim_that_is_about_to_go() -> None:
    world = World()
    world.put(*vm("train", {"a100": 1}))
    world.settle()
    world.put(replace(world.claim(template("train")), deleting=True), node("n1", a100=1))
    assert started(world.step()) == []
    assert started(world.settle()) == ["pod-train"]


def test_a_set_that_is_split_goes_where_most_of_it_is() -> None:
    world = World()
    vmi, _ = vm("train", claims={"o1": 1, "o2": 2})
    world.put(
        node("n1", a100=4),
        node("n2", a100=4),
        order("o1", 1, "n1", attached_to=TRAIN),
        order("o2", 2, "n2", attached_to=TRAIN),
        replace(vmi, active_pods=(), phase="Pending"),
    )
    world.settle()
    assert world.where() == {"o1": "n2", "o2": "n2"}


def test_nothing_is_placed_for_a_vmi_without_a_pod_that_is_being_deleted() -> None:
    world = World()
    vmi, _ = vm("train", claims={"o1": 1})
    assert vmi.placing is not None
    leaving = replace(vmi, active_pods=(), placing=replace(vmi.placing, deleted=at(0)))
    world.put(node("n1", a100=4), order("o1", 1), leaving)
    assert booked(world.settle()) == []


def test_orders_of_a_vm_without_a_pod_come_in_the_order_of_their_own_age() -> None:
    world = World()
    vmi, _ = vm("train", claims={"o1": 1}, age=0)
    world.put(
        order("o1", 1, age=60),
        order("o2", 1, age=30),
        replace(vmi, active_pods=(), phase="Pending"),
        node("n1", a100=1),
    )
    world.step()
    assert world.where() == {"o1": "n1", "o2": ""}


def test_an_order_says_nothing_of_its_vm_before_that_has_a_pod() -> None:
    world = World()
    vmi, _ = vm("train", claims={"o1": 1, "o2": 4})
    world.put(
        node("n1", a100=1),
        order("o1", 1, "n1"),
        order("o2", 4),
        replace(vmi, active_pods=(), phase="Pending"),
    )
    world.settle()
    world.put(node("n1", a100=2))
    world.settle()
    assert world.waits_for("o2") == "NoCapacity"
    written = world.claim("o1").written
    assert written is not None
    assert "NoCapacity" not in {each.reason for each in written.conditions}
    assert world.events == []


def test_since_when_a_claim_is_bound_does_not_change_when_it_moves() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2))
    world.settle()
    world.put(node("n2", a100=4), *vm("train", {"a100": 2}, {"o1": 2}))
    world.settle()
    assert world.where()["o1"] == "n2"
    written = world.claim("o1").written
    assert written is not None
    assert written.bound == at(0)


def test_the_volumes_that_count_are_the_pods_and_the_hotplugged_ones_of_the_vmi() -> None:
    world = World()
    vmi, pod = vm("train", {"a100": 1})
    assert vmi.placing is not None
    assert pod.placing is not None
    on = {
        each: (NodeTerm((Requirement("kubernetes.io/hostname", "In", (each,)),)),)
        for each in ("n1", "n2")
    }
    volumes = (VmiVolume("edited"), VmiVolume("hot", is_hotpluggable=True))
    world.put(
        node("n1", a100=1),
        node("n2", a100=4),
        Volume("pv-edited", on["n1"]),
        Volume("pv-hot", on["n2"]),
        VolumeClaim("tenant-a", "edited", volume="pv-edited"),
        VolumeClaim("tenant-a", "hot", volume="pv-hot"),
        replace(vmi, placing=replace(vmi.placing, volumes=volumes)),
        pod,
    )
    world.settle()
    assert world.starts() == {"pod-train": "n2"}
    other, second = vm("other", {"a100": 1})
    assert second.placing is not None
    world.put(other, replace(second, placing=replace(second.placing, volume_claims=("edited",))))
    world.settle()
    assert world.starts()["pod-other"] == "n1"


def test_an_order_of_a_vm_that_is_gone_is_let_go_though_a_vm_without_a_gate_names_it() -> None:
    """As one that was let go while all was off, and found no node."""
    world = World()
    late = {"a100": 3}, {"o1": 1}
    world.put(node("n1", a100=2), order("o1", 1, "n1"), *vm("late", *late))
    world.settle()
    gone = Attachment("VirtualMachine", "gone", "vm-gone")
    world.put(replace(world.claim("o1"), attached_to=gone), *vm("late", *late, gates=()))
    world.settle()
    assert world.claim("o1").attached_to is None
    assert world.claim("o1").node_name == "n1"
    assert world.says("o1", "Attached") == ("False", "NoCapacity")
