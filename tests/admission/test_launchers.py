"""What KubeVirt makes of a tenant's VMs under our webhooks (rules 6.1 and 6.2).

The stand-in makes instances and pods, as KubeVirt's account, wherever KubeVirt is; what pods look
like is written by hand, from what was observed (docs/kubevirt.md) and from our rules.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared import vocabulary as words
from tests.admission.counting import Reviews
from tests.admission.launching import (
    TOLERATION,
    Launching,
    at_home,
    settled,
    shown,
)
from tests.admission.world import World
from tests.catalog.objects import claim
from tests.cluster.api import Object
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
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
from tests.kubevirt.webhooks import virt_api
from tests.kubevirt_live.test_volumes_and_moves import data_volume, local_volume, target_of

OBSOLETE: Object = {
    "key": "node-labeller.kubevirt.io/obsolete-host-model",
    "operator": "DoesNotExist",
}
OF_THE_VM: Object = {"key": "tenant.example/own", "operator": "Exists"}


@pytest.fixture(scope="module", params=["cozy-kubevirt", "kubevirt"])
async def home(
    request: pytest.FixtureRequest, world: World, catalog: Catalog
) -> AsyncIterator[str]:
    """KubeVirt's namespace: that of Cozystack, and that of upstream, with the policies for it."""
    del world
    namespace: str = request.param
    usual = namespace == words.KUBEVIRT_NAMESPACE
    async with at_home(catalog.plane.cluster, namespace):
        await catalog.apply_policies([] if usual else ["kubevirt-namespace"])
        yield namespace
    await catalog.apply_policies()


def expected(launching: Launching, vmi: Object, units: int, **other: object) -> Object:
    """The launcher of a VM with a class entry, by hand; the numbers are findings."""
    uid = uid_of(vmi)
    annotations = {
        "note": "copied",  # 5
        "kubevirt.io/domain": "train",  # 6
        **launching.entries(units),  # 5
        "gpu.cozystack.io/attachments": launching.record(units),  # 5; rule 6.1.3
        "gpu.cozystack.io/launcher": uid,  # rule 6.2.1
    }
    return {
        "generateName": "virt-launcher-train-",  # 1
        "labels": {
            "app": "train",  # 5
            "kubevirt.io": "virt-launcher",
            "kubevirt.io/created-by": uid,  # 6
            "vm.kubevirt.io/name": "train",  # 6
            "vmi.kubevirt.io/id": "train",  # 6
        },
        "annotations": annotations,
        "owner": ("VirtualMachineInstance", "train", uid, True),  # 1
        "gates": ["gpu.cozystack.io/claims"],  # 10; rule 6.2.1
        "tolerations": [TOLERATION],  # rule 6.2.1
        "nodeSelector": {  # 4
            "kubernetes.io/arch": "amd64",
            "kubevirt.io/schedulable": "true",
            "machine-type.node.kubevirt.io/q35": "true",
        },
        "affinity": {  # 4
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [OBSOLETE]}]
                }
            }
        },
        "container": "compute",  # 8
        "cpu": "200m",  # 3: two cores
        "memory": "3348Mi",  # 3: a guest of 2 GiB with a device
        "devices": [{launching.gpu: str(units)}] * 2,  # 2: requests and limits
        **other,
    }


async def test_a_vm_gets_its_units_and_its_launcher_waits_at_our_gate(
    launching: Launching, enforced: Catalog
) -> None:
    events = len(enforced.plane.audit_events())
    async with launching.kubevirt(launching.home):
        await launching.start(launching.entries(2), tolerations=[OF_THE_VM])
        pod = await launching.launcher()
        vmi = await launching.until_phase("Scheduling")  # 11
    assert annotations_of(vmi)[words.ANNOTATION_ATTACHMENTS] == launching.record(2)
    assert vmi["spec"]["domain"]["devices"]["gpus"] == [
        {"name": "class-0-0", "deviceName": launching.gpu},
        {"name": "class-0-1", "deviceName": launching.gpu},
    ]
    assert shown(pod) == expected(launching, vmi, 2, tolerations=[OF_THE_VM, TOLERATION])  # 4
    assert "activePods" in status_of(vmi)  # 11

    since = enforced.plane.audit_events()[events:]
    made = {
        each["objectRef"]["resource"]: each["user"]
        for each in since
        if each["verb"] == "create"
        and each["objectRef"].get("namespace") == launching.namespace
        and each["objectRef"]["resource"] in {"pods", "virtualmachineinstances"}
    }
    account = f"system:serviceaccount:{launching.home}:kubevirt-controller"  # 1
    assert {what: user["username"] for what, user in made.items()} == {
        "pods": account,
        "virtualmachineinstances": account,
    }


