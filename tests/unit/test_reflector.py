"""One collection followed through everything that a watch can do (virtual time, no network)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import looptime
import pytest

from shared.core.model import Claim, Pod
from shared.errors import (
    Expired,
    Forbidden,
    InternalError,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from shared.kube import decode
from shared.kube.collections import Collection
from shared.kube.connect import Stalled
from shared.kube.pace import Pace
from shared.kube.reflector import Reflector, Standing
from tests.unit.scripted_api import (
    Answer,
    Listed,
    Raw,
    ScriptedApi,
    Watched,
    bookmark,
    error,
    event,
)

PODS = Collection("pods", "/api/v1/pods", decode.pod)
PACE = Pace(watch=(300, 300))
HOUR = 3600.0


def pod(name: str, version: int, *, node: str = "", uid: str = "", phase: str = "Running") -> Raw:
    return {
        "metadata": {
            "namespace": "tenant-a",
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    }


@dataclass
class Seen:
    """A sink that remembers; what it holds is what a state would hold."""

    steps: list[tuple[str, Any]] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)

    def put(self, value: Pod | Claim) -> None:
        assert self.held.get(value.name) != value, "put twice without a change"
        self.steps.append(("put", value))
        self.held[value.name] = value

    def gone(self, value: Pod | Claim) -> None:
        assert value.name in self.held, "gone, but was never there"
        self.steps.append(("gone", value))
        del self.held[value.name]

    @property
    def story(self) -> list[str]:
        return [f"{what} {value.name}" for what, value in self.steps]


@dataclass
class Followed:
    """What came of following a script for some virtual time."""

    api: ScriptedApi
    seen: Seen
    reflector: Reflector[Any]
    now: float

    @property
    def age(self) -> float:
        return self.reflector.age(self.now)


def follow(
    script: Sequence[Answer],
    *,
    seconds: float = 200.0,
    collection: Collection[Any] = PODS,
    pace: Pace = PACE,
    each_step: Callable[[Reflector[Any], float], None] | None = None,
) -> Followed:
    """Run a reflector against a script for `seconds` of virtual time."""
    api, seen = ScriptedApi(list(script)), Seen()

    async def main() -> Followed:
        clock = asyncio.get_running_loop().time
        reflector = Reflector(
            collection,
            api,
            seen,
            clock=clock,
            chance=random.Random(7),
            pace=pace,
            on_standing=lambda: each_step and each_step(reflector, clock()),
        )
        try:
            async with asyncio.timeout(seconds):
                await reflector.run()
        except TimeoutError:
            pass
        return Followed(api, seen, reflector, clock())

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(main())


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


def test_once_it_may_be_read_again_it_is_synced_again() -> None:
    got = follow([Forbidden("pods is forbidden"), Listed("100", (pod("a", 90),))])
    assert got.reflector.standing is Standing.SYNCED
    assert got.seen.story == ["put a"]


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


def test_an_empty_list_whose_items_are_null_is_a_list() -> None:
    got = follow([b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":null}'])
    assert got.reflector.standing is Standing.SYNCED
    assert got.api.query(1)["resourceVersion"] == "5"


class TestAge:
    """Seconds since the values were last proven to be those of the API server."""

    def test_before_the_first_list_it_is_infinite(self) -> None:
        assert follow([], seconds=5).age == float("inf")

    def test_a_list_proves_the_time_at_which_it_was_asked_for(self) -> None:
        assert follow([Listed("100", seconds=20)], seconds=50).age == pytest.approx(50)

    def test_silence_proves_nothing(self) -> None:
        assert follow([Listed("100"), Watched()], seconds=50).age == pytest.approx(50)

    def test_a_watch_that_ended_when_its_time_was_up_proves_that_nothing_happened(self) -> None:
        got = follow([Listed("100"), Watched(end="agreed")], seconds=310)
        assert got.age == pytest.approx(10)

    def test_a_watch_that_ended_early_proves_nothing(self) -> None:
        got = follow([Listed("100"), Watched(end="early"), Listed("100"), Watched()], seconds=50)
        assert got.age == pytest.approx(50)

    def test_a_watch_that_stalled_proves_nothing_and_is_opened_anew_at_once(self) -> None:
        got = follow(
            [Listed("100"), Watched(end=Stalled("nothing")), Listed("100"), Watched()], seconds=50
        )
        assert got.api.order == ["list", "watch", "list", "watch"]
        assert got.api.pauses() == pytest.approx([0, 0, 0])
        assert got.age == pytest.approx(50)

    @pytest.mark.parametrize("line", [bookmark("101"), event("ADDED", pod("a", 101))])
    def test_a_bookmark_or_an_event_proves_the_moment(self, line: Raw) -> None:
        got = follow(
            [
                Listed("100"),
                Watched(end="agreed"),
                Watched((line,), end=Unavailable("reset")),
                Unavailable("refused"),
            ],
            seconds=300.5,
        )
        assert got.age == pytest.approx(0.5)

    def test_a_gap_shows(self) -> None:
        refused: list[Answer] = [Unavailable("refused")] * 99
        got = follow([Listed("100"), Watched(end=Unavailable("reset")), *refused], seconds=200)
        assert got.age == pytest.approx(200)
        assert got.reflector.standing is Standing.SYNCED
        assert "refused" in got.reflector.report(got.now).trouble


def test_a_watch_that_outlasts_its_time_is_given_up() -> None:
    """FR-090's variant: a server that ignores timeoutSeconds."""
    got = follow([Listed("100"), Watched(end="never"), Listed("100")], seconds=400)
    assert got.api.pauses()[1] == pytest.approx(330, abs=2)


