"""Requests of every form through the real API server: what reaches us, and what comes of it."""

from __future__ import annotations

import json

import pytest

from shared import vocabulary as words
from tests.admission.counting import Reviews
from tests.admission.launching import Launching
from tests.admission.people import VM, VMI
from tests.catalog.objects import CLAIM, CLASS, claim, gpu_class
from tests.catalog.tenants import Tenant
from tests.cluster.api import APPLY, Object, Reply
from tests.cluster.session import Cluster
from tests.kubevirt import words as w
from tests.kubevirt.objects import annotations_of, name_of

MIB = 1024 * 1024
ONE = '[{"className":"a100","count":1}]'


def vmi(namespace: str, annotations: object, **spec: object) -> Object:
    """A VM instance."""
    return {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VMI,
        "metadata": {"name": "odd", "namespace": namespace, "annotations": annotations},
        "spec": {"domain": {"devices": {}}, **spec},
    }


async def dry(person: Tenant, body: object, kind: str = VMI) -> Reply:
    """Post something that is not stored."""
    path = await person.api.path(kind, person.namespace)
    return await person.api.request("POST", path, body, query={"dryRun": "All"})


# Of every size and spelling.


async def test_a_vm_as_large_as_the_api_server_takes_it_is_judged(acme: Tenant) -> None:
    """A request has at most 3 MiB, the review of it a little more; stored it could not be."""
    notes = "x" * (3 * MIB - 4096)
    reply = await dry(acme, vmi(acme.namespace, {words.ANNOTATION_CLASSES: ONE}, notes=notes))
    assert reply.status == 201, reply.text[:500]
    assert len(reply.body["spec"]["domain"]["devices"]["gpus"]) == 1
    reply = await dry(acme, vmi(acme.namespace, {words.ANNOTATION_CLASSES: "[]"}, notes=notes))
    assert (reply.status, reply.body["reason"]) == (422, "Malformed")


async def test_of_a_key_that_stands_twice_what_is_stored_is_what_was_judged(acme: Tenant) -> None:
    """The API server takes the last; the review then has it once."""
    two = ONE.replace("1}", "2}")
    once = json.dumps(vmi(acme.namespace, {words.ANNOTATION_CLASSES: "FIRST", "note": "SECOND"}))
    body = once.replace('"note"', json.dumps(words.ANNOTATION_CLASSES))
    body = body.replace('"FIRST"', json.dumps(ONE)).replace('"SECOND"', json.dumps(two))
    reply = await dry(acme, body.encode())
    assert reply.status == 201, reply.text
    assert annotations_of(reply.body)[words.ANNOTATION_CLASSES] == two
    assert len(reply.body["spec"]["domain"]["devices"]["gpus"]) == 2


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        pytest.param({"annotations": "all"}, 400, id="annotations are a text"),
        pytest.param({"annotations": [words.ANNOTATION_CLASSES]}, 400, id="annotations are a list"),
        pytest.param({"annotations": {words.ANNOTATION_CLASSES: 1}}, 400, id="a number"),
        pytest.param({"annotations": {words.ANNOTATION_CLASSES: [1]}}, 400, id="a list"),
        pytest.param({"annotations": {words.ANNOTATION_CLASSES: None}}, 422, id="null"),
        pytest.param({"annotations": {words.ANNOTATION_CLASSES: True}}, 400, id="a boolean"),
        pytest.param({"labels": "all"}, 400, id="labels are a text"),
        pytest.param({"ownerReferences": {"uid": "x"}}, 400, id="owners are an object"),
    ],
)
async def test_metadata_of_another_type_makes_no_vm(
    acme: Tenant, metadata: Object, code: int
) -> None:
    body = vmi(acme.namespace, {words.ANNOTATION_CLASSES: ONE})
    body["metadata"] |= metadata
    reply = await dry(acme, body)
    assert reply.status == code, reply.text


@pytest.mark.parametrize("annotations", [None, {}, {"other": "x"}], ids=["null", "none", "other"])
async def test_a_vm_without_annotations_of_ours_needs_no_review(
    acme: Tenant, reviews: Reviews, annotations: object
) -> None:
    before = await reviews.counted()
    assert (await dry(acme, vmi(acme.namespace, annotations))).status == 201
    assert await reviews.counted() == before


