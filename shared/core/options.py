"""The option of one class for one tenant: what may be ordered now, and why not more (rule 3.3).

Figures are whole units, capped to int32. None means that the figure is not shown or not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.core.model import GpuClass
    from shared.reasons import Reason


class Level(StrEnum):
    """Stock in steps, for classes whose figures are not shown."""

    NONE = "None"
    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"
    UNKNOWN = "Unknown"


class BudgetState(StrEnum):
    """Whether a budget limits this class here."""

    UNLIMITED = "Unlimited"
    LIMITED = "Limited"
    UNKNOWN = "Unknown"


class LimitingLevel(StrEnum):
    """Where the smallest budget lies: in this namespace, or above it."""

    SELF = "Self"
    ANCESTOR = "Ancestor"


class Grant(StrEnum):
    """Entitlement of a namespace to a class."""

    NOT_REQUIRED = "NotRequired"
    GRANTED = "Granted"
    MISSING = "Missing"


class Truth(StrEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Availability:
    """The stock as this class discloses it."""

    level: Level
    free: int | None = None
    total: int | None = None
    unavailable: int | None = None
    largest_set: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What the tenant's budgets leave; `hard` and `used` only where the limit is its own."""

    state: BudgetState
    remaining: int | None = None
    hard: int | None = None
    used: int | None = None
    limiting_level: LimitingLevel | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One class for one namespace.

    `limited_by` is most severe first; `reason` and `message` are those of the condition
    Selectable; `label` and `text` are the dropdown item's label and description.
    """

    namespace: str
    gpu_class: GpuClass
    orderable: int | None
    limited_by: tuple[Reason, ...]
    availability: Availability
    budget: Budget
    entitlement: Grant
    selectable: Truth
    reason: Reason
    message: str
    label: str
    text: str
