"""What the fake API server answers instead of an object: a code and a Status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.simulation.causes import Cause
from tests.simulation.kinds import Kind

Raw = dict[str, Any]

REJECTED: Final = "the server rejected our request due to an error in our request"
_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Refusal(Exception):
    """An answer of 400 and above."""

    def __init__(
        self, code: int, message: str, reason: str = "", details: Raw | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: Raw = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            **({"reason": reason} if reason else {}),
            **({"details": details} if details is not None else {}),
            "code": code,
        }


def bad_request(message: str) -> Refusal:
    """The request cannot be understood."""
    return Refusal(400, message, "BadRequest")


def not_found(kind: Kind, name: str) -> Refusal:
    """There is no such object."""
    return Refusal(404, f'{kind.qualified} "{name}" not found', "NotFound", _of(kind, name))


def already_exists(kind: Kind, name: str, going: bool) -> Refusal:
    """The name is taken."""
    told = f'{kind.qualified} "{name}" already exists'
    told = f"object is being deleted: {told}" if going else told
    return Refusal(409, told, "AlreadyExists", _of(kind, name))


def conflict(kind: Kind, name: str, why: str = _MODIFIED) -> Refusal:
    """Somebody else wrote in between."""
    told = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return Refusal(409, told, "Conflict", _of(kind, name))


def precondition(kind: Kind, name: str, why: str) -> Refusal:
    """A deletion that was meant for another object, or another state of it."""
    told = f'Operation cannot be fulfilled on {kind.qualified_kind} "{name}": {why}'
    return Refusal(409, told, "Conflict", _of(kind, name, kind.kind))


def rejected() -> Refusal:
    """A JSON Patch that cannot be applied: a test failed, or a path leads nowhere."""
    return Refusal(422, REJECTED, "Invalid", {})


def invalid(kind: Kind, name: str, causes: Sequence[Cause], *, resource: bool = False) -> Refusal:
    """Understood, and against the rules."""
    wrongs = [f"{cause.field}: {cause.message}" for cause in causes]
    told = wrongs[0] if len(wrongs) == 1 else f"[{', '.join(wrongs)}]"
    what = kind.qualified if resource else kind.qualified_kind
    details = _of(kind, name, kind.resource if resource else kind.kind)
    details["causes"] = [cause.to_json() for cause in causes]
    return Refusal(422, f'{what} "{name}" is invalid: {told}', "Invalid", details)


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[Raw] = ()) -> Refusal:
    """Admission says no."""
    details = _of(kind, name) | ({"causes": list(causes)} if causes else {})
    told = f'{kind.qualified} "{name}" is forbidden: {why}'
    return Refusal(403, told, "Forbidden", details)


def _of(kind: Kind, name: str, word: str = "") -> Raw:
    words = {"name": name, "group": kind.group, "kind": word or kind.resource}
    return {key: value for key, value in words.items() if value}
