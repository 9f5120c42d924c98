"""Why a VM or an order waits, who says it, and how often (rules 3.5, 7.7 and 7.9)."""

from dataclasses import replace
from datetime import timedelta

from binder.actions import ReportClaim, TellVmi
from shared.core.model import Disclosure, Namespace, Quota, Settings
from tests.unit.binder.world import (
    TENANT,
    World,
    at,
    gpu_class,
    node,
    order,
    quota,
    started,
    template,
    vm,
)


def test_a_vm_without_a_place_stays_at_the_gate_and_its_claims_say_why_with_numbers() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    assert world.starts() == {}
    waiting = world.waiting(template("train"))
    assert (waiting.reason, waiting.message) == ("NoCapacity", "asked 2: 1 free")
    assert world.says(template("train"), "Bound") == ("False", "NoCapacity")
    assert world.says(template("train"), "Ready") == ("False", "NoCapacity")
    assert world.says(template("train"), "Attached") == ("True", "InUse")
    assert world.says(template("train"), "Disrupted") == ("False", "Undisturbed")


def test_units_that_are_free_but_not_together_are_told_apart_from_none() -> None:
    world = World()
    world.put(node("n1", a100=1), node("n2", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    assert world.waits_for(template("train")) == "SetDoesNotFitOneNode"


def test_the_figures_of_a_class_that_keeps_its_stock_to_itself_are_not_told() -> None:
    world = World()
    hidden = replace(gpu_class("a100", "nvidia.com/A100"), disclosure=Disclosure.HIDDEN)
    world.put(hidden, node("n1", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    waiting = world.waiting(template("train"))
    assert waiting.message == "asked 2: fewer are free"


def test_what_the_budget_leaves_is_told() -> None:
    world = World()
    world.put(quota(3), node("n1", a100=8), order("o1", 2, "n1"), *vm("train", {"a100": 4}))
    world.settle()
    waiting = world.waiting(template("train"))
    assert waiting.reason == "BudgetExceeded"
    assert waiting.message == "class a100: asked 4: this tenant's budget has 1 left"


def test_a_budget_that_is_overdrawn_leaves_nothing_and_not_less() -> None:
    world = World()
    world.put(quota(1), node("n1", a100=8), order("o1", 4, "n1"), *vm("train", {"a100": 2}))
    world.settle()
    told = "class a100: asked 2: this tenant's budget has 0 left"
    assert world.waiting(template("train")).message == told


def test_of_two_classes_that_are_over_budget_the_first_by_name_is_told() -> None:
    world = World()
    keys = {f"{each}.gpuclass.gpu.cozystack.io/units": 0 for each in ("a100", "l40s")}
    world.put(Quota(TENANT, "q", keys), *vm("train", {"l40s": 1, "a100": 1}))
    world.settle()
    assert world.waiting(template("train")).message.startswith("class a100:")


def test_whose_budget_it_is_is_told_rightly() -> None:
    world = World()
    above = Quota("tenant-root", "q", {"a100.gpuclass.gpu.cozystack.io/units": 1})
    world.put(Namespace("tenant-root"), above, node("n1", a100=8), *vm("train", {"a100": 4}))
    world.settle()
    told = "class a100: asked 4: the budget of a tenant above has 1 left"
    assert world.waiting(template("train")).message == told


def test_one_event_tells_of_each_reason_however_many_passes_there_are() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    world.put(node("n2"))  # a change that helps nobody
    world.settle()
    assert world.events == [("train", "NoCapacity")]
    world.put(node("n3", a100=1))
    world.rest()
    world.rest()
    assert world.events == [("train", "NoCapacity"), ("train", "SetDoesNotFitOneNode")]


def test_what_younger_ones_got_in_the_same_pass_is_not_told_to_be_free() -> None:
    """The older one finds six units, three together, in its turn; the younger one gets three."""
    world = World()
    old, young = vm("old", {"a100": 4}, age=60), vm("young", {"a100": 3})
    world.put(node("n1", a100=3), node("n2", a100=3), *old, *young)
    world.settle()
    assert world.starts() == {"pod-young": "n1"}
    assert world.events == [("old", "NoCapacity")], "and never SetDoesNotFitOneNode"
    assert world.waiting(template("old")).message == "asked 4: 3 free"


def test_an_event_is_a_warning_on_the_vmi() -> None:
    world = World()
    world.put(*vm("train", {"a100": 2}))
    [event] = [each for each in world.settle() if isinstance(each, TellVmi)]
    assert (event.namespace, event.name, event.uid) == ("tenant-a", "train", "vmi-train")
    assert event.is_warning


def test_nobody_is_told_twice_of_a_claim_that_does_not_exist() -> None:
    world = World()
    world.put(node("n1", a100=8), *vm("train", claims={"missing": 1}))
    world.settle()
    assert world.events == [("train", "ClaimNotFound")]


def test_a_binder_that_remembers_no_event_reads_from_the_claims_what_was_told() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1", 1, "n1"), *vm("train", {"a100": 2}, {"o1": 1}))
    world.settle()
    world.memory.forget()
    assert world.step() == []


def test_of_a_vm_without_claims_no_later_binder_tells_again_what_was_told() -> None:
    """Nothing remembers it but the events themselves, so those have the same names."""
    world = World()
    world.put(*vm("elder", claims={"o1": 1}, age=30), *vm("train", claims={"o1": 1}))
    world.settle()
    world.put(node("n1", a100=1), order("o1"))
    world.settle()
    before = {each.event_name for each in world.applier.events}
    world.memory.forget()
    world.settle()
    assert {each.event_name for each in world.applier.events} == before


def test_of_a_vm_without_claims_a_reason_that_comes_back_is_told_again() -> None:
    """What stands last in `kubectl describe` is so. Events live for an hour."""
    world = World()
    elder = vm("elder", claims={"o1": 1}, age=30)
    world.put(*vm("train", claims={"o1": 1}))
    world.settle()
    world.put(node("n1", a100=1), order("o1"), *elder)
    world.settle()
    world.gone(world.claim("o1"), *elder)
    world.settle()
    told = [each for each in world.applier.events if each.name == "train"]
    assert [str(each.reason) for each in told] == ["ClaimNotFound", "ClaimInUse", "ClaimNotFound"]
    assert len({each.event_name for each in told}) == 3


def test_who_dies_before_the_claims_say_it_leaves_another_to_make_the_same_event() -> None:
    """Rule 7.9: a name that is taken is an event that was told. None is lost either."""
    world = World()
    world.put(node("n1", a100=1), order("o1", 1, "n1"), *vm("train", {"a100": 2}, {"o1": 1}))
    world.applier.do(world.plan(), lambda each: isinstance(each, ReportClaim))
    [told] = [each for each in world.applier.events if each.name == "train"]
    world.now += timedelta(hours=1)
    world.settle()
    assert [each.event_name for each in world.applier.events] == [told.event_name] * 2


def test_of_a_reason_that_came_back_the_same_event_is_made_by_another_as_well() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    world.put(quota(1))
    world.settle()
    world.gone(quota(1))
    world.applier.do(world.plan(), lambda each: isinstance(each, ReportClaim))
    world.memory.forget()
    world.settle()
    told = [str(each.reason) for each in world.applier.events]
    assert told == ["NoCapacity", "BudgetExceeded", "NoCapacity", "NoCapacity"]
    assert len({each.event_name for each in world.applier.events}) == 3


def test_the_same_event_is_made_also_where_the_claims_said_it_later_than_its_event() -> None:
    """It is named after what the claims say, and not after what one leader remembers."""
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    world.put(quota(1))
    world.applier.do(world.plan(), lambda each: isinstance(each, ReportClaim))
    world.remember()
    world.now += timedelta(minutes=1)
    world.settle()  # only now they say BudgetExceeded
    world.gone(quota(1))
    world.applier.do(world.plan(), lambda each: isinstance(each, ReportClaim))
    world.memory.forget()
    world.settle()
    told = [str(each.reason) for each in world.applier.events]
    assert told == ["NoCapacity", "BudgetExceeded", "NoCapacity", "NoCapacity"]
    assert len({each.event_name for each in world.applier.events}) == 3


def test_an_event_comes_before_the_claims_say_it() -> None:
    """Else who dies in between leaves a change of reason of which nobody told."""
    world = World()
    world.put(*vm("train", {"a100": 2}))
    [work] = [each for each in world.plan().works if each.key == "set/vmi-train"]
    before, after = ({type(each) for each in step} for step in work.steps)
    assert (TellVmi in before, after) == (True, {ReportClaim})


def test_nothing_is_told_again_when_the_claim_that_said_it_is_made_anew() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 4}))
    world.settle()
    world.put(quota(3))
    world.settle()
    world.gone(world.claim(template("train")))
    world.settle()
    assert world.waits_for(template("train")) == "BudgetExceeded"
    assert world.events == [("train", "NoCapacity"), ("train", "BudgetExceeded")]


def test_what_an_order_says_of_another_vm_is_not_told_to_this_one_again() -> None:
    world = World()
    world.put(order("shared", 1), order("other", 1), *vm("first", claims={"other": 1}, age=90))
    world.put(*vm("train", claims={"shared": 1, "other": 1}))
    world.settle()
    world.put(*vm("elder", claims={"shared": 1, "missing": 1}, age=95))
    world.settle()
    world.gone(world.pod("pod-elder"), world.state.holders.vmis["vmi-elder"])
    world.settle()
    assert [reason for name, reason in world.events if name == "train"] == ["ClaimInUse"]


def test_a_reason_that_comes_back_is_another_event() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 4}))
    world.settle()
    for units in (3, 9):
        world.put(quota(units))
        world.settle()
    reasons = [str(each.reason) for each in world.applier.events]
    assert reasons == ["NoCapacity", "BudgetExceeded", "NoCapacity"]
    assert len({each.event_name for each in world.applier.events}) == 3


