"""The GPUSystem's status (rule 3.6), and that nothing is written where nothing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binder import system
from binder.actions import ReportSystem
from shared.api.gpusystem import GPUSystemStatus
from shared.core.cluster import ClusterState
from shared.core.model import GpuClass, KubeVirt, Placement, Put, Settings
from shared.fields import mapping, mappings
from shared.settings import GpuSettings, parse

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def cluster(*, found: bool = True) -> ClusterState:
    state = ClusterState()
    state.apply(Put(GpuClass("a10", "example.com/A10")))
    if found:
        permitted = frozenset({"example.com/A10", "example.com/vgpu"})
        state.apply(
            Put(
                KubeVirt(
                    "cozy-kubevirt",
                    "kubevirt",
                    "Deployed",
                    permitted,
                    frozenset({"example.com/vgpu"}),
                )
            )
        )
    return state


def told(
    state: ClusterState | None = None,
    settings: GpuSettings | None = None,
    data: dict[str, object] | None = None,
    raw: dict[str, Any] | None = None,
    now: str = NOW,
) -> dict[str, Any]:
    settings, problems = (
        parse(data or {}, settings or GpuSettings())
        if data
        else (
            settings or GpuSettings(),
            (),
        )
    )
    status = dict(
        system.status(
            raw or {"metadata": {"generation": 1}}, state or cluster(), settings, problems, now
        )
    )
    GPUSystemStatus.model_validate(status)
    return status


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_all_is_well() -> None:
    status = told()
    assert conditions(status) == {
        "SettingsValid": ("True", "Available"),
        "Placing": ("True", "Available"),
        "KubeVirtFound": ("True", "Available"),
    }
    assert "epoch" not in status, "a pass never changes it"
    assert all(each["observedGeneration"] == 1 for each in status["conditions"])


def test_the_names_of_gpus_are_those_of_rule_4_2() -> None:
    settings = GpuSettings(Settings(resource_names=frozenset({"example.com/listed"})))
    assert told(settings=settings)["resourceNames"] == [
        "example.com/A10",
        "example.com/listed",
        "example.com/vgpu",
    ]


def test_a_name_that_no_resource_can_have_does_not_cost_the_others() -> None:
    state = cluster()
    state.apply(Put(GpuClass("odd", f"example.com/{'x' * 400}")))
    assert told(state)["resourceNames"] == ["example.com/A10", "example.com/vgpu"]


def test_the_settings_in_force_are_spelt_as_in_the_config_map() -> None:
    assert told()["effectiveSettings"] == {
        "enabled": "true",
        "placement": "binder",
        "resourceNames": [],
        "forbidRawNames": "false",
        "kubevirtNamespace": "cozy-kubevirt",
        "kubevirtUsernames": ["system:serviceaccount:cozy-kubevirt:kubevirt-controller"],
        "binderUsername": "system:serviceaccount:cozy-gpu:gpu-binder",
        "trustedGroups": ["system:masters"],
        "nodeLossGrace": "5m",
        "refusalSkip": "10m",
        "pinTimeout": "5m",
        "starvationBound": "15m",
    }


@pytest.mark.parametrize(
    ("seconds", "spelt"),
    [(1, "1s"), (60, "1m"), (90, "1m30s"), (3600, "1h"), (3601, "1h1s"), (86400, "24h")],
)
def test_a_duration_reads_back_as_what_it_was(seconds: int, spelt: str) -> None:
    assert system.duration(seconds) == spelt
    assert parse({"pinTimeout": spelt}, GpuSettings())[0].pin_timeout == seconds


def test_a_bad_setting_shows_with_the_value_that_is_in_force() -> None:
    status = told(data={"enabled": "yes", "pinTimeout": "1h"})
    assert conditions(status)["SettingsValid"] == ("False", "Malformed")
    (condition,) = [each for each in status["conditions"] if each["type"] == "SettingsValid"]
    assert condition["message"] == (
        "enabled: 'yes', expected true or false; the last good values stay in force"
    )
    assert status["effectiveSettings"]["enabled"] == "true"
    assert status["effectiveSettings"]["pinTimeout"] == "1h"


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Settings(enabled=False), ("False", "Disabled")),
        (Settings(placement=Placement.SCHEDULER), ("False", "NotOffered")),
    ],
)
def test_placing_is_off_where_the_settings_say_so(
    reading: Settings, expected: tuple[str, str]
) -> None:
    assert conditions(told(settings=GpuSettings(reading)))["Placing"] == expected


def test_placing_is_off_where_something_cannot_be_read() -> None:
    state = cluster()
    state.set_unreadable({"pods", "virtualmachineinstancemigrations"})
    status = told(state)
    assert conditions(status)["Placing"] == ("False", "InputsUnreadable")
    assert [each["message"] for each in status["conditions"] if each["type"] == "Placing"] == [
        "the binder may not read pods"
    ]


def test_without_kubevirt_everything_counts_as_permitted_and_it_says_so() -> None:
    status = told(cluster(found=False))
    assert conditions(status)["KubeVirtFound"] == ("False", "Unevaluated")
    state = cluster()
    state.set_unreadable({"kubevirts"})
    assert conditions(told(state))["KubeVirtFound"] == ("Unknown", "InputsUnreadable")


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    raw = {"metadata": {"generation": 1}, "status": told()}
    again = told(cluster(found=False), raw=raw, now=LATER)
    times = {each["type"]: each["lastTransitionTime"] for each in again["conditions"]}
    assert times == {"SettingsValid": NOW, "Placing": NOW, "KubeVirtFound": LATER}


def test_a_condition_of_another_kind_stays() -> None:
    kept = {"type": "RecordsKept", "status": "True", "reason": "Available"}
    raw = {"metadata": {}, "status": {"conditions": [kept]}}
    status = dict(system.status(raw, cluster(), GpuSettings(), (), NOW))
    assert kept in mappings(status["conditions"])


@pytest.mark.parametrize("type_", [None, 3, [], {}])
def test_a_condition_of_no_kind_stands_in_nobody_s_way(type_: object) -> None:
    """Stored before a schema knew better, say: a report must not end the process."""
    odd = {"type": type_, "status": "True"}
    status = dict(
        system.status({"status": {"conditions": [odd]}}, cluster(), GpuSettings(), (), NOW)
    )
    assert len(list(mappings(status["conditions"]))) == 4


def test_nothing_is_written_where_the_status_is_as_it_should_be() -> None:
    """Rule 7.2."""
    raw = {"metadata": {"generation": 1, "resourceVersion": "7"}, "status": {**told(), "epoch": 4}}
    assert system.report(raw, cluster(), GpuSettings(), (), LATER) is None
    work = system.report(raw, cluster(), replace(GpuSettings(), forbid_raw_names=True), (), LATER)
    assert work is not None
    ((action,),) = work.steps
    assert isinstance(action, ReportSystem)
    assert action.system.version == "7"
    assert mapping(action.status["effectiveSettings"])["forbidRawNames"] == "true"
