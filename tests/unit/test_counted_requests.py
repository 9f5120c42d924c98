"""What is counted of requests does not keep anybody waiting."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apiserver.metrics import Metrics
from tests.unit.test_metrics_document import Certificate


async def test_an_answer_does_not_wait_to_be_counted_which_is_done_in_the_next_turn() -> None:
    made = Metrics(monotonic=lambda: 0.0, certificate=Certificate())

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.Response(status=204)

    def counted() -> float | None:
        labels = {"verb": "other", "resource": "", "code": "204"}
        return made.registry.get_sample_value("gpu_apiserver_requests_total", labels)

    await made.observing()(make_mocked_request("GET", "/apis"), answer)
    assert counted() is None
    await asyncio.sleep(0)
    assert counted() == 1.0
