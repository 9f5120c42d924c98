"""TokenReview and SubjectAccessReview over a connection to kube-apiserver."""

from __future__ import annotations

from typing import Final, Protocol

import orjson

from apiserver import selectors
from apiserver.authorization import Attributes, Decision
from apiserver.identity import User, named_by_review
from apiserver.selectors import Operator, Requirements
from shared.errors import BadRequest, InternalError

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

TIMEOUT_SECONDS: Final = 10.0
"""For one review: a caller waits no longer for us to learn who it is and what it may."""

_SENDABLE: Final = frozenset(
    {Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST}
)


class Requests(Protocol):
    """One request to kube-apiserver at a time; `shared.kube.connect.Connection` is one."""

    async def request(
        self, method: str, path: str, *, body: object = None, timeout_seconds: float = 30.0
    ) -> bytes:
        """Send a body as JSON and return the answer's bytes.

        Raises:
            ApiError: the answer was no success, or did not come.
        """
        ...


class KubernetesReviews:
    """Asks the cluster who a token belongs to and what a user may do."""

    def __init__(self, connection: Requests) -> None:
        self._connection = connection

    async def review_token(self, token: str) -> User | None:
        """As `TokenReviews` says."""
        status = await self._review(
            TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            return None
        return named_by_review(user)

    async def review_access(self, attributes: Attributes) -> Decision:
        """As `AccessReviews` says."""
        status = await self._review(
            ACCESS_REVIEWS,
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            access_spec(attributes),
        )
        reason = status.get("reason")
        return Decision(
            allowed=status.get("allowed") is True and status.get("denied") is not True,
            reason=reason if isinstance(reason, str) else "",
        )

    async def _review(
        self, path: str, api_version: str, kind: str, spec: dict[str, object]
    ) -> dict[str, object]:
        answer = await self._connection.request(
            "POST",
            path,
            body={"apiVersion": api_version, "kind": kind, "spec": spec},
            timeout_seconds=TIMEOUT_SECONDS,
        )
        try:
            review = orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise InternalError(f"the answer to a {kind} is no JSON") from error
        status = review.get("status") if isinstance(review, dict) else None
        if not isinstance(status, dict):
            raise InternalError(f"the answer to a {kind} has no status")
        return status


def access_spec(attributes: Attributes) -> dict[str, object]:
    """The spec of a SubjectAccessReview. Pure."""
    user, info = attributes.user, attributes.info
    spec: dict[str, object] = {"user": user.name}
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    if not info.is_resource:
        spec["nonResourceAttributes"] = {"path": info.path, "verb": info.verb}
        return spec
    asked: dict[str, object] = {
        "verb": info.verb,
        "group": info.group,
        "version": info.version,
        "resource": info.resource,
    }
    words = {"namespace": info.namespace, "subresource": info.subresource, "name": info.name}
    asked.update((key, word) for key, word in words.items() if word)
    if fields := _sendable(selectors.parse_fields, info.field_selector):
        asked["fieldSelector"] = {"requirements": fields}
    if labels := _sendable(selectors.parse_labels, info.label_selector):
        asked["labelSelector"] = {"requirements": labels}
    spec["resourceAttributes"] = asked
    return spec


def _sendable(parse: _Parse, text: str) -> list[dict[str, object]]:
    """Requirements as an authorizer reads them.

    Selectors only narrow: leaving one out (one that cannot be parsed is refused later) never
    widens what is granted.
    """
    try:
        requirements = parse(text)
    except BadRequest:
        return []
    return [
        {"key": requirement.key, "operator": requirement.operator.value}
        | ({"values": list(requirement.values)} if requirement.values else {})
        for requirement in requirements
        if requirement.operator in _SENDABLE
    ]


class _Parse(Protocol):
    def __call__(self, text: str, /) -> Requirements: ...
