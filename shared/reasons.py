"""The one enum of reasons, in order of precedence, used wherever we say why (rule 3.4)."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why something may not be, waits, or is well.

    The order of definition is the precedence: where several hold, the first is named. The
    values are API: conditions, refusals, events, metrics and options carry them.
    """

    DISABLED = "Disabled"
    MALFORMED = "Malformed"
    TOO_MANY_UNITS = "TooManyUnits"
    MIXED_REQUESTS = "MixedRequests"
    INPUTS_UNREADABLE = "InputsUnreadable"
    NOT_OFFERED = "NotOffered"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    CLAIM_IN_USE = "ClaimInUse"
    CLASS_NOT_FOUND = "ClassNotFound"
    CLASS_CONFLICT = "ClassConflict"
    NOT_PERMITTED = "NotPermitted"
    CLASS_CLOSED = "ClassClosed"
    NOT_ENTITLED = "NotEntitled"
    MAX_COUNT_EXCEEDED = "MaxCountExceeded"
    BUDGET_EXCEEDED = "BudgetExceeded"
    NO_CAPACITY = "NoCapacity"
    SET_DOES_NOT_FIT_ONE_NODE = "SetDoesNotFitOneNode"
    NO_ELIGIBLE_NODE = "NoEligibleNode"
    VOLUME_OUT_OF_REACH = "VolumeOutOfReach"
    NODE_REFUSED = "NodeRefused"
    RESERVED = "Reserved"
    NODE_LOST = "NodeLost"
    MOVING = "Moving"
    MODE_NOT_ALLOWED = "ModeNotAllowed"
    UNEVALUATED = "Unevaluated"

    AVAILABLE = "Available"
    PLACED = "Placed"
    IN_USE = "InUse"
    NOT_IN_USE = "NotInUse"
    UNDISTURBED = "Undisturbed"


PRECEDENCE: dict[Reason, int] = {reason: rank for rank, reason in enumerate(Reason)}
"""Rank of each reason, the most severe first (0)."""
