"""What our API server starts with, as far as one setting depends on another."""

from __future__ import annotations

import re

import pytest

from apiserver.__main__ import STALE_SECONDS, ApiServerSettings
from shared.settings import BadSettings, read
from tests.cluster.build import REPOSITORY

FILES = ("--tls-cert-file=/x.crt", "--tls-private-key-file=/x.key")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ApiServerSettings.model_fields:
        monkeypatch.delenv(f"GPU_{name.upper()}", raising=False)


def given(*flags: str) -> tuple[int, float]:
    """What is in force: seconds of the shortest watch, and the age beyond which is no promise."""
    got = read(ApiServerSettings, [*FILES, *flags])
    return got.watch_seconds, got.view_seconds


def refused(*flags: str) -> str:
    with pytest.raises(BadSettings) as caught:
        given(*flags)
    return str(caught.value)


def test_watches_are_short_and_orders_need_a_young_view_unless_told_otherwise() -> None:
    assert given() == (6, 10)


def test_both_can_be_set_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_WATCH_SECONDS", "30")
    monkeypatch.setenv("GPU_VIEW_SECONDS", "42")
    assert given() == (30, 42)


@pytest.mark.parametrize(
    ("flags", "at_least"),
    [
        (("--watch-seconds=7", "--view-seconds=10"), 11),
        (("--watch-seconds=6", "--view-seconds=9.5"), 10),
        (("--watch-seconds=43", "--view-seconds=58"), 59),
        (("--watch-seconds=30",), 42),
        (("--view-seconds=5",), 10),
    ],
)
def test_watches_that_prove_too_late_what_orders_need_are_refused_with_what_would_do(
    flags: tuple[str, ...], at_least: int
) -> None:
    """Rule 6.3: else most orders in a quiet cluster were refused, without anything being wrong."""
    told = refused(*flags)
    assert told.startswith("--watch-seconds: ")
    assert told.endswith(f"--view-seconds has to be {at_least} or more")
    assert "\n" not in told
    given(*flags, f"--view-seconds={at_least}")


@pytest.mark.parametrize(
    ("flag", "limit"),
    [
        ("--watch-seconds=2", "greater than or equal to 3"),
        ("--watch-seconds=44", "less than or equal to 43"),
        ("--watch-seconds=many", "valid integer"),
        ("--view-seconds=4", "greater than or equal to 5"),
        ("--view-seconds=61", "less than or equal to 60"),
        ("--view-seconds=nan", "less than or equal to 60"),
    ],
)
def test_what_is_no_such_time_is_told_with_what_was_expected(flag: str, limit: str) -> None:
    told = refused(flag)
    assert told.startswith(f"{flag.partition('=')[0]}: ")
    assert limit in told


def test_the_slowest_watches_prove_more_often_than_options_say_that_they_may_be_old() -> None:
    """Else Fresh was False in a quiet cluster."""
    assert given("--watch-seconds=43", "--view-seconds=60") == (43, STALE_SECONDS)


def test_the_document_of_settings_names_flags_that_exist_with_their_defaults() -> None:
    text = (REPOSITORY / "docs/settings.md").read_text()
    rows = re.findall(r"^\| `--([a-z-]+)` \| ([^|]+) \|", text, re.MULTILINE)
    assert rows
    for name, default in rows:
        field = ApiServerSettings.model_fields[name.replace("-", "_")]
        assert default in {f"`{field.default}`", f"`{field.default}`".replace(".0", ""), "empty"}
        assert (default == "empty") == (field.default == "")
