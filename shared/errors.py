"""What can go wrong between a client and the API, as one tree; each class knows its Status.

    ApiError
    ├── RequestError                the caller's fault: never retried as it is
    │   ├── BadRequest              400
    │   ├── Unauthorized            401
    │   ├── Forbidden               403
    │   ├── NotFound                404
    │   ├── MethodNotAllowed        405
    │   ├── NotAcceptable           406
    │   ├── Conflict                409, somebody else wrote in between
    │   ├── AlreadyExists           409, the name is taken
    │   ├── Expired                 410, the version is no longer known: list again
    │   ├── RequestTooLarge         413
    │   ├── UnsupportedMediaType    415
    │   ├── Invalid                 422, with one cause per field
    │   └── TooManyRequests         429, retried after `retry_after` seconds
    └── ServerError                 ours, the cluster's or the network's: retried with back-off
        ├── InternalError           500
        ├── Unavailable             503, not ready or not reachable
        └── TimedOut                504

The same classes serve both ends: our servers raise them and answer their Status, and the door
to Kubernetes raises what `from_status` makes of an answer. Status: Kubernetes API conventions,
"Response Status Kind".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from typing_extensions import override

RETRY_AFTER_SECONDS: Final = 1
"""How long a caller waits who was told to come back, unless the error says otherwise."""

CAUSE_VERSION_TOO_LARGE: Final = "ResourceVersionTooLarge"
"""Cause by which clients know that a version lies in this server's future, and list anew."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an error is about; `kind` is the plural resource name (a Kind only in Invalid)."""

    group: str = ""
    kind: str = ""
    name: str = ""

    @override
    def __str__(self) -> str:
        """The qualified resource as Kubernetes writes it in messages."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason among several, with the path of the field that it is about."""

    reason: str
    message: str
    field: str = ""


