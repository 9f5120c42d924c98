"""What becomes of VMs when the settings switch GPUs off, and to Kubernetes' own scheduler.

As `docs/settings.md` and `docs/hosters.md` say it ("Switch it off"), on the real control plane.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest

from shared import vocabulary as v
from shared.kube.podspec import pinned_to
from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import replicas
from tests.binder.truth import is_gated, mark_of, node_of
from tests.catalog.objects import claim, class_key, quota
from tests.cluster.api import Object, Refused
from tests.cluster.binder import SYSTEM
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kubevirt import power
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition, phase_of, uid_of

CONFIG_MAP: Final = "v1/ConfigMap"
Switch = Callable[..., Awaitable[None]]


@pytest.fixture
async def life(
    whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]
) -> AsyncIterator[Life]:
    """A class without a node yet, and a binder that leads."""
    life = await Life.begin(whole, recorder, unique)
    async with replicas(whole, unique) as start:
        leader = await start()
        await leader.until_in_office()
        yield life


@pytest.fixture
async def switch(life: Life) -> AsyncIterator[Switch]:
    """Changes the settings; they are as they were installed afterwards."""
    installed = (await life.api.get(CONFIG_MAP, v.SETTINGS_NAME, v.NAMESPACE))["data"]

    async def change(**data: str) -> None:
        await life.api.patch(CONFIG_MAP, v.SETTINGS_NAME, {"data": data}, v.NAMESPACE)

    yield change
    await change(**{"enabled": "true", "placement": "binder"} | installed)


async def stopped(life: Life, name: str, order: str) -> None:
    """A VM that ran with an order, and keeps it while it is stopped."""
    await life.machine(name, claims=[order])
    await life.until_running(name)
    await power.stop(life.api, life.namespace, name)
    await life.until_attached(order, ("False", "NotInUse", ""))


async def until_refused(life: Life, reason: str) -> None:
    """Wait until an order is refused with this reason."""
    order = claim(life.namespace, "probe", life.class_name, 1)

    async def is_refused() -> bool:
        try:
            await life.api.create(order, dryRun="All")
        except Refused as no:
            return no.reason == reason
        return False

    await wait_until(is_refused, f"orders are refused: {reason}")


async def until_not_let_in(life: Life, name: str, words: str) -> None:
    """Wait until KubeVirt says of a VM that its instance was refused in these words."""

    async def said() -> bool:
        found = await life.api.get(w.VM, name, life.namespace)
        return words in condition(found, "Failure").get("message", "")

    await wait_until(said, f"{name} is refused: {words}")


async def until_let_go(life: Life, name: str) -> Object:
    """Wait until the launcher of a VM is there, without our gate; returns it."""

    async def found() -> Object | None:
        vmi = await life.api.find(w.VMI, name, life.namespace)
        pods = await life.api.list(w.POD, life.namespace)
        mine = [pod for pod in pods if vmi is not None and mark_of(pod) == uid_of(vmi)]
        return next((pod for pod in mine if not is_gated(pod)), None)

    return await wait_until(found, f"{name} was let go")


async def until_placing(life: Life, status: str, reason: str) -> None:
    """Wait until the GPUSystem says whether anything is placed."""

    async def said() -> bool:
        found = condition(await life.api.get(SYSTEM, v.SYSTEM_NAME), "Placing")
        return (found.get("status"), found.get("reason")) == (status, reason)

    await wait_until(said, f"Placing is {status}, {reason}")


async def test_what_was_let_go_while_all_was_off_is_booked_where_it_runs_when_it_is_on(
    life: Life, switch: Switch
) -> None:
    """Rules 7.15 and 7.17, with placement `scheduler` from then on."""
    node = await life.node(4)
    await life.order("mine", 1)
    await life.order("idle", 2)
    await life.api.create(quota(life.namespace, {class_key(life.class_name): "3"}))
    await life.machine("holds", claims=["mine"])
    await life.until_running("holds")
    await stopped(life, "keeps", "idle")
    for name, count in (("waits", 2), ("large", 4)):
        await life.machine(name, count)
        assert await life.until_waiting(name) == "BudgetExceeded"

    await switch(enabled="false")
    assert await life.until_running("waits") == node, "past its budget, with units of the idle one"
    for name in ("waits", "large"):
        assert pinned_to((await until_let_go(life, name))["spec"]) == ""
        await until_off(life, name)
    assert await events(life, "Disabled") == ["large", "waits"]
    await life.until_stock(bound=3, outside=2, free=0, overbooked=1)
    await until_refused(life, "Disabled")
    await life.machine("new", 1)
    await power.start(life.api, life.namespace, "keeps")
    for name in ("new", "keeps"):
        await until_not_let_in(life, name, "GPUs are switched off on this platform")
    await life.api.delete(w.VM, "new", life.namespace)
    await until_placing(life, "False", "Disabled")

    await switch(enabled="true", placement="scheduler")
    await life.until_booked("waits", node)
    await until_placing(life, "False", "NotOffered")
    await until_refused(life, "NotOffered")
    await life.until_attached("idle", ("False", "NoCapacity", "asked 2: 1 free"))
    await life.machine("over", 1)
    await until_not_let_in(life, "over", "this tenant's budget has 0 left")
    await life.api.delete(w.VM, "over", life.namespace)
    await life.api.delete("v1/ResourceQuota", "gpus", life.namespace)
    await life.machine("fresh", 1)
    assert await life.until_running("fresh") == node
    await life.until_stock(bound=5, outside=1, free=0, overbooked=2)
    assert await life.claim_of("fresh") is None, "nobody books for it"
    assert phase_of(await until_let_go(life, "large")) == "Pending", "nobody has four units"

    await power.stop(life.api, life.namespace, "waits")
    assert await life.until_running("keeps") == node, "its units are back"
    assert pinned_to((await until_let_go(life, "keeps"))["spec"]) == node
    await life.until_stock(bound=3, outside=1, free=0, overbooked=0)


async def until_off(life: Life, name: str) -> None:
    """Wait until the claim of a VM says that it holds nothing, since all is off."""

    async def says() -> bool:
        its = await life.claim_of(name) or {}
        return not node_of(its) and condition(its, "Bound").get("reason") == "Disabled"

    await wait_until(says, f"the claim of {name} says Disabled")


async def events(life: Life, reason: str) -> list[str]:
    """Of which instances our events of a reason are."""
    found = await life.api.list("v1/Event", life.namespace)
    return sorted(each["involvedObject"]["name"] for each in found if each["reason"] == reason)


async def test_who_waits_at_the_gate_when_kubernetes_takes_over_is_placed_by_the_binder(
    life: Life, switch: Switch
) -> None:
    """Rule 7.17; so is who names a claim that it holds, and nobody else."""
    node = await life.node(2)
    await life.order("mine", 1)
    await stopped(life, "keeps", "mine")
    await life.machine("runs", 1)
    await life.until_running("runs")
    await life.machine("waits", 1)
    assert await life.until_waiting("waits") == "NoCapacity"

    await switch(placement="scheduler")
    await until_placing(life, "False", "NotOffered")
    await until_refused(life, "NotOffered")
    await power.start(life.api, life.namespace, "keeps")
    assert await life.until_running("keeps") == node
    second = await life.node(1)
    assert await life.until_running("waits") == second
    third = await life.node(1)
    await life.machine("fresh", 1)
    assert await life.until_running("fresh") == third
    await life.until_stock(bound=3, outside=1, free=0, overbooked=0)
    assert await life.claim_of("fresh") is None
    for name, place in (("keeps", node), ("waits", second), ("fresh", "")):
        assert pinned_to((await until_let_go(life, name))["spec"]) == place
    assert [node_of(await life.claim_of(name) or {}) for name in ("keeps", "waits", "runs")] == [
        node,
        second,
        node,
    ]

    await switch(placement="binder")
    await life.until_booked("fresh", third)
    await life.until_stock(bound=4, outside=0, free=0, overbooked=0)
    assert [each for each in (await life.ledger()).wrong if "-fresh-" not in each] == []