async def test_a_vm_that_names_a_claim_has_it_in_its_record(launching: Launching) -> None:
    await launching.tainted()
    await launching.person.sees(launching.class_name, orderableUnits=4)
    order = claim(launching.namespace, "held", launching.class_name, 3)
    await launching.person.api.create(order)
    async with launching.kubevirt(launching.home):
        await launching.start({words.ANNOTATION_CLAIMS: '["held"]'})
        pod = await launching.launcher()
    assert annotations_of(pod)[words.ANNOTATION_ATTACHMENTS] == (
        f'[{{"claim":"held","className":"{launching.class_name}",'
        f'"resourceName":"{launching.gpu}","count":3}}]'
    )
    assert shown(pod)["devices"] == [{launching.gpu: "3"}] * 2
    assert shown(pod)["gates"] == [words.GATE]


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        pytest.param(
            "gpu.cozystack.io/classes",
            "metadata.annotations[gpu.cozystack.io/classes][0].className: there is no class b200",
            id="no such class",
        ),
        pytest.param(
            "gpu.cozystack.io/class",
            "metadata.annotations[gpu.cozystack.io/class]: not known, expected "
            "gpu.cozystack.io/classes or gpu.cozystack.io/claims",
            id="no such annotation",
        ),
    ],
)
async def test_what_no_vm_can_have_is_told_on_the_vm(
    launching: Launching, key: str, refusal: str
) -> None:
    """A VM is taken as it is; what is refused is each of its starts."""
    async with launching.kubevirt(launching.home):
        await launching.start({key: '[{"className":"b200","count":1}]'})

        async def told() -> str:
            failure = condition(await launching.vm(), "Failure")
            return str(failure.get("message", ""))

        message = await wait_until(told, "the VM says why it does not start")
    assert message == (
        'Failure while starting VMI: admission webhook "vmis.gpu.cozystack.io" denied the request: '
        f"{refusal}"
    )
    assert await launching.pods() == []


async def test_the_machines_own_annotations_ask_for_nothing(
    launching: Launching, reviews: Reviews
) -> None:
    """docs/tenants.md: they belong on the template, from which alone instances are made."""
    machine: Object = {
        "apiVersion": w.API_VERSION,
        "kind": "VirtualMachine",
        "metadata": {
            "name": "train",
            "namespace": launching.namespace,
            "annotations": launching.entries(1),
        },
        "spec": {"runStrategy": "Always", "template": launching.template({})},
    }
    before = await reviews.counted()
    async with launching.kubevirt(launching.home):
        await launching.person.api.create(machine)
        pod = await launching.launcher()
        instance = await launching.vmi()
    assert shown(pod)["gates"] == []
    assert words.ANNOTATION_CLASSES not in annotations_of(instance)
    assert await reviews.counted() == before


async def test_names_that_collide_in_labels_are_no_matter(launching: Launching) -> None:
    """KubeVirt observed 6; rule 6.2.4."""
    long = "train.a-very-long-virtual-machine-name-that-goes-past-sixty-three-characters-for-sure"
    async with launching.kubevirt(launching.home):
        for name, units in ((long, 1), ("train.b", 2)):
            await launching.start(launching.entries(units), name)

        async def both() -> list[Object] | None:
            label = "vm.kubevirt.io/name=train"
            pods = await launching.api.list(w.POD, launching.namespace, labelSelector=label)
            return pods if len(pods) == 2 else None

        pods = {
            annotations_of(pod)[w.ANNOTATION_DOMAIN]: pod
            for pod in await wait_until(both, "both have a pod")
        }
        marks = {name: annotations_of(pod)[words.ANNOTATION_LAUNCHER] for name, pod in pods.items()}
        assert marks == {name: uid_of(await launching.vmi(name)) for name in (long, "train.b")}
    assert [shown(pods[name])["devices"][0][launching.gpu] for name in (long, "train.b")] == [
        "1",
        "2",
    ]


