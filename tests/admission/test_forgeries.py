"""What a tenant with the role edit forges: marks, records, pods, migrations (rules 6.1.3, 6.2).

A template is copied as it is, and what KubeVirt makes of it, KubeVirt's account makes: so a label
or an annotation that came that way proves nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import pytest

from shared import vocabulary as words
from tests.admission.launching import Launching, shown
from tests.cluster.api import Object, Refused
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import annotations_of, condition, labels_of, name_of, uid_of

ANOTHER = "11111111-2222-4333-8444-555555555555"
STRANGER = "only pods that KubeVirt makes for a virtual machine with GPUs have it"


async def replica_set(launching: Launching, template: Object) -> Object:
    """The tenant makes a set of one instance of a template."""
    return await launching.person.api.create(
        {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstanceReplicaSet",
            "metadata": {"name": "rs1", "namespace": launching.namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "train"}},
                "template": template,
            },
        }
    )


async def only_pod(launching: Launching) -> Object:
    """The one pod of the label that templates here have."""

    async def made() -> Object | None:
        pods = await launching.api.list(w.POD, launching.namespace, labelSelector="app=train")
        return pods[0] if pods else None

    return await wait_until(made, "a pod is made")


async def migration_of(launching: Launching, name: str) -> Object:
    """A migration of an instance; tenants may not start one."""
    return await launching.api.create(
        {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {"name": "move", "namespace": launching.namespace},
            "spec": {"vmiName": name},
        }
    )


@pytest.mark.parametrize("real", [False, True], ids=["made up", "of another VM's migration"])
async def test_a_migration_in_a_replica_sets_template_does_not_open_the_gate(
    launching: Launching, real: bool
) -> None:
    """KubeVirt's own webhook lets its account set the label, and its account makes sets' VMs."""
    uid = uid_of(await migration_of(launching, "other")) if real else ANOTHER
    template = launching.template(launching.entries(1))
    template["metadata"]["labels"][w.LABEL_MIGRATION_JOB] = uid
    template["metadata"]["annotations"][w.ANNOTATION_MIGRATION_NAME] = "move"
    async with launching.kubevirt(launching.home):
        await replica_set(launching, template)
        pod = await only_pod(launching)
        (vmi,) = await launching.api.list(w.VMI, launching.namespace)
    assert labels_of(pod)[w.LABEL_MIGRATION_JOB] == uid  # it went through
    assert shown(pod)["gates"] == [words.GATE]
    assert annotations_of(pod)[words.ANNOTATION_LAUNCHER] == uid_of(vmi)


async def test_a_migration_of_the_vm_itself_does_not_open_the_gate_before_the_vm_runs(
    launching: Launching,
) -> None:
    """The name of an instance can be guessed; that it runs on a node cannot be forged."""
    migration = await migration_of(launching, "train")
    template = launching.template(launching.entries(1))
    labels = {**template["metadata"]["labels"], w.LABEL_MIGRATION_JOB: uid_of(migration)}
    await launching.api.create(  # as the set's controller would
        {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstance",
            "metadata": {
                "name": "train",
                "namespace": launching.namespace,
                "labels": labels,
                "annotations": {
                    **template["metadata"]["annotations"],
                    w.ANNOTATION_MIGRATION_NAME: "move",
                },
            },
            "spec": template["spec"],
        }
    )
    account = f"system:serviceaccount:{launching.home}:{w.ACCOUNT_CONTROLLER}"
    vmi = await launching.vmi()
    pod = launcher_of(launching, vmi, annotations_of(vmi), labels)
    made = await launching.api.request(
        "POST",
        await launching.api.path(w.POD, launching.namespace),
        pod,
        headers={"Impersonate-User": account, "Impersonate-Group": "system:masters"},
        query={"dryRun": "All"},
    )
    assert made.status == 201, made.text
    assert made.body["spec"]["schedulingGates"] == [{"name": words.GATE}]


def launcher_of(
    launching: Launching,
    vmi: Object,
    annotations: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
) -> Object:
    """A pod as much like a VM's launcher as anybody can make it."""
    resources = {"limits": {launching.gpu: "2"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "virt-launcher-train-",
            "namespace": launching.namespace,
            "labels": {
                **(labels or {}),
                w.LABEL_APP: w.LAUNCHER,
                w.LABEL_CREATED_BY: uid_of(vmi),
                w.LABEL_VM_NAME: "train",
            },
            "annotations": dict(annotations),
            "ownerReferences": [
                {
                    "apiVersion": w.API_VERSION,
                    "kind": "VirtualMachineInstance",
                    "name": name_of(vmi),
                    "uid": uid_of(vmi),
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "c", "image": "none", "resources": resources}]},
    }