class ApiError(Exception):
    """Anything that ends a request; `str()` is the message that users read.

    `retry_after` is in seconds; None means that the answer carries no such advice.
    """

    code: int = 500
    reason: str = "InternalError"
    default_retry_after: ClassVar[int | None] = None

    def __init__(
        self,
        message: str,
        *,
        subject: Subject | None = None,
        causes: Sequence[Cause] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.subject = subject
        self.causes = tuple(causes)
        self.retry_after = self.default_retry_after if retry_after is None else retry_after

    def to_status(self) -> dict[str, object]:
        """The Status object of this error, ready for JSON."""
        status: dict[str, object] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if details := self._details():
            status["details"] = details
        status["code"] = self.code
        return status

    def headers(self) -> dict[str, str]:
        """Headers that belong to the answer. Clients retry a 429 only with Retry-After."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

    def _details(self) -> dict[str, object]:
        details: dict[str, object] = {}
        if self.subject is not None:
            words = {
                "name": self.subject.name,
                "group": self.subject.group,
                "kind": self.subject.kind,
            }
            details.update((key, word) for key, word in words.items() if word)
        if self.causes:
            details["causes"] = [
                {"reason": cause.reason, "message": cause.message}
                | ({"field": cause.field} if cause.field else {})
                for cause in self.causes
            ]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        return details


class RequestError(ApiError):
    """The caller's fault; the same request fails again."""

    code = 400
    reason = "BadRequest"


class BadRequest(RequestError):
    """The request cannot be understood."""


class Unauthorized(RequestError):
    """Nobody vouches for the caller. Says no more than that: the why is for our log."""

    code = 401
    reason = "Unauthorized"

    def __init__(
        self,
        message: str = "Unauthorized",
        *,
        subject: Subject | None = None,
        causes: Sequence[Cause] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message, subject=subject, causes=causes, retry_after=retry_after)


class Forbidden(RequestError):
    """The caller is known and may not do this."""

    code = 403
    reason = "Forbidden"


class NotFound(RequestError):
    """There is no such object or path."""

    code = 404
    reason = "NotFound"

    @classmethod
    def of(cls, subject: Subject) -> NotFound:
        """The usual wording for a missing object."""
        return cls(f'{subject} "{subject.name}" not found', subject=subject)


class MethodNotAllowed(RequestError):
    """The path exists, the method does not; `allowed` become the header Allow (RFC 9110)."""

    code = 405
    reason = "MethodNotAllowed"

    def __init__(
        self,
        message: str,
        *,
        subject: Subject | None = None,
        causes: Sequence[Cause] = (),
        retry_after: int | None = None,
        allowed: Sequence[str] = (),
    ) -> None:
        super().__init__(message, subject=subject, causes=causes, retry_after=retry_after)
        self.allowed = tuple(allowed)

    @override
    def headers(self) -> dict[str, str]:
        """As the base class, with the methods that would do."""
        return super().headers() | ({"Allow": ", ".join(self.allowed)} if self.allowed else {})


class NotAcceptable(RequestError):
    """None of the forms that the caller accepts can be served."""

    code = 406
    reason = "NotAcceptable"


class Conflict(RequestError):
    """The object changed since it was read: read again, decide again."""

    code = 409
    reason = "Conflict"


class AlreadyExists(RequestError):
    """An object of this name exists."""

    code = 409
    reason = "AlreadyExists"


class Expired(RequestError):
    """The resource version or continue token is too old: list again."""

    code = 410
    reason = "Expired"


class RequestTooLarge(RequestError):
    """The body is larger than the server reads."""

    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(RequestError):
    """The body is in a form that the server does not read."""

    code = 415
    reason = "UnsupportedMediaType"


class Invalid(RequestError):
    """Understood, and against the rules; each broken rule is a cause with its field."""

    code = 422
    reason = "Invalid"

    @classmethod
    def of(cls, subject: Subject, causes: Sequence[Cause]) -> Invalid:
        """The usual wording: which object, then what is wrong with which field."""
        wrongs = [
            f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes
        ]
        told = wrongs[0] if len(wrongs) == 1 else f"[{', '.join(wrongs)}]"
        return cls(f'{subject} "{subject.name}" is invalid: {told}', subject=subject, causes=causes)


class TooManyRequests(RequestError):
    """The caller asks too much at once; the answer says when to come back."""

    code = 429
    reason = "TooManyRequests"
    default_retry_after = RETRY_AFTER_SECONDS


class ServerError(ApiError):
    """Not the caller's fault; the same request may succeed later."""


class InternalError(ServerError):
    """Something broke here. The message says that much; the log says what."""


class Unavailable(ServerError):
    """Not ready, going away, or not reachable."""

    code = 503
    reason = "ServiceUnavailable"
    default_retry_after = RETRY_AFTER_SECONDS


class TimedOut(ServerError):
    """The answer did not come in time."""

    code = 504
    reason = "Timeout"

    @classmethod
    def version_too_large(cls, asked: int, current: int) -> TimedOut:
        """A resource version in this server's future (API concepts, "Resource versions")."""
        return cls(
            f"Timeout: Too large resource version: {asked}, current: {current}",
            causes=[Cause(CAUSE_VERSION_TOO_LARGE, "Too large resource version")],
            retry_after=RETRY_AFTER_SECONDS,
        )


_KNOWN: Final[tuple[type[ApiError], ...]] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    AlreadyExists,
    Expired,
    RequestTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    Unavailable,
    TimedOut,
)
_BY_REASON: Final = {kind.reason: kind for kind in _KNOWN} | {
    "Gone": Expired,
    "ServerTimeout": TimedOut,
}
# Where reasons share a code the one defined first is the general one.
_BY_CODE: Final = {kind.code: kind for kind in reversed(_KNOWN)}


def from_status(code: int, body: object = None) -> ApiError:
    """The error that an API server's answer stands for.

    Args:
        code: the HTTP status, 400 or above; it decides where the body says nothing we know.
        body: the decoded body. Anything that is not a Status is tolerated: proxies on the way
            answer in plain text.
    """
    status: Mapping[str, object] = body if isinstance(body, Mapping) else {}
    found = _BY_REASON.get(_text(status, "reason"))
    if found is None or found.code // 100 != code // 100:
        found = _BY_CODE.get(code, ServerError if code >= 500 else RequestError)
    told = status.get("details")
    details: Mapping[str, object] = told if isinstance(told, Mapping) else {}
    after = details.get("retryAfterSeconds")
    error = found(
        _text(status, "message") or f"HTTP {code}",
        subject=_subject(details),
        causes=_causes(details),
        retry_after=after if isinstance(after, int) and after > 0 else None,
    )
    error.code = code
    error.reason = _text(status, "reason") or found.reason
    return error


def _text(mapping: Mapping[str, object], key: str) -> str:
    word = mapping.get(key)
    return word if isinstance(word, str) else ""


def _subject(details: Mapping[str, object]) -> Subject | None:
    subject = Subject(_text(details, "group"), _text(details, "kind"), _text(details, "name"))
    return None if subject == Subject() else subject


def _causes(details: Mapping[str, object]) -> list[Cause]:
    causes = details.get("causes")
    return [
        Cause(_text(cause, "reason"), _text(cause, "message"), _text(cause, "field"))
        for cause in (causes if isinstance(causes, list) else [])
        if isinstance(cause, Mapping)
    ]
