"""KubeVirt's kinds and its webhooks, asked by the real API server."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object, Refused
from tests.kubevirt import webhooks
from tests.kubevirt import words as w
from tests.kubevirt.objects import finalizers_of, phase_of, status_of, uid_of
from tests.kubevirt_live.world import World


def instance(world: World, name: str, **spec: object) -> Object:
    return {
        "apiVersion": w.API_VERSION,
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"domain": {"devices": {}}, **spec},
    }


async def test_an_instance_is_completed_when_it_is_created(world: World) -> None:
    volume = {"name": "root", "containerDisk": {"image": "registry.example/fedora:40"}}
    async with webhooks.virt_api(world.cluster, "kubevirt", world.namespace):
        created = await world.api.create(instance(world, "train", volumes=[volume]))
    assert phase_of(created) == "Pending"
    assert finalizers_of(created) == ["kubevirt.io/foregroundDeleteVirtualMachine"]
    devices = created["spec"]["domain"]["devices"]
    assert devices["disks"] == [{"name": "root", "disk": {"bus": "sata"}}]


async def test_a_status_written_by_the_administrator_is_gone_while_kubevirts_stays(
    world: World,
) -> None:
    """KubeVirt observed 18."""
    async with (
        webhooks.virt_api(world.cluster, "kubevirt", world.namespace),
        world.kubevirt(),
    ):
        await world.machine()
        await world.launcher()
        false = [{"op": "replace", "path": "/status/phase", "value": "Running"}]
        answered = await world.api.patch(w.VMI, "train", false, world.namespace)
        assert phase_of(answered) == "Scheduling"
        with pytest.raises(Refused, match="update of VMI object is restricted"):
            await world.api.patch(w.VMI, "train", {"spec": {"hostname": "x"}}, world.namespace)
        noted = {"metadata": {"annotations": {"note": "changed"}}}
        assert await world.api.patch(w.VMI, "train", noted, world.namespace)


async def test_a_machine_under_the_webhooks_runs_like_any_other(world: World) -> None:
    await world.node()
    async with (
        webhooks.virt_api(world.cluster, "kubevirt", world.namespace),
        world.kubevirt(),
    ):
        disk = {"name": "root", "containerDisk": {"image": "registry.example/fedora:40"}}
        await world.machine(volumes=[disk])
        await world.until_shown("Running")
        pod = await world.launcher()
        assert status_of(await world.vmi())["activePods"] == {uid_of(pod): pod["spec"]["nodeName"]}


async def test_a_device_entry_keeps_only_fields_that_kubevirt_knows(world: World) -> None:
    """A class cannot be named there: it would be pruned without a word."""
    entry = {"name": "gpu", "deviceName": world.gpu, "className": "a100"}
    spec = {"domain": {"devices": {"gpus": [entry]}}}
    created = await world.api.create(instance(world, "train", **spec))
    assert created["spec"]["domain"]["devices"]["gpus"] == [
        {"name": "gpu", "deviceName": world.gpu}
    ]


async def test_kinds_of_cozystack_are_served_and_a_record_takes_its_status_as_it_is(
    world: World,
) -> None:
    """Its kind has no status subresource."""
    application = {
        "apiVersion": "apps.cozystack.io/v1alpha1",
        "kind": "VMInstance",
        "metadata": {"name": "train", "namespace": world.namespace},
        "spec": {"gpus": [{"className": "a100", "count": 2}]},
    }
    assert (await world.api.create(application))["spec"] == application["spec"]
    status = {"kind": "gpu", "type": "a100", "resources": {"a/units": 2}, "operational": True}
    record = {
        "apiVersion": "cozystack.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "gpu-train", "namespace": world.namespace},
        "status": status,
    }
    assert (await world.api.create(record))["status"] == status


async def test_the_older_version_shows_the_same_objects(world: World) -> None:
    await world.api.create(instance(world, "train"))
    older = "kubevirt.io/v1alpha3/VirtualMachineInstance"
    assert (await world.api.get(older, "train", world.namespace))["spec"] == {
        "domain": {"devices": {}}
    }
