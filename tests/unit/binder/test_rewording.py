"""Other figures, and another reason of the stock's, are written at a pace (rule 7.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from binder.actions import Action, ReportClaim, TellVmi, Work
from binder.agenda import Agenda
from binder.hindrances import Hindrance
from binder.report import because
from shared.core.model import Claim
from shared.core.placing import ClaimWritten
from shared.reasons import Reason
from tests.unit.binder.applier import actions
from tests.unit.binder.world import World, at, node, order, quota, template, vm

VM = "set/vmi-train"


def waiting(**units: int) -> World:
    """One VM waits for four units of a class, of which there are so many; all is at rest."""
    world = World()
    world.put(node("n1", **units), *vm("train", {"a100": 4}))
    world.rest()
    return world


def reported(done: Iterable[Action]) -> list[str]:
    """Names of the claims of which something was told, in order."""
    return [each.claim.name for each in done if isinstance(each, ReportClaim)]


def says(world: World, name: str = "train") -> str:
    return world.waiting(template(name)).message


def later(world: World, seconds: float) -> list[str]:
    """So much later a pass; which claims were told of."""
    world.now += timedelta(seconds=seconds)
    return reported(actions(world.carry_out()))


def due(world: World) -> float | None:
    """In how many seconds the next pass is due, once what is due now was written."""
    return world.plan().wake_in


def test_of_a_hundred_that_wait_none_is_told_of_a_freed_unit_for_30_s_and_then_16_at_a_time() -> (
    None
):
    names = [f"vm-{number:03}" for number in range(100)]
    world = World()
    world.put(node("n1", a100=2))
    for number, name in enumerate(names):
        world.put(*vm(name, {"a100": 4}, age=100 - number))
    world.rest()
    world.put(node("n1", a100=3))
    done = [reported(world.step()) for _ in range(40)]  # one a second
    told = [[template(name) for name in names[first : first + 16]] for first in range(0, 112, 16)]
    assert done == [[]] * 30 + told + [[]] * 3
    assert {says(world, name) for name in names} == {"asked 4: 3 free"}
    assert {world.waiting(template(name)).since for name in names} == {at(0)}
    assert len(world.events) == 100, "one of each, from when it began to wait"
    assert due(world) is None
    assert len(world.applier.agenda.rewordings) == 0


def test_nothing_is_written_before_a_second_went_by_however_many_passes_there_are() -> None:
    """Each write is seen, and makes a pass."""
    world = World()
    world.put(node("n1", a100=1))
    for number in range(20):
        world.put(*vm(f"vm-{number:02}", {"a100": 4}, age=number))
    world.rest()
    world.put(node("n1", a100=2))
    assert (later(world, 0), due(world)) == ([], 30.0)
    assert len(later(world, 30)) == 16
    assert due(world) == 1.0
    assert (later(world, 0.25), due(world)) == ([], 0.75)
    assert len(later(world, 0.75)) == 4
    assert due(world) is None


def test_one_that_is_due_within_that_second_waits_until_it_is_over() -> None:
    world = World()
    world.put(node("n1", a100=1, l40s=1), *vm("a", {"a100": 4}), *vm("l", {"l40s": 4}))
    world.rest()
    world.put(node("n1", a100=2, l40s=1))
    assert later(world, 0) == []
    world.put(node("n1", a100=2, l40s=2))
    assert (later(world, 0.5), due(world)) == ([], 29.5)
    assert (later(world, 29.5), due(world)) == ([template("a")], 1.0)
    assert (later(world, 0.5), due(world)) == ([], 0.5)
    assert later(world, 0.5) == [template("l")]


def test_a_pass_is_due_when_the_first_text_is() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=2))
    assert (later(world, 0), due(world)) == ([], 30.0)
    assert (later(world, 12), due(world)) == ([], 18.0)
    assert (later(world, 18), due(world)) == ([template("train")], None)


def test_another_change_does_not_start_the_wait_over() -> None:
    world = waiting(a100=1)
    for units, seconds in ((2, 0), (3, 29)):
        world.put(node("n1", a100=units))
        assert later(world, seconds) == []
    assert later(world, 1) == [template("train")]
    assert says(world) == "asked 4: 3 free"
    assert later(world, 60) == []


def test_who_is_out_of_date_longest_is_first_whoever_waits_longer() -> None:
    world = World()
    world.put(node("n1", a100=1, l40s=1))
    for number in range(10):
        world.put(*vm(f"a{number}", {"a100": 4}, age=50 - number))
        world.put(*vm(f"l{number}", {"l40s": 4}, age=20 - number))
    world.rest()
    world.put(node("n1", a100=1, l40s=2))
    assert later(world, 0) == []
    world.put(node("n1", a100=2, l40s=2))
    assert later(world, 5) == []
    first = [f"l{number}" for number in range(10)] + [f"a{number}" for number in range(6)]
    assert later(world, 60) == list(map(template, first))
    assert later(world, 1) == [template(f"a{number}") for number in range(6, 10)]


def test_words_that_come_back_to_what_is_written_cost_nothing_and_are_forgotten() -> None:
    world = waiting(a100=1)
    for units in (2, 1):
        world.put(node("n1", a100=units))
        assert later(world, 20) == []
    assert due(world) is None
    assert later(world, 600) == []
    world.put(node("n1", a100=2))
    assert (later(world, 0), due(world)) == ([], 30.0)


def test_another_reason_is_told_at_once_with_the_figures_of_now() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=2))
    assert later(world, 0) == []
    world.put(node("n1", a100=3), quota(3))
    assert later(world, 1) == [template("train")]
    assert says(world) == "class a100: asked 4: this tenant's budget has 3 left"
    world.put(quota(9))
    assert later(world, 1) == [template("train")]
    assert says(world) == "asked 4: 3 free"
    assert (later(world, 60), due(world)) == ([], None)


def test_figures_of_a_budget_are_told_at_the_same_pace() -> None:
    world = World()
    world.put(quota(1), order("o1", 2))
    world.rest()
    world.put(quota(0))
    assert (later(world, 0), later(world, 29), later(world, 1)) == ([], [], ["o1"])
    assert world.waiting("o1").message == "class a100: asked 2: this tenant's budget has 0 left"


def test_all_that_a_vm_s_claims_say_is_written_in_one_go() -> None:
    """The order that it holds says why as well, in a condition."""
    world = World()
    world.put(node("n1", a100=3), order("o1", 2, "n1"), *vm("train", {"a100": 2}, {"o1": 2}))
    world.rest()
    world.put(node("n1", a100=2))
    assert later(world, 0) == []
    world.now += timedelta(seconds=30)
    found = [work for work in world.plan().works if not work.key.startswith("class/")]
    assert [(work.key, len(work.steps), len(work.steps[0])) for work in found] == [(VM, 1, 2)]
    world.applier.do(world.plan())


def test_a_lost_order_says_why_it_waits_at_the_same_pace() -> None:
    """None of its conditions does."""
    world = World()
    world.put(order("o1", 2, lost=True), node("n1", a100=1))
    world.rest()
    world.put(node("n1"))
    assert (later(world, 0), later(world, 29), later(world, 1)) == ([], [], ["o1"])
    assert world.waiting("o1").message == "asked 2: none free"


def test_an_event_that_is_due_comes_at_once_and_brings_the_words_with_it() -> None:
    """The VM was told of another reason, which its claims never came to say."""
    world = waiting(a100=1)
    world.put(quota(3))
    world.applier.do(world.plan(), lambda each: isinstance(each, ReportClaim))
    world.remember()
    world.put(quota(9), node("n1", a100=2))
    assert later(world, 1) == [template("train")]
    assert says(world) == "asked 4: 2 free"
    reasons = [reason for _, reason in world.events]
    assert reasons == ["NoCapacity", "BudgetExceeded", "NoCapacity"]


def test_what_a_claim_does_not_say_at_all_brings_the_words_of_the_others_with_it() -> None:
    world = World()
    world.put(node("n1", a100=1, l40s=4), *vm("train", {"a100": 4, "l40s": 1}))
    world.rest()
    world.put(node("n1", a100=2, l40s=4))
    assert later(world, 0) == []
    world.gone(world.claim(template("train", 1)))
    assert later(world, 1) == [template("train", 0), template("train", 1)]
    assert says(world) == "asked 4 of a100: 2 free"


def _with(change: Callable[[ClaimWritten], ClaimWritten]) -> Callable[[Claim], Claim]:
    def changed(claim: Claim) -> Claim:
        assert claim.written is not None
        return replace(claim, written=change(claim.written))

    return changed


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_with(lambda told: replace(told, generation=2)), id="generation"),
        pytest.param(_with(lambda told: replace(told, waiting=None)), id="why it waits"),
        pytest.param(_with(lambda told: replace(told, conditions=())), id="conditions"),
        pytest.param(
            _with(
                lambda told: replace(
                    told, conditions=tuple(replace(c, status="Unknown") for c in told.conditions)
                )
            ),
            id="status",
        ),
        pytest.param(
            _with(
                lambda told: replace(
                    told, conditions=tuple(replace(c, reason="Moving") for c in told.conditions)
                )
            ),
            id="reason of a condition",
        ),
        pytest.param(lambda claim: replace(claim, attached_to=None), id="attachment"),
    ],
)
def test_whatever_else_is_not_as_it_should_be_is_written_at_once(
    change: Callable[[Claim], Claim],
) -> None:
    """With the words of the VM's other claims."""
    world = World()
    world.put(node("n1", a100=1, l40s=4), *vm("train", {"a100": 4, "l40s": 1}))
    world.rest()
    names = [template("train", entry) for entry in (0, 1)]
    world.put(node("n1", a100=2, l40s=4), change(world.claim(names[1])))
    assert later(world, 0) == names
    assert {world.waiting(name).message for name in names} == {"asked 4 of a100: 2 free"}
    assert (later(world, 60), due(world)) == ([], None)


