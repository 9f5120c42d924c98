"""When passes run (rule 7.2), in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import looptime
import pytest

from binder.actions import DeleteClaim, Plan, Ref, Result, Work
from binder.loop import PATIENCE_SECONDS, Figures, Loop, Superseded
from binder.underway import UnderWay
from shared.kube.outcomes import Outcome, Refused, Stale, Withheld


def work(key: str, claim: str = "") -> Work:
    """A work about a claim, which is called as its key unless it is told."""
    return Work(key, ((DeleteClaim(Ref("a", claim or key)),),))


@dataclass
class World:
    """Plans and outcomes as told, and when what happened."""

    plans: list[Plan] = field(default_factory=list)
    usual: Plan = field(default_factory=Plan)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    passes: list[float] = field(default_factory=list)
    held: list[frozenset[str]] = field(default_factory=list)
    performed: list[tuple[float, str]] = field(default_factory=list)
    checks: list[bool] = field(default_factory=list)
    over: bool = False
    takes: dict[str, float] = field(default_factory=dict)
    under_way: list[list[str]] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)

    def decide(self, held: frozenset[str], under_way: UnderWay) -> Plan:
        self.passes.append(asyncio.get_running_loop().time())
        self.held.append(held)
        self.under_way.append(sorted(under_way.keys))
        return self.plans.pop(0) if self.plans else self.usual

    async def perform(self, work: Work) -> Result:
        await asyncio.sleep(self.takes.get(work.key, self.seconds))
        self.performed.append((asyncio.get_running_loop().time(), work.key))
        if work.key in self.outcomes:
            return Result(work.key, work.steps[0][0], self.outcomes[work.key])
        return Result(work.key)

    async def check(self, is_refused: bool) -> None:
        self.checks.append(is_refused)
        if self.over:
            raise Superseded("another term")


def run(
    world: World, *acts: tuple[float, Callable[[Loop], None]], seconds: float = 60.0
) -> BaseException | None:
    """Run passes for some time, with acts at their times; returns what ended them before."""

    async def main() -> BaseException | None:
        event_loop = asyncio.get_running_loop()
        loop = Loop(
            world.decide,
            world.perform,
            world.check,
            figures=world.figures,
            clock=event_loop.time,
            chance=Random(1),
        )
        for at, act in acts:
            event_loop.call_later(at, act, loop)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await loop.run()
        except Superseded as error:
            return error
        return None

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(main())


def wake(loop: Loop) -> None:
    loop.wake()


def test_a_term_begins_with_a_pass_and_then_nothing_happens_where_nothing_happened() -> None:
    world = World()
    run(world, seconds=3600)
    assert world.passes == [0.0]


def test_any_number_of_events_are_one_pass() -> None:
    world = World()
    run(world, *((10.0, wake) for _ in range(1000)), *((20.0, wake) for _ in range(3)))
    assert world.passes == pytest.approx([0.0, 10.0, 20.0])


def test_what_happens_during_a_pass_is_looked_at_in_the_next() -> None:
    """Rule 7.2."""
    world = World([Plan((work("a"),))], seconds=0.4)
    run(world, *((0.1 + number / 10, wake) for number in range(3)))
    assert world.passes == pytest.approx([0.0, 0.45])


def test_a_pass_waits_for_a_slow_work_only_for_a_moment() -> None:
    """Rule 7.3."""
    slow = Plan((work("slow"), work("quick")))
    world = World([slow], takes={"slow": 20.0})
    run(world, (3.0, wake), (7.0, wake), seconds=25.0)
    assert world.passes == pytest.approx([0.0, 3.0, 7.0, 20.0])
    assert world.under_way == [[], ["slow"], ["slow"], []]
    assert PATIENCE_SECONDS < 3.0


def test_what_is_to_be_done_meanwhile_is_done_while_a_slow_work_goes_on() -> None:
    """Rule 7.3."""
    world = World([Plan((work("slow"),)), Plan((work("other"),))], takes={"slow": 20.0})
    run(world, (3.0, wake), seconds=25.0)
    assert [key for _, key in world.performed] == ["other", "slow"]


@pytest.mark.parametrize(
    "planned",
    [
        pytest.param(work("slow", "another"), id="of the same set"),
        pytest.param(work("another", "slow"), id="about the same claim"),
    ],
)
def test_nothing_is_begun_about_what_a_slow_work_is_about(planned: Work) -> None:
    world = World([Plan((work("slow"),))], Plan((planned,)), takes={"slow": 20.0})
    run(world, (3.0, wake), seconds=19.0)
    assert len(world.passes) == 2
    assert world.performed == []


def test_a_slow_work_that_fails_in_the_end_rests_like_any_other() -> None:
    world = World([Plan((work("slow"),))], Plan((work("slow"),)), takes={"slow": 20.0})
    world.outcomes["slow"] = Refused(403, "Forbidden", "no")
    run(world, seconds=20.4)
    assert world.held == [frozenset(), {"slow"}], "it woke the loop when it ended"
    assert world.checks == [False, True, False], "and made it ask whose term it is"


def test_failures_in_a_row_count_though_each_took_long() -> None:
    world = World(usual=Plan((work("slow"),)), takes={"slow": 20.0})
    world.outcomes["slow"] = Refused(403, "Forbidden", "no")
    run(world, seconds=300)
    ends = [at for at, _ in world.performed]
    rests = [later - 20.0 - earlier for earlier, later in pairwise(ends)]
    assert max(rests) > 3.2, "as the third failure in a row rests at least"


def test_a_slow_write_that_was_withheld_in_the_end_ends_the_term() -> None:
    world = World([Plan((work("slow"), work("slower")))], takes={"slow": 20.0, "slower": 40.0})
    world.outcomes["slow"] = Withheld()
    assert isinstance(run(world), Superseded)
    assert [key for _, key in world.performed] == ["slow"], "nothing goes on in a term that is over"
    assert world.figures.under_way == {}


def test_a_moment_that_a_plan_named_begins_a_pass() -> None:
    world = World([Plan(wake_in=7.0), Plan(wake_in=None)])
    run(world)
    assert world.passes == pytest.approx([0.0, 7.0])


def test_a_work_that_failed_rests_and_is_tried_again_by_itself() -> None:
    world = World([Plan((work("a"), work("b")))], Plan((work("a"),)))
    world.outcomes["a"] = Refused(403, "Forbidden", "no")
    run(world, seconds=10)
    assert [key for _, key in world.performed[:2]] == ["a", "b"]
    assert 0.8 <= world.performed[2][0] <= 1.65, "after its rest"
    assert len(world.performed) < 9, "longer each time"


def test_a_work_that_rests_is_not_carried_out_though_it_is_planned() -> None:
    world = World(usual=Plan((work("a"), work("b"))))
    world.outcomes["a"] = Refused(403, "Forbidden", "no")
    run(world, (0.3, wake), seconds=0.5)
    assert world.held == [frozenset(), {"a"}]
    assert [key for _, key in world.performed] == ["a", "b", "b"]


def test_a_work_that_was_stale_is_tried_again_in_a_moment() -> None:
    world = World([Plan((work("a"),))], Plan((work("a"),)))
    world.outcomes["a"] = Stale("changed")
    run(world, seconds=0.3)
    assert len(world.passes) >= 2


def test_another_term_ends_passes_before_anything_is_decided() -> None:
    world = World()
    world.over = True
    assert isinstance(run(world), Superseded)
    assert world.passes == []


def test_a_refusal_makes_us_ask_whether_the_term_is_still_ours() -> None:
    world = World([Plan((work("a"),))])
    world.outcomes["a"] = Refused(403, "Forbidden", "an older term")
    run(world, seconds=0.5)
    assert world.checks == [False, True]


def test_a_write_that_was_withheld_ends_the_term() -> None:
    world = World([Plan((work("a"),))])
    world.outcomes["a"] = Withheld()
    assert isinstance(run(world), Superseded)


def test_who_is_asked_to_end_ends_what_is_under_way_and_begins_no_pass() -> None:
    world = World([Plan((work("a"),))], Plan((work("b"),)), seconds=5.0)
    ended: list[float] = []

    async def end(loop: Loop) -> None:
        await loop.end()
        ended.append(asyncio.get_running_loop().time())

    tasks: list[asyncio.Task[None]] = []
    run(
        world,
        (2.0, lambda loop: tasks.append(asyncio.get_running_loop().create_task(end(loop)))),
        seconds=30,
    )
    assert [key for _, key in world.performed] == ["a"]
    assert ended == [5.0]


def test_figures_count_passes_and_how_works_ended() -> None:
    world = World([Plan((work("a"), work("b")))], seconds=0.3)
    world.outcomes["a"] = Refused(403, "Forbidden", "no")
    run(world, seconds=0.5)
    assert world.figures.passes == 1
    assert world.figures.works == {"Refused": 1, "Done": 1}
    assert world.figures.seconds == pytest.approx(0.3)
    assert world.figures.held == 1
