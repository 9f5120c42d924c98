"""The two OpenAPI documents: constants made from the models when the module is loaded.

kube-apiserver merges them into what it serves to everybody, so a fault here breaks others:
every reference resolves (there are none but to our own schemas), every operation has responses,
and `additionalProperties` is never a boolean. All names are our own, so that nothing is renamed
when documents are merged; metadata is written out in place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson
from aiohttp import web

from apiserver.negotiation import clauses
from shared.api.base import Model
from shared.api.gpuclassoption import GPUClassOption, GPUClassOptionList
from shared.api.meta import ListMeta, ObjectMeta
from shared.api.schema import kind_schema, schema_of
from shared.errors import NotAcceptable
from shared.vocabulary import (
    CATALOG_GROUP,
    CATALOG_GROUP_VERSION,
    KIND_OPTION,
    RESOURCE_OPTIONS,
    VERSION,
)

Document = dict[str, Any]

IMMUTABLE: Final = "public, immutable, max-age=31536000"
"""Cache-Control of a document that was asked for by its hash."""

_PREFIX: Final = ".".join(reversed(CATALOG_GROUP.split(".")))
_OBJECT: Final = f"{_PREFIX}.{VERSION}.{KIND_OPTION}"
_LIST: Final = f"{_OBJECT}List"
_GVK: Final = {"group": CATALOG_GROUP, "version": VERSION, "kind": KIND_OPTION}
_GVK_LIST: Final = _GVK | {"kind": f"{KIND_OPTION}List"}
_BASE: Final = f"/apis/{CATALOG_GROUP_VERSION}"
_TYPES: Final = ("application/json", "application/yaml")

_QUERY: Final = {
    "allowWatchBookmarks": ("boolean", "Whether a watch also gets events of type BOOKMARK."),
    "continue": ("string", "Token to continue a list with. None is given out: lists are whole."),
    "fieldSelector": ("string", "Restricts to objects by metadata.name or metadata.namespace."),
    "labelSelector": ("string", "Restricts to objects by their labels."),
    "limit": ("integer", "The most objects of one answer. Not used: lists are whole."),
    "pretty": ("string", "If true, the answer is indented."),
    "resourceVersion": ("string", "How new the answer must be, or from where a watch goes on."),
    "resourceVersionMatch": ("string", "How resourceVersion is meant by a list."),
    "sendInitialEvents": ("boolean", "Whether a watch begins with what exists."),
    "timeoutSeconds": ("integer", "How long a watch lasts."),
    "watch": ("boolean", "Whether to watch instead of to list."),
}
_PATH: Final = {
    "namespace": "The tenant's namespace.",
    "name": "Name of the class.",
}


def schemas() -> Document:
    """The schemas of both kinds, by name."""
    return {
        _OBJECT: _kind(GPUClassOption, ObjectMeta, _GVK),
        _LIST: _kind(GPUClassOptionList, ListMeta, _GVK_LIST),
    }


def _kind(model: type[Model], metadata: type[Model], gvk: Mapping[str, str]) -> Document:
    schema = kind_schema(model, metadata=schema_of(metadata, rules=False), rules=False)
    schema["x-kubernetes-group-version-kind"] = [dict(gvk)]
    return schema


def _operations() -> list[tuple[str, str, str, str, tuple[str, ...]]]:
    """Path, what it does, operation id, name of the answer's schema, names in the path."""
    namespaced = f"{_BASE}/namespaces/{{namespace}}/{RESOURCE_OPTIONS}"
    called = f"{CATALOG_GROUP.split('.')[0].title()}{VERSION.title()}"
    return [
        (
            f"{_BASE}/{RESOURCE_OPTIONS}",
            "list",
            f"list{called}{KIND_OPTION}ForAllNamespaces",
            _LIST,
            (),
        ),
        (namespaced, "list", f"list{called}Namespaced{KIND_OPTION}", _LIST, ("namespace",)),
        (
            f"{namespaced}/{{name}}",
            "get",
            f"read{called}Namespaced{KIND_OPTION}",
            _OBJECT,
            ("namespace", "name"),
        ),
    ]


