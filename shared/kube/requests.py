"""What of a connection those need who send requests and follow nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import orjson

from shared.errors import Unavailable
from shared.fields import Json


class Requests(Protocol):
    """Sends one request at a time (`shared.kube.connect.Connection`)."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """As `Connection.request`."""
        ...


def parsed(body: bytes, path: str) -> Json:
    """The object that the API server answered with.

    Raises:
        Unavailable: it is none; a proxy on the way can answer anything.
    """
    try:
        found: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable(f"{path}: an answer that is no object")
    return found
