"""After a gap: what is asked again, from where, and how soon."""

from __future__ import annotations

import pytest

from shared.errors import (
    Expired,
    InternalError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from shared.kube.reflector import Standing
from tests.unit.reflector.following import HOUR, follow, pod
from tests.unit.scripted_api import (
    Answer,
    Listed,
    Watched,
    bookmark,
    error,
    event,
)


@pytest.mark.parametrize(
    "broken",
    [
        Unavailable("WATCH: the stream ended inside an event"),
        Unavailable("connection reset"),
        InternalError("etcdserver: leader changed"),
        "early",
    ],
    ids=["inside a line", "reset", "refused by the server", "ended before its time"],
)
def test_after_a_broken_watch_nothing_is_listed_again(broken: Unavailable | str) -> None:
    got = follow(
        [
            Listed("100"),
            Watched((event("ADDED", pod("a", 105)),), end=broken),
            Listed("110"),  # asks for one object to compare versions
            Watched((event("ADDED", pod("b", 111)),)),
        ]
    )
    assert got.api.order == ["list", "watch", "list", "watch"]
    assert got.api.query(2) == {"limit": "1"}
    assert got.api.query(3)["resourceVersion"] == "105"
    assert got.seen.story == ["put a", "put b"]


def test_a_server_that_was_restored_from_a_backup_is_listed_anew() -> None:
    """A watch from a version in its future would say nothing for hours (seen on 1.36)."""
    got = follow(
        [
            Listed("500", (pod("a", 490), pod("b", 495))),
            Watched(end=Unavailable("gone")),
            Listed("300"),
            Listed("300", (pod("a", 290, node="gpu-1"),)),
        ]
    )
    assert got.api.order == ["list", "watch", "list", "list", "watch"]
    assert got.api.query(4)["resourceVersion"] == "300"
    assert got.seen.story == ["put a", "put b", "put a", "gone b"]


def test_after_a_long_gap_versions_prove_nothing_and_all_is_listed_anew() -> None:
    refusals: list[Answer] = [Unavailable("connection refused")] * 40
    got = follow(
        [
            Listed("500", (pod("a", 490),)),
            Watched(end=Unavailable("gone")),
            *refusals,
            Listed("900"),
            Listed("900", (pod("b", 890),)),
        ],
        seconds=HOUR,
    )
    assert got.api.order[42:45] == ["list", "list", "watch"]
    assert got.seen.story == ["put a", "put b", "gone a"]


def test_an_expired_version_is_listed_anew_at_once_and_the_difference_handed_on() -> None:
    got = follow(
        [
            Listed("100", (pod("a", 90), pod("b", 91), pod("c", 92))),
            Watched((error(410, "Expired", "too old resource version: 100 (400)"),)),
            Listed("500", (pod("a", 90), pod("b", 450, node="gpu-1"), pod("d", 460))),
        ]
    )
    assert got.api.order == ["list", "watch", "list", "watch"]
    assert got.api.pauses()[1] == pytest.approx(0)
    assert got.seen.story == ["put a", "put b", "put c", "put b", "put d", "gone c"]
    assert got.seen.steps[-1][1].uid == "uid-c"
    assert got.api.query(3)["resourceVersion"] == "500"


def test_expiry_as_an_answer_is_the_same_as_expiry_as_an_event() -> None:
    got = follow([Listed("100"), Expired("too old"), Listed("500")])
    assert got.api.order == ["list", "watch", "list", "watch"]


def test_a_server_that_expires_what_it_has_just_listed_is_asked_ever_less_often() -> None:
    script: list[Answer] = []
    for version in range(100, 130):
        script += [Listed(str(version)), Expired("too old")]
    got = follow(script, seconds=60)
    assert got.api.order.count("list") < 12


def test_a_list_that_expires_between_pages_is_asked_for_in_one_piece() -> None:
    got = follow(
        [
            Listed("100", (pod("a", 90),), more="next"),
            Expired("the provided continue parameter is too old"),
            Listed("200", (pod("a", 90), pod("b", 150))),
            Watched(end=Expired("too old")),
            Listed("300", (pod("b", 150),)),
        ]
    )
    assert "limit" not in got.api.query(2)
    assert got.api.query(4)["limit"] == "200"
    assert got.seen.story == ["put a", "put b", "gone a"]


def test_a_version_that_expired_while_the_server_was_away_is_listed_anew_at_once() -> None:
    away: list[Answer] = [Unavailable("connection refused")] * 6
    got = follow(
        [
            Listed("100", (pod("a", 90),)),
            Watched(end=Unavailable("reset")),
            *away,
            Listed("400"),  # asked only for its version
            Expired("too old resource version: 100 (390)"),
            Listed("401", (pod("a", 90),)),
        ]
    )
    assert got.api.order[-4:] == ["list", "watch", "list", "watch"]
    assert got.api.pauses()[-2] == pytest.approx(0)


def test_failures_in_a_row_are_retried_ever_less_often_up_to_half_a_minute() -> None:
    refused: list[Answer] = [Unavailable("connection refused")] * 40
    got = follow(refused, seconds=600)
    pauses = got.api.pauses()
    assert all(0.8 <= pause <= 30 for pause in pauses)
    assert pauses[0] <= 1.6
    assert max(pauses) > 10
    assert got.reflector.standing is Standing.STARTING
    assert got.age == float("inf")


def test_a_success_makes_the_next_failure_the_first_again() -> None:
    refused: list[Answer] = [Unavailable("connection refused")] * 8
    got = follow(
        [*refused, Listed("100"), Watched((bookmark("101"),), end=Unavailable("reset")), *refused],
        seconds=HOUR,
    )
    assert got.api.pauses()[9] <= 1.6


def test_a_server_that_says_when_to_come_back_is_heeded() -> None:
    got = follow([TooManyRequests("later", retry_after=20), Listed("100")])
    assert got.api.pauses()[0] >= 20


def test_a_watch_that_ends_at_once_every_time_is_no_busy_loop() -> None:
    script: list[Answer] = [Listed("100")]
    for _ in range(100):
        script += [Watched(end="early"), Listed("100")]
    got = follow(script, seconds=60)
    assert got.api.order.count("watch") < 15


def test_refused_credentials_are_retried_with_back_off() -> None:
    got = follow([Unauthorized()] * 30, seconds=60)
    assert 3 <= len(got.api.asked) < 20
    assert "Unauthorized" in got.reflector.report(got.now).trouble


@pytest.mark.parametrize(
    "line",
    [b"{", b'"text"', b"[]", b'{"type":"STRANGE","object":{}}', b"\xff\xfe", b"null"],
)
def test_a_line_that_is_no_event_ends_the_watch_and_loses_nothing(line: bytes) -> None:
    got = follow(
        [
            Listed("100"),
            Watched((event("ADDED", pod("a", 105)), line)),
            Listed("105"),
            Watched((event("ADDED", pod("b", 106)),)),
        ]
    )
    assert got.seen.story == ["put a", "put b"]
    assert got.api.query(3)["resourceVersion"] == "105"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b'{"kind":"Status"}'])
def test_an_answer_that_is_no_list_empties_nothing(body: bytes) -> None:
    got = follow(
        [Listed("100", (pod("a", 90),)), Watched(end=Expired("too old")), body, Listed("200")],
        seconds=0.5,
    )
    assert got.api.order == ["list", "watch", "list"]
    assert got.seen.story == ["put a"]


def test_a_watch_that_outlasts_its_time_is_given_up() -> None:
    """Trouble 10, another way: a server that ignores timeoutSeconds."""
    got = follow([Listed("100"), Watched(end="never"), Listed("100")], seconds=400)
    assert got.api.pauses()[1] == pytest.approx(330, abs=2)