# Which reason of the stock's it is.


def crowded(count: int) -> World:
    """VMs wait for three units each; three are free, but not together. All is at rest."""
    world = World()
    world.put(node("n1", a100=2), node("n2", a100=1))
    for number in range(count):
        world.put(*vm(f"vm-{number:03}", {"a100": 3}, age=count - number))
    world.rest()
    assert world.waits_for(template("vm-000")) == "SetDoesNotFitOneNode"
    return world


def only(reason: str) -> tuple[Hindrance]:
    """All that wait do so for this reason, in the same words."""
    return (lambda _, __: because(Reason(reason), "so it is"),)


def test_of_a_hundred_that_wait_none_is_told_while_somebody_takes_and_gives_back_one_unit() -> None:
    world = crowded(100)
    for _ in range(10):
        world.put(order("small", 1))
        assert later(world, 1) == []
        assert world.where()["small"] == "n2"
        assert later(world, 1) == []
        world.gone(world.claim("small"))
        assert later(world, 1) == []
        assert due(world) is None, "it says what is so"
    assert len(world.events) == 100, "one of each, from when it began to wait"


def test_a_reason_that_stays_is_told_after_30_s_16_at_a_time_each_with_its_event() -> None:
    world = crowded(100)
    began = world.now
    world.put(order("small", 1))
    done = [world.step() for _ in range(40)]  # one a second
    names = [template(f"vm-{number:03}") for number in range(100)]
    told = [names[first : first + 16] for first in range(0, 112, 16)]
    assert [reported(each) for each in done] == [[]] * 30 + told + [[]] * 3
    events = [[f"{e.uid}-0" for e in each if isinstance(e, TellVmi)] for each in done]
    assert events == [reported(each) for each in done]
    assert world.events[100:] == [(f"vm-{number:03}", "NoCapacity") for number in range(100)]
    last = world.waiting(template("vm-099"))
    assert (last.reason, last.message) == ("NoCapacity", "asked 3: 2 free")
    assert last.since == (began + timedelta(seconds=36)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert world.says(template("vm-099"), "Ready") == ("False", "NoCapacity")


def test_what_is_told_is_the_reason_of_that_moment_with_its_words() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=3), node("n2", a100=1))
    assert later(world, 0) == []
    world.put(node("n1", a100=2))
    assert later(world, 29) == []
    world.put(node("n2", a100=2))
    assert later(world, 1) == [template("train")]
    assert world.events == [("train", "NoCapacity"), ("train", "SetDoesNotFitOneNode")]
    told = "asked 4: at most 2 can be had together, 4 free"
    assert says(world) == world.applier.events[-1].message == told
    assert later(world, 60) == []


