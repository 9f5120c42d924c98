"""What is listed, and what events change of it."""

from __future__ import annotations

import pytest

from shared.errors import (
    Expired,
)
from shared.kube.reflector import Standing
from tests.unit.reflector.following import follow, pod
from tests.unit.scripted_api import (
    Listed,
    Watched,
    bookmark,
    event,
)


def test_what_is_listed_is_put_and_watched_from_the_version_of_the_list() -> None:
    got = follow([Listed("100", (pod("a", 90), pod("b", 95)))])
    assert got.seen.story == ["put a", "put b"]
    assert got.api.order == ["list", "watch"]
    assert got.api.query(0) == {"limit": "200"}
    assert got.api.query(1) == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "100",
        "timeoutSeconds": "300",
    }


def test_pages_are_one_list_with_the_version_of_the_last() -> None:
    got = follow([Listed("100", (pod("a", 90),), more="next"), Listed("100", (pod("b", 95),))])
    assert got.seen.story == ["put a", "put b"]
    assert got.api.query(1) == {"limit": "200", "continue": "next"}
    assert got.api.query(2)["resourceVersion"] == "100"


def test_events_change_what_is_held() -> None:
    got = follow(
        [
            Listed("100", (pod("a", 90),)),
            Watched(
                (
                    event("ADDED", pod("b", 101)),
                    event("MODIFIED", pod("a", 102, node="gpu-1")),
                    event("DELETED", pod("b", 103)),
                )
            ),
        ]
    )
    assert got.seen.story == ["put a", "put b", "put a", "gone b"]
    assert got.seen.held["a"].node_name == "gpu-1"


def test_the_deleted_is_handed_on_in_the_state_that_it_ended_in() -> None:
    """Rule 7.10: why a refused pod ended is known from its DELETED event only."""
    got = follow(
        [
            Listed("100", (pod("a", 90, phase="Pending"),)),
            Watched((event("DELETED", pod("a", 101, phase="Failed")),)),
        ]
    )
    what, value = got.seen.steps[-1]
    assert (what, value.ended) == ("gone", True)


def test_a_change_of_what_is_not_read_is_no_change() -> None:
    touched = pod("a", 101)
    touched["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    got = follow([Listed("100", (pod("a", 90),)), Watched((event("MODIFIED", touched),))])
    assert got.seen.story == ["put a"]


def test_after_the_agreed_end_the_watch_goes_on_where_it_ended() -> None:
    got = follow(
        [
            Listed("100"),
            Watched((event("ADDED", pod("a", 105)),), end="agreed"),
            Watched((event("ADDED", pod("b", 106)),)),
        ],
        seconds=400,
    )
    assert got.api.order == ["list", "watch", "watch"]
    assert got.api.query(2)["resourceVersion"] == "105"
    assert got.seen.story == ["put a", "put b"]
    assert got.api.pauses()[-1] == pytest.approx(300)


def test_a_bookmark_moves_the_version_on_without_an_event() -> None:
    got = follow([Listed("100"), Watched((bookmark("170"),), end="agreed")], seconds=400)
    assert got.api.query(2)["resourceVersion"] == "170"
    assert got.seen.story == []


def test_an_object_made_anew_under_its_name_ends_the_old_one_first() -> None:
    got = follow(
        [
            Listed("100", (pod("a", 90, uid="first"),)),
            Watched(end=Expired("too old")),
            Listed("200", (pod("a", 150, uid="second"),)),
        ]
    )
    assert [(what, value.uid) for what, value in got.seen.steps] == [
        ("put", "first"),
        ("gone", "first"),
        ("put", "second"),
    ]


def test_replayed_unknown_and_doubled_events_lead_to_the_same_state() -> None:
    got = follow(
        [
            Listed("100", (pod("a", 90), pod("b", 91))),
            Watched(
                (
                    event("ADDED", pod("a", 90)),
                    event("ADDED", pod("b", 91)),
                    event("MODIFIED", pod("never-seen", 101)),
                    event("DELETED", pod("nor-this", 102)),
                    event("MODIFIED", pod("never-seen", 101)),
                    event("DELETED", pod("b", 103)),
                    event("DELETED", pod("b", 103)),
                )
            ),
        ]
    )
    assert got.seen.story == ["put a", "put b", "put never-seen", "gone b"]


def test_an_empty_list_whose_items_are_null_is_a_list() -> None:
    got = follow([b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":null}'])
    assert got.reflector.standing is Standing.SYNCED
    assert got.api.query(1)["resourceVersion"] == "5"
