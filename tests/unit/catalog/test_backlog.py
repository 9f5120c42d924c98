"""Readers that come, or come back: what they are told first."""

import pytest

from apiserver.catalog import IDLE_SECONDS
from apiserver.selectors import selector
from apiserver.versions import Versions
from shared.core.cluster import Touched
from shared.errors import Expired
from tests.api.source import a_class
from tests.unit.catalog.world import TOMBSTONES, World, running, told


async def test_check_85_from_zero_a_reader_gets_everything_first(world: World) -> None:
    reader = world.read("tenant-a")

    assert told(reader) == [("ADDED", "tenant-a", "a100"), ("ADDED", "tenant-a", "l4")]


async def test_check_85_from_a_version_a_reader_gets_what_changed_since(world: World) -> None:
    world.catalog.options("tenant-a")
    listed = world.catalog.versions.current()
    world.do(world.table.allow("tenant-a", "a100", 2))
    world.do(world.table.put(a_class("new")))
    world.do(world.table.remove("l4"))

    assert sorted(told(world.read("tenant-a", since=listed))) == [
        ("ADDED", "tenant-a", "new"),
        ("DELETED", "tenant-a", "l4"),
        ("MODIFIED", "tenant-a", "a100"),
    ]
    assert told(world.read("tenant-a", since=world.catalog.versions.current())) == []


async def test_what_came_and_went_in_between_is_not_told(world: World) -> None:
    world.catalog.options("tenant-a")
    listed = world.catalog.versions.current()
    world.do(world.table.put(a_class("new")))
    world.catalog.options("tenant-a")
    world.do(world.table.remove("new"))

    assert told(world.read("tenant-a", since=listed)) == []


async def test_a_class_made_anew_is_another_object(world: World) -> None:
    world.catalog.options("tenant-a")
    listed = world.catalog.versions.current()
    reader = world.read("tenant-a", since=listed)
    world.do(world.table.put(a_class("a100", uid="another")))
    world.catalog.options("tenant-a")

    wanted = [("DELETED", "tenant-a", "a100"), ("ADDED", "tenant-a", "a100")]
    assert told(reader) == wanted
    assert told(world.read("tenant-a", since=listed)) == wanted


async def test_check_86_a_version_from_before_the_view_is_expired(world: World) -> None:
    old = world.catalog.versions.current()
    world.wall.seconds += 1
    world.catalog.options("tenant-a")

    with pytest.raises(Expired, match="too old resource version"):
        world.read("tenant-a", since=old - 1000)


async def test_a_version_of_another_replica_is_expired_though_it_is_not_older(
    world: World,
) -> None:
    """This replica cannot know what that one has told, so events would be lost silently."""
    other = Versions(world.wall, identity=8)
    world.catalog.options("tenant-a")
    world.wall.seconds += 1
    foreign = other.current()
    world.wall.seconds += 1

    for namespace in ("tenant-a", None):
        with pytest.raises(Expired, match=f"too old resource version: {foreign} "):
            world.read(namespace, since=foreign)


async def test_a_version_from_before_the_start_of_the_process_is_expired(world: World) -> None:
    before = (1_800_000_000_000_000 - 1) * 1000 + 7

    with pytest.raises(Expired, match="from before its start"):
        world.read("tenant-a", since=before)


async def test_check_64_selectors_choose_what_a_reader_sees(world: World) -> None:
    world.do(world.table.put(a_class("big", labels={"tier": "big"})))
    reader = world.read("tenant-a", chosen=selector("", "tier=big"))
    assert told(reader) == [("ADDED", "tenant-a", "big")]

    world.do(world.table.put(a_class("big", labels={"tier": "small"})))
    world.do(world.table.put(a_class("l4", labels={"tier": "big"})))
    world.catalog.options("tenant-a")

    assert sorted(told(reader)) == [("ADDED", "tenant-a", "l4"), ("DELETED", "tenant-a", "big")]


async def test_a_reader_that_comes_back_learns_that_labels_hid_something(world: World) -> None:
    world.do(world.table.put(a_class("big", labels={"tier": "big"})))
    world.catalog.options("tenant-a")
    listed = world.catalog.versions.current()
    world.do(world.table.put(a_class("big", labels={"tier": "small"})))

    reader = world.read("tenant-a", since=listed, chosen=selector("", "tier=big"))

    assert told(reader) == [("DELETED", "tenant-a", "big")]


