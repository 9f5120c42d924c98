"""What the statuses of claims and classes say, and when they are written (rules 3.1, 3.5, 6.5)."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from binder.actions import AddFinalizer, Kind, RemoveFinalizer, ReportClass
from binder.agenda import Agenda
from binder.classes import disclosed
from binder.report import waiting
from shared.core.model import (
    Disclosure,
    GpuClass,
    KubeVirt,
    Lifecycle,
    Placement,
    Settings,
    Vmi,
)
from tests.unit.binder.world import CLASSES, World, at, gpu_class, node, order, template, vm

Row = tuple[tuple[str, str], tuple[str, str], tuple[str, str], tuple[str, str]]


def says(world: World, name: str) -> Row:
    ready, bound, attached, disrupted = (
        world.says(name, kind) for kind in ("Ready", "Bound", "Attached", "Disrupted")
    )
    return ready, bound, attached, disrupted


PLACED = ("True", "Placed")
IN_USE, NOT_IN_USE = ("True", "InUse"), ("False", "NotInUse")
CALM, LOST = ("False", "Undisturbed"), ("True", "NodeLost")


def test_an_order_that_is_booked_and_that_no_vm_uses() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1"))
    world.settle()
    assert says(world, "o1") == (PLACED, PLACED, NOT_IN_USE, CALM)


def test_a_claim_whose_vm_starts() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1"), *vm("train", claims={"o1": 1}))
    world.settle()
    assert says(world, "o1") == (PLACED, PLACED, IN_USE, CALM)


def test_a_claim_that_waits_with_its_vm() -> None:
    world = World()
    world.put(order("o1"), *vm("train", claims={"o1": 1}))
    world.settle()
    why = ("False", "NoCapacity")
    assert says(world, "o1") == (why, why, IN_USE, CALM)


@pytest.mark.parametrize("gone", [True, False])
def test_a_claim_whose_node_cannot_keep_it_is_disrupted_and_still_booked(gone: bool) -> None:
    world = World()
    there = node("n1", a100=1)
    world.put(there, order("o1"), *vm("train", claims={"o1": 1}))
    world.settle()
    if gone:
        world.gone(there)
    else:
        world.put(replace(there, ready=False))
    world.settle()
    assert says(world, "o1") == (PLACED, PLACED, IN_USE, LOST)
    world.put(there)
    world.settle()
    assert says(world, "o1") == (PLACED, PLACED, IN_USE, CALM)


def test_a_set_without_a_pod_says_that_its_node_is_not_well() -> None:
    """As between the pod that binds volumes and the launcher."""
    world = World()
    world.put(node("n1", a100=2), order("o1"), *vm("train", {"a100": 1}, {"o1": 1}))
    world.settle()
    world.gone(world.pod("pod-train"))
    world.put(replace(node("n1", a100=2), ready=False))
    world.settle()
    assert world.where() == {"o1": "n1", template("train"): "n1"}
    for name in world.where():
        assert says(world, name) == (PLACED, PLACED, IN_USE, LOST)


def test_an_order_that_no_vm_uses_says_that_its_node_is_not_well() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1"))
    world.settle()
    world.put(replace(node("n1", a100=1), ready=False))
    world.settle()
    assert says(world, "o1") == (PLACED, PLACED, NOT_IN_USE, LOST)


def test_a_lost_claim() -> None:
    world = World()
    world.put(order("o1", lost=True))
    world.settle()
    why = ("False", "NodeLost")
    assert says(world, "o1") == (why, why, NOT_IN_USE, LOST)


def test_a_condition_says_for_which_generation_it_was_set_and_since_when() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1"))
    world.settle()
    written = world.claim("o1").written
    assert written is not None
    assert {(each.generation, each.since) for each in written.conditions} == {(1, at(0))}


def test_a_template_claim_is_written_once_when_its_vm_starts_at_once() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 1}))
    world.step()
    assert [a for a in world.step() if not isinstance(a, AddFinalizer | ReportClass)] == []
    assert says(world, template("train")) == (PLACED, PLACED, IN_USE, CALM)


# Classes.


def test_the_figures_of_a_class_add_up_and_are_written_once() -> None:
    world = World()
    cordoned = replace(node("n2", a100=3), unschedulable=True)
    world.put(node("n1", a100=4), cordoned, order("o1", 1, "n1"))
    world.put(*vm("train", {"a100": 2}, node_name="n1"))
    world.settle()
    written = _class(world).written
    assert written is not None
    assert written.capacity == {
        "total": 7,
        "bound": 3,
        "outside": 0,
        "unavailable": 3,
        "free": 1,
        "overbooked": 0,
        "largestSet": 1,
    }
    assert world.step() == []


def test_figures_are_written_at_most_once_a_second_and_then_by_the_clock_alone() -> None:
    world = World()
    world.put(node("n1", a100=1))
    world.settle()
    world.put(node("n1", a100=2))
    written = _class(world).written
    assert written is not None
    world.now = datetime.fromisoformat(written.observed) + timedelta(seconds=0.25)
    found = world.plan()
    assert (found.works, found.wake_in) == ((), 0.75)
    world.now += timedelta(seconds=0.75)
    assert [type(each) for each in world.step()] == [ReportClass]


@pytest.mark.parametrize("back", [timedelta(seconds=1), timedelta(hours=1)])
def test_a_clock_that_went_back_holds_up_no_figures(back: timedelta) -> None:
    world = World()
    world.put(node("n1", a100=1))
    world.settle()
    world.put(node("n1", a100=2))
    world.now -= back + timedelta(seconds=3)
    assert [type(each) for each in world.step()] == [ReportClass]


@pytest.mark.parametrize("observed", ["", "soon", "2026-11-30T12:00:00"])
def test_a_time_that_is_none_holds_up_no_figures(observed: str) -> None:
    world = World()
    world.put(node("n1", a100=1))
    world.settle()
    written = _class(world).written
    assert written is not None
    world.put(replace(_class(world), written=replace(written, observed=observed)))
    world.put(node("n1", a100=2))
    assert [type(each) for each in world.step()] == [ReportClass]


def test_a_condition_is_written_at_once() -> None:
    world = World()
    world.put(node("n1", a100=1))
    world.settle()
    written = _class(world).written
    assert written is not None
    world.now = datetime.fromisoformat(written.observed)
    world.put(replace(_class(world), lifecycle=Lifecycle.CLOSED))
    assert [type(each) for each in world.step()] == [ReportClass]


@pytest.mark.parametrize("disclosure", [Disclosure.BUCKETED, Disclosure.HIDDEN])
def test_a_class_that_keeps_its_stock_to_itself_has_no_figures(disclosure: Disclosure) -> None:
    world = World()
    world.put(node("n1", a100=1))
    world.settle()
    world.put(replace(_class(world), disclosure=disclosure))
    world.settle()
    written = _class(world).written
    assert written is not None
    assert written.capacity is None
    world.put(node("n1", a100=2))
    assert world.step() == []


@pytest.mark.parametrize("disclosure", [Disclosure.BUCKETED, Disclosure.HIDDEN])
def test_metrics_have_no_figures_of_a_class_that_keeps_them_to_itself(
    disclosure: Disclosure,
) -> None:
    world = World()
    world.put(replace(_class(world), disclosure=disclosure), node("n1", a100=4))
    world.settle()
    assert disclosed(world.state).keys() == {"l40s"}


def test_metrics_have_the_figures_of_classes_and_how_many_claims_wait() -> None:
    world = World()
    world.put(node("n1", a100=4), order("o1", 1, "n1"), order("o2", 9), order("o3", 8))
    world.settle()
    found = disclosed(world.state)
    assert (found["a100"].total, found["a100"].bound, found["a100"].free) == (4, 1, 3)
    assert found["l40s"].total == 0
    assert waiting(world.state) == {"NoCapacity": 2}


def test_a_class_that_is_well_says_so() -> None:
    world = World()
    world.settle()
    assert _says(world) == {
        "Ready": ("True", "Available"),
        "Open": ("True", "Available"),
        "ResourceNameUnique": ("True", "Available"),
        "Permitted": ("True", "Available"),
    }


def test_when_a_class_was_closed_is_told_by_its_condition() -> None:
    world = World()
    world.settle()
    world.now += timedelta(seconds=50)
    world.put(replace(_class(world), lifecycle=Lifecycle.CLOSED))
    closed = world.now
    world.settle()
    world.put(node("n1", a100=1))
    world.settle()
    assert (_says(world)["Open"], _says(world)["Ready"]) == (("False", "ClassClosed"),) * 2
    written = _class(world).written
    assert written is not None
    since = {each.type: each.since for each in written.conditions}
    assert since["Open"] == closed.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert since["Permitted"] == at(0)


def test_two_classes_with_one_device_both_say_so() -> None:
    world = World()
    world.settle()
    world.put(gpu_class("twin", CLASSES["a100"]))
    world.settle()
    for name in ("a100", "twin"):
        assert _says(world, name)["ResourceNameUnique"] == ("False", "ClassConflict")
        assert _says(world, name)["Ready"] == ("False", "ClassConflict")
    assert _says(world, "l40s")["Ready"] == ("True", "Available")


def test_a_device_that_kubevirt_does_not_permit() -> None:
    world = World()
    world.settle()
    table = frozenset({CLASSES["l40s"]})
    world.put(KubeVirt("cozy-kubevirt", "kubevirt", "Deployed", table))
    world.settle()
    assert _says(world)["Permitted"] == ("False", "NotPermitted")
    assert _says(world, "l40s")["Permitted"] == ("True", "Available")


def test_the_first_reason_is_told_where_several_hold() -> None:
    world = World()
    world.put(replace(_class(world), lifecycle=Lifecycle.CLOSED))
    world.put(Settings(placement=Placement.SCHEDULER))
    world.settle()
    assert _says(world)["Ready"] == ("False", "NotOffered")
    world.put(Settings(enabled=False))
    world.settle()
    assert _says(world)["Ready"] == ("False", "Disabled")


def test_a_class_has_our_finalizer_for_as_long_as_there_are_claims_of_it() -> None:
    world = World()
    world.settle()
    world.put(order("o1"))
    done = world.settle()
    assert [(a.kind, a.finalizer) for a in done if isinstance(a, AddFinalizer)] == [
        (Kind.CLASS, "gpu.cozystack.io/class-in-use")
    ]
    world.gone(world.claim("o1"))
    done = world.settle()
    assert [a.kind for a in done if isinstance(a, RemoveFinalizer)] == [Kind.CLASS]


def test_a_class_that_is_deleted_goes_with_its_last_claim() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1"))
    world.settle()
    written = _class(world).written
    assert written is not None
    world.put(replace(_class(world), written=replace(written, deleted=at(1))))
    world.settle()
    assert "a100" in world.state.classes
    world.put(replace(world.claim("o1"), deleting=True))
    world.settle()
    assert "a100" not in world.state.classes


def test_a_class_that_goes_already_gets_no_finalizer() -> None:
    world = World()
    world.settle()
    written = _class(world).written
    assert written is not None
    going = replace(written, deleted=at(1), finalizers=("other",))
    world.put(replace(_class(world), written=going), order("o1"))
    assert not any(isinstance(each, AddFinalizer) for each in world.settle())


def test_an_order_that_is_named_is_not_attached_before_its_vm_starts() -> None:
    world = World()
    vmi, _ = vm("train", claims={"o1": 1})
    world.put(node("n1", a100=1), order("o1", 1, "n1"))
    world.put(replace(vmi, active_pods=(), phase="Pending"))
    world.settle()
    assert world.claim("o1").attached_to is None
    assert says(world, "o1") == (PLACED, PLACED, NOT_IN_USE, CALM)


def test_classes_and_claims_end_with_the_feature_off() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1"), *vm("train", {"a100": 1}))
    world.settle()
    world.put(Settings(enabled=False))
    world.settle()
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    world.put(replace(world.claim("o1"), deleting=True))
    done = world.settle()
    assert world.where() == {}
    assert any(isinstance(a, RemoveFinalizer) and a.kind is Kind.CLASS for a in done)


def test_a_binder_that_starts_anew_over_a_cluster_that_is_as_it_should_be_writes_nothing() -> None:
    world = World()
    world.put(node("n1", a100=2), order("o1"), *vm("train", {"a100": 1}), *vm("big", {"a100": 9}))
    world.settle()
    world.applier.agenda = Agenda(world.state)
    world.memory.forget()
    assert world.step() == []


def test_an_agenda_that_nobody_looks_at_keeps_no_more_than_there_is() -> None:
    world = World()
    world.settle()
    for number in range(12_000):
        vmi = Vmi("tenant-a", "train", f"vmi-{number}")
        world.put(vmi)
        world.gone(vmi)
    stale = world.applier.agenda._stale
    assert len(stale.vmis) < 10_000
    world.put(node("n1", a100=1), order("o1"))
    world.settle()
    assert world.where() == {"o1": "n1"}


def _class(world: World, name: str = "a100") -> GpuClass:
    return world.state.classes[name]


def _says(world: World, name: str = "a100") -> dict[str, tuple[str, str]]:
    written = _class(world, name).written
    assert written is not None
    return {each.type: (each.status, each.reason) for each in written.conditions}
