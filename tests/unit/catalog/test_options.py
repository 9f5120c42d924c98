"""The options of a namespace: which there are, and when one becomes another."""

import orjson

from apiserver.entry import freshness
from shared.core.cluster import Touched
from tests.api.pki import NOW
from tests.api.source import a_class
from tests.unit.catalog.world import World, told


def test_the_options_of_a_namespace_are_those_of_every_class_by_name(world: World) -> None:
    assert [entry.name for entry in world.catalog.options("tenant-a")] == ["a100", "l4"]
    assert [entry.name for entry in world.catalog.options("default")] == ["a100", "l4"]


def test_check_62_a_namespace_that_does_not_exist_has_no_options(world: World) -> None:
    assert world.catalog.options("tenant-none") == []
    assert world.catalog.option("tenant-none", "a100") is None


def test_one_option_is_found_by_name(world: World) -> None:
    entry = world.catalog.option("tenant-a", "a100")

    assert entry is not None
    assert (entry.namespace, entry.name) == ("tenant-a", "a100")
    assert world.catalog.option("tenant-a", "none") is None


def test_a_change_shows_in_the_next_read(world: World) -> None:
    world.catalog.options("tenant-a")

    world.do(world.table.allow("tenant-a", "a100", 2))

    entry = world.catalog.option("tenant-a", "a100")
    assert entry is not None
    assert entry.option.orderable == 2


def test_check_70_a_version_changes_exactly_when_the_content_does(world: World) -> None:
    before = world.versions("tenant-a")

    world.do(Touched(everything=True))  # touched, and found to be as it was
    assert world.versions("tenant-a") == before

    world.do(world.table.allow("tenant-a", "a100", 2))
    after = world.versions("tenant-a")
    assert after["a100"] > before["a100"]
    assert after["l4"] == before["l4"]

    world.do(world.table.allow("tenant-a", "a100", 4))
    assert world.versions("tenant-a")["a100"] > after["a100"]


def test_the_observed_time_is_that_of_the_version(world: World) -> None:
    world.wall.seconds = 1_800_000_060.0
    world.do(world.table.allow("tenant-a", "a100", 2))

    entry = world.catalog.option("tenant-a", "a100")

    assert entry is not None
    served = orjson.loads(entry.encoded.object)
    assert served["metadata"]["resourceVersion"] == str(entry.version) == "1800000061000001007"
    assert served["status"]["observedTime"] == "2027-01-15T08:01:01Z"


def test_a_condition_keeps_the_time_since_which_it_has_its_status(world: World) -> None:
    def since() -> str:
        entry = world.catalog.option("tenant-a", "a100")
        assert entry is not None
        conditions = orjson.loads(entry.encoded.object)["status"]["conditions"]
        return str(conditions[0]["lastTransitionTime"])

    first = since()
    world.do(world.table.allow("tenant-a", "a100", 2))
    assert since() == first
    world.do(world.table.allow("tenant-a", "a100", 0))
    assert since() > first


def test_only_what_was_touched_is_computed_again(world: World) -> None:
    for namespace in ("tenant-a", "tenant-b"):
        world.catalog.options(namespace)
    world.table.computed = 0

    world.do(world.table.allow("tenant-a", "a100", 2))
    for namespace in ("tenant-a", "tenant-b"):
        world.catalog.options(namespace)
    assert world.table.computed == 1

    world.catalog.options("tenant-a")
    assert world.table.computed == 1


def test_what_touches_a_namespace_touches_those_below_it() -> None:
    world = World("tenant-a", "tenant-a-x", "tenant-ab")
    world.do(world.table.put(a_class("a100")))
    for namespace in world.table.known:
        world.catalog.options(namespace)
    world.table.computed = 0

    world.do(Touched(namespaces=frozenset({"tenant-a"})))
    for namespace in world.table.known:
        world.catalog.options(namespace)

    assert world.table.computed == 2


def test_a_class_that_breaks_the_rules_of_the_kind_costs_its_own_option_only(
    world: World,
) -> None:
    """Such as one that was stored under an older schema."""
    world.catalog.options("tenant-a")
    reader = world.read("tenant-a")
    reader.take()

    world.do(world.table.put(a_class("a100", description="x" * 5000)))
    assert [entry.name for entry in world.catalog.options("tenant-a")] == ["l4"]
    assert told(reader) == [("DELETED", "tenant-a", "a100")]

    world.do(world.table.put(a_class("a100", description="short")))
    assert [entry.name for entry in world.catalog.options("tenant-a")] == ["a100", "l4"]
    assert told(reader) == [("ADDED", "tenant-a", "a100")]


def test_staleness_shows_in_every_option_and_is_a_change(world: World) -> None:
    before = world.versions("tenant-a")

    world.wall.seconds += 1
    world.catalog.set_fresh(freshness("figures may be old", NOW))

    entry = world.catalog.option("tenant-a", "a100")
    assert entry is not None
    assert entry.version > before["a100"]
    conditions = orjson.loads(entry.encoded.object)["status"]["conditions"]
    assert conditions[1] == {
        "type": "Fresh",
        "status": "False",
        "lastTransitionTime": "2026-06-01T00:00:00Z",
        "reason": "InputsUnreadable",
        "message": "figures may be old",
    }


async def test_lists_across_namespaces_cover_tenants_in_order(world: World) -> None:
    await world.catalog.prepare_all()

    assert [(e.namespace, e.name) for e in world.catalog.options_of_all()] == [
        ("tenant-a", "a100"),
        ("tenant-a", "l4"),
        ("tenant-b", "a100"),
        ("tenant-b", "l4"),
    ]
