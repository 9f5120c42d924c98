"""The GPUSystem on a real control plane (rule 3.6): what changes shows within a pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from shared import vocabulary
from tests.binder.replica import Replica, Start, epoch
from tests.catalog.objects import CLASS, gpu_class
from tests.cluster.api import Object
from tests.cluster.binder import SYSTEM, system
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kubevirt import nodes


@pytest.fixture
async def leader(audited: ControlPlane, start: Start) -> Replica:
    """A binder that leads and has reported."""
    leader = await start()
    await leader.until_in_office()
    await system(audited)
    return leader


@pytest.fixture
async def settings(audited: ControlPlane) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Changes the settings; they are as they were installed afterwards."""
    name, namespace = vocabulary.SETTINGS_NAME, vocabulary.NAMESPACE
    admin = audited.cluster.admin
    installed = (await admin.get("v1/ConfigMap", name, namespace))["data"]

    async def change(**data: str) -> None:
        await admin.patch("v1/ConfigMap", name, {"data": data}, namespace)

    yield change
    await change(**installed)


async def until(audited: ControlPlane, what: str, holds: Callable[[Any], bool]) -> Object:
    """Wait for a status; returns it."""

    async def held() -> Object | None:
        status = (await audited.cluster.admin.get(SYSTEM, vocabulary.SYSTEM_NAME))["status"]
        return status if holds(status) else None

    return await wait_until(held, what)


def condition(status: Object, type_: str) -> tuple[str, str, str]:
    (found,) = [each for each in status["conditions"] if each["type"] == type_]
    return found["status"], found["reason"], found["message"]


async def test_a_setting_that_changes_is_in_force_and_a_bad_one_is_named(
    audited: ControlPlane, leader: Replica, settings: Callable[..., Awaitable[None]]
) -> None:
    term = await epoch(audited)
    await settings(pinTimeout="90s", forbidRawNames="true")
    status = await until(
        audited,
        "the settings in force are told",
        lambda status: status["effectiveSettings"]["pinTimeout"] == "1m30s",
    )
    assert status["effectiveSettings"]["forbidRawNames"] == "true"
    assert condition(status, "SettingsValid") == ("True", "Available", "")

    await settings(pinTimeout="soon", enabled="false")
    status = await until(
        audited,
        "the bad setting is named",
        lambda status: condition(status, "SettingsValid")[0] == "False",
    )
    assert "pinTimeout: 'soon', expected a time" in condition(status, "SettingsValid")[2]
    assert status["effectiveSettings"]["pinTimeout"] == "1m30s", "the last good value"
    assert condition(status, "Placing")[:2] == ("False", "Disabled")
    assert status["epoch"] >= term, "a report does not take the term away"

    await settings(pinTimeout="worse")
    status = await until(
        audited,
        "a mistake that changes nothing is told too",
        lambda status: "worse" in condition(status, "SettingsValid")[2],
    )
    assert "Traceback" not in leader.log.read_text()


async def test_the_resource_of_a_new_class_counts_as_a_gpu_until_the_class_goes(
    audited: ControlPlane, leader: Replica, unique: Callable[[str], str]
) -> None:
    """Rule 4.2."""
    del leader
    name = unique("counted")
    resource = f"example.com/{name}"
    await audited.cluster.admin.create(gpu_class(name, resource))
    await until(audited, "the resource is listed", lambda s: resource in s["resourceNames"])
    await audited.cluster.admin.delete(CLASS, name)
    await until(audited, "the resource is gone", lambda s: resource not in s["resourceNames"])


async def test_whoever_reaches_the_metrics_reads_no_stock_that_a_class_keeps_to_itself(
    audited: ControlPlane, leader: Replica, unique: Callable[[str], str]
) -> None:
    """Rule 3.1: the port asks nobody who he is."""
    admin, names = audited.cluster.admin, {}
    for disclosure in ("Hidden", "Bucketed", "Exact"):
        names[disclosure] = name = unique(disclosure.lower())
        await admin.create(gpu_class(name, f"example.com/{name}", disclosure=disclosure))
    devices = {f"example.com/{name}": 4 for name in names.values()}
    await admin.create(nodes.node(unique("node"), devices))
    await until(audited, "all are known", lambda s: devices.keys() <= set(s["resourceNames"]))

    async def told() -> dict[str, float] | None:
        figures = await leader.figures()
        shown = f'gpu_binder_class_units{{class="{names["Exact"]}",state="total"}}'
        return figures if figures.get(shown) == 4.0 else None

    figures = await wait_until(told, "the stock of the class that shows it is told")
    assert not [each for each in figures if names["Hidden"] in each or names["Bucketed"] in each]


async def test_without_kubevirt_it_says_that_everything_counts_as_permitted(
    audited: ControlPlane, leader: Replica
) -> None:
    del leader
    status = await until(
        audited, "it is told", lambda s: condition(s, "KubeVirtFound")[0] == "False"
    )
    assert condition(status, "KubeVirtFound")[1] == "Unevaluated"
    shown = await audited.cluster.kubectl("get", "gpusystem", "default", "-o", "wide")
    assert "KUBEVIRT-FOUND" in shown.checked
