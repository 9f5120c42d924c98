"""When passes run (rule 7.2), in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import looptime
import pytest

from binder.actions import DeleteClaim, Plan, Ref, Work
from binder.apply import Result
from binder.loop import Figures, Loop, Superseded
from shared.kube.writer import Outcome, Refused, Stale, Withheld

ACTION = DeleteClaim(Ref("a", "b"))


def work(key: str) -> Work:
    return Work(key, ((ACTION,),))


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
    running: int = 0
    figures: Figures = field(default_factory=Figures)

    def decide(self, held: frozenset[str]) -> Plan:
        self.passes.append(asyncio.get_running_loop().time())
        self.held.append(held)
        return self.plans.pop(0) if self.plans else self.usual

    async def perform(self, works: Iterable[Work]) -> list[Result]:
        assert self.running == 0, "two passes at once"
        self.running += 1
        await asyncio.sleep(self.seconds)
        self.running -= 1
        now = asyncio.get_running_loop().time()
        keys = [each.key for each in works]
        self.performed.extend((now, key) for key in keys)
        return [
            Result(key, ACTION, self.outcomes[key]) if key in self.outcomes else Result(key)
            for key in keys
        ]

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


def test_what_happens_during_a_pass_is_looked_at_in_the_next_and_passes_never_overlap() -> None:
    world = World(seconds=5.0)
    run(world, *((2.0 + number, wake) for number in range(3)))
    assert world.passes == pytest.approx([0.0, 5.05])


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


def test_who_is_asked_to_end_ends_the_pass_that_is_under_way_and_begins_no_other() -> None:
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


def test_figures_count_passes_and_how_works_ended() -> None:
    world = World([Plan((work("a"), work("b")))], seconds=2.0)
    world.outcomes["a"] = Refused(403, "Forbidden", "no")
    run(world, seconds=2.5)
    assert world.figures.passes == 1
    assert world.figures.works == {"Refused": 1, "Done": 1}
    assert world.figures.seconds == pytest.approx(2.0)
    assert world.figures.held == 1
