"""VMs start on the nodes that the binder chooses, while its leaders are killed.

The real control plane with our webhooks and policies, and KubeVirt's stand-in. What was booked
when is judged from the API server's audit log.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from shared import vocabulary as v
from shared.kube.podspec import pinned_to
from tests.binder.replica import Replica, replicas
from tests.catalog.objects import gpu_class
from tests.cluster.api import Object
from tests.cluster.build import Binaries
from tests.cluster.components import Options
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.waiting import wait_until
from tests.kubevirt import kinds, nodes
from tests.kubevirt import words as w
from tests.kubevirt.standin import kubevirt
from tests.kubevirt.timing import Timing

CLAIM = f"{v.GROUP_VERSION}/{v.KIND_CLAIM}"
CLASS, RESOURCE, NAMESPACE = "fast", "example.com/fast", "tenant-fast"
NODES, UNITS = 3, 4


@pytest.fixture(scope="module")
async def whole(binaries: Binaries, run: Path) -> AsyncIterator[ControlPlane]:
    """Everything installed, three nodes with four units each, and a tenant."""
    async with control_plane(run / "machines", binaries, Options(audit=True)) as plane:
        catalog = Catalog(plane)
        try:
            await kinds.install(plane.cluster)
            await catalog.install()
            await catalog.enforce()
            await catalog.apply_policies()
            for number in range(NODES):
                await plane.cluster.admin.create(nodes.node(f"node-{number}", {RESOURCE: UNITS}))
            await plane.cluster.admin.create(gpu_class(CLASS, RESOURCE))
            await plane.cluster.create_namespace(NAMESPACE)
            async with kubevirt(plane.cluster, timing=Timing(speed=20)):
                yield plane
        finally:
            await catalog.stop()


def machine(name: str, count: int) -> Object:
    """A VM with so many units of the class."""
    entries = f'[{{"className":"{CLASS}","count":{count}}}]'
    return {
        "apiVersion": w.API_VERSION,
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"annotations": {v.ANNOTATION_CLASSES: entries}},
                "spec": {"domain": {"devices": {}}},
            },
        },
    }


async def running(plane: ControlPlane) -> set[str]:
    """Names of the VMs that run."""
    found = await plane.cluster.admin.list(w.VMI, NAMESPACE)
    return {
        vmi["metadata"]["name"] for vmi in found if vmi.get("status", {}).get("phase") == "Running"
    }


async def until_running(plane: ControlPlane, names: set[str]) -> None:
    """Wait until exactly these run."""

    async def reached() -> bool:
        return await running(plane) == names

    await wait_until(reached, f"{sorted(names)} run")


def booked(plane: ControlPlane) -> list[tuple[Counter[str], str]]:
    """Units booked on each node after each accepted write of a claim, and what that was."""
    claims: dict[str, tuple[str, int]] = {}
    history: list[tuple[Counter[str], str]] = []
    for event in plane.audit_events():
        ref, found = event.get("objectRef", {}), event.get("responseObject", {})
        is_accepted = event["stage"] == "ResponseComplete" and (
            event["responseStatus"]["code"] < 300
        )
        if ref.get("resource") != v.RESOURCE_CLAIMS or not is_accepted:
            continue
        if event["verb"] in {"get", "list", "watch"} or found.get("kind") != v.KIND_CLAIM:
            continue
        metadata = found["metadata"]
        node = found.get("status", {}).get("nodeName", "")
        is_gone = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        if node and not is_gone:
            claims[metadata["uid"]] = (node, found["spec"]["count"])
        else:
            claims.pop(metadata["uid"], None)
        units = Counter[str]()
        for on, count in claims.values():
            units[on] += count
        history.append((units, f"{event['verb']} {event['requestURI']}"))
    return history


def starts(plane: ControlPlane) -> list[tuple[str, str]]:
    """The VMI's uid and the node of each pod that was pinned and let go by the binder."""
    found = []
    for event in plane.audit_events():
        ref = event.get("objectRef", {})
        if ref.get("resource") != "pods" or event["verb"] != "patch" or ref.get("subresource"):
            continue
        if event["responseStatus"]["code"] < 300 and "gpu-binder" in event["user"]["username"]:
            pod = event["responseObject"]
            mark = pod["metadata"]["annotations"][v.ANNOTATION_LAUNCHER]
            assert "schedulingGates" not in pod["spec"]
            found.append((mark, pinned_to(pod["spec"])))
    return found


async def test_every_set_is_whole_on_one_node_and_no_unit_is_booked_twice_whoever_leads(
    whole: ControlPlane, unique: Callable[[str], str]
) -> None:
    """Rules 7.1, 7.4, 7.8 and 7.9."""
    admin = whole.cluster.admin
    async with replicas(whole, unique) as start:
        pair: list[Replica] = [await start(), await start()]

        async def leading() -> Replica | None:
            for replica in pair:
                if (await replica.figures())["gpu_binder_leader"]:
                    return replica
            return None

        names = [f"vm-{number}" for number in range(6)]
        async with asyncio.TaskGroup() as making:
            for name in names:
                making.create_task(admin.create(machine(name, 2)))
        for _ in range(2):
            leader = await wait_until(leading, "somebody leads")
            await wait_until(lambda: _booked_some(whole), "something is booked")
            await leader.kill()
            pair.remove(leader)
            pair.append(await start())
        await until_running(whole, set(names))

        await admin.create(machine("late", 2))
        await wait_until(lambda: _waits(whole, "late"), "the late one waits, and says why")
        await admin.delete(w.VM, "vm-0", NAMESPACE)
        await until_running(whole, {*names, "late"} - {"vm-0"})

        assert all(units <= UNITS for state, _ in booked(whole) for units in state.values()), (
            "a unit was booked twice"
        )
        claims = await admin.list(CLAIM, NAMESPACE)
        on = {
            claim["metadata"]["ownerReferences"][0]["uid"]: claim["status"]["nodeName"]
            for claim in claims
        }
        assert Counter(on.values()) == {f"node-{number}": 2 for number in range(NODES)}
        started = dict(starts(whole))
        assert on.items() <= started.items(), "each pod was let go for the node of its claim"


async def _booked_some(plane: ControlPlane) -> bool:
    return any("nodeName" in c.get("status", {}) for c in await plane.cluster.admin.list(CLAIM))


async def _waits(plane: ControlPlane, name: str) -> bool:
    """Whether the claim of a VM says NoCapacity, and one event on its VMI does."""
    vmi = await plane.cluster.admin.find(w.VMI, name, NAMESPACE)
    uid = (vmi or {}).get("metadata", {}).get("uid", "none")
    claim = await plane.cluster.admin.find(CLAIM, f"{uid}-0", NAMESPACE)
    reason = (claim or {}).get("status", {}).get("waiting", {}).get("reason")
    events = await plane.cluster.admin.list("v1/Event", NAMESPACE)
    told = [each for each in events if each["involvedObject"].get("uid") == uid]
    return reason == "NoCapacity" and [
        each["reason"] for each in told if each["source"].get("component") == "gpu-binder"
    ] == ["NoCapacity"]
