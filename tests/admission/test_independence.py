"""Who uses no GPU class does not depend on us; who does is told who is missing (rule 6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from shared import vocabulary as words
from tests.admission.counting import Reviews
from tests.admission.people import VMI
from tests.admission.world import World
from tests.catalog.objects import CLAIM, claim
from tests.catalog.tenants import Tenant
from tests.cluster.api import Api, Object, Refused
from tests.cluster.build import REPOSITORY
from tests.cluster.install import Catalog
from tests.cluster.processes import suspended
from tests.cluster.session import Cluster
from tests.kubevirt import kinds

Unique = Callable[[str], str]

HOOKS = ("mutation.webhook", "validation.webhook")

BARE: Object = {"spec": {"domain": {"devices": {}}}}
ONE = '[{"className":"a100","count":1}]'
OTHERS = {
    "example.com/classes": ONE,
    "gpu.cozystack.io": "",
    "x.gpu.cozystack.io/classes": ONE,
    "gpu.cozystack.io.example.com/classes": ONE,
}
"""Annotations that are none of ours, however like."""


def vmi(namespace: str, name: str, annotations: object = ...) -> Object:
    """A VM instance."""
    metadata: Object = {"name": name, "namespace": namespace}
    if annotations is not ...:
        metadata["annotations"] = annotations
    return {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VMI,
        "metadata": metadata,
        "spec": {"domain": {"devices": {"gpus": [{"name": "a", "deviceName": "nvidia.com/X"}]}}},
    }


def pod(namespace: str, name: str, **spec: object) -> Object:
    """A pod that waits at somebody else's gate, if anywhere."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
    }


async def lives(api: Api, thing: Object) -> None:
    """Make, change and delete an object."""
    kind = f"{thing['apiVersion']}/{thing['kind']}"
    name, namespace = thing["metadata"]["name"], thing["metadata"].get("namespace")
    await api.create(thing, dryRun="All")
    await api.create(thing)
    await api.patch(kind, name, {"metadata": {"annotations": {"seen": "yes"}}}, namespace)
    await api.delete(kind, name, namespace)


def plain(namespace: str, name: str) -> list[Object]:
    """Objects that use no GPU class, four of each kind, in forms that could trip a condition."""
    template = {"metadata": {"annotations": {words.ANNOTATION_CLASSES: ONE}}, **BARE}
    templates: list[Object] = [{}, {"metadata": None}, {"metadata": {}}, BARE]
    selector: Object = {"matchLabels": {"gpu.cozystack.io/claims": "x"}}
    return [
        vmi(namespace, name),
        vmi(namespace, f"{name}-null", None),
        vmi(namespace, f"{name}-empty", {}),
        vmi(namespace, f"{name}-other", OTHERS),
        pod(namespace, name, schedulingGates=[{"name": "example.com/other"}]),
        pod(namespace, f"{name}-free", nodeSelector={"no": "where"}),
        pod(namespace, f"{name}-gone", schedulingGates=[], nodeSelector={"no": "where"}),
        pod(namespace, f"{name}-like", schedulingGates=[{"name": f"{words.GROUP}/other"}]),
        *(
            {
                "apiVersion": words.KUBEVIRT_GROUP_VERSION,
                "kind": words.KIND_VM,
                "metadata": {"name": f"{name}-{form}", "namespace": namespace},
                "spec": {"template": {**template, **more}},
            }
            for form, more in enumerate(templates)
        ),
        application("VMInstance", namespace, name, gpus=[{"name": "nvidia.com/X"}]),
        application("VMInstance", namespace, f"{name}-none"),
        application("KubernetesNodes", namespace, name, gpus=[]),
        application("KubernetesNodes", namespace, f"{name}-other", selector=selector),
    ]