async def test_a_reader_that_comes_back_learns_that_what_labels_hid_is_gone(
    world: World,
) -> None:
    world.do(world.table.put(a_class("big", labels={"tier": "big"})))
    world.catalog.options("tenant-a")
    listed = world.catalog.versions.current()
    world.do(world.table.put(a_class("big", labels={"tier": "small"})))
    world.catalog.options("tenant-a")
    world.do(world.table.remove("big"))

    reader = world.read("tenant-a", since=listed, chosen=selector("", "tier=big"))

    assert told(reader) == [("DELETED", "tenant-a", "big")]


async def test_a_reader_of_all_that_comes_back_learns_that_a_tenant_is_gone(
    world: World,
) -> None:
    await world.catalog.prepare_all()
    listed = world.catalog.versions.current()
    world.do(world.table.remove_namespace("tenant-b"))

    await world.catalog.prepare_all()
    assert {entry.namespace for entry in world.catalog.options_of_all()} == {"tenant-a"}
    reader = world.read(None, since=listed)

    assert told(reader) == [("DELETED", "tenant-b", "a100"), ("DELETED", "tenant-b", "l4")]


async def test_a_reader_of_all_that_comes_back_learns_of_a_tenant_made_since(
    world: World,
) -> None:
    world.catalog.options_of_all()
    listed = world.catalog.versions.current()
    world.do(world.table.add_namespace("tenant-c"))

    wanted = [("ADDED", "tenant-c", "a100"), ("ADDED", "tenant-c", "l4")]
    assert told(world.read(None, since=listed)) == wanted
    assert told(world.read("tenant-c", since=listed)) == wanted


async def test_a_reader_of_all_has_to_list_where_a_tenant_was_not_looked_at_then(
    world: World,
) -> None:
    world.catalog.options("tenant-a")
    listed = world.catalog.versions.current()
    world.do(world.table.allow("tenant-b", "a100", 1))
    world.catalog.options_of_all()

    with pytest.raises(Expired):
        world.read(None, since=listed)


async def test_a_tenant_that_went_is_forgotten_in_time_though_somebody_reads_all(
    world: World,
) -> None:
    reader = world.read(None)
    reader.take()
    before = world.catalog.versions.current()
    world.monotonic.seconds = 2 * IDLE_SECONDS  # it was quiet until then

    got = await running(world, reader, lambda: world.do(world.table.remove_namespace("tenant-b")))
    assert got == [("DELETED", "tenant-b", "a100"), ("DELETED", "tenant-b", "l4")]
    gone = world.catalog.versions.current()
    assert told(world.read(None, since=before)) == got

    world.monotonic.seconds += IDLE_SECONDS + 1
    await running(world, reader, lambda: world.do(world.table.put(a_class("a100", memory="1Gi"))))
    world.catalog.touch(Touched(everything=True))
    world.catalog.options_of_all()

    with pytest.raises(Expired):
        world.read(None, since=before)
    assert told(world.read(None, since=gone)) == [("MODIFIED", "tenant-a", "a100")]


async def test_what_went_is_remembered_within_one_bound_over_all_views(world: World) -> None:
    """Two tenants, and classes made and deleted: the oldest are forgotten first."""
    listed = []
    for number in range(TOMBSTONES):
        world.do(world.table.put(a_class(f"c{number}")))
        world.catalog.options_of_all()
        listed.append(world.catalog.versions.current())
        world.do(world.table.remove(f"c{number}"))
        world.catalog.options_of_all()

    kept = TOMBSTONES // 2  # each class was one option in each of the two
    with pytest.raises(Expired):
        world.read(None, since=listed[-kept - 1])
    with pytest.raises(Expired):
        world.read("tenant-a", since=listed[-kept - 1])
    assert told(world.read(None, since=listed[-kept])) == [
        ("DELETED", "tenant-a", f"c{kept}"),
        ("DELETED", "tenant-b", f"c{kept}"),
    ]


async def test_what_went_is_remembered_without_its_bytes(world: World) -> None:
    world.catalog.options("tenant-a")
    listed = world.catalog.versions.current()
    live = world.read("tenant-a", since=listed)
    world.do(world.table.remove("l4"))
    world.catalog.options("tenant-a")

    (_, told_live), (_, told_late), (_, told_later) = (
        *live.take(),
        *world.read("tenant-a", since=listed).take(),
        *world.read("tenant-a", since=listed).take(),
    )

    assert told_live.encoded == told_late.encoded == told_later.encoded
    assert len({id(told_live), id(told_late), id(told_later)}) == 3
