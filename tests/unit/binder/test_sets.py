"""Sets: what belongs to one, where its VM is, repair, and how claims end (rules 3.2, 7.4, 7.17)."""

from dataclasses import replace

from binder.actions import CreateClaim, DeleteClaim, ReleaseClaim, RemoveFinalizer
from shared.core.model import Attachment, Placement, Pod, Settings, Vmi
from shared.core.placing import PodPlacing
from shared.core.templates import NAME_LENGTH_MAX, template_name
from tests.unit.binder.world import (
    TENANT,
    World,
    booked,
    node,
    order,
    quota,
    started,
    template,
    vm,
)

TRAIN = Attachment("VirtualMachine", "train", "vm-train")


def test_a_template_claim_is_named_after_the_vmi_and_its_entry() -> None:
    uid = "4b0c2a7e-7f6e-4d1c-9f6b-0d4a5b7c8e90"
    assert template_name(uid, 0) == f"{uid}-0"
    assert template_name(uid, 31) == f"{uid}-31"


def test_a_name_that_would_be_too_long_is_cut_and_stays_unique() -> None:
    long = "u" * 252
    names = {template_name(long, index) for index in range(32)}
    assert len(names) == 32
    assert {len(name) for name in names} == {NAME_LENGTH_MAX}


# Where the VM is.


def test_a_vm_that_started_without_claims_gets_them_where_it_runs() -> None:
    world = World()
    world.put(node("n1", a100=4), node("n2", a100=4), *vm("train", {"a100": 2}, node_name="n2"))
    world.settle()
    assert world.where() == {template("train"): "n2"}
    assert world.says(template("train"), "Attached") == ("True", "InUse")


def test_what_runs_is_booked_though_no_budget_and_no_room_would_let_it() -> None:
    world = World()
    world.put(quota(1), node("n1", a100=1), *vm("train", {"a100": 2}, node_name="n1"))
    world.settle()
    assert world.where() == {template("train"): "n1"}


def test_what_runs_is_booked_before_anything_is_placed() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        *vm("waits", {"a100": 1}, age=90),
        *vm("runs", {"a100": 2}, node_name="n1"),
    )
    world.step()
    assert world.where() == {template("runs"): "n1", template("waits"): ""}