def test_a_reason_that_is_not_the_stock_s_is_told_at_once_and_so_is_one_after_it() -> None:
    world = crowded(2)
    world.put(order("small", 1))
    assert later(world, 1) == []
    for change in (world.put, world.gone):
        change(quota(1))
        assert later(world, 1) == [template("vm-000"), template("vm-001")]
    told = [reason for name, reason in world.events if name == "vm-001"]
    assert told == ["SetDoesNotFitOneNode", "BudgetExceeded", "NoCapacity"]


STOCK = ["NoCapacity", "SetDoesNotFitOneNode", "NoEligibleNode"]
STOCK += ["VolumeOutOfReach", "NodeRefused", "Reserved"]
OTHERS = ["Disabled", "ClaimNotFound", "ClaimInUse", "ClassNotFound", "BudgetExceeded", "Moving"]


@pytest.mark.parametrize("now", STOCK + OTHERS)
@pytest.mark.parametrize("before", STOCK + OTHERS)
def test_of_two_reasons_both_are_the_stock_s_or_it_is_told_at_once(before: str, now: str) -> None:
    world = World()
    world.put(*vm("train", {"a100": 4}), order("o1", 4))
    world.hindrances = only(before)
    world.rest()
    world.hindrances = only(now)
    names = [template("train"), "o1"] if before != now else []
    paced = before in STOCK and now in STOCK
    assert later(world, 0) == ([] if paced else names)
    assert later(world, 30) == (names if paced else [])
    assert world.events == [("train", each) for each in dict.fromkeys((before, now))]


