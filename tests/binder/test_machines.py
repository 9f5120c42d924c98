"""VMs start on the nodes that the binder chooses, while its leaders are killed.

The real control plane with our webhooks and policies, and KubeVirt's stand-in. What was booked
when is judged from the API server's audit log.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import Replica, replicas
from tests.binder.truth import node_of
from tests.catalog.objects import CLAIM
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import name_of, phase_of, uid_of

NODES, UNITS = 3, 4


async def until_running(life: Life, names: set[str]) -> None:
    """Wait until exactly these run."""

    async def reached() -> bool:
        found = await life.api.list(w.VMI, life.namespace)
        return {name_of(vmi) for vmi in found if phase_of(vmi) == "Running"} == names

    await wait_until(reached, f"{sorted(names)} run")


async def test_every_set_is_whole_on_one_node_and_no_unit_is_booked_twice_whoever_leads(
    whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]
) -> None:
    """Rules 7.1, 7.4, 7.8 and 7.9."""
    life = await Life.begin(whole, recorder, unique)
    on = [await life.node(UNITS) for _ in range(NODES)]
    async with replicas(whole, unique) as start:
        pair: list[Replica] = [await start(), await start()]

        async def leading() -> Replica | None:
            for replica in pair:
                if (await replica.figures())["gpu_binder_leader"]:
                    return replica
            return None

        async def booked_some() -> bool:
            return any(map(node_of, await life.api.list(CLAIM, life.namespace)))

        names = [f"vm-{number}" for number in range(6)]
        async with asyncio.TaskGroup() as making:
            for name in names:
                making.create_task(life.machine(name, 2))
        for _ in range(2):
            leader = await wait_until(leading, "somebody leads")
            await wait_until(booked_some, "something is booked")
            await leader.kill()
            pair.remove(leader)
            pair.append(await start())
        await until_running(life, set(names))

        await life.machine("late", 2)
        assert await life.until_waiting("late") == "NoCapacity"
        await wait_until(lambda: _told(life, "late"), "an event says so")
        await life.api.delete(w.VM, "vm-0", life.namespace)
        await until_running(life, {*names, "late"} - {"vm-0"})
        assert await _told(life, "late") == ["NoCapacity"], "once"

        ledger = await life.ledger()
        assert ledger.wrong == []
        assert set(ledger.starts.values()) == {1}
        assert ledger.starts.total() == 7
        claims = await life.api.list(CLAIM, life.namespace)
        assert Counter(map(node_of, claims)) == dict.fromkeys(on, 2)


async def _told(life: Life, name: str) -> list[str]:
    """The reasons of the binder's events about a VM's instance."""
    uid = uid_of(await life.vmi(name))
    return [
        each["reason"]
        for each in await life.api.list("v1/Event", life.namespace)
        if each["source"].get("component") == "gpu-binder" and each["involvedObject"]["uid"] == uid
    ]
