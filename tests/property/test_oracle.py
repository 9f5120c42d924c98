"""A second, obviously right calculation agrees on random worlds (rules 3.1, 3.3, 4.1 to 4.7)."""

from __future__ import annotations

from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.cluster import ClusterState
from shared.core.model import Change
from shared.core.terms import Truth
from tests.property import oracle
from tests.property.changes import START, changes
from tests.property.test_state import objects_of


@settings(max_examples=max(1000, settings().max_examples))
@given(st.lists(changes, max_size=25))
def test_the_second_calculation_agrees(steps: list[Change]) -> None:
    state = ClusterState()
    for change in (*START, *steps):
        state.apply(change)
    world = oracle.world(objects_of(state))
    for gpu_class in world.classes:
        assert asdict(state.capacity(gpu_class.name)) == oracle.capacity(world, gpu_class)
        for namespace in world.namespaces:
            got = state.option(namespace.name, gpu_class.name)
            assert got is not None
            left = oracle.budget(world, namespace.name, gpu_class)
            shown = None if left is None else left[0]
            level = None if left is None else left[1]
            assert (got.budget.remaining, got.budget.limiting_level) == (shown, level)
            assert got.entitlement == oracle.entitled(world, namespace.name, gpu_class)
            want = oracle.orderable(world, namespace.name, gpu_class)
            assert (got.selectable is Truth.FALSE) == (want == 0)
            if gpu_class.disclosure == "Exact":
                assert got.orderable == want
            else:
                assert got.orderable is None
