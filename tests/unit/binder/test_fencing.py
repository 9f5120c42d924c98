"""A leader that slept before it sent a start, and wakes after the units were freed (rule 7.1).

A booking carries its term, and the API server refuses an older one. A start carries none: it
names the pod's version, so who frees units changes the pod before.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from binder.actions import (
    Action,
    BookClaim,
    DeleteClaim,
    FencePod,
    Ref,
    ReleaseClaim,
    RemoveFinalizer,
    StartPod,
    Work,
)
from binder.fencing import fenced
from binder.sets import attachment
from shared.vocabulary import FINALIZER_CLAIM
from tests.unit.binder.applier import Refused, actions
from tests.unit.binder.world import TENANT, World, at, node, order, template, vm


def booked(world: World) -> StartPod:
    """All is booked, and the start is not sent yet: its leader sleeps."""
    planned = world.plan()
    world.applier.do(planned, lambda each: isinstance(each, StartPod))
    [start] = [each for each in actions(world.plan()) if isinstance(each, StartPod)]
    assert start.node_name == "n1"
    return start


def kinds(done: list[Action], *wanted: type) -> list[type]:
    """The kinds of these actions, in their order."""
    return [type(each) for each in done if isinstance(each, wanted)]


def is_too_late(world: World, start: StartPod) -> bool:
    """Whether the sleeper's start is refused; it is sent now."""
    try:
        world.applier.one(start)
    except Refused:
        return True
    return False


def ordered() -> World:
    world = World()
    world.put(node("n1", a100=4), order("o1", 2), *vm("train", claims={"o1": 2}))
    return world


def test_a_deleted_order_is_let_go_after_its_pod_was_fenced() -> None:
    world = ordered()
    late = booked(world)
    world.put(replace(world.claim("o1"), deleting=True))
    done = world.settle()
    assert kinds(done, FencePod, RemoveFinalizer)[:2] == [FencePod, RemoveFinalizer]
    assert is_too_late(world, late)


def test_before_the_fence_stands_nothing_is_let_go() -> None:
    world = ordered()
    booked(world)
    world.put(replace(world.claim("o1"), deleting=True))
    world.applier.do(world.plan(), lambda each: isinstance(each, FencePod))
    assert world.where() == {"o1": "n1"}


def test_a_set_that_goes_elsewhere_is_fenced_first_and_started_as_it_is_then() -> None:
    world = World()
    world.put(node("n1", a100=2), *vm("train", {"a100": 2}))
    late = booked(world)
    world.put(replace(node("n1", a100=2), unschedulable=True), node("n2", a100=2))
    done = world.step()
    assert kinds(done, FencePod, BookClaim, StartPod) == [FencePod, BookClaim, StartPod]
    assert world.where() == {template("train"): "n2"}
    [start] = [each for each in done if isinstance(each, StartPod)]
    assert start.pod.uid
    assert not start.pod.version, "the answer to the fence tells it"
    assert is_too_late(world, late)


def test_a_template_claim_whose_instance_is_gone_ends_after_its_pod_was_fenced() -> None:
    world = World()
    pair = vm("train", {"a100": 2})
    world.put(node("n1", a100=2), *pair)
    late = booked(world)
    world.gone(*[each for each in pair if type(each).__name__ == "Vmi"])
    done = world.settle()
    expected = [FencePod, DeleteClaim, RemoveFinalizer]
    assert kinds(done, *expected)[:3] == expected
    assert is_too_late(world, late)


def test_a_set_that_is_lost_is_fenced_first() -> None:
    world = World()
    world.put(
        node("n1", a100=1),
        node("n2", a100=1),
        order("o1", 1, "n1"),
        order("o2", 1, "n2"),
    )
    world.put(*vm("train", claims={"o1": 1, "o2": 1}))
    for name in ("o1", "o2"):
        claim = world.claim(name)
        vmi = world.state.holders.vmis["vmi-train"]
        world.put(replace(claim, attached_to=attachment(vmi)))
    done = world.settle()
    found = kinds(done, FencePod, ReleaseClaim)
    assert found[:1] == [FencePod]
    assert ReleaseClaim in found


def test_nothing_is_fenced_for_a_claim_that_holds_nothing() -> None:
    world = World()
    world.put(node("n1", a100=1), order("o1", 2), *vm("train", claims={"o1": 2}))
    world.settle()
    claim = world.claim("o1")
    assert claim.written is not None
    guarded = replace(claim.written, finalizers=(FINALIZER_CLAIM,))
    world.put(replace(claim, deleting=True, written=guarded))
    assert kinds(world.settle(), FencePod, RemoveFinalizer)[:1] == [RemoveFinalizer]


@pytest.mark.parametrize("name", ["o1", "other"])
def test_nothing_is_fenced_for_a_claim_with_which_no_pod_could_start(name: str) -> None:
    world = ordered()
    world.put(order("other", 2))
    world.step()
    assert world.starts() == {"pod-train": "n1"}
    world.put(replace(world.claim(name), deleting=True))
    assert kinds(world.settle(), FencePod) == []


def test_an_ordinary_start_is_not_fenced() -> None:
    world = ordered()
    done = world.settle()
    assert kinds(done, BookClaim, FencePod, StartPod) == [BookClaim, StartPod]


def test_a_claim_that_stays_where_it_is_frees_nothing() -> None:
    world = ordered()
    booked(world)
    stays = BookClaim(Ref(TENANT, "o1"), "n1", "another.com/device", at(0))
    work = Work("set/vmi-train", ((stays,),))
    assert fenced(work, world.state.holders) == work


def test_a_claim_that_is_deleted_without_our_finalizer_is_fenced_as_well() -> None:
    world = ordered()
    booked(world)
    work = Work("claim/o1", ((DeleteClaim(Ref(TENANT, "o1")),),))
    found = fenced(work, world.state.holders)
    assert [type(each) for step in found.steps for each in step] == [FencePod, DeleteClaim]
