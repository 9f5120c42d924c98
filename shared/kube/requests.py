"""What of a connection those need who send requests and follow nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


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
