"""The option of one class for one tenant: what may be ordered now, and why not more (rule 3.3).

Figures are whole units, capped to int32. None means that the figure is not shown or not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.core.budgets import Remaining
from shared.core.capacity import Capacity
from shared.core.model import Disclosure, GpuClass, Lifecycle
from shared.core.terms import BudgetState, Grant, Level, LimitingLevel, Truth
from shared.reasons import PRECEDENCE, Figures, Reason, explain
from shared.vocabulary import INT32_MAX, LIMIT_UNITS, RESOURCE_CLAIMS, RESOURCE_QUOTAS


@dataclass(frozen=True, slots=True)
class Availability:
    """The stock as the class discloses it: None is what it does not show."""

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

    def elsewhere(self, namespace: str) -> Option:
        """The same answer for another namespace that it holds for."""
        return Option(
            namespace,
            self.gpu_class,
            self.orderable,
            self.limited_by,
            self.availability,
            self.budget,
            self.entitlement,
            self.selectable,
            self.reason,
            self.message,
            self.label,
            self.text,
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """All that an option follows from.

    `remaining` is None where no budget limits the class; `unreadable` names the collections
    that cannot be read now.
    """

    namespace: str
    gpu_class: GpuClass
    capacity: Capacity
    remaining: Remaining | None
    entitlement: Grant
    conflict: bool
    permitted: bool
    enabled: bool
    offered: bool
    unreadable: frozenset[str] = frozenset()

    def can_tell(self, inputs: frozenset[str]) -> bool:
        """Whether a figure that rests on these collections is known."""
        return not (inputs & self.unreadable)

    @property
    def discloses(self) -> bool:
        """Whether figures of the stock are shown."""
        return self.gpu_class.disclosure is Disclosure.EXACT


Bound = Callable[[Facts], int | None]
"""The most units that one limit lets through; None where it does not apply."""


def disabled(facts: Facts) -> int | None:
    """GPUs are switched off."""
    return None if facts.enabled else 0


def too_many_units(_: Facts) -> int | None:
    """No claim is larger than the limit of a VM."""
    return LIMIT_UNITS


def not_offered(facts: Facts) -> int | None:
    """Claims are not offered in placement mode `scheduler`."""
    return None if facts.offered else 0


def class_conflict(facts: Facts) -> int | None:
    """Another class names the same resource."""
    return 0 if facts.conflict else None


def not_permitted(facts: Facts) -> int | None:
    """KubeVirt's table does not name the resource."""
    return None if facts.permitted else 0


def class_closed(facts: Facts) -> int | None:
    """The class takes no new orders."""
    return 0 if facts.gpu_class.lifecycle is Lifecycle.CLOSED else None


def not_entitled(facts: Facts) -> int | None:
    """The tenant lacks the entitlement that the class requires."""
    return 0 if facts.entitlement is Grant.MISSING else None


def max_count(facts: Facts) -> int | None:
    """The class's own limit for an order."""
    return facts.gpu_class.max_count


def budget(facts: Facts) -> int | None:
    """What the budgets of every level leave."""
    return None if facts.remaining is None else max(0, facts.remaining.units)


def capacity(facts: Facts) -> int | None:
    """Free units; of an undisclosed class only that there are none."""
    if facts.discloses or facts.capacity.free == 0:
        return facts.capacity.free
    return None


def one_node(facts: Facts) -> int | None:
    """The largest set on one node, where the free units lie on several."""
    if facts.discloses and facts.capacity.largest_set < facts.capacity.free:
        return facts.capacity.largest_set
    return None


BOUNDS: tuple[tuple[Reason, Bound], ...] = (
    (Reason.DISABLED, disabled),
    (Reason.TOO_MANY_UNITS, too_many_units),
    (Reason.NOT_OFFERED, not_offered),
    (Reason.CLASS_CONFLICT, class_conflict),
    (Reason.NOT_PERMITTED, not_permitted),
    (Reason.CLASS_CLOSED, class_closed),
    (Reason.NOT_ENTITLED, not_entitled),
    (Reason.MAX_COUNT_EXCEEDED, max_count),
    (Reason.BUDGET_EXCEEDED, budget),
    (Reason.NO_CAPACITY, capacity),
    (Reason.SET_DOES_NOT_FIT_ONE_NODE, one_node),
)
"""Every limit, in the order of precedence (rule 3.4)."""

_HOLDERS = {"pods", RESOURCE_CLAIMS, "virtualmachineinstances"}
STOCK_INPUTS = frozenset({"nodes", *_HOLDERS})
"""Collections from which the stock follows."""

BUDGET_INPUTS = frozenset({RESOURCE_QUOTAS, "namespaces", *_HOLDERS})
"""Collections from which budgets follow."""

INPUTS: dict[Reason, frozenset[str]] = {
    Reason.NOT_PERMITTED: frozenset({"kubevirts"}),
    Reason.NOT_ENTITLED: frozenset({"namespaces"}),
    Reason.BUDGET_EXCEEDED: BUDGET_INPUTS,
    Reason.NO_CAPACITY: STOCK_INPUTS,
    Reason.SET_DOES_NOT_FIT_ONE_NODE: STOCK_INPUTS,
}
"""What a limit rests on; without it the limit is not known. The others rest on the class and on
the settings, whose last good state stays in force."""

_ALL_INPUTS = frozenset[str]().union(*INPUTS.values())


