"""Discovery documents: constants, answered from memory whatever state Kubernetes is in (rule 5.4).

Two forms of the same facts: aggregated (apidiscovery.k8s.io/v2, KEP-3352) and the older lists.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Awaitable, Callable
from typing import Final

import orjson
from aiohttp import web

from apiserver.negotiation import clauses
from shared.errors import NotAcceptable
from shared.vocabulary import (
    CATALOG_GROUP,
    CATALOG_GROUP_VERSION,
    CATEGORY,
    KIND_OPTION,
    RESOURCE_OPTIONS,
    SHORT_OPTIONS,
    SINGULAR_OPTION,
    VERSION,
)

VERBS: Final = ("get", "list", "watch")
"""All there is. With no other verb quota, garbage collection and the deletion of namespaces
leave us alone."""

V2_CONTENT_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_GROUP_VERSION: Final = {"groupVersion": CATALOG_GROUP_VERSION, "version": VERSION}

_GROUP: Final = {
    "name": CATALOG_GROUP,
    "versions": [_GROUP_VERSION],
    "preferredVersion": _GROUP_VERSION,
}

AGGREGATED: Final = orjson.dumps(
    {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": CATALOG_GROUP, "creationTimestamp": None},
                "versions": [
                    {
                        "version": VERSION,
                        "resources": [
                            {
                                "resource": RESOURCE_OPTIONS,
                                "responseKind": {
                                    "group": CATALOG_GROUP,
                                    "version": VERSION,
                                    "kind": KIND_OPTION,
                                },
                                "scope": "Namespaced",
                                "singularResource": SINGULAR_OPTION,
                                "verbs": VERBS,
                                "shortNames": [SHORT_OPTIONS],
                                "categories": [CATEGORY],
                            }
                        ],
                        "freshness": "Current",
                    }
                ],
            }
        ],
    }
)
ETAG: Final = f'"{hashlib.sha512(AGGREGATED).hexdigest().upper()}"'

GROUPS: Final = orjson.dumps({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]})
GROUP: Final = orjson.dumps({"kind": "APIGroup", "apiVersion": "v1", **_GROUP})
RESOURCES: Final = orjson.dumps(
    {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": CATALOG_GROUP_VERSION,
        "resources": [
            {
                "name": RESOURCE_OPTIONS,
                "singularName": SINGULAR_OPTION,
                "namespaced": True,
                "kind": KIND_OPTION,
                "verbs": VERBS,
                "shortNames": [SHORT_OPTIONS],
                "categories": [CATEGORY],
            }
        ],
    }
)
CORE: Final = orjson.dumps(
    {"kind": "APIVersions", "versions": [], "serverAddressByClientCIDRs": []}
)
PATHS: Final = (
    "/api",
    "/apis",
    f"/apis/{CATALOG_GROUP}",
    f"/apis/{CATALOG_GROUP_VERSION}",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    f"/openapi/v3/apis/{CATALOG_GROUP_VERSION}",
    "/readyz",
    "/version",
)


def version(package_version: str) -> bytes:
    """The document at /version; `package_version` such as `0.1.0`."""
    major, minor, *_ = (*package_version.split("."), "0", "0")
    return orjson.dumps(
        {
            "major": major,
            "minor": minor,
            "gitVersion": f"v{package_version}",
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "",
            "goVersion": "",
            "compiler": platform.python_implementation(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
    )


async def groups(request: web.Request) -> web.Response:
    """GET /apis: aggregated for those who can read it, else the list of groups."""
    for clause in clauses(request.headers.get("Accept") or "*/*"):
        wanted = tuple(clause.parameters.get(name, "") for name in ("g", "v", "as"))
        if clause.type == "application/json" and wanted == (
            "apidiscovery.k8s.io",
            "v2",
            "APIGroupDiscoveryList",
        ):
            return _aggregated(request)
        if clause.type in {"application/json", "application/*", "*/*"} and not any(wanted):
            return _json(GROUPS)
    raise NotAcceptable("only the following media types are accepted: application/json")


def _aggregated(request: web.Request) -> web.Response:
    headers = {"ETag": ETAG, "Vary": "Accept", "Cache-Control": "public"}
    if request.headers.get("If-None-Match") == ETAG:
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = V2_CONTENT_TYPE
    return web.Response(body=AGGREGATED, headers=headers)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def routes(package_version: str) -> list[web.RouteDef]:
    """The routes of discovery, with and without a slash at the end."""
    documents = {
        "/": orjson.dumps({"paths": PATHS}),
        "/api": CORE,
        f"/apis/{CATALOG_GROUP}": GROUP,
        f"/apis/{CATALOG_GROUP_VERSION}": RESOURCES,
        "/version": version(package_version),
    }
    found = [web.get(path, groups) for path in ("/apis", "/apis/")]
    for path, document in documents.items():
        found += [web.get(path, _constant(document))]
        if path not in {"/", "/version"}:
            found += [web.get(f"{path}/", _constant(document))]
    return found


def _constant(document: bytes) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return _json(document)

    return answer
