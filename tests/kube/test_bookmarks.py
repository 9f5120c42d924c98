"""Streams that say nothing but how far they have come, from a server of our own."""

from __future__ import annotations

import asyncio

import orjson
from aiohttp import web

from shared.kube.credentials import Credentials
from shared.kube.pace import Pace
from shared.kube.reflector import Standing
from tests.kube.following import following
from tests.kube.local import Held, http_server
from tests.kube.test_informer import QUOTAS, quota

BOOKMARKS = 5
"""In each watch."""

PATIENCE_SECONDS = 30.0

PACE = Pace(watch=(2, 2), stall=2.0, overtime=3.0)


class Server:
    """Quiet: its watches carry bookmarks and end early; from the fourth on there is an event."""

    def __init__(self) -> None:
        self.version = 100
        self.asked: list[str] = []
        """From which version each watch was asked for."""
        self.lists = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") != "1":
            self.lists += request.query.get("limit") != "1"
            metadata = {"resourceVersion": str(self.version)}
            return web.json_response({"metadata": metadata, "items": []})
        self.asked.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(BOOKMARKS):
            self.version += 1
            mark = {"metadata": {"resourceVersion": str(self.version)}}
            await response.write(_line("BOOKMARK", mark))
        if len(self.asked) == 4:
            made = quota("tenant-a", "q", 1)
            self.version += 1
            made["metadata"]["resourceVersion"] = str(self.version)
            await response.write(_line("ADDED", made))
        if len(self.asked) > 4:
            await asyncio.Event().wait()
        return response


def _line(kind: str, thing: object) -> bytes:
    return orjson.dumps({"type": kind, "object": thing}) + b"\n"


async def test_a_stream_of_bookmarks_alone_keeps_fresh_and_goes_on_where_it_ended() -> None:
    server = Server()
    async with (
        http_server(server) as url,
        following(Held(Credentials(url)), [QUOTAS], PACE) as got,
    ):
        await got.until(lambda: "q" in got.of("tenant-a"), "the event after many bookmarks")
        report = got.report("resourcequotas")
        assert server.asked[:4] == ["100", "105", "110", "115"]
        assert (server.lists, report.lists, report.standing) == (1, 1, Standing.SYNCED)
        assert report.age < PATIENCE_SECONDS
        assert report.trouble == ""
        await got.until(lambda: len(server.asked) > 4, "it watches on")
        assert server.asked[4] == "121"
