"""The least that a review costs on our stack: its reads, then bytes that were made before.

A process of its own, on the loop, the listener and the TLS of our server, with a bare client and
without anything else: `python -m tests.bench.constant FILE`.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import uvloop
from aiohttp import web

from apiserver.app import connections
from apiserver.listener import bind, listening
from shared.kube.kubeconfig import Kubeconfig
from tests.cluster.api import Api

READY = "/readyz"


@dataclass(frozen=True, slots=True)
class Constant:
    """What one path answers, and the paths that are read from kube-apiserver before."""

    reads: Sequence[str]
    answer: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What the process is told: whom it is, its certificate, where it listens, what it answers."""

    kubeconfig: str
    certificate: str
    key: str
    address: str
    port: int
    answers: Mapping[str, Constant]

    def write(self, path: Path) -> None:
        """To a file that `read` takes."""
        path.write_bytes(orjson.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Setting:
        """From a file that `write` made."""
        told = orjson.loads(path.read_bytes())
        answers = {at: Constant(**constant) for at, constant in told.pop("answers").items()}
        return cls(**told, answers=answers)


async def read_at_once(api: Api, paths: Sequence[str]) -> None:
    """Read, in one concurrent round, and make nothing of it."""
    async with asyncio.TaskGroup() as tasks:
        replies = [tasks.create_task(api.request("GET", path)) for path in paths]
    assert {reply.result().status for reply in replies} <= {200, 404}


def _handler(api: Api, constant: Constant) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = constant.answer.encode()

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        await read_at_once(api, constant.reads)
        return web.Response(body=body, content_type="application/json")

    return handle


async def _ready(_: web.Request) -> web.Response:
    return web.Response()


async def serve(setting: Setting) -> None:
    """Answer until the process is ended."""
    credentials = await Kubeconfig(Path(setting.kubeconfig)).read()
    api = Api.connect(credentials.server, credentials.context())
    app = web.Application(middlewares=[connections])
    app.router.add_get(READY, _ready)
    for path, constant in setting.answers.items():
        app.router.add_post(path, _handler(api, constant))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(setting.certificate, setting.key)
    try:
        async with listening(app, bind(setting.address, setting.port), context):
            await asyncio.Event().wait()
    finally:
        await api.close()


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Setting.read(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
