"""What keeps a unit from being placed, whatever is free (rules 3.4 and 7.7). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from binder.report import Verdict, because
from binder.units import Unit
from shared.core.cluster import ClusterState
from shared.core.terms import LimitingLevel
from shared.reasons import Figures, Reason, Words, say

Hindrance = Callable[[Unit, ClusterState], Verdict | None]
"""Why a unit can be placed nowhere, whatever is free; None where that is no hindrance."""


def unusable_claim(unit: Unit, _: ClusterState) -> Verdict | None:
    """A claim that the VM names is not there, or another VM has it."""
    member = unit.trouble
    if member is None or member.trouble is None:
        return None
    words = Words(
        what=member.name,
        why="does not exist in this namespace, or is being deleted",
        user=member.user or "another VM",
    )
    return because(member.trouble, say(member.trouble, words=words))


def class_not_found(unit: Unit, state: ClusterState) -> Verdict | None:
    """A class that does not exist: nobody can say which taints its pods tolerate."""
    for item in unit.items:
        if item.unbound.class_name not in state.classes:
            words = Words(what=item.unbound.class_name)
            return because(Reason.CLASS_NOT_FOUND, say(Reason.CLASS_NOT_FOUND, words=words))
    return None


def over_budget(unit: Unit, state: ClusterState) -> Verdict | None:
    """A unit, which counts already, is more than the budgets leave (rule 7.7)."""
    for class_name, asked in sorted(unit.new_units.items()):
        known = class_name in state.classes
        remaining = state.remaining(unit.namespace, class_name) if known else None
        if remaining is not None and remaining.units < 0:
            figures = Figures(
                asked=asked,
                remaining=max(0, remaining.units + asked),
                is_shared=remaining.level is LimitingLevel.ANCESTOR,
            )
            told = say(Reason.BUDGET_EXCEEDED, figures)
            return because(Reason.BUDGET_EXCEEDED, f"class {class_name}: asked {asked}: {told}")
    return None


HINDRANCES: Final[tuple[Hindrance, ...]] = (unusable_claim, class_not_found, over_budget)
"""Every hindrance, in the order of precedence of its reasons (rule 3.4)."""
