"""Every world gives exactly its figures, whatever the order of its objects (rules 3.1 to 4.8)."""

from __future__ import annotations

from random import Random

import pytest

from shared.core.cluster import ClusterState
from shared.core.model import Gone, Object, Put
from shared.core.terms import LimitingLevel
from tests.worlds.reading import WORLDS, World, capacity_of, differs, figures_of, value

every_world = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)


def values(world: World) -> list[Object]:
    return [found for raw in world.objects if (found := value(raw)) is not None]


def wrong(world: World, state: ClusterState) -> list[tuple[object, ...]]:
    """Every figure that is not the one worked by hand: what, wanted, got."""
    found: list[tuple[object, ...]] = [
        (name, want, capacity_of(state, name))
        for name, want in world.classes.items()
        if want != capacity_of(state, name)
    ]
    for key, want in world.options.items():
        option = state.option(*key.split("/"))
        assert option is not None, key
        got = figures_of(option)
        found += [
            (key, field, figure, got[field])
            for field, figure in want.items()
            if differs(figure, got[field])
        ]
    return found


@every_world
def test_a_world_gives_its_figures_in_any_order_of_objects(world: World) -> None:
    for seed in range(5):
        objects = values(world)
        Random(seed).shuffle(objects)
        state = ClusterState()
        for found in objects:
            state.apply(Put(found))
        assert wrong(world, state) == []


@every_world
def test_a_world_gives_its_figures_after_each_object_left_and_came_back(world: World) -> None:
    state = ClusterState()
    objects = values(world)
    for found in objects:
        state.apply(Put(found))
    for found in objects:
        state.apply(Gone(found))
        for name in state.classes:
            for namespace in state.namespaces:
                state.option(namespace, name)
        state.apply(Put(found))
        assert wrong(world, state) == []


@every_world
def test_no_text_of_an_option_names_a_node_or_an_ancestors_figures(world: World) -> None:
    state = ClusterState()
    for found in values(world):
        state.apply(Put(found))
    assert state.nodes
    for namespace in state.namespaces:
        for name in state.classes:
            option = state.option(namespace, name)
            assert option is not None
            for text in (option.message, option.label, option.text):
                assert not any(node in text for node in state.nodes), text
                assert "node" not in text
            if option.budget.limiting_level is LimitingLevel.ANCESTOR:
                assert (option.budget.hard, option.budget.used) == (None, None)


@every_world
def test_a_namespace_that_does_not_exist_has_no_options(world: World) -> None:
    state = ClusterState()
    for found in values(world):
        state.apply(Put(found))
    for namespace in world.no_options:
        assert [state.option(namespace, name) for name in state.classes] == [None] * len(
            state.classes
        )
