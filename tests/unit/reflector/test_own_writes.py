"""What we wrote ourselves, and reading anew."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import looptime
import pytest

from shared.errors import (
    Expired,
    Forbidden,
    NotFound,
    Unavailable,
)
from shared.kube.connect import Stalled
from shared.kube.reflector import Reflector
from tests.unit.reflector.following import PACE, PODS, Followed, Seen, pod
from tests.unit.scripted_api import (
    Answer,
    Listed,
    Raw,
    ScriptedApi,
    Watched,
    event,
)


def after(
    script: Sequence[Answer],
    *acts: tuple[float, Callable[[Reflector[Any]], Awaitable[None] | None]],
) -> tuple[Followed, list[float]]:
    """Follow a script, and act on the reflector at these times; returns when each act ended."""
    ended: list[float] = []
    got: list[Followed] = []

    async def main() -> None:
        api, seen = ScriptedApi(list(script)), Seen()
        clock = asyncio.get_running_loop().time
        reflector = Reflector(PODS, api, seen, clock=clock, chance=random.Random(7), pace=PACE)

        async def act(at: float, what: Callable[[Reflector[Any]], Awaitable[None] | None]) -> None:
            await asyncio.sleep(at)
            result = what(reflector)
            if result is not None:
                await result
            ended.append(clock())

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
                tasks.create_task(reflector.run())
                for at, what in acts:
                    tasks.create_task(act(at, what))
        got.append(Followed(api, seen, reflector, clock()))

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(main())
    return got[0], ended


def wrote(*raws: Raw) -> Callable[[Reflector[Any]], None]:
    def act(reflector: Reflector[Any]) -> None:
        for raw in raws:
            reflector.wrote(raw)

    return act


def test_what_we_wrote_is_known_at_once_and_the_watch_cannot_lead_back_behind_it() -> None:
    """Rule 7.2."""
    got, _ = after(
        [
            Listed("100", (pod("a", 90),)),
            Watched((), end=Stalled("quiet")),
            Listed("100"),  # proof that the server is still in the future of our version
            Watched(
                (
                    event("MODIFIED", pod("a", 101, node="old")),
                    event("DELETED", pod("a", 102)),
                    event("MODIFIED", pod("a", 105, node="ours")),
                    event("MODIFIED", pod("a", 106, node="theirs")),
                )
            ),
        ],
        (0, wrote(pod("a", 105, node="ours"))),
    )
    assert "gone a" not in got.seen.story
    assert [value.node_name for _, value in got.seen.steps] == ["", "ours", "theirs"]


def test_what_we_wrote_before_a_list_began_is_in_it() -> None:
    got, _ = after(
        [Listed("100", (pod("a", 90),)), Watched((), end=Expired("old")), Listed("200")],
        (0, wrote(pod("b", 150))),
    )
    assert got.seen.held == {}, "both were deleted before version 200"


def test_a_list_of_a_server_that_was_set_back_holds_against_what_we_wrote_before() -> None:
    """Restored from a backup of before: its versions are smaller than that of our write."""
    got, _ = after(
        [
            Listed("100", (pod("a", 90),)),
            Watched((), end=Expired("old")),
            Listed("120", (pod("a", 95, node="restored"), pod("c", 110))),
        ],
        (0, wrote(pod("a", 150, node="ours"), pod("b", 151))),
    )
    assert {name: value.node_name for name, value in got.seen.held.items()} == {
        "a": "restored",
        "c": "",
    }


def test_what_we_wrote_while_a_list_was_read_is_newer_than_the_list() -> None:
    got, _ = after(
        [Listed("100", (pod("a", 90), pod("c", 91)), seconds=10)],
        (5, wrote(pod("a", 105, node="ours"), pod("b", 106))),
    )
    assert got.seen.held["a"].node_name == "ours"
    assert set(got.seen.held) == {"a", "b", "c"}


def test_an_answer_that_the_watch_has_overtaken_changes_nothing() -> None:
    got, _ = after(
        [
            Listed("100", (pod("a", 90),)),
            Watched((event("MODIFIED", pod("a", 110, node="newest")),)),
        ],
        (1, wrote(pod("a", 105, node="ours"))),
    )
    assert got.seen.held["a"].node_name == "newest"


def test_versions_that_are_no_numbers_are_not_compared() -> None:
    got, _ = after(
        [Listed("100", (pod("a", 90),))],
        (
            1,
            wrote({**pod("a", 0, node="ours"), "metadata": {"name": "a", "namespace": "tenant-a"}}),
        ),
    )
    assert got.seen.held["a"].node_name == ""


def test_reading_anew_lists_at_once_and_ends_with_that_list() -> None:
    """Rule 7.1: a new leader reads everything afresh."""
    got, ended = after(
        [Listed("100", (pod("a", 90),)), Watched(), Listed("200", (pod("b", 150),), seconds=3)],
        (20, lambda reflector: reflector.reread()),
    )
    assert ended == [pytest.approx(23)]
    assert set(got.seen.held) == {"b"}
    assert got.api.order == ["list", "watch", "list", "watch"]


def test_a_list_that_began_before_does_not_count_as_reading_anew() -> None:
    got, ended = after(
        [Listed("100", seconds=10), Listed("200", (pod("a", 150),), seconds=10)],
        (5, lambda reflector: reflector.reread()),
    )
    assert ended == [pytest.approx(20)]
    assert got.api.order == ["list", "list", "watch"]


def test_reading_anew_goes_on_after_a_fault() -> None:
    _, ended = after(
        [Listed("100"), Watched(), Unavailable("down"), Listed("200")],
        (20, lambda reflector: reflector.reread()),
    )
    assert len(ended) == 1


def test_reading_anew_does_not_wait_until_a_kind_that_is_not_served_is_asked_for_again() -> None:
    _, ended = after(
        [NotFound("none"), NotFound("none")],
        (5, lambda reflector: reflector.reread()),
    )
    assert ended == [pytest.approx(5)]


def test_reading_anew_ends_where_it_stands_that_we_may_not_read() -> None:
    """Rule 3.6: else a binder that lacks one right would not say so, and do nothing else either."""
    got, ended = after(
        [Listed("100", (pod("a", 90),)), Watched(), *[Forbidden("no")] * 4, Listed("200")],
        (20, lambda reflector: reflector.reread()),
        (40, lambda reflector: reflector.reread()),
    )
    assert got.api.order[:2] == ["list", "watch"]
    assert 20 < ended[0] < 27, "after three refusals, see the one about roles"
    assert ended[1] == pytest.approx(40), "as soon as it is refused again"
    assert got.seen.held == {}, "what could be read later is told"


def test_many_may_ask_to_read_anew_and_one_list_serves_those_who_asked_before() -> None:
    got, ended = after(
        [Listed("100"), Watched(), Listed("200", seconds=2)],
        (20, lambda reflector: reflector.reread()),
        (20, lambda reflector: reflector.reread()),
    )
    assert ended == [pytest.approx(22), pytest.approx(22)]
    assert got.api.order == ["list", "watch", "list", "watch"]
