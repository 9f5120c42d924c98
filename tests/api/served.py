"""The real application behind a real TLS socket, with a played aggregator in front.

The cluster's word on tokens and rights is a table (`Rights`), options come from a table too;
everything between the socket and those ports is what ships.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from apiserver.app import Services, make_app
from apiserver.authentication import Authenticator
from apiserver.authorization import Attributes, Authorizer, Decision
from apiserver.catalog import Catalog
from apiserver.flow import Lifecycle, Stage, WatchLimit
from apiserver.identity import User
from apiserver.listener import HEADERS_SECONDS, WRITE_SECONDS, Connections, bind, listening
from apiserver.metrics import Metrics
from apiserver.options import Options
from apiserver.serving import Tls
from apiserver.trust import TrustSource
from apiserver.versions import Versions
from shared.core.cluster import Touched
from shared.errors import Unavailable
from shared.observability.health import PING, Check
from tests.api.pki import SERVER, Issued, authority, now
from tests.api.source import Table, a_class

Json = Any
"""Decoded JSON, into which tests reach."""

HOST = "gpu-apiserver.cozy-gpu.svc"
GROUP = "/apis/catalog.gpu.cozystack.io"
BASE = f"{GROUP}/v1alpha1"
ALL = f"{BASE}/gpuclassoptions"
QUEUE_MAX = 200
"""How many changes a reader may lag behind."""

PATIENCE_SECONDS = 30.0
"""How long a test waits for what must come."""


def options_of(namespace: str) -> str:
    """The path of a namespace's options."""
    return f"{BASE}/namespaces/{namespace}/gpuclassoptions"


class Keys:
    """The authorities of a cluster and what they gave out."""

    def __init__(self) -> None:
        self.front = authority("front-proxy-ca", now=now())
        self.users = authority("client-ca", now=now())
        self.serving = authority("serving-ca", now=now())
        self.proxy = self.front.issue("front-proxy-client", now=now())

    def config(self) -> dict[str, str]:
        """The ConfigMap extension-apiserver-authentication."""
        return {
            "client-ca-file": self.users.pem,
            "requestheader-client-ca-file": self.front.pem,
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }

    def server(self) -> Issued:
        """A new serving certificate."""
        return self.serving.issue("gpu-apiserver", usages=SERVER, names=[HOST], now=now())


