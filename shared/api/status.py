"""metav1.Status: the body of every answer that is not the thing asked for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.api.base import Model
from shared.api.meta import ListMeta


class StatusCause(Model):
    """One of the things that were wrong."""

    reason: str | None = None
    """What sort of fault it is, in one CamelCase word."""

    message: str | None = None
    """What is wrong, for people."""

    field: str | None = None
    """The field that is at fault, as a path such as spec.count."""


class StatusDetails(Model):
    """Further facts about a failure."""

    name: str | None = None
    """Name of the object that was asked for."""

    group: str | None = None
    """Its API group."""

    kind: str | None = None
    """Its resource or kind."""

    uid: str | None = None
    """Its uid."""

    causes: list[StatusCause] | None = None
    """What was wrong, one by one."""

    retry_after_seconds: int | None = None
    """After how many seconds to try again."""


class Status(Model):
    """How a request ended."""

    api_version: str = "v1"
    """v1."""

    kind: str = "Status"
    """Status."""

    metadata: ListMeta = Field(default_factory=ListMeta)
    """Standard list metadata, empty."""

    status: Literal["Success", "Failure"]
    """Success or Failure."""

    message: str | None = None
    """What happened, for people."""

    reason: str | None = None
    """Why it failed, in one CamelCase word, such as NotFound."""

    details: StatusDetails | None = None
    """Further facts, by reason."""

    code: int
    """The HTTP status code."""
