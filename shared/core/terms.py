"""The words in which an option answers: small closed sets, as users read them (rule 3.3)."""

from __future__ import annotations

from enum import StrEnum


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