def test_a_vm_is_told_what_an_order_said_before_the_vm_was_there() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1", 2))
    world.settle()
    assert world.waits_for("o1") == "NoCapacity"
    world.put(*vm("train", claims={"o1": 2}))
    world.settle()
    assert world.events == [("train", "NoCapacity")]


def test_when_the_reason_began_is_kept_while_the_numbers_change() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 4}))
    world.settle()
    world.put(node("n1", a100=3))
    world.rest()
    waiting = world.waiting(template("train"))
    assert (waiting.message, waiting.since) == ("asked 4: 3 free", at(0))


def test_another_reason_begins_when_it_comes() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    world.put(quota(1))
    began = world.now
    world.settle()
    waiting = world.waiting(template("train"))
    assert waiting.reason == "BudgetExceeded"
    assert waiting.since == began.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_lost_order_says_why_it_is_not_bound_again_when_that_changes() -> None:
    """None of its conditions does."""
    world = World()
    world.put(order("o1", 2, lost=True), node("n1", a100=1))
    world.settle()
    world.put(node("n2", a100=1))
    world.rest()
    assert world.waits_for("o1") == "SetDoesNotFitOneNode"


def test_a_lost_order_stays_lost_while_the_feature_is_off() -> None:
    world = World()
    world.put(Settings(enabled=False), order("o1", 2, lost=True))
    world.settle()
    assert world.says("o1", "Bound") == ("False", "NodeLost")
    assert world.waits_for("o1") == "Disabled"