def test_a_finished_migration_takes_the_booking_along() -> None:
    world = World()
    world.put(node("n1", a100=2), node("n2", a100=2))
    world.put(*vm("train", {"a100": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.settle()
    target = _target("n2")
    vmi = world.state.holders.vmis["vmi-train"]
    world.put(target, replace(vmi, active_pods=(*vmi.active_pods, target.uid)))
    assert booked(world.settle()) == []  # while it goes on, the claim stays at the source
    world.put(replace(world.pod("pod-train"), ended=True))
    vmi = world.state.holders.vmis["vmi-train"]
    world.put(replace(vmi, node_name="n2"))
    world.settle()
    assert world.where() == {template("train"): "n2"}


def test_a_migration_counts_its_target_on_the_targets_node_only() -> None:
    world = World()
    world.put(node("n1", a100=2), node("n2", a100=3), *vm("train", {"a100": 2}, node_name="n1"))
    target = _target("n2")
    vmi = world.state.holders.vmis["vmi-train"]
    world.put(target, replace(vmi, active_pods=(*vmi.active_pods, target.uid)))
    world.settle()
    assert world.where() == {template("train"): "n1"}
    assert world.state.capacity("a100").free == 1


def test_a_source_that_is_gone_before_kubevirt_says_so_leaves_the_target() -> None:
    world = World()
    world.put(node("n1", a100=2), node("n2", a100=2), *vm("train", {"a100": 2}, node_name="n1"))
    target = _target("n2")
    vmi = world.state.holders.vmis["vmi-train"]
    world.put(target, replace(vmi, active_pods=(*vmi.active_pods, target.uid), node_name=""))
    world.settle()
    assert world.where() == {template("train"): "n1"}


def test_in_mode_scheduler_no_claims_are_made_for_a_vm_that_names_none() -> None:
    world = World()
    world.put(Settings(placement=Placement.SCHEDULER), node("n1", a100=4))
    world.put(*vm("train", {"a100": 2}, node_name="n1"))
    assert not any(isinstance(each, CreateClaim) for each in world.settle())
    world.put(Settings())
    world.settle()
    assert world.where() == {template("train"): "n1"}


def test_what_was_at_the_gate_when_the_scheduler_took_over_is_placed_all_the_same() -> None:
    """Rule 9: nobody else takes that gate off."""
    world = World()
    world.put(node("n1", a100=1), *vm("waited", {"a100": 2}))
    world.settle()
    world.put(Settings(placement=Placement.SCHEDULER), *vm("came", {"a100": 1}))
    world.settle()
    assert world.starts() == {"pod-came": "n1"}
    world.put(node("n2", a100=2))
    world.settle()
    assert world.starts() == {"pod-came": "n1", "pod-waited": "n2"}


def test_claims_that_were_made_before_the_scheduler_took_over_follow_their_vm() -> None:
    """Rule 7.17."""
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.settle()
    world.put(Settings(placement=Placement.SCHEDULER), node("n2", a100=1))
    world.runs("pod-train", "n1")
    world.settle()
    world.runs("pod-train", "n2")  # as after a migration
    world.settle()
    assert world.where() == {template("train"): "n2"}


def test_in_mode_scheduler_a_vm_that_names_claims_is_placed_with_its_entries() -> None:
    world = World()
    world.put(Settings(placement=Placement.SCHEDULER), node("n1", a100=4), order("o1", 1))
    world.put(*vm("train", {"a100": 2}, {"o1": 1}))
    world.settle()
    assert world.where() == {"o1": "n1", template("train"): "n1"}
    assert world.starts() == {"pod-train": "n1"}


def test_a_lost_claim_is_not_booked_again_on_a_node_that_is_not_well() -> None:
    world = World()
    sick = replace(node("n1", a100=2), ready=False)
    world.put(sick, order("o1", 2, lost=True), *vm("train", claims={"o1": 2}, node_name="n1"))
    assert booked(world.settle()) == []
    world.put(node("n1", a100=2))
    world.settle()
    assert world.where() == {"o1": "n1"}


# Repair.


def test_a_set_that_is_split_is_gathered_on_one_node() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        node("n2", a100=4),
        order("o1", 2, "n1", attached_to=TRAIN),
        order("o2", 2, "n2", attached_to=TRAIN),
        *_starting("train", {"o1": 2, "o2": 2}),
    )
    world.settle()
    assert world.where() == {"o1": "n2", "o2": "n2"}


def test_a_split_set_that_fits_nowhere_is_lost_as_a_whole() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        node("n2", a100=2),
        order("o1", 2, "n1", attached_to=TRAIN),
        order("o2", 2, "n2", attached_to=TRAIN),
        *_starting("train", {"o1": 2, "o2": 2}),
    )
    done = world.step()
    assert len([each for each in done if isinstance(each, ReleaseClaim)]) == 2
    assert world.where() == {"o1": "", "o2": ""}
    assert world.says("o1", "Bound") == ("False", "NodeLost")
    assert world.says("o1", "Disrupted") == ("True", "NodeLost")
    world.settle()
    assert world.step() == []


def test_a_set_that_is_partly_lost_is_gathered_where_the_rest_of_it_is() -> None:
    world = World()
    world.put(
        node("n1", a100=4),
        node("n2", a100=4),
        order("o1", 2, lost=True, attached_to=TRAIN),
        order("o2", 2, "n2", attached_to=TRAIN),
        *_starting("train", {"o1": 2, "o2": 2}),
    )
    world.settle()
    assert world.where() == {"o1": "n2", "o2": "n2"}


def test_a_set_that_is_split_while_its_pod_waits_is_gathered_and_started() -> None:
    world = World()
    world.put(
        node("n1", a100=4),
        node("n2", a100=4),
        order("o1", 2, "n1", attached_to=TRAIN),
        order("o2", 1, "n2", attached_to=TRAIN),
        *vm("train", claims={"o1": 2, "o2": 1}),
    )
    world.settle()
    assert world.where() == {"o1": "n1", "o2": "n1"}
    assert world.starts() == {"pod-train": "n1"}


def test_a_whole_set_that_waits_for_its_pod_is_left_as_it_is() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        order("o1", 2, "n1", attached_to=TRAIN),
        *_starting("train", {"o1": 2}),
    )
    assert booked(world.settle()) == []


# How claims end, and what outlives pods.


def test_an_order_is_held_through_a_stop_and_the_next_start() -> None:
    world = World()
    world.put(
        node("n1", a100=2), node("n2", a100=2), order("o1", 2), *vm("train", claims={"o1": 2})
    )
    world.settle()
    home = world.where()["o1"]
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    world.settle()
    assert world.where() == {"o1": home}
    assert world.claim("o1").attached_to is None
    assert world.says("o1", "Attached") == ("False", "NotInUse")
    vmi, pod = vm("train", claims={"o1": 2})
    world.put(
        replace(vmi, uid="vmi-2"),
        replace(pod, owner="vmi-2", launcher_mark="vmi-2"),
    )
    world.settle()
    assert world.starts() == {"pod-train": home}


def test_a_template_claim_goes_with_its_vmi() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("train", {"a100": 2}))
    world.settle()
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    done = world.settle()
    kinds = [type(e) for e in done if isinstance(e, DeleteClaim | RemoveFinalizer)]
    assert kinds[:2] == [DeleteClaim, RemoveFinalizer]
    assert world.where() == {}


