"""Troubles that people had with admission elsewhere (docs/field-admission.md), tried here."""

from __future__ import annotations

import asyncio
import copy
import json
import re

import orjson
import pytest

from shared import vocabulary as words
from tests.admission.calling import Caller, review
from tests.admission.counting import Reviews
from tests.admission.launching import Launching, shown
from tests.catalog.objects import claim, gpu_class, quota
from tests.catalog.tenants import Tenant
from tests.cluster.api import Object, Refused, Reply
from tests.cluster.install import Catalog
from tests.cluster.processes import suspended
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import annotations_of, condition, status_of

CLASSES = words.ANNOTATION_CLASSES


def vmi(namespace: str, annotations: Object, **devices: object) -> Object:
    """A VM instance."""
    return {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VMI,
        "metadata": {"name": "odd", "namespace": namespace, "annotations": annotations},
        "spec": {"domain": {"devices": devices}},
    }


async def dry(person: Tenant, thing: Object) -> Reply:
    """Post something that is not stored."""
    kind = f"{thing['apiVersion']}/{thing['kind']}"
    path = await person.api.path(kind, person.namespace)
    return await person.api.request("POST", path, thing, query={"dryRun": "All"})


def gpus(reply: Reply) -> list[Object]:
    """The entries that a VM got."""
    assert reply.status == 201, reply.text
    found: list[Object] = reply.body["spec"]["domain"]["devices"]["gpus"]
    return found


# Annotations.

COUNT = '[{"className":"a100","count":%s}]'
NAME = '[{"className":%s,"count":1}]'