def test_a_wait_that_goes_on_writes_nothing() -> None:
    world = World()
    world.put(quota(1), node("n1", a100=1), order("o1", 5), *vm("train", {"a100": 2}))
    world.settle()
    assert world.step() == []


def test_a_named_order_that_does_not_exist_keeps_the_vm_waiting_until_it_does() -> None:
    world = World()
    world.put(node("n1", a100=8), *vm("train", {"a100": 1}, {"o1": 2}))
    world.settle()
    assert world.waits_for(template("train")) == "ClaimNotFound"
    assert world.events == [("train", "ClaimNotFound")]
    world.put(order("o1", 2))
    assert started(world.settle()) == ["pod-train"]


def test_of_several_claims_that_cannot_be_used_the_most_severe_reason_is_told() -> None:
    """Rule 3.4: whatever the claims are called."""
    world = World()
    world.put(
        node("n1", a100=8),
        order("a-used", 1),
        *vm("elder", claims={"a-used": 1}, age=30),
        *vm("train", {"a100": 1}, {"a-used": 1, "z-missing": 1}),
    )
    world.settle()
    waiting = world.waiting(template("train"))
    assert waiting.reason == "ClaimNotFound"
    assert "z-missing" in waiting.message


def test_an_order_that_is_being_deleted_is_not_found() -> None:
    world = World()
    leaving = replace(order("o1", 2, "n1"), deleting=True)
    world.put(node("n1", a100=8), leaving, *vm("train", {"a100": 1}, {"o1": 2}))
    world.settle()
    assert world.waits_for(template("train")) == "ClaimNotFound"
    assert "o1" not in world.where()


def test_another_order_of_the_same_name_is_not_the_one_that_was_admitted() -> None:
    world = World()
    world.put(node("n1", a100=8), order("o1", 3), *vm("train", {"a100": 1}, {"o1": 2}))
    world.settle()
    assert world.waits_for(template("train")) == "ClaimNotFound"
    assert world.where()["o1"] == "n1"
    assert world.claim("o1").attached_to is None