def document_v3() -> Document:
    """OpenAPI 3.0 of our group and version."""
    paths: dict[str, Document] = {}
    for path, action, called, answer, names in _operations():
        content = {"schema": {"$ref": f"#/components/schemas/{answer}"}}
        queries = _QUERY if action == "list" else {"pretty": _QUERY["pretty"]}
        paths[path] = {
            "get": _operation(action, called)
            | {
                "parameters": [
                    {
                        "name": name,
                        "in": "query",
                        "description": told,
                        "schema": {"type": kind, "uniqueItems": True},
                    }
                    for name, (kind, told) in queries.items()
                ],
                "responses": {
                    "200": {
                        "description": "OK",
                        "content": dict.fromkeys(_TYPES, content),
                    },
                    "401": {"description": "Unauthorized"},
                },
            }
        }
        if names:
            paths[path]["parameters"] = [
                {
                    "name": name,
                    "in": "path",
                    "description": _PATH[name],
                    "required": True,
                    "schema": {"type": "string", "uniqueItems": True},
                }
                for name in names
            ]
    return {
        "openapi": "3.0.0",
        "info": {"title": CATALOG_GROUP, "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas()},
    }


def document_v2() -> Document:
    """Swagger 2.0 of all that we serve."""
    paths: dict[str, Document] = {}
    for path, action, called, answer, names in _operations():
        queries = _QUERY if action == "list" else {"pretty": _QUERY["pretty"]}
        paths[path] = {
            "get": _operation(action, called)
            | {
                "consumes": ["*/*"],
                "produces": list(_TYPES),
                "schemes": ["https"],
                "parameters": [
                    {
                        "name": name,
                        "in": "query",
                        "description": told,
                        "type": kind,
                        "uniqueItems": True,
                    }
                    for name, (kind, told) in queries.items()
                ],
                "responses": {
                    "200": {
                        "description": "OK",
                        "schema": {"$ref": f"#/definitions/{answer}"},
                    },
                    "401": {"description": "Unauthorized"},
                },
            }
        }
        if names:
            paths[path]["parameters"] = [
                {
                    "name": name,
                    "in": "path",
                    "description": _PATH[name],
                    "required": True,
                    "type": "string",
                    "uniqueItems": True,
                }
                for name in names
            ]
    return {
        "swagger": "2.0",
        "info": {"title": CATALOG_GROUP, "version": VERSION},
        "paths": paths,
        "definitions": schemas(),
    }


def _operation(action: str, called: str) -> Document:
    return {
        "tags": [f"{CATALOG_GROUP.replace('.', '_')}_{VERSION}"],
        "description": f"{'read' if action == 'get' else 'list or watch'} {KIND_OPTION} objects",
        "operationId": called,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _GVK,
    }


def encoded(document: Document) -> tuple[bytes, str]:
    """Bytes that are equal on every replica, as the models are, and their hash."""
    body = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return body, hashlib.sha512(body).hexdigest().upper()


V2, V2_HASH = encoded(document_v2())
V3, V3_HASH = encoded(document_v3())
V3_PATH: Final = f"/openapi/v3{_BASE}"
INDEX, INDEX_HASH = encoded(
    {"paths": {_BASE.removeprefix("/"): {"serverRelativeURL": f"{V3_PATH}?hash={V3_HASH}"}}}
)


def routes() -> list[web.RouteDef]:
    """The routes of both documents and of the index of the newer one."""
    return [
        web.get("/openapi/v2", v2),
        web.get("/openapi/v3", index),
        web.get("/openapi/v3/", index),
        web.get(V3_PATH, v3),
    ]


async def v2(request: web.Request) -> web.Response:
    """GET /openapi/v2."""
    return _answer(request, V2, V2_HASH)


async def index(request: web.Request) -> web.Response:
    """GET /openapi/v3: which documents there are, each with its hash."""
    return _answer(request, INDEX, INDEX_HASH)


async def v3(request: web.Request) -> web.Response:
    """GET /openapi/v3/apis/GROUP/VERSION.

    A wrong hash gets the document there is: a redirect would be refused on the way.
    """
    response = _answer(request, V3, V3_HASH)
    if request.query.get("hash") == V3_HASH:
        response.headers["Cache-Control"] = IMMUTABLE
    return response


def _answer(request: web.Request, body: bytes, hashed: str) -> web.Response:
    accept = request.headers.get("Accept") or "*/*"
    if not any(
        clause.type in {"application/json", "application/*", "*/*"} for clause in clauses(accept)
    ):
        raise NotAcceptable("only the following media types are accepted: application/json")
    headers = {"ETag": f'"{hashed}"', "Vary": "Accept"}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type="application/json", headers=headers)
