"""When to decide: one pass after another, never two at once, and none where nothing happened."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog

from binder.actions import Plan, Work
from binder.apply import Result, is_stale
from binder.backoff import Failure, Holds
from shared.kube.writer import Refused, Withheld

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

REST_SECONDS_MIN: Final = 0.05
"""How long events are collected before a pass."""

REST_PER_PASS: Final = 4.0
"""How many times as long as it took to decide we rest: deciding takes a fifth of a processor."""


class Superseded(Exception):
    """Another term has begun: this one is over."""


@dataclass(slots=True)
class Figures:
    """What passes came to, for metrics."""

    passes: int = 0
    seconds: float = 0.0
    deciding_seconds: float = 0.0
    last_at: float = float("-inf")
    held: int = 0
    works: Counter[str] = field(default_factory=Counter)


class Loop:
    """Runs passes in one term of office.

    Args:
        decide: from the works that are held back to a plan; reads the state as it is, and does
            not wait for anything.
        perform: carries works out; returns when nothing of them is under way any more.
        check: asked before each pass and after each write that was refused; raises `Superseded`.
        clock: monotonic seconds.
        chance: for pauses.
    """

    def __init__(
        self,
        decide: Callable[[frozenset[str]], Plan],
        perform: Callable[[Iterable[Work]], Awaitable[list[Result]]],
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
        self._due_at = float("inf")
        self._ending = False
        self._ended = asyncio.Event()

    def wake(self) -> None:
        """Something changed. Any number of calls before a pass are one."""
        self._woken.set()

    async def end(self) -> None:
        """Begin no other pass, and return once the one that is under way has ended."""
        self._ending = True
        self.wake()
        await self._ended.wait()

    async def run(self) -> None:
        """Run passes until cancelled, or told to end.

        Raises:
            Superseded: another term has begun.
        """
        try:
            while True:
                await self._wait()
                if self._ending:
                    return
                await self._check(False)
                decided = await self._pass()
                await asyncio.sleep(max(REST_SECONDS_MIN, decided * REST_PER_PASS))
        finally:
            self._ended.set()

    async def _wait(self) -> None:
        """Until something changed, a moment came that a plan named, or a rest is over."""
        until = min(self._due_at, self._holds.next()) - self._clock()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until) if until < float("inf") else None):
                await self._woken.wait()
        self._woken.clear()

    async def _pass(self) -> float:
        """Decide and carry out; returns how many seconds deciding took."""
        began = self._clock()
        held = self._holds.held(began)
        plan = self._decide(held)
        decided = self._clock() - began
        self._due_at = began + plan.wake_in if plan.wake_in is not None else float("inf")
        results = await self._perform([work for work in plan.works if work.key not in held])
        now = self._clock()
        failed = [Failure(each.key, is_stale(each)) for each in results if not each.done]
        self._holds = self._holds.after(began, failed, now, self._chance.random())
        figures = self._figures
        figures.passes += 1
        figures.deciding_seconds += decided
        figures.seconds += now - began
        figures.last_at = now
        figures.held = len(self._holds.holds)
        figures.works.update(_ended(each) for each in results)
        if results:
            log.info(
                "pass",
                works=len(results),
                failed=len(failed),
                deciding_seconds=round(decided, 4),
                seconds=round(now - began, 4),
            )
        if any(isinstance(each.outcome, Withheld) for each in results):
            raise Superseded("the lease could not be kept")
        if any(isinstance(each.outcome, Refused) for each in results):
            await self._check(True)
        return decided


def _ended(result: Result) -> str:
    return "Done" if result.done else type(result.outcome).__name__
