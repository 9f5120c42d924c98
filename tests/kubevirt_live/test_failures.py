"""Pods that are refused, deleted or never made, and what KubeVirt makes of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.api import Object
from tests.cluster.components import BY_HAND
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until
from tests.kubevirt import nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import (
    condition,
    name_of,
    phase_of,
    status_of,
    uid_of,
)
from tests.kubevirt_live.world import World


@pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure"])
async def test_a_pod_that_its_node_refuses_is_gone_with_its_reason_only_in_the_watch(
    world: World, strategy: str
) -> None:
    """KubeVirt observed 25, 28 and 32."""
    node = await world.node()
    async with world.gated(), world.kubevirt():
        await world.machine(strategy=strategy, by_hand=True)
        first = await world.launcher()
        await world.release(first, node)
        pod = await world.bound(first)
        old = await world.vmi()
        seen = []
        version = pod["metadata"]["resourceVersion"]
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            world.api.watch(w.POD, world.namespace, resourceVersion=version) as events,
        ):
            await nodes.refuse(world.api, pod, world.gpu)
            async for event in events:
                if name_of(event["object"]) == name_of(pod):
                    status = status_of(event["object"])
                    seen.append((event["type"], status["phase"], status.get("reason")))
                    if event["type"] == "DELETED":
                        break
        reason = f"OutOf{world.gpu}"
        assert ("MODIFIED", "Failed", reason) in seen
        assert seen[-1] == ("DELETED", "Failed", reason)

        second = await world.launcher(but=frozenset({uid_of(first)}))
        failure = status_of(await world.vm())["startFailure"]
        assert failure["consecutiveFailCount"] == 1
        assert failure["lastFailedVMIUID"] == uid_of(old)
        assert uid_of(await world.vmi()) != uid_of(old)

        await world.release(second, node)
        await nodes.refuse(world.api, await world.bound(second), world.gpu)
        await world.launcher(but=frozenset({uid_of(first), uid_of(second)}))
        assert status_of(await world.vm())["startFailure"]["consecutiveFailCount"] == 2


async def test_a_refused_pod_of_an_instance_without_a_machine_stays(world: World) -> None:
    """KubeVirt observed 26."""
    node = await world.node()
    entry = {"name": "gpu", "deviceName": world.gpu}
    async with world.gated(), world.kubevirt():
        await world.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachineInstance",
                "metadata": {
                    "name": "train",
                    "namespace": world.namespace,
                    "annotations": dict(BY_HAND),
                },
                "spec": {"domain": {"devices": {"gpus": [entry]}}},
            }
        )
        pod = await world.launcher()
        await world.release(pod, node)
        await nodes.refuse(world.api, await world.bound(pod), world.gpu)
        vmi = await world.until_phase("Failed")
        assert condition(vmi, "Ready")["reason"] == "PodTerminating"
        assert status_of(vmi)["activePods"] == {uid_of(pod): node}
        (still,) = await world.pods()
        assert phase_of(still) == "Failed"


async def evict(world: World, pod: Object) -> None:
    path = f"{await world.api.path(w.POD, world.namespace, name_of(pod))}/eviction"
    place = {"name": name_of(pod), "namespace": world.namespace}
    answer = await world.api.request(
        "POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": place}
    )
    assert answer.status == 201


@pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure"])
@pytest.mark.parametrize("evicted", [False, True])
async def test_a_pod_that_is_deleted_or_evicted_at_the_gate_is_a_failed_start(
    world: World, strategy: str, evicted: bool
) -> None:
    """KubeVirt observed 27 and 28."""
    async with world.gated(), world.kubevirt():
        await world.machine(strategy=strategy)
        first = await world.launcher()
        async with world.watching(w.VM) as first_state:  # the pause is short here
            if evicted:
                await evict(world, first)
            else:
                await world.api.delete(w.POD, name_of(first), world.namespace)
            vm = await first_state(
                lambda vm: status_of(vm).get("printableStatus") == "CrashLoopBackOff"
            )
        assert status_of(vm)["startFailure"]["consecutiveFailCount"] == 1
        await world.launcher(but=frozenset({uid_of(first)}))


async def test_a_running_machine_whose_pod_is_evicted_starts_anew_without_a_pause(
    world: World,
) -> None:
    """KubeVirt observed 29 and 37."""
    node = await world.node()
    async with world.gated(), world.kubevirt():
        await world.machine()
        first = await world.launcher()
        await world.release(first, node)
        await world.until_shown("Running")
        await evict(world, first)
        await world.launcher(but=frozenset({uid_of(first)}))
        assert "startFailure" not in status_of(await world.vm())


async def test_an_instance_deleted_at_the_gate_stays_down_where_failures_are_rerun(
    world: World,
) -> None:
    """KubeVirt observed 31."""
    async with world.gated(), world.kubevirt():
        await world.machine(strategy="RerunOnFailure")
        await world.machine("other")
        await world.launcher()
        first = await world.launcher("other")
        for name in ("train", "other"):
            await world.api.delete(w.VMI, name, world.namespace)
        await world.launcher("other", but=frozenset({uid_of(first)}))
        vm = await world.until_shown("CrashLoopBackOff")
        assert status_of(vm)["startFailure"]["consecutiveFailCount"] == 1
        await world.until_gone(w.VMI, "train")


async def test_a_pod_beyond_the_quota_is_tried_again_and_is_no_failed_start(world: World) -> None:
    """KubeVirt observed 14 and 15."""
    key = f"requests.{world.gpu}"
    await world.api.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": world.namespace},
            "spec": {"hard": {key: "1"}},
        }
    )

    async def counted() -> bool:
        quota = await world.api.get("v1/ResourceQuota", "q", world.namespace)
        return "used" in status_of(quota)

    await wait_until(counted, "the quota is in force")
    async with world.gated(), world.kubevirt():
        await world.machine("first")
        await world.launcher("first")
        await world.machine("second")

        async def refused() -> Object | None:
            vmi = await world.api.find(w.VMI, "second", world.namespace)
            return condition(vmi or {"status": {}}, "Synchronized") or None

        told = await wait_until(refused, "the second machine's instance says why it waits")
        assert told["reason"] == "FailedCreate"
        assert told["message"].startswith(
            'failed to create virtual machine pod: pods "virt-launcher-'
        )
        assert told["message"].endswith(
            f"is forbidden: exceeded quota: q, requested: {key}=1, used: {key}=1, limited: {key}=1"
        )
        assert phase_of(await world.vmi("second")) == "Pending"
        vm = await world.until_shown("Starting", "second")
        assert "startFailure" not in status_of(vm)
        await world.api.delete(w.VM, "first", world.namespace)
        await world.launcher("second")
        assert not condition(await world.vmi("second"), "Synchronized")
        events = await world.api.list("v1/Event", world.namespace)
        assert any(
            each["reason"] == "FailedCreate" and each["message"].startswith("Error creating pod: ")
            for each in events
        )


async def test_a_stranger_that_poses_as_a_launcher_is_listed_like_one(world: World) -> None:
    """KubeVirt observed 17. On another node than its instance it is never taken for its pod."""
    node, other = await world.node(), await world.node()
    async with world.gated(), world.kubevirt():
        await world.machine()
        own = await world.launcher()
        await world.release(own, node)
        await world.until_shown("Running")
        vmi = await world.vmi()
        owner = {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstance",
            "name": "train",
            "uid": uid_of(vmi),
            "controller": True,
        }
        stranger = await world.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "stranger",
                    "namespace": world.namespace,
                    "labels": {w.LABEL_APP: w.ATTACHMENT},  # any value will do
                    "annotations": dict(BY_HAND),
                    "ownerReferences": [owner],
                },
                "spec": {
                    "nodeName": other,
                    "containers": [{"name": "c", "image": "registry.example/none"}],
                },
            }
        )

        async def listed() -> bool:
            active = status_of(await world.vmi())["activePods"]
            return bool(active == {uid_of(own): node, uid_of(stranger): other})

        await wait_until(listed, "both pods are listed")
        await nodes.remove(world.api, stranger)

        async def alone() -> bool:
            return bool(status_of(await world.vmi())["activePods"] == {uid_of(own): node})

        await wait_until(alone, "its own pod is listed alone")
        assert phase_of(await world.vmi()) == "Running"


async def test_after_a_restart_of_the_controller_what_waits_in_good_order_is_not_touched(
    world: World,
) -> None:
    """KubeVirt observed 47 and 48."""
    async with world.gated():
        async with world.kubevirt():
            for name in ("train", "lost"):
                await world.machine(name)
            pod, lost = await world.launcher(), await world.launcher("lost")

            async def settled() -> bool:
                (now,) = await world.pods()
                vmi, vm = await world.vmi(), await world.vm()
                written = (condition(each, "PodScheduled") for each in (vmi, vm))
                return all(written) and bool(condition(now, "kubevirt.io/virtual-machine-unpaused"))

            await wait_until(settled, "everything about the gated machine is written")
        before = [await world.vm(), await world.vmi(), *await world.pods()]
        await world.api.delete(w.POD, name_of(lost), world.namespace)
        async with world.kubevirt():
            # The lost one comes back, and it had to be noticed first.
            await world.launcher("lost", but=frozenset({uid_of(lost)}))
            counted = status_of(await world.vm("lost"))["startFailure"]
            assert counted["consecutiveFailCount"] == 1
            assert [await world.vm(), await world.vmi(), *await world.pods()] == before
        assert uid_of(pod) == uid_of(before[2])


async def test_a_device_that_kubevirts_table_lacks_gets_no_pod(world: World) -> None:
    """KubeVirt observed 9. A table is looked for in KubeVirt's own namespace."""
    home = world.unique("kubevirt")
    table = {"pciHostDevices": [{"pciVendorSelector": "10DE:1", "resourceName": "nvidia.com/A"}]}
    async with world.kubevirt(home):
        created = await world.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "KubeVirt",
                "metadata": {"name": "kubevirt", "namespace": home},
                "spec": {"configuration": {"permittedHostDevices": table}},
            }
        )
        deployed = {**created, "status": {"phase": "Deployed"}}
        assert await world.api.replace(deployed, "status")
    async with world.kubevirt(home):
        await world.machine()

        async def told() -> Object | None:
            vmi = await world.api.find(w.VMI, "train", world.namespace)
            return condition(vmi or {"status": {}}, "Synchronized") or None

        assert (await wait_until(told, "the instance says why it waits"))["message"] == (
            f"failed to render launch manifest: GPU {world.gpu} is not permitted in"
            " permittedHostDevices configuration"
        )
        assert await world.pods() == []
