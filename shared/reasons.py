"""The one enum of reasons, in order of precedence, used wherever we say why (rule 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


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


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers that a message may quote, in units; None is not shown or not known.

    `asked` is what a request asks for, None where nobody asks; `largest` is the most units that
    can be had together, `limit` what a VM may have at most. `is_shared` tells whether the budget
    that leaves `remaining` is that of a tenant above.
    """

    asked: int | None = None
    free: int | None = None
    largest: int | None = None
    remaining: int | None = None
    is_shared: bool = False
    max_count: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """What a message may quote besides numbers.

    `what` is the thing that is wrong or missing, `value` what stands there, `expected` what
    would be right, `user` who has it instead, `why` the cause.
    """

    what: str = ""
    value: str = ""
    expected: str = ""
    user: str = ""
    why: str = ""


TEMPLATES: dict[Reason, str] = {
    Reason.DISABLED: "GPUs are switched off on this platform",
    Reason.MALFORMED: "{value}, expected {expected}",
    Reason.TOO_MANY_UNITS: "a VM has at most {limit} {what}",
    Reason.MIXED_REQUESTS: "{what}, beside the class entries or claims of the VM: leave one of"
    " them out",
    Reason.INPUTS_UNREADABLE: "the cluster cannot be read fully at the moment",
    Reason.NOT_OFFERED: "claims are not offered on this platform; name the class on a VM instead",
    Reason.CLAIM_NOT_FOUND: "the claim {what} {why}",
    Reason.CLAIM_IN_USE: "the claim {what} belongs to {user}",
    Reason.CLASS_NOT_FOUND: "there is no class {what}",
    Reason.CLASS_CONFLICT: "another class names the same device, which the platform must mend",
    Reason.NOT_PERMITTED: "virtual machines are not permitted to use this device",
    Reason.CLASS_CLOSED: "the class takes no new orders and no new VMs",
    Reason.NOT_ENTITLED: "this tenant is not entitled to the class",
    Reason.MAX_COUNT_EXCEEDED: "one order, or one VM, has at most {max_count} units of this class",
    Reason.BUDGET_EXCEEDED: "{whose} has {remaining} left",
    Reason.NO_CAPACITY: "{free} free",
    Reason.SET_DOES_NOT_FIT_ONE_NODE: "at most {largest} can be had together",
    Reason.NO_ELIGIBLE_NODE: "units are free, but only where the VM cannot run: {why}",
    Reason.VOLUME_OUT_OF_REACH: "units are free, but out of reach: {why}",
    Reason.NODE_REFUSED: "units are free, but only where starting the VM failed lately",
    Reason.RESERVED: "the free units are kept for a VM that has waited longer",
    Reason.NODE_LOST: "the place of these units is gone, or cannot keep them",
    Reason.UNEVALUATED: "nobody has looked at it yet",
}
"""One text per reason; the words are for tenants: they count units and name no node."""

UNDISCLOSED: dict[Reason, str] = {
    Reason.NO_CAPACITY: "fewer are free",
    Reason.SET_DOES_NOT_FIT_ONE_NODE: "fewer can be had together",
}
"""The texts for those who ask for more than there is of a class that keeps its stock to itself."""

START_REFUSED: Final = (
    "the platform refuses the start of the VM ({word}); it is tried again; if it stays so, ask your"
    " provider"
)
"""NodeRefused of a VM that has its units and its place; `word` is Kubernetes' reason."""

LET_GO: Final = "the VM no longer waits, and starts where its devices are free"
"""Added to Disabled, where a VM that waited at our gate was let go (rule 7.15)."""

SHUT_OUT: Final = "the units that the VM holds already are where no VM can start now"
"""Added to why a VM fits nowhere, where its orders are on a node that takes no pods or is gone."""

APART: Final = "nowhere can {what} be had together"
"""The text of SetDoesNotFitOneNode for several classes, each of which could be had by itself."""


def say(reason: Reason, figures: Figures | None = None, words: Words | None = None) -> str:
    """The text of one reason."""
    figures, words = figures or Figures(), words or Words()
    if reason is Reason.SET_DOES_NOT_FIT_ONE_NODE and words.what:
        return APART.format(what=words.what)
    hidden = {Reason.NO_CAPACITY: figures.free, Reason.SET_DOES_NOT_FIT_ONE_NODE: figures.largest}
    if figures.asked is not None and hidden.get(reason, 0) is None:
        return UNDISCLOSED[reason]
    return TEMPLATES[reason].format(
        free="none" if figures.free in (0, None) else figures.free,
        largest=figures.largest,
        remaining=figures.remaining,
        whose="the budget of a tenant above" if figures.is_shared else "this tenant's budget",
        max_count=figures.max_count,
        limit=figures.limit,
        what=words.what or "units",
        value=words.value,
        expected=words.expected,
        user=words.user,
        why=words.why,
    )


def listed(parts: Sequence[str]) -> str:
    """Several things as a sentence names them: "a", "a and b", "a, b and c"."""
    return " and ".join((", ".join(parts[:-1]), parts[-1]) if len(parts) > 1 else parts)


def explain(reasons: Iterable[Reason], figures: Figures) -> str:
    """What limits, as one line: the reasons in the order given, then the free units if shown."""
    named = list(reasons)
    if figures.free is not None and Reason.NO_CAPACITY not in named:
        named.append(Reason.NO_CAPACITY)
    return ", ".join(say(reason, figures) for reason in named)
