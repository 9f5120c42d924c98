"""Calls as the API server makes them, made by hand: what is no review never passes (rule 6)."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from shared import vocabulary as words
from tests.admission.calling import Caller, review
from tests.admission.people import VMI
from tests.cluster.session import Cluster

PATHS = (
    words.WEBHOOK_VMIS,
    words.WEBHOOK_VMIS_FINAL,
    words.WEBHOOK_PODS,
    words.WEBHOOK_CLAIMS,
    words.WEBHOOK_CLASSES,
)
MIB = 1024 * 1024


async def test_a_review_is_answered_with_its_uid_and_a_patch(call: Caller) -> None:
    reply = await call(words.WEBHOOK_VMIS, orjson.dumps(review()))
    assert reply.status == 200
    response = reply.body["response"]
    assert (response["uid"], response["allowed"]) == ("review-1", True)
    assert response["patchType"] == "JSONPatch"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"kind":"AdmissionReview","kind":"AdmissionReview"}', id="a key twice"),
        pytest.param(orjson.dumps(review() | {"apiVersion": "v1beta1"}), id="another version"),
        pytest.param(orjson.dumps(review(uid="")), id="without uid"),
        pytest.param(orjson.dumps(review(kind=("apps", "Deployment"))), id="another kind"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
async def test_what_is_no_review_of_the_paths_kind_fails_the_call(
    call: Caller, path: str, body: bytes
) -> None:
    reply = await call(path, body)
    assert reply.status == reply.body["code"] == 400
    assert "Retry-After" not in reply.headers


@pytest.mark.parametrize("kind", ["text/plain", "application/x-protobuf", "multipart/form-data"])
async def test_a_review_that_does_not_say_that_it_is_json_fails_the_call(
    call: Caller, kind: str
) -> None:
    reply = await call(words.WEBHOOK_VMIS, orjson.dumps(review()), Content_Type=kind)
    assert (reply.status, reply.body["code"]) == (400, 400)
    assert f'Content-Type: "{kind}", expected application/json' in reply.body["message"]
    charset = "application/json; charset=utf-8"
    reply = await call(words.WEBHOOK_VMIS, orjson.dumps(review()), Content_Type=charset)
    assert reply.status == 200


async def test_a_review_of_six_mebibytes_is_read_and_one_of_more_than_eight_is_not(
    call: Caller,
) -> None:
    large = review()
    large["request"]["object"]["spec"]["notes"] = "x" * (6 * MIB)
    assert (await call(words.WEBHOOK_VMIS, orjson.dumps(large))).status == 200
    large["request"]["oldObject"] = {"notes": "x" * (3 * MIB)}
    reply = await call(words.WEBHOOK_VMIS, orjson.dumps(large))
    assert reply.status == 413
    assert "Retry-After" not in reply.headers


async def test_headers_of_a_front_proxy_mean_nothing_on_these_paths(call: Caller) -> None:
    headers = {"X_Remote_User": "admin", "X_Remote_Group": "system:masters"}
    with_them = await call(words.WEBHOOK_VMIS, orjson.dumps(review()), **headers)
    without = await call(words.WEBHOOK_VMIS, orjson.dumps(review()))
    assert (with_them.status, with_them.raw) == (200, without.raw)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", words.WEBHOOK_VMIS, 403, id="another method"),
        pytest.param("POST", "/admission/deployments", 403, id="another path"),
        pytest.param("GET", "/admission/../metrics", 403, id="out of these paths"),
        pytest.param("GET", "/admission%2f..%2fmetrics", 403, id="out of these paths, quoted"),
    ],
)
async def test_nothing_else_is_open_without_a_certificate(
    call: Caller, method: str, path: str, code: int
) -> None:
    assert (await call(path, b"", method)).status == code


async def test_vms_made_at_once_are_all_answered(cluster: Cluster, call: Caller) -> None:
    del call
    admin = cluster.admin  # of anybody else the API server itself takes fewer at once
    path = await admin.path(VMI, "tenant-acme")
    vm = review()["request"]["object"]
    vm |= {"apiVersion": words.KUBEVIRT_GROUP_VERSION, "kind": words.KIND_VMI}

    async def made() -> int:
        return (await admin.request("POST", path, vm, query={"dryRun": "All"})).status

    async with asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(made()) for _ in range(300)]
    assert {task.result() for task in answers} == {201}
