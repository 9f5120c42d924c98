"""Authorization: one SubjectAccessReview per request, its answer kept for ten seconds.

kube-apiserver has authorized the path before it forwards, but a caller can reach the server
directly, so the original user is authorized here again ("Configure the aggregation layer").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from aiohttp import web

from apiserver.authentication import USER
from apiserver.identity import User
from apiserver.lookups import Lookups
from apiserver.requestinfo import RequestInfo
from shared.errors import ApiError, Forbidden, InternalError, Subject
from shared.vocabulary import GROUP_MASTERS

log = structlog.get_logger(__name__)

INFO: Final = web.RequestKey("info", RequestInfo)
"""What the request is about, as authorization saw it."""

ANSWER_SECONDS: Final = 10.0
"""How long an answer is believed, allowed or not: so late is a changed right noticed."""

ANSWERS_MAX: Final = 8192
_KEY_LENGTH_MAX: Final = 10_000
"""Longer questions are not kept, so that nobody fills our memory with them."""

FREE_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
"""Answered to everybody; their sub-paths are not."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """A question: may this user do this."""

    user: User
    info: RequestInfo

    @property
    def length(self) -> int:
        """How many characters of it the caller chose."""
        user, info = self.user, self.info
        return (
            len(user.name)
            + len(user.uid)
            + sum(map(len, user.groups))
            + sum(len(key) + sum(map(len, values)) for key, values in user.extra)
            + len(info.path)
            + len(info.field_selector)
            + len(info.label_selector)
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, with the authorizer's reason where it gives one."""

    allowed: bool
    reason: str = ""


class AccessReviews(Protocol):
    """The cluster's word on what a user may do."""

    async def review_access(self, attributes: Attributes) -> Decision:
        """Ask.

        Raises:
            ApiError: the answer could not be had.
        """
        ...


class Authorizer:
    """Lets a request through, or says why not."""

    def __init__(self, reviews: AccessReviews, *, monotonic: Callable[[], float]) -> None:
        self._reviews = reviews
        self._answers: Lookups[Attributes, Decision] = Lookups(
            seconds=ANSWER_SECONDS, size=ANSWERS_MAX, monotonic=monotonic
        )

    async def authorize(self, attributes: Attributes) -> None:
        """Return if the user may.

        Raises:
            Forbidden: the user may not.
            InternalError: nobody could tell.
        """
        if GROUP_MASTERS in attributes.user.groups or attributes.info.path in FREE_PATHS:
            return
        try:
            decision = await self._answers.get(
                attributes,
                lambda: self._reviews.review_access(attributes),
                keep=attributes.length <= _KEY_LENGTH_MAX,
            )
        except ApiError as error:
            log.warning("access cannot be reviewed", error=str(error), code=error.code)
            raise InternalError(
                "Internal error occurred: access cannot be reviewed now", retry_after=1
            ) from error
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    """The refusal in Kubernetes' own words, so that tools recognise it."""
    told = _escaped(_told(attributes)) + (f": {reason}" if reason else "")
    info = attributes.info
    subject = Subject(info.group, info.resource, info.name)
    if not info.is_resource:
        return Forbidden(f"forbidden: {told}", subject=subject)
    named = f' "{info.name}"' if info.name else ""
    return Forbidden(f"{subject}{named} is forbidden: {told}", subject=subject)


def _told(attributes: Attributes) -> str:
    user, info = attributes.user.name, attributes.info
    if not info.is_resource:
        return f'User "{user}" cannot {info.verb} path "{info.path}"'
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    return (
        f'User "{user}" cannot {info.verb} resource "{resource}" '
        f'in API group "{info.group}" {where}'
    )


def _escaped(text: str) -> str:
    """Harmless should a browser ever show it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def authorization(authorizer: Authorizer) -> Callable[..., Awaitable[web.StreamResponse]]:
    """The middleware: needs `USER` and `INFO`, answers 403 or 500 or lets through."""

    @web.middleware
    async def authorize(request: web.Request, handler: Handler) -> web.StreamResponse:
        await authorizer.authorize(Attributes(request[USER], request[INFO]))
        return await handler(request)

    return authorize
