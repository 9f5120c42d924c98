"""What is counted of reviews: how each ended, why, and how long it took."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from admission.inputs import (
    ClassInputs,
    ClassNeeds,
    FinalInputs,
    OrderInputs,
    OrderNeeds,
    PodInputs,
    PodNeeds,
    Unread,
    VmiInputs,
    VmiNeeds,
)
from admission.routes import Figures, Webhooks
from apiserver.app import errors
from tests.unit.admission.test_gpuclass_rules import gpu_class
from tests.unit.scripted_api import Raw

CLASSES = "/admission/gpuclasses"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Nothing:
    """A reader that has read nothing; of classes it says what it could not."""

    def __init__(self, *unread: Unread) -> None:
        self.unread = unread
        self.asked: list[object] = []

    async def for_vmi(self, namespace: str, needs: Callable[[], VmiNeeds]) -> VmiInputs:
        self.asked.append((namespace, needs()))
        return VmiInputs()

    async def for_final(self) -> FinalInputs:
        return FinalInputs()

    async def for_pod(self, needs: PodNeeds) -> PodInputs:
        self.asked.append(needs)
        return PodInputs()

    async def for_order(self, needs: OrderNeeds) -> OrderInputs:
        self.asked.append(needs)
        return OrderInputs()

    async def for_class(self, needs: ClassNeeds) -> ClassInputs:
        self.asked.append(needs)
        return ClassInputs(unread=self.unread)


CLASS = ("gpu.cozystack.io", "GPUClass")
VMI = ("kubevirt.io", "VirtualMachineInstance")


def review(
    thing: Raw | None,
    version: str = "admission.k8s.io/v1",
    of: tuple[str, str] = CLASS,
    operation: str = "CREATE",
) -> bytes:
    request = {
        "uid": "u1",
        "operation": operation,
        "kind": {"group": of[0], "kind": of[1]},
        "object": thing,
    }
    told = {"apiVersion": version, "kind": "AdmissionReview", "request": request}
    return json.dumps(told).encode()


@pytest.mark.parametrize(
    ("body", "kind", "unread", "status", "outcome", "reason"),
    [
        pytest.param(review(gpu_class()), "application/json", (), 200, "allowed", "", id="let in"),
        pytest.param(
            review(gpu_class(resource="cpu")),
            "application/json",
            (),
            200,
            "refused",
            "Malformed",
            id="refused",
        ),
        pytest.param(
            review(gpu_class()),
            "application/json",
            (Unread("the GPU classes", "no answer in time"),),
            200,
            "refused",
            "InputsUnreadable",
            id="refused since it is us",
        ),
        pytest.param(
            review(gpu_class(), "v2"),
            "application/json",
            (),
            400,
            "failed",
            "BadRequest",
            id="none",
        ),
        pytest.param(
            review(gpu_class()), "text/plain", (), 400, "failed", "BadRequest", id="not JSON's type"
        ),
    ],
)
async def test_a_review_is_counted_once_by_how_it_ended_and_timed(
    body: bytes, kind: str, unread: tuple[Unread, ...], status: int, outcome: str, reason: str
) -> None:
    registry = CollectorRegistry()
    seconds: Iterator[float] = count(100.0, 3.0)  # each look is three seconds later
    hooks = Webhooks(Nothing(*unread), Figures("test", registry), monotonic=lambda: next(seconds))
    app = web.Application(middlewares=[errors])
    app.add_routes(hooks.routes())
    async with TestClient(TestServer(app)) as client:
        answer = await client.post(CLASSES, data=body, headers={"Content-Type": kind})
    assert answer.status == status
    found = {
        (sample.name, *(sample.labels.get(each) for each in ("outcome", "reason"))): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.labels.get("webhook") == "gpuclasses"
    }
    counted = {key: each for key, each in found.items() if key[0] == "test_admission_reviews_total"}
    assert counted == {("test_admission_reviews_total", outcome, reason): 1.0}
    assert found["test_admission_review_duration_seconds_sum", None, None] == 3.0


async def test_an_answer_does_not_wait_to_be_counted_and_the_next_request_finds_it_counted() -> (
    None
):
    registry = CollectorRegistry()
    hooks = Webhooks(Nothing(), Figures("test", registry), monotonic=lambda: 0.0)
    counted: list[float | None] = []

    def look() -> None:
        labels = {"webhook": "gpuclasses", "outcome": "allowed", "reason": ""}
        counted.append(registry.get_sample_value("test_admission_reviews_total", labels))

    @web.middleware
    async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        look()
        return response

    app = web.Application(middlewares=[answering])
    app.add_routes(hooks.routes())
    headers = {"Content-Type": "application/json"}
    async with TestClient(TestServer(app)) as client:
        await client.post(CLASSES, data=review(gpu_class()), headers=headers)
    look()
    assert counted == [None, 1.0]


def carrying(annotation: str) -> Raw:
    return {"metadata": {"annotations": {f"gpu.cozystack.io/{annotation}": "[]"}}}


@pytest.mark.parametrize(
    ("path", "of", "thing", "reason"),
    [
        ("vmis", VMI, carrying("classes"), "Malformed"),
        ("vmis-final", VMI, carrying("claims"), "Malformed"),
        ("pods", ("", "Pod"), carrying("launcher"), "Forbidden"),
        (
            "gpuclaims",
            ("gpu.cozystack.io", "GPUClaim"),
            {"spec": {"className": "x"}},
            "ClassNotFound",
        ),
        ("gpuclasses", CLASS, gpu_class(resource="cpu"), "Malformed"),
    ],
)
async def test_each_path_asks_the_rules_of_its_kind_and_takes_no_other(
    path: str, of: tuple[str, str], thing: Raw, reason: str
) -> None:
    hooks = Webhooks(Nothing(), Figures("test", CollectorRegistry()), monotonic=lambda: 0.0)
    app = web.Application(middlewares=[errors])
    app.add_routes(hooks.routes())
    headers = {"Content-Type": "application/json"}
    async with TestClient(TestServer(app)) as client:
        answer = await client.post(f"/admission/{path}", data=review(thing, of=of), headers=headers)
        response = (await answer.json())["response"]
        assert (response["allowed"], response["uid"]) == (False, "u1")
        assert response["status"]["reason"] == reason
        other = review(thing, of=("apps", "Deployment"))
        assert (await client.post(f"/admission/{path}", data=other, headers=headers)).status == 400


@pytest.mark.parametrize(
    ("path", "of", "operation", "thing"),
    [
        ("vmis", VMI, "CREATE", {"metadata": {}}),
        ("pods", ("", "Pod"), "CREATE", {"metadata": {}}),
        ("gpuclaims", ("gpu.cozystack.io", "GPUClaim"), "UPDATE", {"spec": {"className": "x"}}),
        ("gpuclasses", CLASS, "DELETE", None),
    ],
)
async def test_what_needs_no_decision_is_let_in_without_a_read(
    path: str, of: tuple[str, str], operation: str, thing: Raw | None
) -> None:
    reader = Nothing()
    hooks = Webhooks(reader, Figures("test", CollectorRegistry()), monotonic=lambda: 0.0)
    app = web.Application(middlewares=[errors])
    app.add_routes(hooks.routes())
    async with TestClient(TestServer(app)) as client:
        answer = await client.post(
            f"/admission/{path}",
            data=review(thing, of=of, operation=operation),
            headers={"Content-Type": "application/json"},
        )
        assert (await answer.json())["response"] == {"uid": "u1", "allowed": True}
    assert reader.asked == []
