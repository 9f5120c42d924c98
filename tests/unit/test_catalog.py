"""Views of options: what changes them, their versions, and what readers are told."""

import asyncio
from collections.abc import Callable

import orjson
import pytest

from apiserver.catalog import COALESCE_SECONDS, IDLE_SECONDS, Catalog
from apiserver.entry import freshness
from apiserver.selectors import EVERYTHING, Selector, selector
from apiserver.versions import Versions
from apiserver.watch import Subscription
from shared.core.cluster import Touched
from shared.errors import Expired
from tests.api.pki import NOW
from tests.api.source import Table, a_class

TOMBSTONES = 8
"""How many options that went a catalog of these tests remembers, over all its views."""


class Clock:
    """A clock that a test moves."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


class World:
    """A catalog over a table; `do` makes a change and tells the catalog of it."""

    def __init__(self, *namespaces: str) -> None:
        self.wall = Clock(1_800_000_000.0)
        self.monotonic = Clock(0.0)
        self.table = Table(*namespaces)
        self.catalog = Catalog(
            self.table,
            Versions(self.wall, identity=7),
            monotonic=self.monotonic,
            tombstones_max=TOMBSTONES,
        )

    def do(self, touched: Touched) -> None:
        self.wall.seconds += 1
        self.catalog.touch(touched)

    def read(
        self, namespace: str | None, since: int = 0, chosen: Selector = EVERYTHING
    ) -> Subscription:
        return self.catalog.subscribe(namespace, chosen, since, on_overflow=lambda: None)

    def versions(self, namespace: str) -> dict[str, int]:
        return {entry.name: entry.version for entry in self.catalog.options(namespace)}


def told(reader: Subscription) -> list[tuple[str, str, str]]:
    return [(kind.value.decode(), e.namespace, e.name) for kind, e in reader.take()]


@pytest.fixture
def world() -> World:
    world = World("tenant-a", "tenant-b", "default")
    world.do(world.table.put(a_class("l4")))
    world.do(world.table.put(a_class("a100")))
    return world


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


async def test_readers_of_all_see_tenants_and_no_other_namespace(world: World) -> None:
    await world.catalog.prepare_all()
    reader = world.read(None)
    assert {namespace for _, namespace, _ in told(reader)} == {"tenant-a", "tenant-b"}

    world.do(world.table.put(a_class("a100", memory="40Gi")))
    for namespace in ("tenant-a", "default"):
        world.catalog.options(namespace)

    assert told(reader) == [("MODIFIED", "tenant-a", "a100")]


async def test_lists_across_namespaces_cover_tenants_in_order(world: World) -> None:
    await world.catalog.prepare_all()

    assert [(e.namespace, e.name) for e in world.catalog.options_of_all()] == [
        ("tenant-a", "a100"),
        ("tenant-a", "l4"),
        ("tenant-b", "a100"),
        ("tenant-b", "l4"),
    ]


async def running(
    world: World, reader: Subscription, act: Callable[[], None]
) -> list[tuple[str, str, str]]:
    """Let the catalog run until a reader has something to take."""
    got: list[tuple[str, str, str]] = []
    async with asyncio.TaskGroup() as tasks:
        job = tasks.create_task(world.catalog.run())
        act()
        async with asyncio.timeout(30):
            while not got:
                await reader.wait()
                got = told(reader)
        job.cancel()
    return got


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