@dataclass(slots=True)
class Rights:
    """The cluster's word: who a token belongs to, and who may do what.

    `grants` are (user or group, verb, namespace); a namespace of `*` is the whole cluster.
    `paths` are (user or group, path).
    """

    tokens: dict[str, User] = field(default_factory=dict)
    grants: set[tuple[str, str, str]] = field(default_factory=set)
    paths: set[tuple[str, str]] = field(default_factory=set)
    asked: list[Attributes] = field(default_factory=list)
    reviewed: list[str] = field(default_factory=list)
    failing: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def review_token(self, token: str) -> User | None:
        self.reviewed.append(token)
        await self.gate.wait()
        if self.failing:
            raise Unavailable("the cluster does not answer")
        return self.tokens.get(token)

    async def review_access(self, attributes: Attributes) -> Decision:
        self.asked.append(attributes)
        await self.gate.wait()
        if self.failing:
            raise Unavailable("the cluster does not answer")
        subjects = {attributes.user.name, *attributes.user.groups}
        info = attributes.info
        if not info.is_resource:
            return Decision(any((subject, info.path) in self.paths for subject in subjects))
        return Decision(
            any(
                (subject, info.verb, namespace) in self.grants
                for subject in subjects
                for namespace in (info.namespace, "*")
            )
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read to its end."""

    status: int
    headers: CIMultiDict[str]
    body: bytes

    @property
    def json(self) -> Json:
        """The body as JSON."""
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class Stream:
    """A watch as a client reads it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Json:
        """The next event; fails when none comes, or the stream ends."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await self.response.content.readline()
        assert line.endswith(b"\n"), f"the stream ended: {line!r}"
        return orjson.loads(line)

    async def take(self, count: int) -> list[tuple[str, str]]:
        """The next events, as type and name."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def rest(self) -> list[Json]:
        """Everything until the clean end of the stream."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            body = await self.response.content.read()
        return [orjson.loads(line) for line in body.splitlines()]


class Caller:
    """Somebody who calls, with the same headers each time."""

    def __init__(
        self, session: aiohttp.ClientSession, base: URL, headers: Iterable[tuple[str, str]]
    ) -> None:
        self._session = session
        self._base = base
        self._headers = list(headers)

    async def __call__(
        self, target: str, *, method: str = "GET", **headers: str | Sequence[str]
    ) -> Answer:
        """One request; underscores in the names of headers are dashes."""
        async with self._request(method, target, headers) as response:
            return Answer(
                response.status, CIMultiDict(response.headers), await response.content.read()
            )

    @asynccontextmanager
    async def watch(self, target: str, **headers: str | Sequence[str]) -> AsyncIterator[Stream]:
        """A watch that was accepted."""
        async with self._request("GET", target, headers) as response:
            assert response.status == 200, await response.text()
            yield Stream(response)

    @asynccontextmanager
    async def _request(
        self, method: str, target: str, headers: Mapping[str, str | Sequence[str]]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        sent = CIMultiDict(self._headers)
        for name, told in headers.items():
            values = [told] if isinstance(told, str) else told
            for value in values:
                sent.add(name.replace("_", "-"), value)
        async with (
            asyncio.timeout(2 * PATIENCE_SECONDS),
            self._session.request(
                method,
                URL(str(self._base) + target, encoded=True),
                headers=sent,
                allow_redirects=False,
                server_hostname=HOST,
                skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding"],
            ) as response,
        ):
            yield response


class Served:
    """A server, its keys, its cluster, and ways to call it."""

    def __init__(self, folder: Path) -> None:
        self.keys = Keys()
        self.rights = Rights()
        self.table = Table("tenant-a", "tenant-b", "default")
        self.table.put(a_class("a100", labels={"tier": "big"}))
        self.table.put(a_class("l4", labels={"tier": "small"}))
        self.lifecycle = Lifecycle()
        self.trust = TrustSource(time.monotonic)
        self.unavailable = ""
        self.become_unavailable_after: int | None = None
        """After so many looks options cannot be served."""
        self.limit = WatchLimit()
        self.admission: Sequence[web.RouteDef] = ()
        self.webhook_callers: set[str] = set()
        self.headers_seconds = HEADERS_SECONDS
        self.write_seconds = WRITE_SECONDS
        self.connections = Connections()
        self.files = self.keys.server().write(folder, "serving")
        self.tls = Tls(*self.files)
        self.catalog = Catalog(
            self.table,
            Versions(lambda: time.time_ns() / 1e9, identity=7),
            monotonic=time.monotonic,
            queue_max=QUEUE_MAX,
        )
        self.metrics = Metrics(
            monotonic=time.monotonic,
            certificate=self.tls,
            watchers=lambda: self.catalog.watchers,
        )
        self.sock = bind("127.0.0.1", 0)
        self.address: tuple[str, int] = self.sock.getsockname()[:2]
        self._stack = AsyncExitStack()

    @property
    def url(self) -> URL:
        """Where the server is."""
        return URL.build(scheme="https", host=self.address[0], port=self.address[1])

    async def __aenter__(self) -> Self:
        app = make_app(
            Services(
                lifecycle=self.lifecycle,
                trust=self.trust,
                authenticator=Authenticator(
                    self.trust,
                    self.rights,
                    monotonic=time.monotonic,
                    wall=lambda: time.time_ns() / 1e9,
                    token_key=b"secret of a test",
                ),
                authorizer=Authorizer(self.rights, monotonic=time.monotonic),
                options=Options(
                    self.catalog,
                    limit=self.limit,
                    chance=random.Random(0),
                    unavailable=self._unavailable,
                ),
                health={
                    "healthz": [PING],
                    "livez": [PING],
                    "readyz": [
                        PING,
                        Check("request-header-ca", lambda: self.trust.problem),
                        Check(
                            "shutdown",
                            lambda: "ending" if self.lifecycle.stage is Stage.LEAVING else "",
                        ),
                    ],
                },
                metrics=self.metrics,
                admission=self.admission,
                webhook_callers=self.webhook_callers,
                package_version="0.1.0",
            )
        )
        tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        job = tasks.create_task(self.catalog.run())
        self._stack.callback(job.cancel)
        self._serving = AsyncExitStack()
        await self._serving.enter_async_context(
            listening(
                app,
                self.sock,
                self.tls.context,
                headers_seconds=self.headers_seconds,
                write_seconds=self.write_seconds,
                connections=self.connections,
            )
        )
        self._stack.push_async_exit(self._serving)
        return self

    def _unavailable(self) -> str:
        if self.become_unavailable_after is not None:
            self.become_unavailable_after -= 1
            if self.become_unavailable_after < 0:
                self.unavailable = "not any more"
        return self.unavailable

    async def stop(self) -> None:
        """Accept nothing new and let what is in flight end, as the process does."""
        self.catalog.end()
        await self._serving.aclose()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.catalog.end()
        await self._stack.aclose()

    def believe(self, **changes: str) -> None:
        """Take in the ConfigMap, as it is or changed."""
        config = self.keys.config() | {k.replace("_", "-"): v for k, v in changes.items()}
        if self.trust.update(config):
            self.tls.set_trust(self.trust.current)

    def do(self, touched: Touched) -> None:
        """A change of the cluster."""
        self.catalog.touch(touched)

    def client_context(self, shown: Issued | None = None) -> ssl.SSLContext:
        """A verifying client's, with a certificate to show."""
        context = ssl.create_default_context(cadata=self.keys.serving.pem)
        if shown is not None:
            # load_cert_chain reads files only.
            certificate, key = shown.write(self.files[0].parent, f"client-{id(shown)}")
            context.load_cert_chain(certificate, key)
        return context

    async def caller(
        self, *headers: tuple[str, str], shown: Issued | None = None, token: str = ""
    ) -> Caller:
        """Somebody who calls directly; closed with the server."""
        connector = aiohttp.TCPConnector(ssl=self.client_context(shown), limit=0)
        session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        await self._stack.enter_async_context(session)
        lines = list(headers)
        if token:
            lines.append(("Authorization", f"Bearer {token}"))
        return Caller(session, self.url, lines)

    @asynccontextmanager
    async def connection(
        self, shown: Issued | None = None, *, buffer: int | None = None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A bare TLS connection, for what no HTTP client would send.

        `buffer` is how many bytes the kernel may hold of what was not read, about.
        """
        sock = socket.socket()
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, self.address)
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=self.client_context(shown), server_hostname=HOST
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                yield reader, writer
        finally:
            writer.close()

    async def raw(self, request: bytes, shown: Issued | None = None) -> tuple[int, bytes]:
        """Send bytes; the status and the body of what comes back until the server closes."""
        async with self.connection(shown) as (reader, writer):
            writer.write(request)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    async def aggregator(self, user: str, *groups: str, shown: Issued | None = None) -> Caller:
        """kube-apiserver, handing on the requests of a user."""
        lines = [("X-Remote-User", user)]
        lines += [("X-Remote-Group", group) for group in (*groups, "system:authenticated")]
        return await self.caller(*lines, shown=shown or self.keys.proxy)

    async def admin(self) -> Caller:
        """kube-apiserver, handing on the requests of one who may do everything."""
        return await self.aggregator("admin", "system:masters")
