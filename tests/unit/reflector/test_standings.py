"""Kinds that are not served, and what we may not read."""

from __future__ import annotations

import pytest

from shared.errors import (
    Forbidden,
    NotFound,
    Unavailable,
)
from shared.kube.reflector import Standing
from tests.unit.reflector.following import HOUR, follow, pod
from tests.unit.scripted_api import (
    Answer,
    Listed,
    Watched,
    event,
)


def test_a_kind_that_is_not_served_is_known_to_be_empty_and_asked_for_again() -> None:
    got = follow([NotFound("HTTP 404")] * 3 + [Listed("100", (pod("a", 90),))])
    assert got.seen.story == ["put a"]
    assert got.reflector.standing is Standing.SYNCED
    assert max(got.api.pauses()[:3]) <= 30


def test_while_a_kind_is_absent_the_collection_is_synced_and_fresh() -> None:
    got = follow([NotFound("HTTP 404")], seconds=10)
    assert got.reflector.standing is Standing.ABSENT
    assert got.reflector.is_synced
    assert got.age == pytest.approx(10)


def test_a_kind_that_is_withdrawn_takes_its_objects_along() -> None:
    got = follow(
        [Listed("100", (pod("a", 90), pod("b", 91))), Watched(end="early"), NotFound("HTTP 404")]
    )
    assert sorted(got.seen.story) == ["gone a", "gone b", "put a", "put b"]
    assert got.reflector.standing is Standing.ABSENT


def test_what_we_may_not_read_is_not_synced_and_keeps_what_was_known() -> None:
    standings: list[tuple[float, Standing]] = []
    got = follow(
        [
            Listed("100", (pod("a", 90),)),
            Watched(end=Forbidden("pods is forbidden")),
            *[Forbidden("pods is forbidden")] * 4,
        ],
        each_step=lambda reflector, now: standings.append((now, reflector.standing)),
    )
    assert [standing for _, standing in standings] == [Standing.SYNCED, Standing.UNREADABLE]
    assert got.seen.story == ["put a"]
    assert not got.reflector.is_synced


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_server_that_knows_no_roles_yet_is_asked_again_before_it_is_believed(
    refusals: int,
) -> None:
    """As a kube-apiserver that has just started, which refuses everybody."""
    standings: list[Standing] = []
    got = follow(
        [
            Listed("100", (pod("a", 90),)),
            Watched(end=Unavailable("reset")),
            *[Forbidden("pods is forbidden")] * refusals,
            Listed("105"),  # asked only for its version
            Watched((event("ADDED", pod("b", 106)),)),
        ],
        each_step=lambda reflector, _: standings.append(reflector.standing),
    )
    assert standings == [Standing.SYNCED]
    assert max(got.api.pauses()) < 7
    assert got.seen.story == ["put a", "put b"]


def test_who_is_let_in_again_lists_anew_and_is_synced_again() -> None:
    standings: list[Standing] = []
    got = follow(
        [
            Listed("100", (pod("a", 90),)),
            Watched(end=Unavailable("reset")),
            *[Forbidden("pods is forbidden")] * 3,
            Listed("105", (pod("b", 101),)),
        ],
        each_step=lambda reflector, _: standings.append(reflector.standing),
    )
    assert standings == [Standing.SYNCED, Standing.UNREADABLE, Standing.SYNCED]
    assert got.seen.story == ["put a", "put b", "gone a"]


NO_WATCH = Forbidden('pods is forbidden: User "us" cannot watch resource "pods"')


def test_who_may_list_and_not_watch_stands_as_unreadable_until_it_may_watch() -> None:
    """And does not go back and forth with each list that succeeds."""
    standings: list[tuple[float, Standing]] = []
    refused: list[Answer] = [NO_WATCH, Listed("100")] * 20
    got = follow(
        [
            Listed("100", (pod("a", 90),)),
            *refused,
            Watched((event("ADDED", pod("b", 106)),)),
        ],
        seconds=HOUR,
        each_step=lambda reflector, now: standings.append((now, reflector.standing)),
    )
    assert [standing for _, standing in standings] == [
        Standing.SYNCED,
        Standing.UNREADABLE,
        Standing.SYNCED,
    ]
    assert standings[1][0] < 15
    assert got.seen.story == ["put a", "put b"]
    assert min(got.api.pauses()[5:40:2]) == pytest.approx(15)
    assert {got.api.query(at).get("limit") for at in range(2, 40, 2)} == {"1"}


def test_a_watch_that_was_refused_before_its_kind_was_withdrawn_is_no_matter_afterwards() -> None:
    standings: list[Standing] = []
    got = follow(
        [
            Listed("100", (pod("a", 90),)),
            NO_WATCH,
            Listed("100"),
            NotFound("HTTP 404"),
            Listed("200", (pod("b", 150),)),
        ],
        seconds=30,
        each_step=lambda reflector, _: standings.append(reflector.standing),
    )
    assert standings == [Standing.SYNCED, Standing.ABSENT, Standing.SYNCED]
    assert got.seen.story == ["put a", "gone a", "put b"]


def test_while_only_the_watch_is_refused_the_report_says_so() -> None:
    refused: list[Answer] = [NO_WATCH, Listed("100")] * 5
    got = follow([Listed("100"), *refused], seconds=40)
    assert got.reflector.standing is Standing.UNREADABLE
    assert "cannot watch" in got.reflector.report(got.now).trouble


def test_a_watch_that_is_let_in_and_has_nothing_to_tell_ends_the_refusal_too() -> None:
    refused: list[Answer] = [NO_WATCH, Listed("100")] * 5
    got = follow([Listed("100"), *refused, Watched(end="agreed")], seconds=400)
    assert got.reflector.standing is Standing.SYNCED


def test_a_right_to_list_that_goes_as_well_is_told_and_its_return_shows_by_a_list() -> None:
    standings: list[Standing] = []
    refused: list[Answer] = [NO_WATCH, Listed("100")] * 4
    got = follow(
        [
            Listed("100"),
            *refused,
            *[Forbidden("pods is forbidden: cannot list")] * 3,
            Listed("200", (pod("a", 190),)),
        ],
        each_step=lambda reflector, _: standings.append(reflector.standing),
    )
    assert standings == [Standing.SYNCED, Standing.UNREADABLE, Standing.SYNCED]
    assert got.seen.story == ["put a"]


def test_once_it_may_be_read_again_it_is_synced_again() -> None:
    got = follow([Forbidden("pods is forbidden"), Listed("100", (pod("a", 90),))])
    assert got.reflector.standing is Standing.SYNCED
    assert got.seen.story == ["put a"]
