"""/healthz, /livez, /readyz: whole, and check by check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from aiohttp import web

from shared.observability.health import Check, report

log = structlog.get_logger(__name__)


def routes(checks_of: Mapping[str, Sequence[Check]]) -> list[web.RouteDef]:
    """Routes of each endpoint and of each of its checks; `checks_of` by endpoint's name."""
    found = []
    for name, checks in checks_of.items():
        endpoint = _Endpoint(name, checks)
        found.append(web.get(f"/{name}", endpoint.all))
        found.append(web.get(f"/{name}/{{check}}", endpoint.one))
    return found


class _Endpoint:
    def __init__(self, name: str, checks: Sequence[Check]) -> None:
        self._name = name
        self._checks = checks

    async def all(self, request: web.Request) -> web.Response:
        return self._answer(request, self._checks)

    async def one(self, request: web.Request) -> web.Response:
        name = request.match_info["check"]
        checks = [check for check in self._checks if check.name == name]
        if not checks:
            raise web.HTTPNotFound(text=f"{self._name} has no check {name!r}")
        return self._answer(request, checks)

    def _answer(self, request: web.Request, checks: Sequence[Check]) -> web.Response:
        told = report(
            self._name,
            checks,
            excluded=request.query.getall("exclude", []),
            verbose="verbose" in request.query,
        )
        if not told.fine:
            log.warning("health check failed", endpoint=self._name, wrong=told.wrong)
        return web.Response(
            status=200 if told.fine else 500,
            text=told.text,
            headers={"X-Content-Type-Options": "nosniff"},
        )