@pytest.mark.parametrize(
    ("forged", "field"),
    [
        pytest.param(["launcher"], "launcher", id="the mark"),
        pytest.param(["attachments"], "attachments", id="the record"),
        pytest.param(["launcher", "attachments", "classes"], "launcher", id="everything"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["before the launcher", "beside it"])
async def test_a_pod_of_a_tenant_is_no_launcher_whatever_it_copies(
    launching: Launching, forged: list[str], field: str, first: bool
) -> None:
    await launching.standalone(launching.entries(2))
    vmi = await launching.vmi()
    known = {**annotations_of(vmi), words.ANNOTATION_LAUNCHER: uid_of(vmi)}
    pod = launcher_of(
        launching, vmi, {f"{words.GROUP}/{n}": known[f"{words.GROUP}/{n}"] for n in forged}
    )
    if not first:
        async with launching.kubevirt(launching.home):
            await launching.launcher()
    with pytest.raises(Refused) as refused:
        await launching.person.api.create(pod)
    assert (
        f"metadata.annotations[{words.GROUP}/{field}]: {STRANGER}; this one was made by "
        f'"{launching.person.user.name}", expected system:serviceaccount:'
    ) in refused.value.message
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


async def test_a_pod_with_a_vms_uid_and_nothing_of_ours_stays_a_strangers(
    launching: Launching,
) -> None:
    """Unmarked it is nobody's launcher (rule 7.13), and holds devices outside (rule 4.6).

    KubeVirt lists it among the VM's pods all the same (KubeVirt observed 17).
    """
    node = await launching.tainted()
    await launching.person.sees(launching.class_name, freeUnits=4)
    await launching.standalone(launching.entries(2))
    forged = launcher_of(launching, await launching.vmi(), {})
    forged["spec"]["tolerations"] = [{"operator": "Exists"}]
    forged["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    async with launching.kubevirt(launching.home):
        real = await launching.launcher()
        pod = await launching.person.api.create(forged)
        assert words.ANNOTATION_LAUNCHER not in annotations_of(pod)
        assert "schedulingGates" not in pod["spec"]
        await launching.bound(pod)
        await launching.person.sees(launching.class_name, freeUnits=2)
        again = await launching.api.get(w.POD, name_of(real), launching.namespace)
    assert annotations_of(again)[words.ANNOTATION_LAUNCHER] == uid_of(await launching.vmi())
    assert shown(again)["gates"] == [words.GATE]


async def test_a_controller_that_copies_a_mark_into_pods_is_refused(launching: Launching) -> None:
    """A tenant's own workload: its pods are made by an account of the platform."""
    pod = {
        "metadata": {
            "labels": {"app": "copy"},
            "annotations": {words.ANNOTATION_LAUNCHER: ANOTHER},
        },
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    await launching.person.api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "copy", "namespace": launching.namespace},
            "spec": {"selector": {"matchLabels": {"app": "copy"}}, "template": pod},
        }
    )

    async def told() -> str:
        found = await launching.api.get("apps/v1/ReplicaSet", "copy", launching.namespace)
        return str(condition(found, "ReplicaFailure").get("message", ""))

    message = await wait_until(told, "the set says why it has no pod")
    await launching.api.delete("apps/v1/ReplicaSet", "copy", launching.namespace)  # it would go on
    assert f"metadata.annotations[{words.ANNOTATION_LAUNCHER}]: {STRANGER}; this one was" in message


FORGED: Object = {
    "attachments": '[{"entry":0,"className":"a100","resourceName":"example.com/x","count":8}]',
    "launcher": ANOTHER,
}


@pytest.mark.parametrize("maker", ["a VM", "a replica set"])
async def test_a_record_or_mark_in_a_template_is_never_believed(
    launching: Launching, maker: str
) -> None:
    forged = {f"{words.GROUP}/{key}": value for key, value in FORGED.items()}
    annotations = {**launching.entries(1), **forged}
    async with launching.kubevirt(launching.home):
        if maker == "a VM":
            await launching.start(annotations)
        else:
            await replica_set(launching, launching.template(annotations))
        pod = await only_pod(launching)
        (vmi,) = await launching.api.list(w.VMI, launching.namespace)
    for made in (vmi, pod):
        assert annotations_of(made)[words.ANNOTATION_ATTACHMENTS] == launching.record(1)
    assert annotations_of(pod)[words.ANNOTATION_LAUNCHER] == uid_of(vmi)
    assert shown(pod)["devices"] == [{launching.gpu: "1"}] * 2


@pytest.mark.parametrize("key", ["attachments", "launcher"])
async def test_a_record_or_mark_alone_starts_no_vm(launching: Launching, key: str) -> None:
    name = f"{words.GROUP}/{key}"
    async with launching.kubevirt(launching.home):
        await launching.start({name: FORGED[key]})

        async def told() -> str:
            return str(condition(await launching.vm(), "Failure").get("message", ""))

        message = await wait_until(told, "the VM says why it does not start")
    assert f"denied the request: metadata.annotations[{name}]: " in message
    assert message.endswith("admission alone writes it, and there is no class or claim")


async def test_entries_that_a_template_forges_with_its_record_are_raw_entries(
    launching: Launching,
) -> None:
    """More units than the class entries ask for, with a record that says so."""
    template = launching.template(launching.entries(1))
    template["metadata"]["annotations"][words.ANNOTATION_ATTACHMENTS] = launching.record(2)
    template["spec"]["domain"]["devices"]["gpus"] = [
        {"name": f"class-0-{unit}", "deviceName": launching.gpu} for unit in range(2)
    ]
    made = copy.deepcopy(template)
    metadata = {**made["metadata"], "name": "train", "namespace": launching.namespace}
    vmi = {"apiVersion": w.API_VERSION, "kind": "VirtualMachineInstance", "metadata": metadata}
    created = await launching.person.api.create({**vmi, "spec": made["spec"]}, dryRun="All")
    assert annotations_of(created)[words.ANNOTATION_ATTACHMENTS] == launching.record(1)
    assert created["spec"]["domain"]["devices"]["gpus"] == [
        {"name": "class-0-0", "deviceName": launching.gpu}
    ]
