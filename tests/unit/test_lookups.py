"""Kept answers: for how long, how many, and one question for all who ask it at once."""

import asyncio

import pytest

from apiserver.lookups import Lookups
from shared.errors import Unavailable


class Now:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Oracle:
    """Answers with the number of the question; holds its answers back while `gate` is shut."""

    def __init__(self) -> None:
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await self.gate.wait()
        if self.fails:
            raise Unavailable("no answer")
        return number


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def lookups(now: Now) -> Lookups[str, int]:
    return Lookups(seconds=10, size=2, monotonic=now)


async def test_an_answer_is_kept_ten_seconds_and_not_longer(
    lookups: Lookups[str, int], now: Now
) -> None:
    oracle = Oracle()

    assert await lookups.get("a", oracle) == 1
    now.seconds = 9.9
    assert await lookups.get("a", oracle) == 1
    now.seconds = 10
    assert await lookups.get("a", oracle) == 2


async def test_errors_are_not_kept(lookups: Lookups[str, int]) -> None:
    oracle = Oracle()
    oracle.fails = True
    with pytest.raises(Unavailable):
        await lookups.get("a", oracle)

    oracle.fails = False
    assert await lookups.get("a", oracle) == 2


async def test_an_answer_that_must_not_be_kept_is_asked_for_each_time(
    lookups: Lookups[str, int],
) -> None:
    oracle = Oracle()

    assert await lookups.get("a", oracle, keep=False) == 1
    assert await lookups.get("a", oracle, keep=False) == 2


async def test_the_least_recently_used_answer_goes_first(lookups: Lookups[str, int]) -> None:
    oracle = Oracle()
    for key in ("a", "b", "a", "c"):
        await lookups.get(key, oracle)
    assert oracle.asked == 3

    await lookups.get("a", oracle)
    assert oracle.asked == 3
    await lookups.get("b", oracle)
    assert oracle.asked == 4


async def test_check_27_ten_who_ask_at_once_share_one_answer(lookups: Lookups[str, int]) -> None:
    oracle = Oracle()
    oracle.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(lookups.get("a", oracle)) for _ in range(10)]
        await asyncio.sleep(0)
        oracle.gate.set()

    assert {task.result() for task in asking} == {1}
    assert oracle.asked == 1


async def test_those_who_asked_together_share_an_error(lookups: Lookups[str, int]) -> None:
    oracle = Oracle()
    oracle.gate.clear()
    oracle.fails = True

    async def fails() -> bool:
        try:
            await lookups.get("a", oracle)
        except Unavailable:
            return True
        return False

    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(fails()) for _ in range(3)]
        await asyncio.sleep(0)
        oracle.gate.set()
    assert all(task.result() for task in asking)
    assert oracle.asked == 1


async def test_when_the_first_who_asked_goes_away_another_one_asks(
    lookups: Lookups[str, int],
) -> None:
    oracle = Oracle()
    oracle.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(lookups.get("a", oracle))
        await asyncio.sleep(0)
        second = tasks.create_task(lookups.get("a", oracle))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        oracle.gate.set()

    assert second.result() == 2
    assert first.cancelled()


async def test_one_who_waits_and_goes_away_takes_nobody_along(lookups: Lookups[str, int]) -> None:
    oracle = Oracle()
    oracle.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(lookups.get("a", oracle))
        second = tasks.create_task(lookups.get("a", oracle))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        oracle.gate.set()

    assert first.result() == 1
    assert second.cancelled()