def test_an_order_that_is_held_says_another_reason_in_the_same_work_after_the_event() -> None:
    world = World()
    world.put(node("n1", a100=3), order("o1", 2, "n1"), *vm("train", {"a100": 2}, {"o1": 2}))
    world.rest()
    assert world.says("o1", "Attached") == ("False", "NoCapacity")
    world.put(node("n2", a100=1))
    assert later(world, 0) == []
    world.now += timedelta(seconds=30)
    [work] = _of_claims(world)
    steps = [[type(each) for each in step] for step in work.steps]
    assert steps == [[TellVmi], [ReportClaim, ReportClaim]]
    world.applier.work(work)
    assert world.says("o1", "Attached") == ("False", "SetDoesNotFitOneNode")


def test_who_was_told_of_another_reason_last_is_told_at_once() -> None:
    """Whatever its claims say: they never came to say that one."""
    world = waiting(a100=1)
    world.put(quota(3))
    world.applier.do(world.plan(), lambda each: isinstance(each, ReportClaim))
    world.remember()
    world.put(quota(9), node("n1", a100=3), node("n2", a100=1))
    assert later(world, 1) == [template("train")]
    reasons = [reason for _, reason in world.events]
    assert reasons == ["NoCapacity", "BudgetExceeded", "SetDoesNotFitOneNode"]


def test_who_dies_between_event_and_claims_leaves_the_next_to_make_the_same_event_later() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=3), node("n2", a100=1))
    assert later(world, 0) == []
    world.now += timedelta(seconds=30)
    world.applier.do(world.plan(), lambda each: isinstance(each, ReportClaim))
    world.remember()
    world.memory.forget()
    world.applier.agenda = Agenda(world.state)
    assert [later(world, seconds) for seconds in (0, 29, 1)] == [[], [], [template("train")]]
    _, cut, told = world.applier.events
    assert (cut.reason, cut.event_name) == (told.reason, told.event_name)