CLAIMS = Collection("gpuclaims", "/apis/gpu.cozystack.io/v1alpha1/gpuclaims", decode.claim)


def claim(name: str, version: int, count: object = 1, uid: str = "u") -> Raw:
    return {
        "metadata": {
            "namespace": "tenant-a",
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
        },
        "spec": {"className": "a100", "count": count},
    }


class TestAnObjectThatCannotBeRead:
    """One bad object is nobody else's trouble, and never silently replaces a good one."""

    def test_is_skipped_and_named_while_the_others_go_on(self) -> None:
        got = follow(
            [Listed("100", (claim("bad", 90, "many"), claim("good", 91)))], collection=CLAIMS
        )
        assert got.seen.story == ["put good"]
        problems = got.reflector.report(got.now).problems
        assert problems == {
            ("tenant-a", "bad"): "spec.count: 'many', expected a whole number from 1 to 1024"
        }

    def test_keeps_its_last_good_state(self) -> None:
        got = follow(
            [
                Listed("100", (claim("c", 90, 4),)),
                Watched((event("MODIFIED", claim("c", 101, "many")),), end=Expired("too old")),
                Listed("200", (claim("c", 101, "many"),)),
            ],
            collection=CLAIMS,
        )
        assert got.seen.story == ["put c"]
        assert got.seen.held["c"].count == 4
        assert len(got.reflector.report(got.now).problems) == 1

    def test_is_gone_when_it_is_deleted(self) -> None:
        got = follow(
            [
                Listed("100", (claim("c", 90, 4),)),
                Watched(
                    (
                        event("MODIFIED", claim("c", 101, "many")),
                        event("DELETED", claim("c", 102, "many")),
                    )
                ),
            ],
            collection=CLAIMS,
        )
        assert got.seen.story == ["put c", "gone c"]
        assert got.reflector.report(got.now).problems == {}

    def test_does_not_inherit_the_state_of_another_of_its_name(self) -> None:
        got = follow(
            [
                Listed("100", (claim("c", 90, 4, uid="first"),)),
                Watched((event("MODIFIED", claim("c", 101, "many", uid="second")),)),
            ],
            collection=CLAIMS,
        )
        assert got.seen.story == ["put c", "gone c"]

    def test_is_no_trouble_any_more_once_it_can_be_read(self) -> None:
        got = follow(
            [
                Listed("100", (claim("c", 90, "many"),)),
                Watched((event("MODIFIED", claim("c", 101, 2)),)),
            ],
            collection=CLAIMS,
        )
        assert got.seen.story == ["put c"]
        assert got.reflector.report(got.now).problems == {}

    @pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"metadata": {"name": 7}}])
    def test_even_one_without_a_name(self, raw: Raw) -> None:
        got = follow([Listed("100", (raw, claim("good", 91)))], collection=CLAIMS)
        assert got.seen.story == ["put good"]


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


def test_many_may_ask_to_read_anew_and_one_list_serves_those_who_asked_before() -> None:
    got, ended = after(
        [Listed("100"), Watched(), Listed("200", seconds=2)],
        (20, lambda reflector: reflector.reread()),
        (20, lambda reflector: reflector.reread()),
    )
    assert ended == [pytest.approx(22), pytest.approx(22)]
    assert got.api.order == ["list", "watch", "list", "watch"]
