"""How old what is known may be."""

from __future__ import annotations

import pytest

from shared.errors import (
    Unavailable,
)
from shared.kube.connect import Stalled
from shared.kube.reflector import Standing
from tests.unit.reflector.following import follow, pod
from tests.unit.scripted_api import (
    Answer,
    Listed,
    Raw,
    Watched,
    bookmark,
    event,
)


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
