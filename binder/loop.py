"""When to decide: one pass after another, never two at once, and none where nothing happened.

A pass begins its works and waits for them only for a moment: one that is slow goes on by itself,
and the passes after it leave to it what it is about.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog

from binder.actions import Plan, Result, Work
from binder.apply import is_stale
from binder.backoff import Failure, Holds
from binder.underway import UnderWay
from shared.kube.outcomes import Refused, Withheld

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

REST_SECONDS_MIN: Final = 0.05
"""How long events are collected before a pass."""

PATIENCE_SECONDS: Final = 0.5
"""How long a pass waits for the works that it began. Most are done in less, and the next pass
then decides with what came of them instead of with what may."""

REST_PER_PASS: Final = 4.0
"""How many times as long as it took to decide we rest: deciding takes a fifth of a processor."""


class Superseded(Exception):
    """Another term has begun: this one is over."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A work that is not over, and since when; monotonic seconds."""

    work: Work
    at: float


@dataclass(slots=True)
class Figures:
    """What passes came to, for metrics; `under_way` are the works that are not over, by key."""

    passes: int = 0
    seconds: float = 0.0
    deciding_seconds: float = 0.0
    last_at: float = float("-inf")
    held: int = 0
    under_way: Mapping[str, Begun] = field(default_factory=dict)
    works: Counter[str] = field(default_factory=Counter)


class Loop:
    """Runs passes in one term of office.

    Args:
        decide: from the works that are held back, and those that are under way, to a plan; reads
            the state as it is, and does not wait for anything.
        perform: carries a work out; returns when nothing of it is under way any more, nor
            unknown.
        check: asked before each pass and after each write that was refused; raises `Superseded`.
        clock: monotonic seconds.
        chance: for pauses.
    """

    def __init__(
        self,
        decide: Callable[[frozenset[str], UnderWay], Plan],
        perform: Callable[[Work], Awaitable[Result]],
        check: Callable[[bool], Awaitable[None]],
        *,
        figures: Figures,
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self._decide = decide
        self._perform = perform
        self._check = check
        self._figures = figures
        self._clock = clock
        self._chance = chance
        self._woken = asyncio.Event()
        self._woken.set()
        self._holds = Holds()
        self._under_way: dict[str, Begun] = {}
        self._results: list[Result] = []
        """Of works that ended and were not judged yet."""
        self._decided_at = float("-inf")
        self._due_at = float("inf")
        self._ending = False
        self._ended = asyncio.Event()

    def wake(self) -> None:
        """Something changed. Any number of calls before a pass are one."""
        self._woken.set()

    async def end(self) -> None:
        """Begin no other pass, and return once all that is under way has ended."""
        self._ending = True
        self.wake()
        await self._ended.wait()

    async def run(self) -> None:
        """Run passes until cancelled, or told to end.

        Raises:
            Superseded: another term has begun.
        """
        why = ""
        self._figures.under_way = self._under_way
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._passes(tasks)
        except* Superseded as over:
            why = str(over.exceptions[0])
        finally:
            self._under_way.clear()
            self._ended.set()
        if why:
            raise Superseded(why)

    async def _passes(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._wait()
            if self._ending:
                return
            await self._judge()
            await self._check(False)
            decided = await self._pass(tasks)
            await self._judge()
            await asyncio.sleep(max(REST_SECONDS_MIN, decided * REST_PER_PASS))

    async def _wait(self) -> None:
        """Until something changed, a moment came that a plan named, or a rest is over."""
        until = min(self._due_at, self._holds.next(self._under_way)) - self._clock()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until) if until < float("inf") else None):
                await self._woken.wait()
        self._woken.clear()

    async def _pass(self, tasks: asyncio.TaskGroup) -> float:
        """Decide and begin to carry out; returns how many seconds deciding took."""
        began = self._decided_at = self._clock()
        held = self._holds.held(began)
        under_way = UnderWay(tuple(begun.work for begun in self._under_way.values()))
        plan = self._decide(held, under_way)
        decided = self._clock() - began
        self._due_at = began + plan.wake_in if plan.wake_in is not None else float("inf")
        works = [work for work in plan.works if work.key not in held and not under_way.covers(work)]
        running = [self._begin(work, tasks) for work in works]
        if running:
            _, slow = await asyncio.wait(running, timeout=PATIENCE_SECONDS)
            for task in slow:
                task.add_done_callback(lambda _: self.wake())
        now = self._clock()
        figures = self._figures
        figures.passes += 1
        figures.deciding_seconds += decided
        figures.seconds += now - began
        figures.last_at = now
        if running:
            log.info(
                "pass",
                works=len(running),
                under_way=len(self._under_way),
                deciding_seconds=round(decided, 4),
                seconds=round(now - began, 4),
            )
        return decided

    def _begin(self, work: Work, tasks: asyncio.TaskGroup) -> asyncio.Task[None]:
        self._under_way[work.key] = Begun(work, self._clock())
        return tasks.create_task(self._carry_out(work), name=work.key)

    async def _carry_out(self, work: Work) -> None:
        result = await self._perform(work)
        self._results.append(result)
        del self._under_way[work.key]

    async def _judge(self) -> None:
        """Draw conclusions from what ended since, be it of this pass or of an earlier one."""
        results, self._results = self._results, []
        now = self._clock()
        failed = [Failure(each.key, is_stale(each)) for each in results if not each.done]
        self._holds = self._holds.after(
            self._decided_at, failed, now, self._chance.random(), self._under_way
        )
        self._figures.held = len(self._holds.holds)
        self._figures.works.update(_ended(each) for each in results)
        if any(isinstance(each.outcome, Withheld) for each in results):
            raise Superseded("the lease could not be kept")
        if any(isinstance(each.outcome, Refused) for each in results):
            await self._check(True)


def _ended(result: Result) -> str:
    return "Done" if result.done else type(result.outcome).__name__
