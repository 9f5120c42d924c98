"""What may be ordered and why not more (rules 3.3 and 3.4), each limit alone and together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.budgets import Remaining
from shared.core.capacity import Capacity
from shared.core.model import Disclosure, GpuClass, Lifecycle
from shared.core.options import BOUNDS, Facts, level, option
from shared.core.terms import BudgetState, Grant, Level, LimitingLevel, Truth
from shared.reasons import Reason

A100 = GpuClass("a100", "nvidia.com/GA100", display_name="NVIDIA A100", memory="40Gi")
PLENTY = Capacity(total=4000, free=3000, largest_set=3000)
FREE_9 = Capacity(total=16, bound=7, free=9, largest_set=9)

ALL_WELL = Facts(
    namespace="tenant-a",
    gpu_class=A100,
    capacity=FREE_9,
    remaining=None,
    entitlement=Grant.NOT_REQUIRED,
    conflict=False,
    permitted=True,
    enabled=True,
    offered=True,
)


def left(units: int) -> Remaining:
    return Remaining(units, LimitingLevel.SELF, hard=units, used=0)


# For each limit: the case in which it alone decides, and what may be ordered then.
ALONE: dict[Reason, tuple[Facts, int]] = {
    Reason.DISABLED: (replace(ALL_WELL, enabled=False), 0),
    Reason.TOO_MANY_UNITS: (replace(ALL_WELL, capacity=PLENTY), 1024),
    Reason.NOT_OFFERED: (replace(ALL_WELL, offered=False), 0),
    Reason.CLASS_CONFLICT: (replace(ALL_WELL, conflict=True), 0),
    Reason.NOT_PERMITTED: (replace(ALL_WELL, permitted=False), 0),
    Reason.CLASS_CLOSED: (
        replace(ALL_WELL, gpu_class=replace(A100, lifecycle=Lifecycle.CLOSED)),
        0,
    ),
    Reason.NOT_ENTITLED: (replace(ALL_WELL, entitlement=Grant.MISSING), 0),
    Reason.MAX_COUNT_EXCEEDED: (replace(ALL_WELL, gpu_class=replace(A100, max_count=2)), 2),
    Reason.BUDGET_EXCEEDED: (replace(ALL_WELL, remaining=left(3)), 3),
    Reason.NO_CAPACITY: (ALL_WELL, 9),
    Reason.SET_DOES_NOT_FIT_ONE_NODE: (
        replace(ALL_WELL, capacity=replace(FREE_9, largest_set=5)),
        5,
    ),
}


def test_every_limit_has_a_case_in_which_it_alone_decides() -> None:
    assert list(ALONE) == [reason for reason, _ in BOUNDS]


@pytest.mark.parametrize("reason", ALONE, ids=str)
def test_each_limit_decides_and_without_it_the_case_flips(reason: Reason) -> None:
    facts, want = ALONE[reason]
    got = option(facts)
    assert (got.orderable, got.limited_by) == (want, (reason,))
    without = option(facts, [bound for bound in BOUNDS if bound[0] is not reason])
    assert without.orderable != want
    assert reason not in without.limited_by


def test_all_limits_that_tie_are_named_the_most_severe_first() -> None:
    facts = replace(
        ALL_WELL,
        gpu_class=replace(A100, max_count=4),
        remaining=left(4),
        capacity=replace(FREE_9, largest_set=4),
    )
    assert option(facts).limited_by == (
        Reason.MAX_COUNT_EXCEEDED,
        Reason.BUDGET_EXCEEDED,
        Reason.SET_DOES_NOT_FIT_ONE_NODE,
    )


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        pytest.param(
            replace(ALL_WELL, remaining=left(2)),
            "up to 2: this tenant's budget has 2 left, 9 free",
            id="budget",
        ),
        pytest.param(
            replace(ALL_WELL, remaining=Remaining(2, LimitingLevel.ANCESTOR)),
            "up to 2: the budget of a tenant above has 2 left, 9 free",
            id="budget of a tenant above",
        ),
        pytest.param(ALL_WELL, "up to 9: 9 free", id="stock"),
        pytest.param(
            replace(ALL_WELL, capacity=replace(FREE_9, largest_set=5)),
            "up to 5: at most 5 can be had together, 9 free",
            id="set",
        ),
        pytest.param(
            replace(ALL_WELL, capacity=Capacity(total=4, bound=4)),
            "cannot be ordered: none free",
            id="nothing free",
        ),
        pytest.param(
            replace(ALL_WELL, remaining=left(-3)),
            "cannot be ordered: this tenant's budget has 0 left, 9 free",
            id="overdrawn budget",
        ),
        pytest.param(
            replace(
                ALL_WELL,
                gpu_class=replace(A100, disclosure=Disclosure.HIDDEN),
                remaining=left(2),
            ),
            "can be ordered: this tenant's budget has 2 left",
            id="stock not disclosed",
        ),
        pytest.param(
            replace(ALL_WELL, gpu_class=replace(A100, lifecycle=Lifecycle.DEPRECATED)),
            "up to 9: 9 free; the class is deprecated and will close",
            id="deprecated",
        ),
        pytest.param(
            replace(ALL_WELL, unreadable=frozenset({"resourcequotas"})),
            "not known: the cluster cannot be read fully at the moment, 9 free",
            id="unreadable",
        ),
    ],
)
def test_the_message_says_how_many_and_why_not_more(facts: Facts, message: str) -> None:
    assert option(facts).message == message


def test_the_dropdown_label_has_the_decisive_number() -> None:
    assert option(replace(ALL_WELL, remaining=left(2))).label == "NVIDIA A100 40Gi: up to 2"
    assert option(replace(ALL_WELL, remaining=left(0))).label == "NVIDIA A100 40Gi: none"
    bare = replace(ALL_WELL, gpu_class=replace(A100, display_name="", memory=""))
    assert option(bare).label == f"{A100.name}: up to 9"


@pytest.mark.parametrize("disclosure", [Disclosure.BUCKETED, Disclosure.HIDDEN])
def test_an_undisclosed_class_shows_no_figure_of_its_stock(disclosure: Disclosure) -> None:
    facts = replace(
        ALL_WELL,
        gpu_class=replace(A100, disclosure=disclosure),
        capacity=Capacity(total=8, free=5, largest_set=2),
        remaining=left(7),
    )
    got = option(facts)
    assert got.orderable is None
    assert (got.availability.free, got.availability.total) == (None, None)
    assert (got.availability.largest_set, got.availability.unavailable) == (None, None)
    assert got.limited_by == (Reason.BUDGET_EXCEEDED,)
    assert got.budget.remaining == 7
    assert "5" not in got.message


@pytest.mark.parametrize("disclosure", [Disclosure.BUCKETED, Disclosure.HIDDEN])
def test_an_undisclosed_class_says_when_nothing_is_free(disclosure: Disclosure) -> None:
    facts = replace(
        ALL_WELL,
        gpu_class=replace(A100, disclosure=disclosure),
        capacity=Capacity(total=8, bound=8),
    )
    got = option(facts)
    assert (got.selectable, got.limited_by) == (Truth.FALSE, (Reason.NO_CAPACITY,))


@pytest.mark.parametrize(
    ("free", "total", "want"),
    [
        pytest.param(0, 100, Level.NONE, id="nothing"),
        pytest.param(1, 4, Level.LOW, id="one unit is low however small the stock"),
        pytest.param(10, 100, Level.LOW, id="a tenth is low"),
        pytest.param(11, 100, Level.MEDIUM, id="more than a tenth is medium"),
        pytest.param(50, 100, Level.MEDIUM, id="a half is medium"),
        pytest.param(51, 100, Level.HIGH, id="more than a half is high"),
    ],
)
def test_the_stock_in_steps(free: int, total: int, want: Level) -> None:
    assert level(free, total) is want


def test_hidden_stock_has_no_level_either() -> None:
    bucketed = replace(A100, disclosure=Disclosure.BUCKETED)
    hidden = replace(A100, disclosure=Disclosure.HIDDEN)
    assert option(replace(ALL_WELL, gpu_class=bucketed)).availability.level is Level.HIGH
    assert option(replace(ALL_WELL, gpu_class=hidden)).availability.level is Level.UNKNOWN


def test_with_unreadable_inputs_the_answer_is_unknown_unless_it_is_surely_none() -> None:
    unreadable = replace(ALL_WELL, unreadable=frozenset({"resourcequotas"}))
    got = option(unreadable)
    assert (got.selectable, got.reason, got.orderable) == (
        Truth.UNKNOWN,
        Reason.INPUTS_UNREADABLE,
        None,
    )
    assert got.budget.state is BudgetState.UNKNOWN
    closed = replace(A100, lifecycle=Lifecycle.CLOSED)
    got = option(replace(unreadable, gpu_class=closed))
    assert (got.selectable, got.reason, got.orderable) == (
        Truth.FALSE,
        Reason.CLASS_CLOSED,
        0,
    )


def test_a_figure_larger_than_an_int32_shows_as_the_largest() -> None:
    facts = replace(ALL_WELL, remaining=left(10**12))
    assert option(facts).budget.remaining == 2_147_483_647


PODS = frozenset({"pods"})


def test_figures_that_rest_on_an_unreadable_collection_are_not_told() -> None:
    got = option(replace(ALL_WELL, remaining=left(2), unreadable=PODS))
    assert (got.availability.level, got.availability.free) == (Level.UNKNOWN, None)
    assert got.availability.largest_set is None
    assert got.budget.state is BudgetState.UNKNOWN
    assert got.message == "not known: the cluster cannot be read fully at the moment"


def test_no_capacity_is_not_certain_while_pods_cannot_be_read() -> None:
    full = replace(ALL_WELL, capacity=Capacity(total=4, bound=4))
    assert option(full).selectable is Truth.FALSE
    assert option(replace(full, unreadable=PODS)).selectable is Truth.UNKNOWN


def test_a_collection_on_which_no_figure_rests_makes_nothing_unknown() -> None:
    systems = frozenset({"gpusystems"})
    got = option(replace(ALL_WELL, unreadable=systems))
    assert (got.selectable, got.orderable) == (Truth.TRUE, 9)


@pytest.mark.parametrize(
    ("collection", "reason"),
    [
        ("kubevirts", Reason.NOT_PERMITTED),
        ("namespaces", Reason.NOT_ENTITLED),
        ("resourcequotas", Reason.BUDGET_EXCEEDED),
        ("gpuclaims", Reason.NO_CAPACITY),
        ("nodes", Reason.NO_CAPACITY),
        ("virtualmachineinstances", Reason.NO_CAPACITY),
    ],
)
def test_a_limit_of_zero_is_only_certain_with_what_it_rests_on(
    collection: str, reason: Reason
) -> None:
    facts, _ = ALONE[reason]
    if reason is Reason.BUDGET_EXCEEDED:
        facts = replace(facts, remaining=left(0))
    if reason is Reason.NO_CAPACITY:
        facts = replace(facts, capacity=Capacity(total=4, bound=4))
    assert option(facts).limited_by == (reason,)
    got = option(replace(facts, unreadable=frozenset({collection})))
    assert (got.selectable, got.limited_by) == (Truth.UNKNOWN, (Reason.INPUTS_UNREADABLE,))
