"""The fake API server on a port of this machine, in real time: for who speaks HTTP."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import AsyncIterator

from aiohttp import web

from tests.cluster.plane import system_clock
from tests.simulation.collector import collect
from tests.simulation.fake_api import FakeApi
from tests.simulation.http import Http
from tests.simulation.refusals import Refusal
from tests.simulation.store import Store


@contextlib.asynccontextmanager
async def serving(api: FakeApi, who: str) -> AsyncIterator[str]:
    """Serve one account; yields the address. What was deleted is collected before each request."""
    http = Http(api)

    async def handle(request: web.Request) -> web.StreamResponse:
        collect(api)
        query = dict(request.query)
        if query.get("watch"):
            return await _watched(http, request, query)
        body = await request.read()
        form = request.headers.get("Content-Type", "")
        code, answer = http.answer(who, request.method, request.path, query, body, form)
        kind = "application/json" if answer[:1] == b"{" else "text/plain"
        return web.Response(status=code, body=answer, content_type=kind)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def _watched(http: Http, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    try:
        async with contextlib.aclosing(http.watch(request.path, query)) as events:
            async for told in events:
                if not response.prepared:
                    await response.prepare(request)
                await response.write(told.line + b"\n")
    except Refusal as refusal:
        return web.json_response(refusal.status, status=refusal.code)
    if not response.prepared:
        await response.prepare(request)
    return response


def fresh() -> FakeApi:
    """An empty API server in real time."""
    return FakeApi(Store(time.monotonic), system_clock, random.Random(0), ())
