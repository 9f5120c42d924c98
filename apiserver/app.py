"""The application: which path goes to whom, and what every request passes on its way.

    errors become Status → what is it about → ready? → deadline → who → may it → handler

in this order, so that 401 comes before 403 and both before 404, 405 and 406 (rule 5.1). Calls of
webhooks leave this way early: kube-apiserver makes them as nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import web

from apiserver import discovery, openapi
from apiserver.authentication import Authenticator, authentication, peer_of
from apiserver.authorization import INFO, Authorizer, authorization
from apiserver.flow import Lifecycle, closing, deadline, readiness
from apiserver.listener import Protocol
from apiserver.metrics import Metrics
from apiserver.options import Options
from apiserver.requestinfo import request_info
from apiserver.responses import set_defaults, status_response, unsigned
from apiserver.trust import TrustSource
from shared.errors import (
    ApiError,
    BadRequest,
    InternalError,
    MethodNotAllowed,
    NotFound,
    RequestTooLarge,
    Unauthorized,
    Unavailable,
    from_status,
)
from shared.observability import probes
from shared.observability.health import Check
from shared.vocabulary import WEBHOOK_PREFIX

log = structlog.get_logger(__name__)

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of any request: an admission review carries an object twice (3 MiB each at most)."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Services:
    """What the application hands requests to."""

    lifecycle: Lifecycle
    trust: TrustSource
    authenticator: Authenticator
    authorizer: Authorizer
    options: Options
    health: Mapping[str, Sequence[Check]]
    metrics: Metrics
    package_version: str
    admission: Sequence[web.RouteDef] = ()
    webhook_callers: Collection[str] = ()


def make_app(services: Services) -> web.Application:
    """Put the application together."""
    app = web.Application(
        middlewares=[
            services.metrics.observing(),
            connections,
            closing(services.lifecycle),
            errors,
            webhooks(services.authenticator, services.webhook_callers),
            describe,
            readiness(services.trust),
            deadline(),
            authentication(services.authenticator),
            authorization(services.authorizer),
        ],
        client_max_size=BODY_BYTES_MAX,
    )
    app.on_response_prepare.append(_finish_headers)
    app.add_routes(services.options.routes())
    app.add_routes(services.admission)
    app.add_routes(discovery.routes(services.package_version))
    app.add_routes(openapi.routes())
    app.add_routes(probes.routes(services.health))
    app.add_routes([web.get("/metrics", services.metrics.expose)])
    return app


def webhooks(
    authenticator: Authenticator, callers: Collection[str]
) -> Callable[..., Awaitable[web.StreamResponse]]:
    """The middleware: answers calls of webhooks apart from all others.

    Unless told otherwise API servers make them without a certificate, so nobody is asked for; and
    no header ever says who calls. None is told to come back later: the API server would, with the
    user waiting, until its own timeout.

    Args:
        authenticator: knows certificates.
        callers: the names of certificates that may call; anybody where there are none.
    """

    @web.middleware
    async def call(request: web.Request, handler: Handler) -> web.StreamResponse:
        found = request.match_info.route.resource
        # The route itself, not the path: whatever is spelt oddly or does not exist is no webhook.
        if found is None or not found.canonical.startswith(WEBHOOK_PREFIX):
            return await handler(request)
        if callers and (name := authenticator.proven_name(peer_of(request))) not in callers:
            log.warning("caller of a webhook is not believed", name=name)
            raise Unauthorized
        try:
            return await request.match_info.handler(request)
        except ApiError as error:
            error.retry_after = None
            raise

    return call


@web.middleware
async def describe(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Say what the request is about, for authorization and for the handlers."""
    if "Upgrade" in request.headers:
        raise BadRequest("connections cannot be upgraded here; watch over plain HTTP")
    request[INFO] = request_info(request.method, request.path, request.query)
    return await handler(request)


@web.middleware
async def connections(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell the connection when a request begins and ends; one too many ends with its answer."""
    protocol = request.protocol
    if not isinstance(protocol, Protocol):
        return await handler(request)  # a test's own server
    protocol.begin(request.content)
    try:
        response = await handler(request)
        if protocol.is_surplus and not response.prepared:
            response.force_close()
        return response
    finally:
        protocol.finish()


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever goes wrong into a Status; never HTML, never a redirect."""
    try:
        return await handler(request)
    except ApiError as error:
        response = status_response(error)
        if isinstance(error, Unauthorized | Unavailable):
            # The next connection may bring a certificate that we can judge.
            response.force_close()
        return response
    except web.HTTPException as error:
        return status_response(_from_http(request, error))
    except ConnectionError:
        raise  # the client is gone, nobody reads a Status
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return status_response(InternalError("Internal error occurred: the server's log says more"))


def _from_http(request: web.Request, error: web.HTTPException) -> ApiError:
    """What aiohttp itself answers: no such path, no such method, too large a body."""
    match error:
        case web.HTTPMethodNotAllowed():
            return MethodNotAllowed(
                f"{request.method} is not possible on {request.path}",
                allowed=sorted(error.allowed_methods),
            )
        case web.HTTPNotFound():
            return NotFound("the server could not find the requested resource")
        case web.HTTPRequestEntityTooLarge():
            return RequestTooLarge(f"Request entity too large: limit is {BODY_BYTES_MAX}")
        case _:
            return from_status(error.status if error.status >= 400 else 500)


async def _finish_headers(request: web.Request, response: web.StreamResponse) -> None:
    set_defaults(response.headers, request.headers.get("Audit-Id", ""))
    unsigned(response.headers)
