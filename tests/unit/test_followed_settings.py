"""The settings as they are followed: what is in force, and what is told of it (rule 9)."""

from __future__ import annotations

from shared.core.model import Change, Placement, Put, Settings
from shared.kube.followed import FollowedSettings
from shared.settings import GpuSettings


def followed() -> tuple[FollowedSettings, list[Change]]:
    told: list[Change] = []
    return FollowedSettings(told.append), told


def test_a_change_of_the_map_is_a_change_of_the_state() -> None:
    settings, told = followed()
    settings.put({"data": {"placement": "scheduler", "pinTimeout": "9m"}})
    assert told == [Put(Settings(placement=Placement.SCHEDULER))]
    assert settings.in_force.pin_timeout == 540


def test_a_map_that_says_the_same_is_no_change() -> None:
    settings, told = followed()
    settings.put({"data": {"enabled": "false"}})
    settings.put({"data": {"enabled": " false "}})
    assert len(told) == 1


def test_a_bad_value_is_told_and_the_last_good_one_stays_until_it_is_mended() -> None:
    settings, told = followed()
    settings.put({"data": {"enabled": "false"}})
    settings.put({"data": {"enabled": "maybe"}})
    assert [str(problem) for problem in settings.problems] == [
        "enabled: 'maybe', expected true or false"
    ]
    assert settings.in_force.reading == Settings(enabled=False)
    settings.put({"data": {"enabled": "true"}})
    assert settings.problems == ()
    assert told == [Put(Settings(enabled=False)), Put(Settings())]


def test_without_a_map_the_defaults_are_in_force() -> None:
    settings, told = followed()
    settings.put({"data": {"enabled": "false", "placement": "x"}})
    settings.gone({})
    assert settings.in_force == GpuSettings()
    assert settings.problems == ()
    assert told[-1] == Put(Settings())


def test_a_map_without_data_is_one_that_says_nothing() -> None:
    settings, told = followed()
    settings.put({})
    settings.put({"data": None})
    assert told == []
