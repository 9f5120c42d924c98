"""The state changed by deltas equals the state computed from nothing (rules 4 and 7.2)."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.capacity import Capacity
from shared.core.cluster import ClusterState, Touched
from shared.core.index import Index
from shared.core.model import Change, Gone, Object, Put
from shared.core.options import Option
from shared.core.tenants import is_within
from tests.property.changes import START, changes

Figures = tuple[dict[str, Capacity], dict[tuple[str, str], Option | None]]


def figures(state: ClusterState) -> Figures:
    """All that a state answers."""
    return (
        {name: state.capacity(name) for name in state.classes},
        {
            (namespace, name): state.option(namespace, name)
            for namespace in state.namespaces
            for name in state.classes
        },
    )


def objects_of(state: ClusterState) -> list[Object]:
    tables: tuple[Iterable[Object], ...] = (
        state.nodes.values(),
        state.holders.pods.values(),
        state.holders.claims.values(),
        state.classes.values(),
        state.quotas.values(),
        state.namespaces.values(),
        state.holders.vmis.values(),
        state.kubevirts.values(),
        [state.settings],
    )
    return [value for table in tables for value in table]


def is_said(touched: Touched, namespace: str, class_name: str) -> bool:
    """Whether a change said that this option may differ."""
    return (
        touched.everything
        or class_name in touched.classes
        or any(is_within(namespace, top) for top in touched.namespaces)
        or any(n == class_name and is_within(namespace, top) for n, top in touched.budgets)
    )


@given(st.lists(changes, min_size=1, max_size=25), st.integers())
def test_a_state_changed_step_by_step_equals_one_computed_from_nothing(
    steps: list[Change], seed: int
) -> None:
    state = ClusterState()
    for change in (*START, *steps):
        state.apply(change)
        figures(state)  # what is kept between changes is only put to the test when it is read
    afresh = ClusterState()
    objects = objects_of(state)
    Random(seed).shuffle(objects)
    for value in objects:
        afresh.apply(Put(value))
    assert figures(state) == figures(afresh)


@given(st.lists(changes, min_size=1, max_size=12))
def test_every_option_that_changes_is_said_to_be_touched(steps: list[Change]) -> None:
    state = ClusterState()
    for change in START:
        state.apply(change)
    _, before = figures(state)
    for change in steps:
        touched = state.apply(change)
        state._answers.clear()  # an answer that is kept must not hide that another is due
        _, after = figures(state)
        silent = [
            key
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key) and not is_said(touched, *key)
        ]
        assert not silent, (change, touched)
        before = after


@given(st.lists(changes, max_size=25))
def test_no_figure_is_negative_and_the_sum_of_a_class_adds_up(steps: list[Change]) -> None:
    state = ClusterState()
    for change in (*START, *steps):
        state.apply(change)
    capacities, options = figures(state)
    for name, c in capacities.items():
        assert c.total == c.bound + c.outside + c.unavailable + c.free - c.overbooked, name
        assert (
            min(c.total, c.bound, c.outside, c.unavailable, c.free, c.overbooked, c.largest_set)
            >= 0
        ), name
        assert c.largest_set <= c.free, name
    for key, option in options.items():
        assert option is not None
        for shown in (option.orderable, option.budget.remaining):
            assert shown is None or shown >= 0, key


@given(st.lists(changes, max_size=25))
def test_a_repeated_change_touches_nothing(steps: list[Change]) -> None:
    state = ClusterState()
    for change in (*START, *steps):
        state.apply(change)
    for change in steps[-1:]:
        assert not state.apply(change)


@given(st.lists(changes, max_size=20))
def test_taking_everything_away_leaves_nothing_behind(steps: list[Change]) -> None:
    state = ClusterState()
    for change in (*START, *steps):
        state.apply(change)
    for value in objects_of(state):
        state.apply(Gone(value))
    fresh = ClusterState()
    assert figures(state) == figures(fresh)
    for attribute in ("_parts", "_held", "_stock", "_sums"):
        assert not getattr(state, attribute), attribute
    assert not state._budgets._ledgers
    assert not state._budgets._keys
    for owner in (state, state.holders, state._budgets):
        for name, index in vars(owner).items():
            assert not isinstance(index, Index) or not (index._one or index._several), name
    assert not state.holders._named
