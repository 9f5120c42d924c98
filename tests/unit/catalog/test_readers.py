"""Readers that stay: what they are told, and what is kept for them."""

import pytest

from apiserver.catalog import COALESCE_SECONDS, IDLE_SECONDS
from shared.core.cluster import Touched
from shared.errors import Expired
from tests.api.source import a_class
from tests.unit.catalog.world import World, running, told


async def test_readers_of_all_see_tenants_and_no_other_namespace(world: World) -> None:
    await world.catalog.prepare_all()
    reader = world.read(None)
    assert {namespace for _, namespace, _ in told(reader)} == {"tenant-a", "tenant-b"}

    world.do(world.table.put(a_class("a100", memory="40Gi")))
    for namespace in ("tenant-a", "default"):
        world.catalog.options(namespace)

    assert told(reader) == [("MODIFIED", "tenant-a", "a100")]


async def test_readers_are_told_without_asking(world: World) -> None:
    reader = world.read("tenant-a")
    reader.take()

    got = await running(world, reader, lambda: world.do(world.table.allow("tenant-a", "a100", 1)))

    assert got == [("MODIFIED", "tenant-a", "a100")]


async def test_a_burst_of_changes_is_one_event_for_each_option(world: World) -> None:
    reader = world.read("tenant-a")
    reader.take()

    def burst() -> None:
        for units in range(20):
            world.do(world.table.allow("tenant-a", "a100", units))

    assert await running(world, reader, burst) == [("MODIFIED", "tenant-a", "a100")]
    assert COALESCE_SECONDS < 0.25  # the target for a change to become an event


async def test_readers_of_all_learn_of_new_and_of_gone_tenants(world: World) -> None:
    reader = world.read(None)
    reader.take()

    got = await running(world, reader, lambda: world.do(world.table.add_namespace("tenant-c")))
    assert got == [("ADDED", "tenant-c", "a100"), ("ADDED", "tenant-c", "l4")]

    got = await running(world, reader, lambda: world.do(world.table.remove_namespace("tenant-c")))
    assert got == [("DELETED", "tenant-c", "a100"), ("DELETED", "tenant-c", "l4")]


async def test_every_event_has_a_version_of_its_own_in_order(world: World) -> None:
    reader = world.read("tenant-a")
    reader.take()

    world.catalog.touch(Touched(everything=True))
    world.table.allow("tenant-a", "a100", 1)
    world.table.allow("tenant-a", "l4", 1)
    world.catalog.options("tenant-a")

    first, second = (entry.version for _, entry in reader.take())
    assert first < second <= world.catalog.versions.current()


async def test_a_view_that_nobody_asks_about_is_dropped_and_one_that_is_read_is_kept(
    world: World,
) -> None:
    world.catalog.options("tenant-b")
    reader = world.read("tenant-a")
    reader.take()
    listed = world.catalog.versions.current()
    world.monotonic.seconds = IDLE_SECONDS + 1

    await running(world, reader, lambda: world.do(world.table.allow("tenant-a", "l4", 1)))

    assert told(world.read("tenant-a", since=listed)) == [("MODIFIED", "tenant-a", "l4")]
    with pytest.raises(Expired):
        world.read("tenant-b", since=listed)


@pytest.mark.parametrize("namespace", ["tenant-a", None])
async def test_a_view_is_kept_for_a_reader_that_left_after_a_long_quiet_watch(
    world: World, namespace: str | None
) -> None:
    """Its version is that of a bookmark; nothing but time went by."""
    reader = world.read(namespace)
    reader.take()
    world.monotonic.seconds = 3 * IDLE_SECONDS
    world.wall.seconds += 3 * IDLE_SECONDS
    marked = world.catalog.versions.current()
    world.catalog.unsubscribe(reader)
    world.monotonic.seconds += 1

    other = world.read("default")
    other.take()
    await running(world, other, lambda: world.do(world.table.put(a_class("a100", memory="40Gi"))))

    assert ("MODIFIED", "tenant-a", "a100") in told(world.read(namespace, since=marked))


async def test_the_end_of_the_process_ends_readers_now_and_later(world: World) -> None:
    one, of_all = world.read("tenant-a"), world.read(None)

    world.catalog.end()

    assert one.ended
    assert of_all.ended
    assert world.read("tenant-b").ended


async def test_readers_are_counted_until_they_leave(world: World) -> None:
    one, of_all = world.read("tenant-a"), world.read(None)
    assert world.catalog.watchers == 2

    world.catalog.unsubscribe(one)
    world.catalog.unsubscribe(of_all)

    assert world.catalog.watchers == 0
