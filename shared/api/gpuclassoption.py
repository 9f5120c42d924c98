"""GPUClassOption: one class as one tenant may order it now (rule 3.3). Served, never stored.

What may be ordered and why not more is computed in `shared.core.options`; this module gives it
the shape in which clients get it: the object, and its row in a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from uuid import NAMESPACE_DNS, uuid5

from pydantic import Field

from shared.api.base import Count, Model, Time, Units
from shared.api.columns import NONE, UNKNOWN, Cell, Column
from shared.api.conditions import Condition, ConditionType, find
from shared.api.gpuclass import Description, DisplayName, Memory, Vendor
from shared.api.meta import ListMeta, ObjectMeta
from shared.api.rules import keyed_by
from shared.core.model import Lifecycle, Mode
from shared.core.terms import BudgetState, Grant, Level, LimitingLevel
from shared.reasons import Reason
from shared.vocabulary import CATALOG_GROUP, CATALOG_GROUP_VERSION, KIND_OPTION

if TYPE_CHECKING:
    from shared.core.options import Availability as Stock
    from shared.core.options import Budget as TenantBudget
    from shared.core.options import Option as ClassForTenant

_UIDS: Final = uuid5(NAMESPACE_DNS, CATALOG_GROUP)


class OptionSpec(Model):
    """What a chooser needs to know of the class, copied from it."""

    display_name: DisplayName | None = None
    """Name of the class for people."""

    description: Description | None = None
    """What the class is good for, in a sentence or two."""

    vendor: Vendor | None = None
    """Maker of the device."""

    mode: Mode
    """How the device reaches the guest: a whole device (Passthrough) or a share (VirtualGPU)."""

    memory: Memory | None = None
    """Memory of one unit."""

    max_count: Units | None = None
    """The most units of this class in one order, and on one VM over all its entries."""

    lifecycle: Lifecycle
    """Active; Deprecated: can still be ordered, but will be closed; Closed: takes no new orders."""


class Availability(Model):
    """The stock of the class in the whole cluster, as far as its hoster discloses it."""

    free_units: Count | None = None
    """Units that nobody holds, on nodes that take new GPU pods. Absent: not disclosed or not
    known."""

    total_units: Count | None = None
    """All units of the class. Absent: not disclosed or not known."""

    unavailable_units: Count | None = None
    """Units that nobody holds on nodes that take no new GPU pods at the moment. Absent: not
    disclosed or not known."""

    largest_set: Count | None = None
    """The most units that are free together, for one VM. Absent: not disclosed or not known."""

    level: Level
    """The stock in steps: None (nothing free), Low (one unit, or up to 10 %), Medium (up to 50 %),
    High (more), Unknown (not disclosed or not known)."""


class Budget(Model):
    """What the budgets of this tenant and of those above it leave for this class."""

    state: BudgetState
    """Unlimited: no budget names this class; Limited: see remaining; Unknown: not known now."""

    remaining: Count | None = None
    """Units that can still be ordered before a budget is used up, at whichever level that is."""

    hard: Count | None = None
    """The limit itself, where it is this namespace's own."""

    used: Count | None = None
    """Units counted against the limit, where it is this namespace's own: what it and the tenants
    that share its budget use, and what is set aside for tenants below with budgets of their own."""

    limiting_level: LimitingLevel | None = None
    """Where the limit is that leaves the least: here (Self), or at a tenant above (Ancestor),
    whose hard and used are not shown since they sum up other tenants."""


class OptionStatus(Model):
    """What may be ordered now, and why not more."""

    orderable_units: Count | None = None
    """The most units that one order can get now: the least of free units, largest set, remaining
    budget at every level, maxCount and 1024; 0 where the class cannot be ordered at all. Absent:
    not disclosed or not known."""

    limited_by: list[Reason]
    """Every limit that orderableUnits is equal to, the most severe first."""

    availability: Availability
    """The stock of the class."""

    budget: Budget
    """The budget of the tenant for the class."""

    entitlement: Grant
    """Whether the tenant may use the class: NotRequired (everyone may), Granted, or Missing (ask
    the hoster)."""

    observed_time: Time
    """When the figures were computed."""

    conditions: Annotated[
        list[Condition],
        Field(json_schema_extra=keyed_by("type")),
    ]
    """Selectable: whether at least one unit can be ordered now, else the first limit as reason.
    Fresh: False while the figures may be out of date."""


class OptionItem(Model):
    """The item of a dropdown: what is written to the field, and what people see."""

    value: str
    """What is written to the field: the name of the class."""

    label: str | None = None
    """What people choose by, with the decisive number."""

    description: str | None = None
    """Why not more can be ordered."""


class GPUClassOption(Model):
    """A GPU class as this namespace may order it now: how many units, and why not more.

    There is one object for each class in every namespace, computed when something changes and
    never stored; it can be read and watched, not written.
    """

    api_version: str = CATALOG_GROUP_VERSION
    """Version of this kind: catalog.gpu.cozystack.io/v1alpha1."""

    kind: str = KIND_OPTION
    """GPUClassOption."""

    metadata: ObjectMeta
    """Standard metadata; the name is that of the class."""

    spec: OptionSpec
    """The class itself."""

    status: OptionStatus
    """What may be ordered now, and why not more."""

    option: OptionItem
    """The same as an item of a dropdown, ready to hand on."""


class GPUClassOptionList(Model):
    """GPU classes as namespaces may order them now."""

    api_version: str = CATALOG_GROUP_VERSION
    """Version of this kind: catalog.gpu.cozystack.io/v1alpha1."""

    kind: str = f"{KIND_OPTION}List"
    """GPUClassOptionList."""

    metadata: ListMeta
    """Standard list metadata."""

    items: list[GPUClassOption]
    """The options, by namespace and name."""