# What is remembered.


def test_a_vm_that_rests_after_a_failure_is_remembered_and_not_waited_for() -> None:
    """When it has rested there is a pass anyway."""
    world = waiting(a100=1)
    world.put(node("n1", a100=2))
    assert later(world, 0) == []
    world.backed_off = frozenset({VM})
    assert (later(world, 10), due(world)) == ([], None)
    assert (later(world, 30), due(world)) == ([], None)
    world.backed_off = frozenset()
    assert later(world, 0) == [template("train")]


def test_words_that_differ_again_once_they_were_written_are_out_of_date_since_then() -> None:
    """The figures changed while the write was under way."""
    world = waiting(a100=1)
    world.put(node("n1", a100=2))
    assert later(world, 0) == []
    world.now += timedelta(seconds=30)
    [work] = _of_claims(world)
    world.under_way = (work,)
    world.put(node("n1", a100=3))
    assert (later(world, 2), due(world)) == ([], None)
    world.applier.work(work)
    world.under_way = ()
    assert says(world) == "asked 4: 2 free"
    assert (later(world, 1), due(world)) == ([], 30.0)
    assert later(world, 30) == [template("train")]


def test_a_reason_that_was_written_in_the_same_words_is_out_of_date_since_then() -> None:
    world = waiting(a100=1)
    world.hindrances = only("NoCapacity")
    world.rest()
    world.hindrances = only("NodeRefused")
    assert later(world, 0) == []
    world.now += timedelta(seconds=30)
    [work] = _of_claims(world)
    world.applier.work(work)
    world.hindrances = only("Reserved")
    assert (later(world, 0), due(world)) == ([], 30.0)


def test_a_write_that_failed_is_tried_again_without_another_wait() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=2))
    assert later(world, 0) == []
    world.now += timedelta(seconds=30)
    assert [work.key for work in _of_claims(world)] == [VM]
    assert (later(world, 0), due(world)) == ([], 1.0), "that one was not even sent"
    assert later(world, 1) == [template("train")]


def test_who_may_get_what_a_pass_frees_is_remembered() -> None:
    """Why it waits is not known in that pass."""
    world = World()
    world.put(node("n1", a100=1), node("n2", a100=2), *vm("train", {"a100": 4}))
    world.put(order("o1", 1, "n1"), order("o2", 1, "n2"))
    world.rest()
    assert says(world) == "asked 4: 1 free"
    world.put(node("n3", a100=1))
    assert later(world, 0) == []
    world.put(*vm("gathers", claims={"o1": 1, "o2": 1}, age=60))
    assert later(world, 10) == ["o2"], "the other one moves there"
    assert world.where() == {"o1": "n2", "o2": "n2", template("train"): ""}
    assert (later(world, 0), due(world)) == ([], 20.0)


def test_what_is_gone_is_forgotten() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=2))
    assert later(world, 0) == []
    assert len(world.applier.agenda.rewordings) == 1
    world.gone(world.pod("pod-train"), world.state.holders.vmis["vmi-train"])
    world.rest()
    assert len(world.applier.agenda.rewordings) == 0


def test_a_clock_that_went_back_holds_nothing_up_for_longer_than_that() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=2))
    assert later(world, 0) == []
    assert (later(world, -3600), due(world)) == ([], 30.0)
    assert later(world, 30) == [template("train")]
    world.put(node("n1", a100=3))
    assert (later(world, -3600), due(world)) == ([], 30.0)
    assert later(world, 30) == [template("train")]


def test_a_cluster_that_is_as_it_should_be_writes_nothing_once_all_is_told() -> None:
    world = waiting(a100=1)
    world.put(node("n1", a100=3))
    assert template("train") in reported(world.rest())
    for _ in range(10):
        world.now += timedelta(seconds=60)
        world.applier.agenda.note_all()
        assert (world.plan().works, due(world)) == ((), None)


def _of_claims(world: World) -> list[Work]:
    return [work for work in world.plan().works if not work.key.startswith("class/")]