def test_an_order_that_two_vms_name_is_the_older_ones_and_the_other_waits() -> None:
    world = World()
    world.put(
        node("n1", a100=8),
        order("o1", 2),
        *vm("young", {"l40s": 1}, {"o1": 2}),
        *vm("old", claims={"o1": 2}, age=30),
    )
    world.settle()
    assert world.starts() == {"pod-old": "n1"}
    assert world.waits_for(template("young", 0)) == "ClaimInUse"
    assert ("young", "ClaimInUse") in world.events


def test_an_order_whose_units_a_vm_holds_stays_with_it_though_an_older_one_names_it() -> None:
    world = World()
    world.put(node("n1", a100=8), order("o1", 2), *vm("first", claims={"o1": 2}))
    world.settle()
    world.put(*vm("older", {"a100": 1}, {"o1": 2}, age=30))
    world.settle()
    assert world.starts() == {"pod-first": "n1"}
    assert world.waits_for(template("older")) == "ClaimInUse"


def test_the_other_vm_gets_the_order_when_the_first_is_gone() -> None:
    world = World()
    world.put(
        node("n1", a100=8),
        order("o1", 2),
        *vm("young", claims={"o1": 2}),
        *vm("old", claims={"o1": 2}, age=30),
    )
    world.settle()
    world.gone(world.pod("pod-old"), world.state.holders.vmis["vmi-old"])
    world.settle()
    assert world.starts() == {"pod-young": "n1"}
    attached = world.claim("o1").attached_to
    assert attached is not None
    assert attached.name == "young"


def test_a_class_that_is_gone_is_the_reason() -> None:
    world = World()
    world.put(node("n1", a100=8), *vm("train", {"a100": 1}))
    world.gone(world.state.classes["a100"])
    world.settle()
    assert world.waits_for(template("train")) == "ClassNotFound"


def test_an_order_keeps_its_units_while_its_vm_waits_for_more_and_says_why() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1", 2, "n1"), *vm("train", {"a100": 1}, {"o1": 2}))
    world.settle()
    assert world.where() == {"o1": "n1", template("train"): ""}
    assert world.says("o1", "Bound") == ("True", "Placed")
    assert world.says("o1", "Attached") == ("False", "NoCapacity")
    assert world.says("o1", "Disrupted") == ("False", "Undisturbed")
    assert world.claim("o1").attached_to is None
    assert world.waits_for(template("train")) == "NoCapacity"
    assert world.step() == []


def test_orders_held_apart_that_nowhere_fit_together_are_kept_and_the_vm_waits() -> None:
    world = World()
    world.put(
        node("n1", a100=2),
        node("n2", a100=2),
        order("o1", 2, "n1"),
        order("o2", 2, "n2"),
        *vm("train", claims={"o1": 2, "o2": 2}),
    )
    world.settle()
    assert world.where() == {"o1": "n1", "o2": "n2"}
    assert world.events == [("train", "SetDoesNotFitOneNode")]
    assert world.step() == []


def test_an_order_without_a_place_says_why() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1", 2))
    world.settle()
    assert world.waits_for("o1") == "NoCapacity"
    assert world.says("o1", "Attached") == ("False", "NotInUse")


def test_a_lost_order_stays_lost_and_says_why_it_is_not_bound_again() -> None:
    world = World()
    world.put(order("o1", 2, lost=True))
    world.settle()
    assert world.says("o1", "Bound") == ("False", "NodeLost")
    assert world.says("o1", "Ready") == ("False", "NodeLost")
    assert world.says("o1", "Disrupted") == ("True", "NodeLost")
    assert world.waits_for("o1") == "NoCapacity"
    world.put(node("n1", a100=2))
    world.settle()
    assert world.where() == {"o1": "n1"}
    assert world.says("o1", "Disrupted") == ("False", "Undisturbed")
    assert world.waits_for("o1") == ""


def test_a_claim_that_waited_says_since_when_it_is_bound() -> None:
    world = World()
    world.put(order("o1"))
    world.settle()
    world.put(node("n1", a100=1))
    bound = world.now
    world.settle()
    written = world.claim("o1").written
    assert written is not None
    since = {each.type: each.since for each in written.conditions}
    told = bound.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (since["Bound"], since["Attached"], written.bound) == (told, at(0), told)


def test_no_text_names_or_counts_nodes() -> None:
    world = World()
    world.put(node("machine-1", a100=1), node("machine-2", a100=1), *vm("train", {"a100": 2}))
    world.settle()
    for event in world.applier.events:
        assert "machine" not in event.message
        assert "node" not in event.message
