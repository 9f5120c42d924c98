"""Standard conditions (metav1.Condition), and the types that our kinds have."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from shared.api.base import MESSAGE_LENGTH, Generation, Model, Time
from shared.core.terms import Truth


class ConditionType(StrEnum):
    """Types of the conditions of all our kinds."""

    READY = "Ready"
    OPEN = "Open"
    RESOURCE_NAME_UNIQUE = "ResourceNameUnique"
    PERMITTED = "Permitted"
    BOUND = "Bound"
    ATTACHED = "Attached"
    DISRUPTED = "Disrupted"
    SELECTABLE = "Selectable"
    FRESH = "Fresh"
    SETTINGS_VALID = "SettingsValid"
    PLACING = "Placing"
    KUBEVIRT_FOUND = "KubeVirtFound"
    RECORDS_KEPT = "RecordsKept"


class Condition(Model):
    """One aspect of the state of an object, with why it is so."""

    type: Annotated[
        str,
        Field(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    """What the condition is about, in CamelCase."""

    status: Truth
    """Whether it holds: True, False or Unknown."""

    observed_generation: Generation | None = None
    """The metadata.generation that the condition was set for; older than that: out of date."""

    last_transition_time: Time
    """When status last changed from one value to another."""

    reason: Annotated[
        str,
        Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ]
    """Why, in one CamelCase word: one of the reasons that are listed in docs/reasons.md."""

    message: Annotated[str, Field(max_length=MESSAGE_LENGTH)]
    """Why, in a sentence with the figures; may be empty."""


def find(conditions: Iterable[Condition] | None, type_: ConditionType) -> Condition | None:
    """The condition of this type, None where there is none."""
    return next((c for c in conditions or () if c.type == type_), None)