@pytest.mark.parametrize(
    ("count", "asked"),
    [
        pytest.param(500, 0, id="the condition looks at each"),
        pytest.param(20_000, 2, id="our server does, of a number that no VM has"),
    ],
)
async def test_among_many_annotations_a_misspelt_one_is_found_and_the_others_are_no_matter(
    acme: Tenant, reviews: Reviews, count: int, asked: int
) -> None:
    """To look at each key costs the API server the square of their number."""
    full = {f"{number:05}": "" for number in range(count - 1)}
    before = await reviews.counted()
    assert (await dry(acme, vmi(acme.namespace, {**full, "last": ""}))).status == 201
    assert await reviews.counted() == before + asked
    reply = await dry(acme, vmi(acme.namespace, {**full, "gpu.cozystack.io/class": ONE}))
    assert (reply.status, reply.body["reason"]) == (422, "Malformed")
    assert await reviews.counted() == before + asked + 1


@pytest.mark.parametrize(
    "key",
    [
        "gpu.cozystack.io/class",
        "gpu.cozystack.io/claim",
        "gpu.cozystack.io/Classes",
        "gpu.cozystack.io/gpus",
        "GPU.cozystack.io/classes",
    ],
)
async def test_a_key_of_our_prefix_that_says_nothing_starts_no_vm(acme: Tenant, key: str) -> None:
    reply = await dry(acme, vmi(acme.namespace, {key: ONE}))
    assert (reply.status, reply.body["reason"]) == (422, "Malformed")
    assert reply.body["message"] == (
        'admission webhook "vmis.gpu.cozystack.io" denied the request: '
        f"metadata.annotations[{key}]: not known, expected "
        "gpu.cozystack.io/classes or gpu.cozystack.io/claims"
    )


async def test_server_side_apply_is_judged_like_create(acme: Tenant) -> None:
    body = vmi(acme.namespace, {words.ANNOTATION_CLASSES: "[]"})
    path = await acme.api.path(VMI, acme.namespace, "odd")
    query = {"fieldManager": "x", "dryRun": "All"}
    headers = {"Content-Type": APPLY}
    reply = await acme.api.request("PATCH", path, body, headers=headers, query=query)
    assert (reply.status, reply.body["reason"]) == (422, "Malformed")


# kubectl --dry-run=server.


@pytest.mark.parametrize(
    ("thing", "told"),
    [
        pytest.param(vmi("tenant-acme", {words.ANNOTATION_CLASSES: ONE}), "", id="a VM"),
        pytest.param(
            vmi("tenant-acme", {words.ANNOTATION_CLASSES: "[]"}), "(Malformed)", id="a bad VM"
        ),
        pytest.param(claim("tenant-acme", "odd", "a100", 1), "(NoCapacity)", id="an order"),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "odd"},
                "spec": {
                    "schedulingGates": [{"name": words.GATE}],
                    "containers": [{"name": "c", "image": "none"}],
                },
            },
            "(Forbidden)",
            id="a pod",
        ),
    ],
)
async def test_kubectl_may_ask_without_making_anything(
    acme: Tenant, cluster: Cluster, thing: Object, told: str
) -> None:
    create = ("create", "--dry-run=server", "-f", "-")
    done = await acme.kubectl(*create, stdin=json.dumps(thing))
    assert (done.code == 0) == (told == "")
    assert told in done.stderr
    kind = f"{thing['apiVersion']}/{thing['kind']}"
    assert await cluster.admin.find(kind, "odd", acme.namespace) is None


async def test_kubectl_may_ask_about_a_class(cluster: Cluster) -> None:
    second = json.dumps(gpu_class("odd", "nvidia.com/AD102GL_L40S"))
    done = await cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=second)
    assert "(ClassConflict)" in done.stderr
    assert await cluster.admin.find(CLASS, "odd") is None


# What never reaches us.