def application(kind: str, namespace: str, name: str, **spec: object) -> Object:
    """An application of Cozystack's."""
    return {
        "apiVersion": "apps.cozystack.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def tenants(name: str) -> list[Object]:
    """Four namespaces: a tenant's, one that is denied vGPUs, one of nobody, one oddly labelled."""
    made: Object = {"apiVersion": "v1", "kind": "Namespace"}
    return [
        made | {"metadata": {"name": f"tenant-{name}"}},
        made
        | {
            "metadata": {
                "name": f"tenant-{name}-vgpu",
                "labels": {words.LABEL_ENTITLEMENT: "denied"},
            }
        },
        made | {"metadata": {"name": name}},
        made | {"metadata": {"name": f"{name}-label", "labels": {"kubevirt.io": "virt-launcher"}}},
    ]


async def live_through(cluster: Cluster, person: Tenant, stem: str, rounds: int) -> int:
    """Make, change and delete four objects of each kind per round; returns how many in all.

    Their names begin with the stem, which no other test has: namespaces go slowly.
    """
    busy = asyncio.Semaphore(8)  # more at once would only wait for each other

    async def one(api: Api, thing: Object) -> None:
        async with busy:
            await lives(api, thing)

    count = 0
    async with asyncio.TaskGroup() as tasks:
        for number in range(rounds):
            name = f"{stem}-{number}"
            for thing in (*plain(person.namespace, name), *tenants(name)):
                count += 1
                of_a_person = thing["apiVersion"] in {"v1", words.KUBEVIRT_GROUP_VERSION}
                is_his = of_a_person and thing["kind"] != "Namespace"
                tasks.create_task(one(person.api if is_his else cluster.admin, thing))
    await person.api.call("DELETE", await person.api.path("v1/Pod", person.namespace))
    return count


@pytest.fixture(scope="module")
async def applications(world: World, cluster: Cluster) -> None:
    """The kinds of Cozystack's applications."""
    del world
    await kinds.install(cluster, kinds.COZYSTACK)


ROUNDS = 50
ROUNDS_WITHOUT_US = 10


@pytest.mark.usefixtures("applications")
async def test_what_uses_no_gpu_class_never_reaches_us(
    enforced: Catalog, acme: Tenant, reviews: Reviews, unique: Unique
) -> None:
    """200 of each: VMs, their instances, pods, applications and namespaces."""
    stem = unique("plain")
    before, events = await reviews.counted(), len(enforced.plane.audit_events())
    count = await live_through(enforced.plane.cluster, acme, stem, ROUNDS)
    assert count == ROUNDS * 20

    assert await reviews.counted() == before
    since = enforced.plane.audit_events()[events:]
    assert len([each for each in since if stem in each["requestURI"]]) > count
    assert [
        each for each in since if any(is_call(key) for key in each.get("annotations", {}))
    ] == []

    await acme.api.create(vmi(acme.namespace, "proof") | BARE, dryRun="All")
    assert await reviews.counted() == before
    gpu = vmi(acme.namespace, "proof", {words.ANNOTATION_CLASSES: ONE}) | BARE
    await acme.api.create(gpu, dryRun="All")
    assert await reviews.counted() == before + 2, "one that does is judged twice"


def is_call(annotation: str) -> bool:
    """Whether an annotation of an audit event tells of a webhook that was called."""
    return annotation.startswith(HOOKS)


async def test_an_update_or_deletion_of_a_vm_with_gpus_never_reaches_us(
    acme: Tenant, reviews: Reviews, unique: Unique
) -> None:
    name = unique("kept")
    made = vmi(acme.namespace, name, {words.ANNOTATION_CLASSES: ONE}) | BARE
    await acme.api.create(made)
    before = await reviews.counted()
    await acme.api.patch(VMI, name, {"spec": {"terminationGracePeriodSeconds": 5}}, acme.namespace)
    await acme.api.delete(VMI, name, acme.namespace)
    assert await reviews.counted() == before


ENDINGS = ("context deadline exceeded", "net/http: TLS handshake timeout")
"""Of what is told when our server hangs: after 15 s on an open connection, after 10 on a new."""


async def test_a_server_that_hangs_is_told_of_in_the_words_of_the_documents(
    enforced: Catalog, acme: Tenant, reviews: Reviews
) -> None:
    order = claim(acme.namespace, "order", "a100", 1)
    path = await acme.api.path(CLAIM, acme.namespace)
    await enforced.restart()
    # From then on there is one open connection, on which one review at a time is asked for.
    await acme.api.request("POST", path, order, query={"dryRun": "All"})
    try:
        with suspended(enforced.component.process):
            replies = await asyncio.gather(
                *(acme.api.request("POST", path, order, query={"dryRun": "All"}) for _ in range(2))
            )
    finally:
        await reviews.until_seen_anew()
    told = [reply.body["message"] for reply in replies]
    assert {reply.body["reason"] for reply in replies} == {"InternalError"}
    assert sorted(each for each in ENDINGS for message in told if message.endswith(each)) == sorted(
        ENDINGS
    )
    for document in ("docs/operating.md", "docs/reasons.md", "docs/installing.md"):
        text = (REPOSITORY / document).read_text()
        assert [each for each in ENDINGS if f"{each}`" not in text] == [], document


@pytest.fixture
async def stopped(enforced: Catalog) -> AsyncIterator[Catalog]:
    """Our server is away."""
    await enforced.stop()
    yield enforced
    await enforced.restart()


@pytest.mark.usefixtures("stopped", "applications")
async def test_without_us_only_what_uses_gpu_classes_is_refused_and_is_told_who_is_missing(
    acme: Tenant, cluster: Cluster, unique: Unique
) -> None:
    """A namespace's deletion is taken, and ends once our part of the API answers again."""
    await live_through(cluster, acme, unique("plain"), ROUNDS_WITHOUT_US)
    # Also our own pods: else nobody could start us again.
    ours = await cluster.admin.get("apps/v1/Deployment", "gpu-apiserver", words.NAMESPACE)
    spec = ours["spec"]["template"]["spec"]
    await cluster.admin.create(pod(words.NAMESPACE, "own", **spec), dryRun="All")
    await cluster.admin.create(pod("kube-system", "system"), dryRun="All")

    gated = pod(acme.namespace, "gated", schedulingGates=[{"name": words.GATE}])
    for thing, hook in (
        (vmi(acme.namespace, "with", {words.ANNOTATION_CLASSES: ONE}), "vmis"),
        (vmi(acme.namespace, "with", {words.ANNOTATION_CLASSES: ""}), "vmis"),
        (vmi(acme.namespace, "with", {words.ANNOTATION_LAUNCHER: "x"}), "vmis"),
        (vmi(acme.namespace, "with", {f"{words.ANNOTATION_PREFIX}class": ONE}), "vmis"),
        (gated, "pods"),
        (claim(acme.namespace, "order", "a100", 1), "gpuclaims"),
    ):
        with pytest.raises(Refused) as refused:
            await acme.api.create(thing)
        assert f'failed calling webhook "{hook}.gpu.cozystack.io"' in refused.value.message
        assert f"{words.SERVICE_APISERVER}.{words.NAMESPACE}.svc" in refused.value.message
        assert refused.value.code == 500
