"""Late-binding volumes, plugged volumes and migrations, with the real scheduler and PV binder."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.cluster.api import Object
from tests.cluster.plane import system_clock
from tests.cluster.waiting import wait_until
from tests.kubevirt import imports, nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import (
    annotations_of,
    condition,
    labels_of,
    name_of,
    phase_of,
    status_of,
    uid_of,
)
from tests.kubevirt_live.world import World

EPHEMERAL = "kubevirt.io/ephemeral-provisioning"


async def local_volume(world: World, node: str) -> str:
    """A volume on one node, and a storage class that binds it to its first consumer."""
    name = world.unique("local")
    await world.api.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    await world.api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": name,
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }
    )
    return name


async def data_volume(world: World, storage: str) -> Object:
    return await world.api.create(
        {
            "apiVersion": "cdi.kubevirt.io/v1beta1",
            "kind": "DataVolume",
            "metadata": {"name": "boot", "namespace": world.namespace},
            "spec": {"storage": {"storageClassName": storage}},
        }
    )


async def until_import(world: World, *phases: str) -> None:
    async def reached() -> bool:
        found = await world.api.get(w.DATA_VOLUME, "boot", world.namespace)
        return phase_of(found) in phases

    await wait_until(reached, f"the import is {' or '.join(phases)}")


async def test_a_late_binding_import_has_a_temporary_pod_then_none_then_a_launcher(
    world: World,
) -> None:
    """KubeVirt observed 38 and 39; how far the import is, the test says."""
    await world.node()
    node = await world.node()
    storage = await local_volume(world, node)
    volume = await data_volume(world, storage)

    async def imported(phase: str) -> None:
        status = {"status": {"phase": phase}}
        assert await world.api.patch(
            w.DATA_VOLUME, "boot", status, world.namespace, subresource="status"
        )

    await imported("WaitForFirstConsumer")
    claim = imports.claim_of(volume)
    await world.api.create(claim)
    async with world.gated(), world.kubevirt(disks_import=False):
        await world.machine(volumes=[{"name": "root", "dataVolume": {"name": "boot"}}])
        temporary = await world.launcher()
        assert annotations_of(temporary)[EPHEMERAL] == "true"
        amounts = temporary["spec"]["containers"][0]["resources"]["requests"]
        assert amounts[world.gpu] == "1"
        assert phase_of(await world.vmi()) == "Pending"

        await world.release(temporary, node)

        async def bound() -> bool:
            return phase_of(await world.api.get(w.PVC, "boot", world.namespace)) == "Bound"

        await wait_until(bound, "the scheduler bound the claim where the pod is")
        assert await world.api.get(w.POD, name_of(temporary), world.namespace)
        await imported("ImportInProgress")
        await world.until_gone(w.POD, name_of(temporary))

        async def bare() -> bool:
            vmi = await world.vmi()
            return phase_of(vmi) == "Pending" and "activePods" not in status_of(vmi)

        await wait_until(bare, "for the import the instance is Pending without any pod")
        assert await world.pods() == []

        await imported("Succeeded")
        launcher = await world.launcher()
        assert EPHEMERAL not in annotations_of(launcher)
        assert {"name": "root", "persistentVolumeClaim": {"claimName": "boot"}} in (
            launcher["spec"]["volumes"]
        )
        await world.release(launcher, node)
        await world.until_shown("Running")
        assert status_of(await world.vmi())["nodeName"] == node


async def test_pinned_to_another_node_than_its_volume_a_launcher_waits_and_tells_nobody(
    world: World,
) -> None:
    """KubeVirt observed 23."""
    away, node = await world.node(), await world.node()
    storage = await local_volume(world, node)
    await data_volume(world, storage)
    async with world.gated(), world.kubevirt():
        await world.machine(volumes=[{"name": "root", "dataVolume": {"name": "boot"}}])
        temporary = await world.launcher()
        await world.release(temporary, node)
        await until_import(world, "Succeeded")
        launcher = await world.launcher(but=frozenset({uid_of(temporary)}))
        await world.until_condition("PodScheduled", "SchedulingGated")
        await world.until_shown("Starting")
        await world.release(launcher, away)

        async def stuck() -> bool:
            pod = await world.api.get(w.POD, name_of(launcher), world.namespace)
            return condition(pod, "PodScheduled").get("reason") == "Unschedulable"

        await wait_until(stuck, "the scheduler says that the pod fits nowhere")
        assert condition(await world.vmi(), "PodScheduled")["reason"] == "SchedulingGated"
        assert status_of(await world.vm())["printableStatus"] == "Starting"


async def test_a_missing_claim_is_waited_for(world: World) -> None:
    """KubeVirt observed 42."""
    async with world.kubevirt():
        await world.machine(
            volumes=[{"name": "root", "persistentVolumeClaim": {"claimName": "boot"}}]
        )
        await world.until_shown("ErrorPvcNotFound")
        assert await world.pods() == []
        await world.api.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "boot", "namespace": world.namespace},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        )
        await world.launcher()


async def test_a_plugged_volume_comes_by_a_pod_that_tolerates_what_the_launcher_does(
    world: World,
) -> None:
    """KubeVirt observed 46."""
    node = await world.node()
    await world.api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "hot", "namespace": world.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    plugged = {"claimName": "hot", "hotpluggable": True}
    async with world.gated(), world.kubevirt():
        await world.machine(volumes=[{"name": "extra", "persistentVolumeClaim": plugged}])
        pod = await world.launcher()
        assert not any("persistentVolumeClaim" in each for each in pod["spec"]["volumes"])
        toleration = {"key": "gpu.example/class", "operator": "Exists", "effect": "NoSchedule"}
        added = [{"op": "add", "path": "/spec/tolerations/-", "value": toleration}]
        assert await world.api.patch(w.POD, name_of(pod), added, world.namespace)
        await world.release(pod, node)

        async def attached() -> list[Object] | None:
            label = "kubevirt.io=hotplug-disk"
            return await world.api.list(w.POD, world.namespace, labelSelector=label) or None

        (attachment,) = await wait_until(attached, "an attachment pod is made")
        assert attachment["metadata"]["ownerReferences"][0]["uid"] == uid_of(pod)
        assert toleration in attachment["spec"]["tolerations"]
        assert "activePods" in status_of(await world.vmi())
        assert uid_of(attachment) not in status_of(await world.vmi())["activePods"]


async def migrate(world: World, annotations: Mapping[str, str] | None = None) -> Object:
    metadata: Object = {"name": "move", "namespace": world.namespace}
    return await world.api.create(
        {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstanceMigration",
            "metadata": metadata | {"annotations": dict(annotations or {})},
            "spec": {"vmiName": "train"},
        }
    )


def is_target(pod: Object, migration: Object) -> bool:
    return labels_of(pod).get(w.LABEL_MIGRATION_JOB) == uid_of(migration)


async def target_of(world: World, migration: Object) -> Object:
    async def made() -> Object | None:
        return next((pod for pod in await world.pods() if is_target(pod, migration)), None)

    return await wait_until(made, "the target's pod is made")


async def until_migration(world: World, phase: str) -> None:
    async def reached() -> bool:
        return phase_of(await world.api.get(w.MIGRATION, "move", world.namespace)) == phase

    await wait_until(reached, f"the migration is {phase}")


async def test_a_migrated_instance_is_on_the_other_node_and_its_first_pod_succeeded(
    world: World,
) -> None:
    """KubeVirt observed 43."""
    here, there = await world.node(), await world.node()
    async with world.gated(), world.kubevirt():
        await world.machine()
        source = await world.launcher()
        await world.release(source, here)
        await world.until_shown("Running")
        migration = await migrate(world)
        target = await target_of(world, migration)
        assert labels_of(target)["kubevirt.io/nodeName"] == here

        async def both() -> bool:
            active = status_of(await world.vmi())["activePods"]
            return bool(active == {uid_of(source): here, uid_of(target): there})

        await wait_until(both, "source and target are listed")
        await until_migration(world, "Succeeded")
        vmi = await world.vmi()
        assert status_of(vmi)["nodeName"] == there
        assert labels_of(vmi)["kubevirt.io/nodeName"] == there

        async def ended() -> bool:
            pod = await world.api.get(w.POD, name_of(source), world.namespace)
            return phase_of(pod) == "Succeeded"

        await wait_until(ended, "the first pod succeeded")
        assert phase_of(vmi) == "Running"


async def test_a_target_that_its_node_refuses_fails_the_migration_and_nothing_else(
    world: World,
) -> None:
    """KubeVirt observed 44."""
    here = await world.node()
    await world.node()
    async with world.gated(), world.kubevirt():
        await world.machine(by_hand=True)
        source = await world.launcher()
        await world.release(source, here)
        await nodes.run(world.api, await world.bound(source), system_clock())
        await world.until_shown("Running")
        migration = await migrate(world)
        target = await world.bound(await target_of(world, migration))
        await nodes.refuse(world.api, target, world.gpu)
        await until_migration(world, "Failed")

        async def listed() -> Object | None:
            vmi = await world.vmi()
            return vmi if uid_of(target) in status_of(vmi)["activePods"] else None

        vmi = await wait_until(listed, "the target stays listed")
        assert phase_of(vmi) == "Running"
        assert status_of(vmi)["nodeName"] == here
        still = await world.api.get(w.POD, name_of(target), world.namespace)
        assert phase_of(still) == "Failed"
        events = await world.api.list("v1/Event", world.namespace)
        assert "Migration failed because target pod shutdown during migration" in [
            each["message"] for each in events
        ]


@pytest.mark.parametrize("seconds", ["20"])
async def test_a_target_that_stays_pending_is_given_up(world: World, seconds: str) -> None:
    """KubeVirt observed 45."""
    here = await world.node()
    async with world.gated(), world.kubevirt():
        await world.machine()
        source = await world.launcher()
        await world.release(source, here)
        await world.until_shown("Running")
        patience = {
            "kubevirt.io/migrationPendingPodTimeoutSeconds": seconds,
            "kubevirt.io/migrationUnschedulablePodTimeoutSeconds": seconds,
        }
        async with world.watching(w.POD) as first_pod:  # it is there for a second
            migration = await migrate(world, patience)
            target = await first_pod(lambda pod: is_target(pod, migration))
        # There is no second node.
        await until_migration(world, "Failed")
        await world.until_gone(w.POD, name_of(target))
        assert phase_of(await world.vmi()) == "Running"