def option(facts: Facts, bounds: Sequence[tuple[Reason, Bound]] = BOUNDS) -> Option:
    """Work out the option of a class for a tenant.

    The smallest bound is what may be ordered, and all that equal it limit. With inputs that
    cannot be read only a certain 0 is stated; everything else is unknown.
    """
    limits = {
        reason: units
        for reason, bound in bounds
        if facts.can_tell(INPUTS.get(reason, frozenset())) and (units := bound(facts)) is not None
    }
    units = min(limits.values())
    limited_by = tuple(
        sorted(
            (reason for reason in limits if limits[reason] == units),
            key=lambda reason: PRECEDENCE[reason],
        )
    )
    if units > 0 and not facts.can_tell(_ALL_INPUTS):
        selectable, reason = Truth.UNKNOWN, Reason.INPUTS_UNREADABLE
        limited_by = (reason,)
    elif units > 0:
        selectable, reason = Truth.TRUE, Reason.AVAILABLE
    else:
        selectable, reason = Truth.FALSE, limited_by[0]
    orderable = shown(units) if facts.discloses and selectable is not Truth.UNKNOWN else None
    message = describe(facts, selectable, orderable, limited_by)
    return Option(
        namespace=facts.namespace,
        gpu_class=facts.gpu_class,
        orderable=orderable,
        limited_by=limited_by,
        availability=availability(facts),
        budget=budget_of(facts),
        entitlement=facts.entitlement,
        selectable=selectable,
        reason=reason,
        message=message,
        label=label(facts.gpu_class, selectable, orderable),
        text=message,
    )


def shown(units: int) -> int:
    """A figure as it is shown: never negative, never larger than an int32."""
    return min(max(0, units), INT32_MAX)


def level(free: int, total: int) -> Level:
    """The stock in steps: Low up to a tenth (or one unit), Medium up to a half, else High."""
    if free <= 0:
        return Level.NONE
    if free == 1 or free * 10 <= total:
        return Level.LOW
    return Level.MEDIUM if free * 2 <= total else Level.HIGH


def availability(facts: Facts) -> Availability:
    """The stock as the class discloses it: figures, a level, or nothing."""
    if not facts.can_tell(STOCK_INPUTS):
        return Availability(level=Level.UNKNOWN)
    stock = facts.capacity
    step = level(stock.free, stock.total)
    match facts.gpu_class.disclosure:
        case Disclosure.EXACT:
            return Availability(
                level=step,
                free=shown(stock.free),
                total=shown(stock.total),
                unavailable=shown(stock.unavailable),
                largest_set=shown(stock.largest_set),
            )
        case Disclosure.BUCKETED:
            return Availability(level=step)
        case Disclosure.HIDDEN:
            return Availability(level=Level.UNKNOWN)


def budget_of(facts: Facts) -> Budget:
    """The tenant's budget: always shown, but for what an ancestor's figures would tell."""
    if not facts.can_tell(BUDGET_INPUTS):
        return Budget(BudgetState.UNKNOWN)
    remaining = facts.remaining
    if remaining is None:
        return Budget(BudgetState.UNLIMITED)
    return Budget(
        BudgetState.LIMITED,
        remaining=shown(remaining.units),
        hard=None if remaining.hard is None else shown(remaining.hard),
        used=None if remaining.used is None else shown(remaining.used),
        limiting_level=remaining.level,
    )


def describe(
    facts: Facts, selectable: Truth, orderable: int | None, limited_by: Sequence[Reason]
) -> str:
    """Why this much and not more, in one line for the tenant."""
    start = opening(selectable, orderable)
    text = f"{start}: {explain(limited_by, figures(facts))}" if limited_by else start
    if facts.gpu_class.lifecycle is Lifecycle.DEPRECATED:
        text += "; the class is deprecated and will close"
    return text


def opening(selectable: Truth, orderable: int | None) -> str:
    """How a message begins: how many units can be had, as far as that is known and shown."""
    return {Truth.UNKNOWN: "not known", Truth.FALSE: "cannot be ordered"}.get(
        selectable, "can be ordered" if orderable is None else f"up to {orderable}"
    )


def figures(facts: Facts, asked: int | None = None) -> Figures:
    """The numbers that a message may quote to this tenant: no stock that is not disclosed."""
    remaining = facts.remaining if facts.can_tell(BUDGET_INPUTS) else None
    tells = facts.discloses and facts.can_tell(STOCK_INPUTS)
    return Figures(
        asked=asked,
        free=shown(facts.capacity.free) if tells else None,
        largest=shown(facts.capacity.largest_set) if tells else None,
        remaining=None if remaining is None else shown(remaining.units),
        is_shared=remaining is not None and remaining.level is LimitingLevel.ANCESTOR,
        max_count=facts.gpu_class.max_count,
        limit=LIMIT_UNITS,
    )


def label(gpu_class: GpuClass, selectable: Truth, orderable: int | None) -> str:
    """The dropdown item's label: what it is, and the decisive number."""
    what = gpu_class.display_name or gpu_class.name
    if gpu_class.memory:
        what = f"{what} {gpu_class.memory}"
    match selectable:
        case Truth.UNKNOWN:
            return f"{what}: not known"
        case Truth.FALSE:
            return f"{what}: none"
        case Truth.TRUE:
            return what if orderable is None else f"{what}: up to {orderable}"
