"""Who uses no GPU class does not depend on us; who does is told who is missing (rule 6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from shared import vocabulary as words
from tests.admission.counting import Reviews
from tests.admission.people import VMI
from tests.catalog.objects import claim
from tests.catalog.tenants import RBAC, Tenant
from tests.cluster.api import Api, Object, Refused
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

Unique = Callable[[str], str]

HOOKS = ("mutation.webhook", "validation.webhook")

BARE: Object = {"spec": {"domain": {"devices": {}}}}
ONE = '[{"className":"a100","count":1}]'


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


def plain(namespace: str, number: int) -> list[Object]:
    """Objects that use no GPU class, in every form that could trip a condition."""
    name = f"plain-{number}"
    template = {"metadata": {"annotations": {words.ANNOTATION_CLASSES: ONE}}, **BARE}
    gated: Object = {"schedulingGates": [{"name": "example.com/other"}]}
    return [
        vmi(namespace, name),
        vmi(namespace, f"{name}-null", None),
        vmi(namespace, f"{name}-empty", {}),
        vmi(namespace, f"{name}-other", {"example.com/classes": ONE, "gpu.cozystack.io": ""}),
        pod(namespace, name, **gated),
        pod(namespace, f"{name}-free", nodeSelector={"no": "where"}),
        {
            "apiVersion": words.KUBEVIRT_GROUP_VERSION,
            "kind": words.KIND_VM,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"template": template},
        },
    ]


async def test_what_uses_no_gpu_class_never_reaches_us(
    enforced: Catalog, acme: Tenant, reviews: Reviews
) -> None:
    before, events = await reviews.counted(), len(enforced.plane.audit_events())
    for number in range(50):
        for thing in plain(acme.namespace, number):
            await lives(acme.api, thing)
    await acme.api.call("DELETE", await acme.api.path("v1/Pod", acme.namespace))

    assert await reviews.counted() == before
    since = enforced.plane.audit_events()[events:]
    assert len([each for each in since if "plain-" in each["requestURI"]]) > 50 * 7
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


@pytest.fixture
async def stopped(enforced: Catalog) -> AsyncIterator[Catalog]:
    """Our server is away."""
    await enforced.stop()
    yield enforced
    await enforced.restart()


@pytest.mark.usefixtures("stopped")
async def test_without_us_only_what_uses_gpu_classes_is_refused_and_is_told_who_is_missing(
    acme: Tenant, cluster: Cluster
) -> None:
    for number in range(5):
        for thing in plain(acme.namespace, number):
            await lives(acme.api, thing)
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
        (gated, "pods"),
        (claim(acme.namespace, "order", "a100", 1), "gpuclaims"),
    ):
        with pytest.raises(Refused) as refused:
            await acme.api.create(thing)
        assert f'failed calling webhook "{hook}.gpu.cozystack.io"' in refused.value.message
        assert f"{words.SERVICE_APISERVER}.{words.NAMESPACE}.svc" in refused.value.message
        assert refused.value.code == 500


@pytest.fixture
async def blind(enforced: Catalog) -> AsyncIterator[None]:
    """Our account may not read KubeVirt's configuration."""
    admin, kind = enforced.plane.cluster.admin, f"{RBAC}/v1/ClusterRole"
    role = await admin.get(kind, words.SERVICE_APISERVER)
    rules = [
        {**rule, "resources": [each for each in rule["resources"] if each != "kubevirts"]}
        for rule in role["rules"]
    ]
    await admin.patch(kind, words.SERVICE_APISERVER, {"rules": rules})
    yield
    await admin.patch(kind, words.SERVICE_APISERVER, {"rules": role["rules"]})


@pytest.mark.usefixtures("blind")
async def test_what_cannot_be_read_is_named_in_the_refusal(acme: Tenant) -> None:
    thing = vmi(acme.namespace, "unseen", {words.ANNOTATION_CLASSES: ONE}) | BARE
    path = await acme.api.path(VMI, acme.namespace)

    async def is_refused() -> Object | None:
        reply = await acme.api.request("POST", path, thing, query={"dryRun": "All"})
        return None if reply.status == 201 else reply.body

    told = await wait_until(is_refused, "the right is gone")
    assert told["message"] == (
        'admission webhook "vmis.gpu.cozystack.io" denied the request: GPU admission: the cluster '
        "cannot be read fully at the moment: KubeVirt's configuration: we may not read it"
    )
    assert (told["code"], told["reason"]) == (503, "InputsUnreadable")
    await acme.api.create(vmi(acme.namespace, "plain"), dryRun="All")
