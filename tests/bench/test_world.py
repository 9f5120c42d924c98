"""The worlds of the benchmarks are worlds: what they render decodes to what they are."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import orjson
import pytest

from shared.core.model import Claim, Object, Pod
from shared.kube.collections import CLUSTER, PLACING
from tests.bench.raw import COLLECTIONS, Renderer
from tests.bench.size import Size
from tests.bench.world import World, make

SMALL = Size(nodes=60, pods=900, claims=150, tenants=40, quotas=80, classes=7)


@pytest.fixture(scope="module")
def world() -> World:
    return make(SMALL)


def test_every_object_decodes_to_the_value_that_it_was_rendered_from(world: World) -> None:
    render = Renderer(world)
    decoders = {each.name: each.decode for each in (*PLACING, *CLUSTER)}
    by_kind: Mapping[type[Object], str] = {kind: name for name, kind in COLLECTIONS.items()}
    notes: list[str] = []
    for value in chain(world.objects(), world.placing_only()):
        raw = orjson.loads(render(value))
        assert decoders[by_kind[type(value)]](raw, notes.append) == value
    assert notes == []


def test_a_world_has_as_many_objects_as_asked_for(world: World) -> None:
    assert len(world.nodes) == 60
    assert len(world.pods) == 900
    assert len(world.claims) == 150
    assert len(world.tenants) == 40
    assert len(world.quotas) == 80
    assert len(world.classes) == 7


def test_for_placing_each_launcher_has_its_volume_and_each_pod_its_labels(world: World) -> None:
    render = Renderer(world)
    decoders = {each.name: each.decode for each in PLACING}
    notes: list[str] = []
    for pod in world.pods:
        got = decoders["pods"](orjson.loads(render(pod)), notes.append)
        assert isinstance(got, Pod)
        assert got.presence is not None
        assert got.presence.labels
        assert (got.placing is not None) == bool(pod.owner)
        if got.placing is not None:
            (name,) = got.placing.volume_claims
            assert any(each.key == (pod.namespace, name) for each in world.volume_claims)
    assert notes == []


def test_the_same_seed_makes_the_same_world(world: World) -> None:
    assert list(make(SMALL).objects()) == list(world.objects())
    assert list(make(SMALL, seed=2).objects()) != list(world.objects())


def test_objects_are_as_large_as_in_a_cluster(world: World) -> None:
    render = Renderer(world)
    launchers = [pod for pod in world.pods if pod.owner]
    ordinary = [pod for pod in world.pods if not pod.owner]
    for values, least, most in (
        (world.nodes, 8_000, 20_000),
        (launchers, 10_000, 40_000),
        (ordinary, 4_000, 15_000),
    ):
        sizes = [len(render(value)) for value in values]
        assert least <= min(sizes), sizes[0]
        assert max(sizes) <= most, sizes[0]


def test_no_node_is_overbooked_by_claims(world: World) -> None:
    booked: dict[tuple[str, str], int] = {}
    for claim in world.claims:
        place = (claim.node_name, claim.resource_name)
        booked[place] = booked.get(place, 0) + claim.count
    nodes = {node.name: node for node in world.nodes}
    for (node, resource), units in booked.items():
        assert not node or units <= nodes[node].allocatable[resource]


def test_most_claims_are_bound_and_most_of_those_in_use(world: World) -> None:
    def share(values: list[Claim], holds: list[bool]) -> float:
        return sum(holds) / len(values)

    assert share(world.claims, [bool(c.node_name) for c in world.claims]) > 0.8
    assert share(world.claims, [c.attached_to is not None for c in world.claims]) > 0.6