@pytest.mark.parametrize(
    "value",
    [
        '[{"className":"a100","count":1,"count":1000}]',
        '[{"className":"a100","className":"l40s","count":1}]',
        *(COUNT % count for count in ("NaN", "Infinity", "-Infinity", "1e0", "2.0", "true")),
        *(COUNT % count for count in ('"2"', "null", "0", "-1", "+2", "-0", "0x2", "02", "1_000")),
        *(
            COUNT % count
            for count in ('"\uff12"', '"\u00b2"', '"\u0663"', "\uff12", " 2x", '" 2 "', '"2\u200b"')
        ),
        '[{"className":"a100","Count":2}]',
        '[{"className":"a100"}]',
        '[{"className":"a100","count":1,"extra":1}]',
        '{"className":"a100","count":1}',
        "[]",
        "[[]]",
        "null",
        "",
        '[{"className":"a100","count":1}] []',
        '\ufeff[{"className":"a100","count":1}]',
        *(
            NAME % json.dumps(name)
            for name in (
                "a100\0",
                "A100",
                "a10\uff10",
                "\u217c40s",
                "a100 ",
                "../a100",
                "a100/../l40s",
            )
        ),
        NAME % '""',
        NAME % json.dumps("a" * 300),
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(acme: Tenant, value: str) -> None:
    """Trouble A10 and A11."""
    reply = await dry(acme, vmi(acme.namespace, {CLASSES: value}))
    assert (reply.status, reply.body["reason"]) == (422, "Malformed"), reply.text
    told = reply.body["message"]
    assert f"metadata.annotations[{CLASSES}]" in told
    assert told.isascii(), "nothing in a value hides in the message"


async def test_blanks_and_a_line_break_at_the_end_mean_nothing(acme: Tenant) -> None:
    reply = await dry(acme, vmi(acme.namespace, {CLASSES: ' [ {"className":"a100","count":1} ]\n'}))
    assert len(gpus(reply)) == 1


# Names and expansion.


async def test_two_entries_of_a_class_and_a_network_card_share_no_name(acme: Tenant) -> None:
    """Trouble A13: five units, five names, none that is taken, in the annotation's order."""
    asked = [("a100", 2), ("l40s", 2), ("a100", 1)]
    value = json.dumps([{"className": name, "count": count} for name, count in asked])
    card = {"name": "class-0-0", "deviceName": "mellanox.com/cx6_vf"}
    found = gpus(await dry(acme, vmi(acme.namespace, {CLASSES: value}, hostDevices=[card])))
    a100, l40s = "nvidia.com/GA100_A100_PCIE_40GB", "nvidia.com/AD102GL_L40S"
    assert [each["deviceName"] for each in found] == [a100, a100, l40s, l40s, a100]
    names = {each["name"] for each in found} | {"class-0-0"}
    assert len(names) == 6
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", each) for each in names)
    assert max(map(len, names)) <= 40


async def test_a_vm_may_be_judged_twice_and_never_gets_more(acme: Tenant) -> None:
    """Trouble A6: what we made is known again, whole; anything else in it is a mix."""
    once = await dry(acme, vmi(acme.namespace, {CLASSES: COUNT % 2}))
    again = copy.deepcopy(once.body)
    for name in ("uid", "creationTimestamp", "generation", "managedFields", "resourceVersion"):
        again["metadata"].pop(name, None)
    twice = await dry(acme, again)
    assert gpus(twice) == gpus(once)
    assert annotations_of(twice.body) == annotations_of(once.body)

    entries = again["spec"]["domain"]["devices"]["gpus"]
    for wrong in (entries[:1], [*entries, {"name": "x", "deviceName": "nvidia.com/X"}]):
        mixed = copy.deepcopy(again)
        mixed["spec"]["domain"]["devices"]["gpus"] = wrong
        reply = await dry(acme, mixed)
        assert (reply.status, reply.body["reason"]) == (422, "MixedRequests")


async def test_claims_are_looked_for_where_the_request_is_made(
    acme: Tenant, cluster: Cluster
) -> None:
    """Trouble A4: neither the object's namespace nor its name need be filled in."""
    body = vmi(acme.namespace, {words.ANNOTATION_CLAIMS: '["elsewhere"]'})
    del body["metadata"]["namespace"], body["metadata"]["name"]
    body["metadata"]["generateName"] = "vm-"
    reply = await dry(acme, body)
    assert (reply.status, reply.body["reason"]) == (422, "ClaimNotFound")
    body["metadata"]["annotations"] = {words.ANNOTATION_CLAIMS: '["render"]'}
    assert len(gpus(await dry(acme, body))) == 1
    # In another namespace than the path's the API server takes no object.
    body["metadata"]["namespace"] = "tenant-root"
    path = await cluster.admin.path(w.VMI, acme.namespace)
    reply = await cluster.admin.request("POST", path, body, query={"dryRun": "All"})
    assert reply.status == 400


# Conditions.


def pod(namespace: str, name: str, containers: int = 1, **spec: object) -> Object:
    """A pod that uses no class, with a GPU by name in all its containers but the first."""
    amounts = {f"example.com/device-{number}": "1" for number in range(20)}
    made = [
        {"name": f"c{number}", "image": "none", "resources": {"limits": amounts} if number else {}}
        for number in range(containers)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": made, "nodeSelector": {"no": "where"}, **spec},
    }


async def test_no_shape_of_a_pod_is_an_error_of_a_condition(acme: Tenant) -> None:
    """Trouble A8, with the policies in force: an error there would refuse the pod."""
    init = {"name": "i", "image": "none", "resources": {"limits": {"example.com/gpu": "1"}}}
    shapes = [
        pod(acme.namespace, "bare"),
        pod(acme.namespace, "many", 50),
        pod(acme.namespace, "init", initContainers=[init]),
        pod(acme.namespace, "foreign") | {"status": {}},
    ]
    shapes[-1]["metadata"] |= {"labels": {"kubevirt.io": "virt-launcher"}, "annotations": {"x": ""}}
    for shape in shapes:
        await acme.api.create(shape)
        container = {"name": "debug", "image": "none"}
        path = await acme.api.path("v1/Pod", acme.namespace, shape["metadata"]["name"])
        added = await acme.api.request(
            "PATCH",
            f"{path}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [container]}},
            headers={"Content-Type": "application/strategic-merge-patch+json"},
        )
        assert added.status in {200, 403}, added.text  # 403: edit may not
        assert "failed calling" not in added.text
        await acme.api.delete("v1/Pod", shape["metadata"]["name"], acme.namespace)


# Capacity, budgets, KubeVirt's table.


async def test_a_name_in_another_case_is_told_and_right_at_once_after_kubevirt_is_mended(
    launching: Launching,
) -> None:
    """Trouble A14: letter by letter; and the very next VM sees the new table."""
    name = launching.unique("misspelt")
    wrong, right = f"example.com/{name.upper()}", f"example.com/{name}"
    await launching.api.create(gpu_class(name, wrong))
    thing = vmi(launching.namespace, {CLASSES: NAME % json.dumps(name)})

    async def table(resource: str) -> None:
        device = {"pciVendorSelector": "10DE:2330", "resourceName": resource}
        devices = "/spec/configuration/permittedHostDevices/pciHostDevices/-"
        patch = [{"op": "add", "path": devices, "value": device}]
        await launching.api.patch(w.KUBEVIRT, "kubevirt", patch, launching.home)

    await table(right)
    reply = await dry(launching.person, thing)
    assert (reply.status, reply.body["reason"]) == (403, "NotPermitted")
    assert f"class {name} ({wrong}): " in reply.body["message"]
    await table(wrong)
    assert len(gpus(await dry(launching.person, thing))) == 1


async def test_a_vm_without_room_waits_and_no_start_has_failed(launching: Launching) -> None:
    """Trouble A16: a refusal would send it into KubeVirt's growing pauses."""
    async with launching.kubevirt(launching.home):
        await launching.start(launching.entries(6))
        pod = await launching.launcher()
        vm = await launching.until_shown("Starting")
        assert shown(pod)["gates"] == [words.GATE]
        assert "startFailure" not in status_of(vm)
        assert condition(vm, "Failure") == {}


async def test_more_than_one_node_has_is_told_at_ordering_and_names_none(
    launching: Launching,
) -> None:
    """Trouble A18: two nodes with four each; an order of six can never be met now."""
    nodes = [await launching.tainted(), await launching.tainted()]
    person, name = launching.person, launching.class_name
    await person.sees(name, freeUnits=8, largestSet=4)
    with pytest.raises(Refused) as refused:
        await person.api.create(claim(person.namespace, "six", name, 6))
    assert refused.value.reason == "SetDoesNotFitOneNode"
    assert refused.value.message.endswith("asked 6, up to 4: at most 4 can be had together, 8 free")
    assert not any(node in refused.value.message for node in nodes)


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        pytest.param({"": "4", "requests.": "2", "limits.": "3"}, 2, id="three spellings"),
        pytest.param({"limits.": "3"}, 3, id="limits alone"),
        pytest.param({"requests.": "1e0"}, 1, id="an exponent"),
        pytest.param({"requests.": "1500m"}, 1, id="one and a half"),
    ],
)
async def test_an_order_is_judged_by_the_smallest_spelling_of_a_key(
    launching: Launching, keys: dict[str, str], left: int
) -> None:
    """Trouble A17: by the same figure that the catalog shows."""
    await launching.tainted(8)
    person, name = launching.person, launching.class_name
    hard = {f"{prefix}{launching.gpu}": value for prefix, value in keys.items()}
    await launching.api.create(quota(person.namespace, hard))
    await person.sees(name, remaining=left, orderableUnits=left)
    with pytest.raises(Refused) as refused:
        await person.api.create(claim(person.namespace, "more", name, left + 1))
    assert f"up to {left}: this tenant's budget has {left} left" in refused.value.message
    await person.api.create(claim(person.namespace, "all", name, left))


