"""VMs whose start the API server refuses: their claims look well, so they are told (rule 7.16)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.actions import (
    Action,
    BookClaim,
    CreateClaim,
    Plan,
    ReportClaim,
    Result,
    StartPod,
    TellVmi,
    Work,
)
from binder.memory import Memory
from shared.kube.outcomes import Outcome, Refused, Stale
from tests.unit.binder.applier import actions
from tests.unit.binder.world import World, node, vm

DENIED = Refused(403, "Forbidden", "ValidatingAdmissionPolicy 'p' denied request: not on n1")
TOLD = (
    "the platform refuses the start of the VM (Forbidden); it is tried again; if it stays so, ask"
    " your provider"
)


def ready() -> World:
    """A VM that fits, and is booked; its pod waits at the gate."""
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 2}))
    world.applier.do(world.plan(), lambda each: isinstance(each, StartPod))
    return world


def refuse(world: World, outcome: Outcome = DENIED, what: type[Action] = StartPod) -> Plan:
    """A start is planned; its first action of that sort ends so, everything before it is done."""
    planned = world.plan()
    [work] = [each for each in planned.works if each.key == "set/vmi-train"]
    refused = next(each for step in work.steps for each in step if isinstance(each, what))
    world.applier.do(planned, lambda each: isinstance(each, what))
    world.remember()
    world.memory.performed(work, Result(work.key, refused, outcome))
    return planned


def attached(world: World, claim: str) -> tuple[str, str, str]:
    """Status, reason and message of the condition Attached."""
    written = world.claim(claim).written
    assert written is not None
    [each] = [each for each in written.conditions if each.type == "Attached"]
    return each.status, each.reason, each.message


def test_a_start_that_was_refused_is_told_before_it_is_tried_again() -> None:
    world = ready()
    assert not any(isinstance(each, TellVmi) for each in actions(refuse(world)))
    again = [*actions(world.plan())]
    assert [type(each) for each in again[:3]] == [TellVmi, ReportClaim, StartPod]
    [event] = [each for each in again if isinstance(each, TellVmi)]
    assert (event.name, str(event.reason), event.message) == ("train", "NodeRefused", TOLD)
    assert event.is_warning
    assert world.memory.starts_refused == 1


def test_it_is_told_once_however_often_it_is_refused() -> None:
    world = ready()
    for _ in range(4):
        refuse(world)
    assert world.events == [("train", "NodeRefused")]


def test_its_claims_say_so_until_it_starts() -> None:
    world = ready()
    [name] = world.where()
    refuse(world)
    assert attached(world, name) == ("True", "InUse", ""), "nobody knew of it before"
    refuse(world)
    assert attached(world, name) == ("True", "InUse", TOLD)
    assert world.says(name, "Bound") == ("True", "Placed")
    assert not any(isinstance(each, ReportClaim) for each in actions(refuse(world))), "told once"
    for work in world.plan().works:
        world.applier.work(work)
        world.memory.performed(work, Result(work.key))
    world.rest()
    assert world.starts() == {"pod-train": "n1"}
    assert attached(world, name) == ("True", "InUse", "")


def test_of_a_pod_that_comes_after_the_one_that_was_refused_they_say_nothing() -> None:
    world = ready()
    [name] = world.where()
    for _ in range(2):
        refuse(world)
    world.gone(world.pod("pod-train"))
    world.rest()
    assert attached(world, name) == ("True", "InUse", "")


def test_where_a_booking_is_refused_its_vm_is_told_and_no_start_is_tried() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 2}))
    for _ in range(2):
        refuse(world, what=BookClaim)
    assert world.events == [("train", "NodeRefused")]
    assert world.starts() == {}


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(CreateClaim, id="the claim may not be made"),
        pytest.param(BookClaim, id="its status may not be written"),
    ],
)
def test_where_no_claim_can_say_it_it_is_told_every_half_hour(cut: type[Action]) -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 2}))
    told = list[int]()
    for minute in range(90):
        refuse(world, what=cut)
        told += [minute] * (len(world.events) - len(told))
        world.now += timedelta(minutes=1)
    assert told == [1, 31, 61]
    assert len({each.event_name for each in world.applier.events}) == 3


def test_where_the_claim_says_it_it_is_told_once() -> None:
    world = ready()
    for _ in range(90):
        refuse(world)
        world.now += timedelta(minutes=1)
    assert world.events == [("train", "NodeRefused")]


def test_a_vm_that_waits_is_told_though_its_claim_may_not_be_made() -> None:
    world = World()
    world.put(node("n1", a100=1), *vm("train", {"a100": 2}))
    told = list[int]()
    for minute in range(40):
        [work] = [each for each in world.plan().works if each.key == "set/vmi-train"]
        world.applier.work(work, lambda each: isinstance(each, CreateClaim))
        world.remember()
        told += [minute] * (len(world.events) - len(told))
        world.now += timedelta(minutes=1)
    assert told == [0, 30]
    assert world.events == [("train", "NoCapacity")] * 2
    assert len({each.event_name for each in world.applier.events}) == 2


def test_a_later_binder_makes_the_same_event_of_it() -> None:
    world = ready()
    for _ in range(2):
        refuse(world)
    world.memory.forget()
    for _ in range(2):
        refuse(world)
    assert len({each.event_name for each in world.applier.events}) == 1


def test_once_it_starts_nothing_is_told_of_it_any_more() -> None:
    world = ready()
    refuse(world)
    for work in world.plan().works:
        world.applier.work(work)
        world.memory.performed(work, Result(work.key))
    assert world.starts() == {"pod-train": "n1"}
    assert world.memory.starts_refused == 0


def test_one_that_is_refused_anew_after_it_waited_is_told_anew() -> None:
    world = ready()
    for _ in range(2):
        refuse(world)
    claim = world.claim(next(iter(world.where())))
    world.put(replace(claim, node_name="", resource_name=""), node("n1"))  # its place went
    for work in world.plan().works:
        world.applier.work(work)
        world.memory.performed(work, Result(work.key))
    world.remember()
    assert world.memory.starts_refused == 0
    world.put(node("n1", a100=4))
    for _ in range(2):
        refuse(world)
    told = ["NodeRefused", "NoCapacity", "NodeRefused"]
    assert world.events == [("train", each) for each in told]
    assert len({each.event_name for each in world.applier.events}) == 3


def test_a_start_that_only_has_to_be_decided_anew_is_not_told() -> None:
    world = ready()
    refuse(world, Stale("changed"))
    assert not any(isinstance(each, TellVmi) for each in actions(world.plan()))


def test_of_another_pod_of_the_vm_nothing_is_known() -> None:
    world = ready()
    refuse(world)
    uid = world.pod("pod-train").uid
    assert world.memory.refusal("vmi-train", uid) == "Forbidden"
    assert world.memory.refusal("vmi-train", f"{uid}-2") == ""


def test_a_booking_that_is_refused_keeps_a_vm_from_starting_as_well() -> None:
    world = World()
    world.put(node("n1", a100=4), *vm("train", {"a100": 2}))
    [work] = [each for each in world.plan().works if each.key == "set/vmi-train"]
    booking = next(each for step in work.steps for each in step if isinstance(each, BookClaim))
    world.memory.performed(work, Result(work.key, booking, DENIED))
    assert TOLD in [each.message for each in actions(world.plan()) if isinstance(each, TellVmi)]


@pytest.mark.parametrize(
    ("reason", "word"),
    [("Forbidden", "Forbidden"), ("", "403"), ("node n1 is full", "403"), ("x" * 300, "403")],
)
def test_of_a_refusal_only_kubernetes_word_is_told(reason: str, word: str) -> None:
    """A webhook may say anything there, and tenants read the event."""
    memory = Memory()
    start = next(each for each in actions(ready().plan()) if isinstance(each, StartPod))
    work = Work("set/u", ((start,),))
    memory.performed(work, Result("set/u", start, Refused(403, reason, "any words")))
    assert memory.refusal("u", start.pod.uid) == word


def test_nothing_is_remembered_of_vms_that_are_gone() -> None:
    world = ready()
    for _ in range(2):
        refuse(world)
    [event] = world.applier.events
    world.memory.gone("vmi-train")
    assert world.memory.starts_refused == 0
    assert world.memory.last("vmi-train") is None
    assert not world.memory.has_told("vmi-train", event.reason)
