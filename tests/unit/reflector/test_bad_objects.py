"""Objects that cannot be read."""

from __future__ import annotations

import pytest

from shared.errors import (
    Expired,
)
from tests.unit.reflector.following import CLAIMS, claim, follow
from tests.unit.scripted_api import (
    Listed,
    Raw,
    Watched,
    event,
)


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
