"""AdmissionReview in and out, and what a decision is (admission.k8s.io/v1).

A decision is `Allow`, perhaps with a patch, or `Refuse`. Both are answered with HTTP 200 and the
uid of the review; what is no review is a BadRequest, which fails the call (so that a webhook
that fails closed stays closed). Nothing here reads a clock or a cluster.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias

from shared.core.annotations import shown
from shared.errors import ApiError, BadRequest, Cause, RequestTooLarge, Subject
from shared.fields import Json, elements, mapping, text
from shared.reasons import Reason

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

BODY_MAX: Final = 8 * 1024 * 1024
"""An object of 3 MiB (the API server's limit) twice, and what is around it."""

UID_MAX: Final = 128
"""Longer than any uid that an API server makes (36)."""

WARNING_MAX: Final = 256
"""Longer warnings may be cut by the API server (KEP-1693)."""

CAUSES_MAX: Final = 8
"""So many things that are wrong are told at once."""

FORBIDDEN: Final = "Forbidden"
FIELD_FORBIDDEN: Final = "FieldValueForbidden"
"""Kubernetes' own words for what none of our reasons is about: somebody writes what is not his."""

_CODES: Final = {
    Reason.MALFORMED: 422,
    Reason.TOO_MANY_UNITS: 422,
    Reason.MIXED_REQUESTS: 422,
    Reason.CLAIM_NOT_FOUND: 422,
    Reason.CLASS_NOT_FOUND: 422,
    Reason.INPUTS_UNREADABLE: 503,
}
"""HTTP codes of refusals: 422 for what the request alone has wrong, 403 for what may not be, 503
for what is no fault of the request."""

Operation: TypeAlias = Mapping[str, object]
"""One operation of a JSON Patch (RFC 6902)."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: an operation on an object by somebody.

    `namespace` is the one of the request; what the object says of its namespace does not count.
    `name` is empty where the API server will make one. `object` is None on DELETE.
    """

    uid: str
    operation: str
    group: str
    kind: str
    resource: str
    namespace: str = ""
    name: str = ""
    username: str = ""
    groups: frozenset[str] = frozenset()
    object: Json | None = None
    old_object: Json | None = None

    @property
    def subject(self) -> Subject:
        """What an answer is about, as Kubernetes names it in an error."""
        return Subject(self.group, self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Allow:
    """Let it in, with these changes; warnings are for people and cut to a bearable length."""

    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """Keep it out. `reason` is one word for programs, `causes` say which field is at fault."""

    code: int
    reason: str
    message: str
    causes: tuple[Cause, ...] = ()
    subject: Subject = field(default_factory=Subject)

    def status(self) -> dict[str, object]:
        """The Status that the API server hands on to the caller."""
        error = ApiError(self.message, subject=self.subject, causes=self.causes)
        error.code, error.reason = self.code, self.reason
        return error.to_status()


Decision = Allow | Refuse


def refusal(request: Request, reason: Reason, causes: Sequence[Cause], message: str = "") -> Refuse:
    """A refusal for one of our reasons; without a message of its own the causes are the message."""
    kept = tuple(causes[:CAUSES_MAX])
    return Refuse(
        code=_CODES.get(reason, 403),
        reason=reason.value,
        message=message or "; ".join(_told(cause) for cause in kept),
        causes=kept,
        subject=request.subject,
    )


def forbidden(request: Request, wrong: str, where: str) -> Refuse:
    """A refusal for something that only our processes write."""
    cause = Cause(FIELD_FORBIDDEN, wrong, where)
    return Refuse(403, FORBIDDEN, _told(cause), (cause,), request.subject)


def _told(cause: Cause) -> str:
    return f"{cause.field}: {cause.message}" if cause.field else cause.message


def parse(body: bytes) -> Request:
    """Read a review.

    Raises:
        RequestTooLarge: it is longer than BODY_MAX.
        BadRequest: it is not a review of version v1 with a uid, an operation and an object.
    """
    if len(body) > BODY_MAX:
        raise RequestTooLarge(f"{len(body)} bytes, expected at most {BODY_MAX}")
    try:
        document = body.decode()
        if document.startswith("\ufeff"):
            raise ValueError("Unexpected UTF-8 BOM")  # noqa: TRY301 - as json.loads has it
        review = _DECODER.decode(document)
    except (ValueError, RecursionError) as error:
        # The decoder's own message may quote what could not be decoded.
        told = f"{error}".encode("ascii", "backslashreplace").decode()
        raise BadRequest(f"the body is not JSON: {told:.200}") from None
    if not isinstance(review, dict):
        _bad("the body", review, f"an {KIND}")
    if review.get("kind") != KIND:
        _bad("kind", review.get("kind"), KIND)
    if review.get("apiVersion") != API_VERSION:
        _bad("apiVersion", review.get("apiVersion"), API_VERSION)
    request = review.get("request")
    if not isinstance(request, dict):
        _bad("request", request, "an object")
    return _request(request)


def _request(request: Json) -> Request:
    uid = text(request.get("uid"))
    if not uid or len(uid) > UID_MAX or not uid.isascii():
        _bad("request.uid", request.get("uid"), f"at most {UID_MAX} ASCII characters")
    operation = text(request.get("operation"))
    if operation not in {"CREATE", "UPDATE", "DELETE", "CONNECT"}:
        _bad("request.operation", request.get("operation"), "CREATE, UPDATE, DELETE or CONNECT")
    kind, user = mapping(request.get("kind")), mapping(request.get("userInfo"))
    if not text(kind.get("kind")):
        _bad("request.kind.kind", kind.get("kind"), "the name of a kind")
    for name in ("object", "oldObject"):
        if not isinstance(request.get(name), dict | None):
            _bad(f"request.{name}", request.get(name), "an object or null")
    if operation in {"CREATE", "UPDATE"} and request.get("object") is None:
        _bad("request.object", None, "an object")
    if request.get("subResource"):
        _bad("request.subResource", request.get("subResource"), "none: we look at whole objects")
    return Request(
        uid=uid,
        operation=operation,
        group=text(kind.get("group")),
        kind=text(kind.get("kind")),
        resource=text(mapping(request.get("resource")).get("resource")),
        namespace=text(request.get("namespace")),
        name=text(request.get("name")),
        username=text(user.get("username")),
        groups=frozenset(text(group) for group in elements(user.get("groups"))),
        object=_or_none(request.get("object")),
        old_object=_or_none(request.get("oldObject")),
    )


def require_kind(request: Request, group: str, kind: str) -> None:
    """Refuse what this path was not made for: to let it in unseen would be to fail open.

    Raises:
        BadRequest: the review is about another kind.
    """
    if (request.group, request.kind) != (group, kind):
        told = f"{request.group}/{request.kind}"
        _bad("request.kind", told, f"{group}/{kind} on this path")


def answer(request: Request, decision: Decision) -> bytes:
    """The review to answer with, as JSON in ASCII: whatever a request holds can be told."""
    response: dict[str, object] = {"uid": request.uid}
    match decision:
        case Allow(patch=patch, warnings=warnings):
            response["allowed"] = True
            if patch:
                response["patchType"] = "JSONPatch"
                response["patch"] = base64.b64encode(_json(patch)).decode()
            if warnings:
                response["warnings"] = [_cut(warning) for warning in warnings]
        case Refuse():
            response["allowed"] = False
            response["status"] = decision.status()
    return _json({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _json(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def _cut(warning: str) -> str:
    return warning if len(warning) <= WARNING_MAX else f"{warning[: WARNING_MAX - 3]}..."


def _or_none(value: object) -> Json | None:
    return value if isinstance(value, dict) else None


def _bad(where: str, value: object, expected: str) -> NoReturn:
    raise BadRequest(f"{where}: {shown(value)}, expected {expected}")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


class Misshapen(Exception):
    """Something else stands where an object or a list belongs: `value`, at `field`."""

    def __init__(self, path: Sequence[str], value: object, expected: str) -> None:
        self.field, self.value, self.expected = ".".join(path), shown(value), expected
        super().__init__(f"{self.field}: {self.value}, expected {expected}")


class Patch:
    """A document and the operations that make it another: the fewest, and nothing else.

    Applied to its own result, the same calls give no operation.
    """

    def __init__(self, document: Json) -> None:
        self.document = document
        """The document as it is with the operations so far."""
        self._operations: list[Operation] = []

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What to do, in this order."""
        return tuple(self._operations)

    def put(self, path: Sequence[str], value: object) -> None:
        """Have this value at a path of keys; parents that are absent or null are made.

        Raises:
            Misshapen: a parent is no object.
        """
        parent: object = self.document
        for depth, key in enumerate(path):
            if not isinstance(parent, dict):
                raise Misshapen(path[:depth], parent, "an object")
            last = depth == len(path) - 1
            there = parent.get(key)
            if last and key in parent and there == value:
                return
            if last or there is None:
                made = _nested(path[depth + 1 :], value)
                self._do("replace" if key in parent else "add", path[: depth + 1], made)
                return
            parent = there

    def put_list(self, path: Sequence[str], items: Sequence[object]) -> None:
        """Have exactly these items in a list; one that is absent or null is made.

        Raises:
            Misshapen: there is something else than a list, or a parent is no object.
        """
        self._list(path)
        self.put(path, list(items))

    def append(self, path: Sequence[str], items: Sequence[object]) -> None:
        """Have these items at the end of a list; one that is absent or null is made.

        Raises:
            Misshapen: there is something else than a list, or a parent is no object.
        """
        there = self._list(path)
        if not there:
            if items:
                self.put(path, list(items))
            return
        for item in items:
            self._operations.append({"op": "add", "path": pointer([*path, "-"]), "value": item})
        self.document = mapping(_with(self.document, path, [*there, *items]))

    def _list(self, path: Sequence[str]) -> list[object]:
        """The list at a path, empty where there is none."""
        there: object = self.document
        for key in path:
            there = mapping(there).get(key)
        if not isinstance(there, list | None):
            raise Misshapen(path, there, "a list")
        return there or []

    def _do(self, operation: str, path: Sequence[str], value: object) -> None:
        self._operations.append({"op": operation, "path": pointer(path), "value": value})
        self.document = mapping(_with(self.document, path, value))


def pointer(path: Iterable[str]) -> str:
    """A path of keys as a JSON pointer (RFC 6901)."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in path)


def _nested(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _with(document: object, path: Sequence[str], value: object) -> object:
    """A copy of a document with a value at a path; what lies beside the path is shared."""
    if not path:
        return value
    rest = mapping(document)
    return {**rest, path[0]: _with(rest.get(path[0]), path[1:], value)}