async def test_no_call_about_a_part_of_a_launcher_reaches_us(
    launching: Launching, reviews: Reviews
) -> None:
    """Its status, its size, its eviction and its binding are others' business."""
    await launching.standalone(launching.entries(1))
    async with launching.kubevirt(launching.home):
        pod = await launching.launcher()
    api, name = launching.api, name_of(pod)
    path = await api.path(w.POD, launching.namespace, name)
    before = await reviews.counted()

    note: Object = {"metadata": {"annotations": {"note": "changed"}}}
    status: Object = {"status": {"message": "seen"}}
    container: Object = {"name": "debug", "image": "none"}
    size: Object = {
        "spec": {"containers": [{"name": "compute", "resources": {"requests": {"cpu": "300m"}}}]}
    }
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    await api.call("PATCH", path, note, headers=strategic)
    await api.call("PATCH", f"{path}/status", status, headers=strategic)
    resized = await api.request("PATCH", f"{path}/resize", size, headers=strategic)
    assert resized.status in {200, 422}, resized.text  # a kubelet's answer is not here
    ephemeral: Object = {"spec": {"ephemeralContainers": [container]}}
    added = await api.request("PATCH", f"{path}/ephemeralcontainers", ephemeral, headers=strategic)
    assert added.status in {200, 422}, added.text
    gate = [{"op": "remove", "path": "/spec/schedulingGates"}]
    await api.patch(w.POD, name, gate, launching.namespace)
    binding: Object = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": "nowhere"},
    }
    bound = await api.request("POST", f"{path}/binding", binding)
    assert bound.status in {201, 409}, bound.text
    eviction: Object = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": launching.namespace},
    }
    await api.call("POST", f"{path}/eviction", eviction)
    assert await reviews.counted() == before


async def test_no_call_about_what_exists_reaches_us_but_a_classs_new_spec(
    launching: Launching, reviews: Reviews
) -> None:
    """Labels, finalizers, and whatever is being deleted, its class gone or its budget lowered."""
    await launching.tainted()
    person, name, api = launching.person, launching.class_name, launching.api
    await person.sees(name, orderableUnits=4)
    await person.api.create(claim(person.namespace, "order", name, 1))
    keep: Object = {"metadata": {"finalizers": ["tests.example/kept"]}}
    let_go: Object = {"metadata": {"finalizers": None}}
    labelled: Object = {"metadata": {"labels": {"seen": "yes"}}}
    second = launching.unique("going")
    await api.create(gpu_class(second, f"example.com/{second}"))
    await launching.start({}, "plain")
    await launching.standalone(launching.entries(1))
    before = await reviews.counted()

    for kind, each, namespace in (
        (CLASS, second, None),
        (CLAIM, "order", person.namespace),
        (VM, "plain", person.namespace),
        (VMI, "train", person.namespace),
    ):
        await api.patch(kind, each, labelled, namespace)
        await api.patch(kind, each, keep, namespace)
        await api.delete(kind, each, namespace)
    going: Object = {"spec": {"resourceName": "example.com/another"}}
    await api.patch(CLASS, second, going)
    for kind, each, namespace in (
        (CLASS, second, None),
        (CLAIM, "order", person.namespace),
        (VM, "plain", person.namespace),
        (VMI, "train", person.namespace),
    ):
        await api.patch(kind, each, let_go, namespace)
        assert await api.find(kind, each, namespace) is None
    assert await reviews.counted() == before


async def test_a_claim_of_a_class_that_is_gone_can_go_as_well(launching: Launching) -> None:
    """Removing the last finalizer judges nothing."""
    await launching.tainted()
    person, api = launching.person, launching.api
    await person.sees(launching.class_name, orderableUnits=4)
    order = claim(person.namespace, "order", launching.class_name, 1)
    order["metadata"]["finalizers"] = [words.FINALIZER_CLAIM]
    await api.create(order)
    await api.delete(CLAIM, "order", person.namespace)
    await api.delete(CLASS, launching.class_name)
    stored = await api.get(CLAIM, "order", person.namespace)
    assert stored["metadata"]["deletionTimestamp"]
    await api.patch(CLAIM, "order", {"metadata": {"finalizers": None}}, person.namespace)
    assert await api.find(CLAIM, "order", person.namespace) is None
    await api.create(gpu_class(launching.class_name, launching.gpu))  # the fixture deletes it