async def test_each_instance_of_a_set_is_judged_before_it_has_a_name(launching: Launching) -> None:
    """KubeVirt observed 7."""
    template = launching.template(launching.entries(1))
    async with launching.kubevirt(launching.home):
        await launching.person.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachineInstanceReplicaSet",
                "metadata": {"name": "rs1", "namespace": launching.namespace},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "train"}},
                    "template": template,
                },
            }
        )

        async def both() -> list[Object] | None:
            pods = await launching.api.list(w.POD, launching.namespace, labelSelector="app=train")
            return pods if len(pods) == 2 else None

        pods = await wait_until(both, "both have a pod")
        vmis = await launching.api.list(w.VMI, launching.namespace)
    marks = {annotations_of(pod)[words.ANNOTATION_LAUNCHER] for pod in pods}
    assert marks == {uid_of(vmi) for vmi in vmis}
    assert {name_of(vmi)[:3] for vmi in vmis} == {"rs1"}
    assert [shown(pod)["gates"] for pod in pods] == [[words.GATE]] * 2


async def test_a_pod_that_binds_volumes_waits_like_the_launcher_after_it(
    launching: Launching,
) -> None:
    """KubeVirt observed 38 and 39."""
    node = await launching.tainted()
    await data_volume(launching, await local_volume(launching, node))
    async with launching.kubevirt(launching.home):
        volume = {"name": "root", "dataVolume": {"name": "boot"}}
        await launching.start(launching.entries(1), volumes=[volume])
        temporary = await launching.launcher()
        vmi = await launching.vmi()
        wanted = expected(launching, vmi, 1)
        wanted["annotations"]["kubevirt.io/ephemeral-provisioning"] = "true"  # 38
        assert shown(temporary) == wanted  # 38: with the same GPUs
        await launching.release(temporary, node)
        launcher = await launching.launcher(but=frozenset({uid_of(temporary)}))
        assert shown(launcher) == expected(launching, vmi, 1)  # 39: gated like the first
        await launching.release(launcher, node)
        await launching.until_shown("Running")


async def test_a_migration_target_is_marked_and_never_waits(launching: Launching) -> None:
    """KubeVirt observed 43; KubeVirt gives a target up that waits (45)."""
    here, there = await launching.tainted(), await launching.tainted()
    async with launching.kubevirt(launching.home):
        await launching.start(launching.entries(1))
        source = await launching.launcher()
        await launching.release(source, here)
        await launching.until_shown("Running")
        migration = await launching.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachineInstanceMigration",
                "metadata": {"name": "move", "namespace": launching.namespace},
                "spec": {"vmiName": "train"},
            }
        )
        target = await target_of(launching, migration)
        vmi = await launching.vmi()
        wanted = expected(launching, vmi, 1, gates=[])
        wanted["labels"] |= {
            "kubevirt.io/migrationJobUID": uid_of(migration),  # 43
            "kubevirt.io/nodeName": here,  # 43: the source's
        }
        wanted["annotations"]["kubevirt.io/migrationJobName"] = "move"  # 43
        wanted["nodeSelector"] |= {
            "cpu-model-migration.node.kubevirt.io/Haswell": "true",
            "cpu-vendor.node.kubevirt.io/Intel": "true",
        }
        apart = {
            "labelSelector": {"matchLabels": {"kubevirt.io/created-by": uid_of(vmi)}},
            "topologyKey": "kubernetes.io/hostname",
        }
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        wanted["affinity"]["podAntiAffinity"] = {required: [apart]}  # 43
        assert shown(target) == wanted
        assert (await launching.bound(target))["spec"]["nodeName"] == there


