"""Answers: bytes with the headers that Kubernetes clients expect, and errors as Status."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

import orjson
import yaml
from aiohttp import Payload, web
from aiohttp.abc import AbstractStreamWriter
from typing_extensions import override

from apiserver.negotiation import Media, accepts_gzip

if TYPE_CHECKING:
    from multidict import CIMultiDict

    from shared.errors import ApiError

GZIP_FROM_BYTES: Final = 128 * 1024
"""Smaller bodies are not worth the work (kube-apiserver's own threshold)."""

PIECE_BYTES: Final = 128 * 1024
"""What is handed to a connection at once."""

AUDIT_ID_MAX: Final = 64
"""Longer ones are cut (kube-apiserver's own limit)."""

NO_CACHE: Final = "no-cache, private"
"""Cache-Control of whatever does not say otherwise."""


async def api_response(
    request: web.Request, body: bytes, media: Media, *, pretty: bool
) -> web.Response:
    """Answer with JSON, in the media type that was accepted; long work leaves the loop."""
    if media is Media.YAML:
        body = await asyncio.to_thread(_yaml, body)
    elif pretty:
        body = await asyncio.to_thread(_indented, body)
    headers = {}
    if len(body) > GZIP_FROM_BYTES:
        headers["Vary"] = "Accept-Encoding"
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            body = await asyncio.to_thread(_gzip, body)
            headers["Content-Encoding"] = "gzip"
    return web.Response(
        body=body if len(body) <= PIECE_BYTES else _Pieces(body),
        content_type=media.value,
        headers=headers,
    )


class _Pieces(Payload):
    """A long body, written piece by piece as it is read.

    TLS swallows one write whole, however slow its reader is: nobody could tell that it does not
    read, and the connection would hold all of it.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    @override
    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    @override
    async def write(self, writer: AbstractStreamWriter) -> None:
        for at in range(0, len(self._value), PIECE_BYTES):
            await writer.write(self._value[at : at + PIECE_BYTES])


class _Unsigned(web.Response):
    """Does not say what it was made with, as aiohttp's answers do.

    Nor where no application is asked: the answer to what cannot be parsed.
    """

    @override
    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        unsigned(self.headers)


def unsigned(headers: CIMultiDict[str]) -> None:
    """Take away what names the software and its version."""
    headers.popall("Server", None)


def status_response(error: ApiError) -> web.Response:
    """An error as Status, always JSON: whoever asked for another form must still understand."""
    response = _Unsigned(
        status=error.code,
        body=orjson.dumps(error.to_status()),
        content_type=Media.JSON.value,
        headers=error.headers(),
    )
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def set_defaults(headers: CIMultiDict[str], audit_id: str) -> None:
    """Headers of every answer; `audit_id` is the request's, given back to be found again."""
    headers.setdefault("Cache-Control", NO_CACHE)
    if audit_id and audit_id.isascii() and audit_id.isprintable():
        headers["Audit-Id"] = audit_id[:AUDIT_ID_MAX]


def _yaml(body: bytes) -> bytes:
    text: str = yaml.dump(
        orjson.loads(body), Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True
    )
    return text.encode()


def _indented(body: bytes) -> bytes:
    return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(level=1, wbits=31)
    return packer.compress(body) + packer.flush()
