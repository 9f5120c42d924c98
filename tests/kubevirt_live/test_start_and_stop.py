"""Machines start, wait at a gate, stop and start again, through the real scheduler."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object
from tests.cluster.waiting import wait_until
from tests.kubevirt import power
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition, labels_of, name_of, phase_of, status_of, uid_of
from tests.kubevirt_live.world import World


@pytest.mark.parametrize("home", ["cozy-kubevirt", "kubevirt"])
async def test_a_machine_with_a_gpu_runs_and_kubevirts_account_made_its_pod(
    world: World, home: str
) -> None:
    """KubeVirt observed 1, 12, 19 and 24."""
    node = await world.node()
    async with world.gated(), world.kubevirt(home):
        await world.machine()
        pod = await world.launcher()
        (asked,) = [each for each in world.asked if not each["dryRun"]]
        assert asked["userInfo"]["username"] == f"system:serviceaccount:{home}:kubevirt-controller"
        assert set(asked["userInfo"]["groups"]) == {
            "system:serviceaccounts",
            f"system:serviceaccounts:{home}",
            "system:authenticated",
        }
        metadata = asked["object"]["metadata"]
        assert metadata["generateName"] == "virt-launcher-train-"
        assert "uid" not in metadata
        assert asked.get("name", "") == ""
        await world.release(pod, node)
        vm = await world.until_shown("Running")
        assert "startFailure" not in status_of(vm)
        vmi = await world.vmi()
        assert status_of(vmi)["nodeName"] == node
        assert status_of(vmi)["activePods"] == {uid_of(pod): node}

        async def labelled() -> bool:
            (running,) = await world.pods()
            return labels_of(running).get("kubevirt.io/nodeName") == node

        await wait_until(labelled, "the pod carries its node's name")
        (running,) = await world.pods()
        assert phase_of(running) == "Running"
        amounts = running["spec"]["containers"][0]["resources"]
        assert amounts["requests"][world.gpu] == amounts["limits"][world.gpu] == "1"


async def test_at_the_gate_a_machine_waits_and_nobody_writes_until_it_is_pinned_and_released(
    world: World,
) -> None:
    """KubeVirt observed 10, 11, 12, 16 and 19."""
    await world.node()
    second = await world.node()
    async with world.gated(), world.kubevirt():
        await world.machine()
        pod = await world.launcher()
        await world.until_shown("Starting")

        async def settled() -> Object | None:
            vm, vmi, (now,) = await world.vm(), await world.vmi(), await world.pods()
            told = [condition(each, "PodScheduled").get("reason") for each in (vm, vmi)]
            unpaused = condition(now, "kubevirt.io/virtual-machine-unpaused")
            return now if unpaused and told == ["SchedulingGated"] * 2 else None

        pod = await wait_until(settled, "the gated pod, its instance and its VM are written")
        vmi = await world.vmi()
        assert phase_of(vmi) == "Scheduling"
        assert status_of(vmi)["activePods"] == {uid_of(pod): ""}
        await world.machine("other")
        await world.launcher("other")
        (still,) = await world.pods()
        assert still == pod
        assert await world.vmi() == vmi

        template = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}}
        assert await world.api.patch(w.VM, "train", template, world.namespace)

        async def copied() -> bool:
            return bool((await world.vmi())["spec"].get("nodeSelector") == {"zone": "b"})

        await wait_until(copied, "the instance follows its machine's template")
        (still,) = await world.pods()
        assert still["spec"] == pod["spec"]

        await world.release(pod, second)
        await world.until_shown("Running")
        assert status_of(await world.vmi())["nodeName"] == second


@pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure"])
async def test_stopped_at_the_gate_a_machine_goes_and_started_again_it_comes_at_once(
    world: World, strategy: str
) -> None:
    """KubeVirt observed 32, 33 and 34."""
    shown = {"Always": "Stopped", "RerunOnFailure": "CrashLoopBackOff"}
    async with world.gated(), world.kubevirt():
        await world.machine(strategy=strategy)
        first = await world.launcher()
        await power.stop(world.api, world.namespace, "train")
        await world.until_gone(w.POD, name_of(first))
        await world.until_gone(w.VMI, "train")
        await world.until_met()
        vm = await world.until_shown(shown[strategy])
        assert ("startFailure" in status_of(vm)) == (strategy == "RerunOnFailure")
        await power.start(world.api, world.namespace, "train")
        second = await world.launcher(but=frozenset({uid_of(first)}))
        assert second["metadata"]["generateName"] == "virt-launcher-train-"
        assert "startFailure" not in status_of(await world.vm())


async def test_restarted_at_the_gate_a_machine_counts_a_failed_start_and_comes_back(
    world: World,
) -> None:
    """KubeVirt observed 32 and 35."""
    async with world.gated(), world.kubevirt():
        await world.machine()
        first, old = await world.launcher(), await world.vmi()
        await power.restart(world.api, world.namespace, "train")
        second = await world.launcher(but=frozenset({uid_of(first)}))
        assert uid_of(second) != uid_of(first)
        assert uid_of(await world.vmi()) != uid_of(old)
        assert status_of(await world.vm())["startFailure"]["consecutiveFailCount"] == 1


async def test_a_machine_that_is_deleted_takes_everything_along(world: World) -> None:
    await world.node()
    async with world.kubevirt():
        await world.machine()
        await world.until_shown("Running")
        await world.api.delete(w.VM, "train", world.namespace)
        for kind in (w.VM, w.VMI):
            await world.until_gone(kind, "train")
        assert await world.pods() == []


async def test_a_namespace_with_machines_in_it_can_go(world: World) -> None:
    await world.node()
    async with world.gated(), world.kubevirt():
        for name in ("train", "other"):
            await world.machine(name)
            await world.launcher(name)
        await world.api.delete("v1/Namespace", world.namespace)

        async def gone() -> bool:
            return await world.api.find("v1/Namespace", world.namespace) is None

        await wait_until(gone, "the namespace is gone")


async def test_a_set_keeps_so_many_instances_under_generated_names(world: World) -> None:
    """KubeVirt observed 7."""
    await world.node(2)
    entry = {"name": "gpu", "deviceName": world.gpu}
    template = {
        "metadata": {"labels": {"rs": "1"}, "annotations": {"note": "copied"}},
        "spec": {"domain": {"devices": {"gpus": [entry]}}},
    }
    async with world.kubevirt():
        created = await world.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachineInstanceReplicaSet",
                "metadata": {"name": "rs1", "namespace": world.namespace},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"rs": "1"}},
                    "template": template,
                },
            }
        )

        async def all_run() -> list[Object] | None:
            found = await world.api.list(w.VMI, world.namespace)
            return found if [phase_of(each) for each in found] == ["Running"] * 2 else None

        for vmi in await wait_until(all_run, "both instances run"):
            assert name_of(vmi).startswith("rs1")
            assert vmi["metadata"]["ownerReferences"][0]["uid"] == uid_of(created)