def test_a_template_claim_stays_while_the_last_pod_of_its_vmi_holds_the_units() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("train", {"a100": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.gone(world.state.holders.vmis["vmi-train"])
    world.settle()
    assert world.where() == {template("train"): "n1"}
    assert not world.claim(template("train")).deleting
    world.gone(world.pod("pod-train"))
    world.settle()
    assert world.where() == {}


def test_a_template_claim_of_a_failed_vmi_ends_once_no_pod_holds_its_units() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("train", {"a100": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    vmi = world.state.holders.vmis["vmi-train"]
    world.put(replace(vmi, phase="Failed"))
    world.settle()
    assert world.where() == {template("train"): "n1"}
    world.put(replace(world.pod("pod-train"), ended=True))
    world.settle()
    assert world.where() == {}


def test_a_failed_vmi_lets_go_of_its_order_which_stays_booked() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    vmi = world.state.holders.vmis["vmi-train"]
    world.put(replace(vmi, phase="Failed"), replace(world.pod("pod-train"), ended=True))
    world.settle()
    assert world.where() == {"o1": "n1"}
    assert world.claim("o1").attached_to is None


def test_a_template_claim_without_its_owner_is_deleted() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("train", {"a100": 2}))
    world.settle()
    world.gone(world.pod("pod-train"))
    world.put(replace(world.claim(template("train")), owner=""))
    done = world.settle()
    assert any(isinstance(each, DeleteClaim) for each in done)


def test_a_claim_that_is_deleted_keeps_finalizer_and_booking_while_a_pod_holds_its_units() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    world.runs("pod-train", "n1")
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert world.where() == {"o1": "n1"}
    world.put(replace(world.pod("pod-train"), ended=True))
    world.settle()
    assert world.where() == {}


def test_a_pod_that_is_pinned_but_not_bound_yet_holds_its_units_as_well() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    world.put(replace(world.claim("o1"), deleting=True))
    assert world.settle() == []
    assert world.where() == {"o1": "n1"}


def test_a_deleted_order_of_a_vm_that_waits_is_let_go_at_once() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1", 1, "n1"), *vm("train", {"a100": 1}, {"o1": 1}))
    world.settle()
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert "o1" not in world.where()


def test_a_deleted_template_claim_of_a_vm_that_waits_is_made_anew() -> None:
    world = World()
    world.put(*vm("train", {"a100": 1}))
    world.settle()
    world.put(replace(world.claim(template("train")), deleting=True))
    world.settle()
    assert not world.claim(template("train")).deleting
    assert world.waits_for(template("train")) == "NoCapacity"


def test_a_booking_outlives_the_temporary_pod_and_the_launcher_goes_to_the_same_node() -> None:
    world = World()
    world.put(node("n1", a100=2), node("n2", a100=2), order("o1", 1, "n2"))
    world.put(*vm("train", {"a100": 1}, {"o1": 1}))
    world.settle()
    assert world.starts() == {"pod-train": "n2"}
    temporary = world.pod("pod-train")
    vmi = world.state.holders.vmis["vmi-train"]
    world.gone(temporary)  # the import begins: neither pod nor activePods
    world.put(replace(vmi, active_pods=(), phase="Pending"))
    world.settle()
    assert world.where() == {"o1": "n2", template("train"): "n2"}
    assert world.says("o1", "Attached") == ("True", "InUse")
    launcher = replace(vm("train", {"a100": 1}, {"o1": 1})[1], name="real", uid="real")
    world.put(launcher, replace(vmi, active_pods=("real",), phase="Scheduling"))
    assert booked(world.settle()) == []
    assert world.starts() == {"real": "n2"}


def test_a_launcher_at_the_gate_waits_until_the_one_before_is_gone() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 1}, node_name="n1"))
    vmi = world.state.holders.vmis["vmi-train"]
    second = replace(vm("train", {"a100": 1})[1], name="second", uid="second")
    world.put(second, replace(vmi, active_pods=(*vmi.active_pods, "second")))
    assert started(world.settle()) == []
    world.put(replace(world.pod("pod-train"), ended=True))
    assert started(world.settle()) == ["second"]


def test_orders_that_a_vm_without_a_pod_names_are_booked_together() -> None:
    world = World()
    world.put(
        node("n1", a100=1),
        node("n2", a100=2),
        order("o1", 1),
        order("o2", 1),
        *_starting("train", {"o1": 1, "o2": 1}),
    )
    world.settle()
    assert world.where() == {"o1": "n2", "o2": "n2"}


def _starting(name: str, claims: dict[str, int]) -> tuple[Vmi]:
    """A VM's instance that has no pod yet."""
    return (replace(vm(name, claims=claims)[0], active_pods=(), phase="Pending"),)


def _target(node_name: str) -> Pod:
    """The target pod of a migration of `train`, on a node."""
    return Pod(
        TENANT,
        "target",
        "uid-target",
        node_name,
        {"nvidia.com/A100": 2},
        owner="vmi-train",
        launcher_mark="vmi-train",
        placing=PodPlacing("1", migration="job"),
    )