def option_uid(namespace: str, class_name: str, class_uid: str) -> str:
    """The uid of an option: equal on every replica, another once the class is made anew."""
    return str(uuid5(_UIDS, f"{namespace}/{class_name}/{class_uid}"))


def selectable(option: ClassForTenant, last_transition_time: str) -> Condition:
    """The condition Selectable of an option; True exactly while units can be ordered."""
    return Condition(
        type=ConditionType.SELECTABLE,
        status=option.selectable,
        last_transition_time=last_transition_time,
        reason=option.reason,
        message=option.message,
    )


def from_option(
    option: ClassForTenant,
    *,
    resource_version: str,
    observed_time: str,
    last_transition_time: str,
    fresh: Condition,
) -> GPUClassOption:
    """Give a computed option the shape in which it is served.

    Args:
        option: the option as computed.
        resource_version: of this object.
        observed_time: RFC 3339; when the figures were computed.
        last_transition_time: RFC 3339; since when Selectable has its status.
        fresh: the condition Fresh.
    """
    cls = option.gpu_class
    return GPUClassOption(
        metadata=ObjectMeta(
            name=cls.name,
            namespace=option.namespace,
            uid=option_uid(option.namespace, cls.name, cls.uid),
            resource_version=resource_version,
            creation_timestamp=cls.created or None,
            labels=dict(cls.labels) or None,
        ),
        spec=OptionSpec(
            display_name=cls.display_name or None,
            description=cls.description or None,
            vendor=_vendor(cls.vendor),
            mode=cls.mode,
            memory=cls.memory or None,
            max_count=cls.max_count,
            lifecycle=cls.lifecycle,
        ),
        status=OptionStatus(
            orderable_units=option.orderable,
            limited_by=list(option.limited_by),
            availability=_availability(option.availability),
            budget=_budget(option.budget),
            entitlement=option.entitlement,
            observed_time=observed_time,
            conditions=[selectable(option, last_transition_time), fresh],
        ),
        option=OptionItem(
            value=cls.name, label=option.label or None, description=option.text or None
        ),
    )


def _vendor(name: str) -> Vendor | None:
    """A maker that only a newer version knows is Other: one class never spoils the whole list."""
    if not name:
        return None
    return Vendor(name) if name in set(Vendor) else Vendor.OTHER


def _availability(stock: Stock) -> Availability:
    return Availability(
        free_units=stock.free,
        total_units=stock.total,
        unavailable_units=stock.unavailable,
        largest_set=stock.largest_set,
        level=stock.level,
    )


def _budget(budget: TenantBudget) -> Budget:
    return Budget(
        state=budget.state,
        remaining=budget.remaining,
        hard=budget.hard,
        used=budget.used,
        limiting_level=budget.limiting_level,
    )


COLUMNS: Final = (
    Column("Name", "string", "Name of the class.", format="name"),
    Column("Mode", "string", "Passthrough or VirtualGPU."),
    Column("Memory", "string", "Memory of one unit."),
    Column("Free", "string", "Units that nobody holds; the step where figures are not shown."),
    Column("Largest", "string", "The most units free together, for one VM."),
    Column(
        "Budget", "string", "What this tenant's budgets leave; of how much, where it is its own."
    ),
    Column("Orderable", "string", "The most units that one order can get now."),
    Column("Selectable", "string", "Whether a unit can be ordered now: True, False or Unknown."),
    Column("Reason", "string", "Why not, or Available."),
    Column("Vendor", "string", "Maker of the device.", priority=1),
    Column("Max", "string", "The most units in one order.", priority=1),
    Column("Limited-By", "string", "Every limit that holds now, most severe first.", priority=1),
    Column("Lifecycle", "string", "Active, Deprecated or Closed.", priority=1),
    Column("Observed", "string", "When the figures were computed.", priority=1),
)
"""The columns of `kubectl get gpuclassoptions`, in the order of the cells of `row`.

A column whose cells are not always numbers is of the type string, whatever a cell is.
"""


def row(option: GPUClassOption) -> list[Cell]:
    """The cells of an option's row, one for each of COLUMNS.

    An absent figure is a text and never a number or null, so that every cell can be told from
    its neighbours: `<unknown>` where it is not known or not disclosed, `<none>` where there is
    nothing to say. Without its figure the stock shows its step.
    """
    spec, status = option.spec, option.status
    condition = find(status.conditions, ConditionType.SELECTABLE)
    return [
        option.metadata.name or NONE,
        spec.mode.value,
        spec.memory or NONE,
        _free(status.availability),
        _known(status.availability.largest_set),
        _left(status.budget),
        _known(status.orderable_units),
        condition.status.value if condition else UNKNOWN,
        condition.reason if condition else UNKNOWN,
        spec.vendor.value if spec.vendor else NONE,
        NONE if spec.max_count is None else spec.max_count,
        ",".join(status.limited_by) or NONE,
        spec.lifecycle.value,
        status.observed_time,
    ]


def _known(figure: int | None) -> Cell:
    return UNKNOWN if figure is None else figure


def _free(stock: Availability) -> Cell:
    """The figure, or the step where that alone is shown."""
    if stock.free_units is None and stock.level is not Level.UNKNOWN:
        return stock.level.value
    return _known(stock.free_units)


def _left(budget: Budget) -> str:
    """The budget in one word: `unlimited`, `<unknown>`, `2`, or `2/5` where the 5 is its own."""
    if budget.state is BudgetState.LIMITED and budget.remaining is not None:
        own = "" if budget.hard is None else f"/{budget.hard}"
        return f"{budget.remaining}{own}"
    return "unlimited" if budget.state is BudgetState.UNLIMITED else UNKNOWN
