"""The API server over HTTP, as one user, in plain JSON.

Objects are dictionaries as Kubernetes writes them. A kind is named by apiVersion and kind in one
word: `v1/Pod`, `apps/v1/Deployment`. Where a kind is served comes from discovery, so kinds of
ours work as soon as they are there.
"""

from __future__ import annotations

import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "tests"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, of any status."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def text(self) -> str:
        """What was sent, as text."""
        return self.raw.decode(errors="replace")

    @property
    def body(self) -> Object:
        """The JSON object that was sent.

        Raises:
            ValueError: when it was something else.
        """
        with contextlib.suppress(orjson.JSONDecodeError):
            body = orjson.loads(self.raw)
            if isinstance(body, dict):
                return body
        raise ValueError(f"expected a JSON object, got: {self.text[:500]}")


class Refused(Exception):
    """An answer of 400 or above, with the Status that came with it."""

    def __init__(self, what: str, reply: Reply) -> None:
        self.code = reply.status
        self.status: Object = {}
        with contextlib.suppress(ValueError):  # a server that fails may answer anything
            self.status = reply.body
        self.reason = str(self.status.get("reason", ""))
        self.message = str(self.status.get("message", reply.text[:500]))
        super().__init__(f"{what}: {self.code} {self.reason}: {self.message}")


@dataclass(slots=True)
class Api:
    """Calls as one user. Every method but `request` raises `Refused` for an answer of 400 up."""

    server: str
    session: aiohttp.ClientSession
    _served: dict[str, tuple[str, bool]] = field(default_factory=dict)

    @classmethod
    def connect(cls, server: str, tls: ssl.SSLContext) -> Api:
        """Make a client; close it in the end."""
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        return cls(server, aiohttp.ClientSession(connector=connector, auto_decompress=True))

    async def close(self) -> None:
        """Close all connections."""
        await self.session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        """Any call; whatever is answered is returned. A body is sent as JSON, bytes as they are."""
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        sent = {"Content-Type": "application/json"} if data is not None else {}
        sent |= headers or {}
        whole = None if data is None else io.BytesIO(data)  # bytes that are large block the loop
        async with self.session.request(
            method, self.server + path, data=whole, headers=sent, params=query
        ) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Any call that succeeds with a JSON object."""
        reply = await self.request(method, path, body, headers=headers, query=query)
        if reply.status >= 400:
            raise Refused(f"{method} {path}", reply)
        return reply.body

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """One object."""
        return await self.call("GET", await self.path(kind, namespace, name))

    async def find(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None when there is none."""
        try:
            return await self.get(kind, name, namespace)
        except Refused as refused:
            if refused.code != 404:
                raise
            return None

    async def list(self, kind: str, namespace: str | None = None, **query: str) -> list[Object]:
        """The items; query parameters by their API names, such as `labelSelector`."""
        found = await self.call("GET", await self.path(kind, namespace), query=query)
        items: list[Object] = found["items"]
        return items

    async def create(self, obj: Object, **query: str) -> Object:
        """Create an object in the place that it names itself."""
        return await self.call("POST", await self._path_of(obj, named=False), obj, query=query)

    async def replace(self, obj: Object, subresource: str = "") -> Object:
        """Replace an object, or one of its subresources."""
        return await self.call("PUT", await self._path_of(obj) + _below(subresource), obj)

    async def apply(self, obj: Object, manager: str = FIELD_MANAGER) -> Object:
        """Server-side apply, taking over the fields of others."""
        return await self.call(
            "PATCH",
            await self._path_of(obj),
            obj,
            headers={"Content-Type": APPLY},
            query={"fieldManager": manager, "force": "true"},
        )

    async def patch(
        self,
        kind: str,
        name: str,
        patch: object,
        namespace: str | None = None,
        *,
        subresource: str = "",
        content_type: str | None = None,
    ) -> Object:
        """Patch an object: a list is a JSON Patch, a dictionary a merge patch."""
        if content_type is None:
            content_type = JSON_PATCH if isinstance(patch, list) else MERGE
        path = await self.path(kind, namespace, name) + _below(subresource)
        return await self.call("PATCH", path, patch, headers={"Content-Type": content_type})

    async def delete(
        self, kind: str, name: str, namespace: str | None = None, **query: str
    ) -> Object:
        """Delete an object; its finalizers may keep it for a while."""
        return await self.call("DELETE", await self.path(kind, namespace, name), query=query)

    @contextlib.asynccontextmanager
    async def watch(
        self, kind: str, namespace: str | None = None, **query: str
    ) -> AsyncIterator[AsyncIterator[Object]]:
        """Watch a collection: events as they come, each with `type` and `object`.

        Raises:
            Refused: when the watch itself is refused; an ERROR event is an event.
        """
        path = await self.path(kind, namespace)
        async with self.session.get(
            self.server + path,
            params={"watch": "true", **query},
            timeout=aiohttp.ClientTimeout(total=None, sock_read=None),
        ) as answer:
            if answer.status >= 400:
                reply = Reply(answer.status, answer.headers, await answer.read())
                raise Refused(f"watch {path}", reply)
            yield _lines(answer)

    async def path(self, kind: str, namespace: str | None = None, name: str | None = None) -> str:
        """Where a kind is served, with the namespace for a namespaced one.

        Raises:
            LookupError: when the API server serves no such kind.
        """
        if kind not in self._served:
            await self._discover()
        if kind not in self._served:
            raise LookupError(f"{kind}: not served; known are {', '.join(sorted(self._served))}")
        resource, namespaced = self._served[kind]
        version = kind.rpartition("/")[0]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if namespaced and namespace is not None:
            root += f"/namespaces/{namespace}"
        return f"{root}/{resource}" + _below(name or "")

    async def discovery(self, root: str) -> Object:
        """All that is served below `/api` or `/apis`, in one document (aggregated, v2)."""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        return await self.call("GET", root, headers={"Accept": accept})

    async def _path_of(self, obj: Object, *, named: bool = True) -> str:
        kind = f"{obj['apiVersion']}/{obj['kind']}"
        meta = obj["metadata"]
        return await self.path(kind, meta.get("namespace"), meta["name"] if named else None)

    async def _discover(self) -> None:
        for root in ("/api", "/apis"):
            for group in (await self.discovery(root))["items"]:
                for version in group["versions"]:
                    name = group["metadata"].get("name", "")
                    prefix = f"{name}/{version['version']}" if name else version["version"]
                    for resource in version.get("resources", ()):
                        kind = f"{prefix}/{resource['responseKind']['kind']}"
                        namespaced = resource["scope"] == "Namespaced"
                        self._served[kind] = (resource["resource"], namespaced)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    """One parsed object per line; lines may be longer than any buffer."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield orjson.loads(line)


def _below(name: str) -> str:
    return f"/{name}" if name else ""