async def test_a_pod_that_plugs_in_volumes_is_let_alone(launching: Launching) -> None:
    """KubeVirt observed 46; rule 6.2.3."""
    node = await launching.tainted()
    await launching.api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "hot", "namespace": launching.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    plugged = {"claimName": "hot", "hotpluggable": True}
    async with launching.kubevirt(launching.home):
        volume = {"name": "extra", "persistentVolumeClaim": plugged}
        await launching.start(launching.entries(1), volumes=[volume])
        await launching.release(await launching.launcher(), node)

        async def attached() -> list[Object] | None:
            label = "kubevirt.io=hotplug-disk"
            return await launching.api.list(w.POD, launching.namespace, labelSelector=label) or None

        (pod,) = await wait_until(attached, "an attachment pod is made")
    assert not any(name.startswith(words.GROUP) for name in annotations_of(pod))
    assert "schedulingGates" not in pod["spec"]
    assert TOLERATION in pod["spec"]["tolerations"]  # the launcher's, by KubeVirt


async def test_while_we_are_away_kubevirt_waits_and_goes_on_afterwards(
    launching: Launching, enforced: Catalog
) -> None:
    """KubeVirt observed 15: no failed start, and pauses that grow."""
    await launching.standalone(launching.entries(1))
    await enforced.stop()
    try:
        async with launching.kubevirt(launching.home):

            async def told() -> str:
                found = condition(await launching.vmi(), "Synchronized")
                return str(found.get("message", ""))

            message = await wait_until(told, "the instance says why it has no pod")
            assert message.startswith(
                "failed to create virtual machine pod: Internal error occurred: failed calling "
                'webhook "pods.gpu.cozystack.io": '
            )
            assert phase_of(await launching.vmi()) == "Pending"
            await enforced.restart()
            pod = await launching.launcher()
    finally:
        await enforced.restart()
    assert shown(pod) == expected(launching, await launching.vmi(), 1)


@pytest.mark.parametrize(
    ("changed", "gates"),
    [
        pytest.param({"enabled": "false"}, [], id="the feature is switched off meanwhile"),
        pytest.param({"placement": "scheduler"}, [], id="Kubernetes' scheduler places"),
        pytest.param({"placement": "binder"}, [words.GATE], id="the binder places"),
    ],
)
async def test_the_mark_is_always_written_and_the_gate_where_somebody_opens_it(
    launching: Launching, cluster: Cluster, changed: dict[str, str], gates: list[str]
) -> None:
    await launching.standalone(launching.entries(1))
    async with settled(cluster, changed), launching.kubevirt(launching.home):
        pod = await launching.launcher()
    assert shown(pod) == expected(launching, await launching.vmi(), 1, gates=gates)


async def test_what_kubevirt_changes_in_a_running_vm_leaves_its_pod_as_we_made_it(
    launching: Launching,
) -> None:
    """KubeVirt observed 16: tolerations in the VM would be undone, so they are the pod's."""
    async with launching.kubevirt(launching.home):
        await launching.start(launching.entries(1))
        before = await launching.launcher()
        changed = {"spec": {"template": {"spec": {"tolerations": [OF_THE_VM]}}}}
        await launching.person.api.patch(w.VM, "train", changed, launching.namespace)

        async def taken_over() -> bool:
            return bool((await launching.vmi())["spec"].get("tolerations") == [OF_THE_VM])

        await wait_until(taken_over, "the instance has the tolerations of its VM")
        after = await launching.launcher()
    assert shown(after)["tolerations"] == shown(before)["tolerations"] == [TOLERATION]


async def test_kubevirts_own_webhooks_find_what_we_wrote_and_keep_it(launching: Launching) -> None:
    """Ours come first by their name; what KubeVirt fills in passes the last look."""
    async with (
        virt_api(launching.cluster, launching.home, launching.namespace),
        launching.kubevirt(launching.home),
    ):
        disk = {"name": "root", "containerDisk": {"image": "registry.example/fedora:40"}}
        await launching.start(launching.entries(2), volumes=[disk])
        pod = await launching.launcher()
    vmi = await launching.vmi()
    devices = vmi["spec"]["domain"]["devices"]
    assert devices["disks"] == [{"name": "root", "disk": {"bus": "sata"}}]
    assert [each["name"] for each in devices["gpus"]] == ["class-0-0", "class-0-1"]
    assert labels_of(pod)[w.LABEL_CREATED_BY] == annotations_of(pod)[words.ANNOTATION_LAUNCHER]
    assert shown(pod)["gates"] == [words.GATE]
