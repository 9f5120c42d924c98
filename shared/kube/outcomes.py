"""What a write ends with: one of these, and nothing else. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from shared.fields import Json


@dataclass(frozen=True, slots=True)
class Done:
    """Carried out; `object` is the object as it is now, or what was left of it."""

    object: Json


@dataclass(frozen=True, slots=True)
class Stale:
    """Not carried out: the object is not as it was seen, or one of its name exists."""

    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Not carried out, and not if it is sent again: a right, a rule, a policy, a webhook.

    Attributes:
        code: the HTTP status.
        reason: Kubernetes' word for it.
        message: for people.
        causes: Kubernetes' words for single causes, such as NamespaceTerminating.
    """

    code: int
    reason: str
    message: str
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """Not carried out: there is no such object, or no namespace for it."""

    message: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Perhaps carried out: no answer came, or one that says nothing.

    Attributes:
        message: for people.
        settled_at: monotonic seconds from which on it is carried out or never will be.
    """

    message: str
    settled_at: float


@dataclass(frozen=True, slots=True)
class Withheld:
    """Not sent: writing is not ours any more."""


Outcome = Done | Stale | Refused | Missing | Unknown | Withheld