@pytest.mark.parametrize("count", [-1, 0, 1025, 2147483648, 1.5, "1", True])
async def test_an_order_of_no_count_is_refused_with_its_field(acme: Tenant, count: object) -> None:
    """Trouble A17: a negative order would enlarge a budget."""
    order = claim(acme.namespace, "odd", "a100", 1)
    order["spec"]["count"] = count
    reply = await dry(acme, order)
    assert reply.status in {400, 422}, reply.text
    assert "count" in reply.body["message"]


# Slowness.


async def test_reads_that_hang_end_in_a_refusal_and_are_forgotten(
    enforced: Catalog, acme: Tenant, call: Caller, reviews: Reviews
) -> None:
    """Trouble A12: each is answered before its caller gives up, and who went costs nothing."""
    body = orjson.dumps(review())
    with suspended(enforced.plane.components["kube-apiserver"].process):
        async with asyncio.TaskGroup() as tasks:
            path = words.WEBHOOK_VMIS
            waiting = [tasks.create_task(call(path, body)) for _ in range(50)]
            leaving = [tasks.create_task(call(path, body)) for _ in range(50)]
            await asyncio.wait(waiting[:1], timeout=1)
            for task in leaving:
                task.cancel()
    for task in waiting:
        response = task.result().body["response"]
        assert (response["uid"], response["allowed"]) == ("review-1", False)
        assert response["status"]["reason"] == "InputsUnreadable"
        assert "GPU admission: the cluster cannot be read" in response["status"]["message"]

    async def is_well() -> bool:
        judged = await dry(acme, vmi(acme.namespace, {CLASSES: COUNT % 1}))
        ordered = await dry(acme, claim(acme.namespace, "odd", "a100", 1))
        return judged.status == 201 and ordered.body["reason"] == "NoCapacity"

    await wait_until(is_well, "VMs and orders are judged again")
    await reviews.until_seen_anew()
