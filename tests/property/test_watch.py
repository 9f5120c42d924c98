"""Whoever lists and watches ends with what is there, whatever happens and however often it leaves.

Check 95 of the contract on one replica: a mirror as client-go keeps it, which drops its
connection at any moment, comes back from the last version it saw, and lists anew when told to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, note, settings
from hypothesis import strategies as st

from apiserver.catalog import Catalog
from apiserver.entry import Entry
from apiserver.selectors import Selector, selector
from apiserver.versions import Versions
from apiserver.watch import Kind, Subscription
from shared.core.cluster import Touched
from shared.errors import Expired
from tests.api.source import Table, a_class

NAMESPACES = ("tenant-a", "tenant-a-b", "tenant-c", "default")
CLASSES = ("a100", "h100", "l4")
TIERS = ("big", "small")
SELECTORS = ("", "tier=big", "tier!=big", "!tier")

names = st.sampled_from(CLASSES)
steps = st.one_of(
    st.tuples(st.just("put"), names, st.sampled_from(TIERS), st.integers(0, 2)),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("allow"), st.sampled_from(NAMESPACES), names, st.integers(0, 3)),
    st.tuples(st.just("add namespace"), st.sampled_from(NAMESPACES)),
    st.tuples(st.just("remove namespace"), st.sampled_from(NAMESPACES)),
    st.tuples(st.just("tell")),
    st.tuples(st.just("leave")),
    st.tuples(st.just("come back")),
    st.tuples(st.just("clock"), st.floats(-5, 5)),
    st.tuples(st.just("idle"), st.floats(0, 900)),
)


@dataclass
class World:
    """A catalog, and what a step does to it."""

    table: Table = field(default_factory=lambda: Table(*NAMESPACES))
    seconds: float = 1_800_000_000.0
    idle: float = 0.0

    def __post_init__(self) -> None:
        self.catalog = Catalog(
            self.table,
            Versions(lambda: self.seconds, identity=0),
            monotonic=lambda: self.idle,
            queue_max=10_000,
        )

    def do(self, step: tuple[object, ...]) -> Touched:
        match step:
            case ("put", str(name), str(tier), int(uid)):
                labels = {} if uid == 2 else {"tier": tier}
                return self.table.put(a_class(name, labels=labels, uid=f"uid-{uid // 2}"))
            case ("remove", str(name)) if name in self.table.classes:
                return self.table.remove(name)
            case ("allow", str(namespace), str(name), int(units)):
                return self.table.allow(namespace, name, units)
            case ("add namespace", str(namespace)):
                return self.table.add_namespace(namespace)
            case ("remove namespace", str(namespace)) if namespace in self.table.known:
                return self.table.remove_namespace(namespace)
            case ("clock", float(seconds)):
                self.seconds += seconds
            case ("idle", float(seconds)):
                self.idle += seconds
                self.catalog.drop_idle()
            case _:
                pass  # what is not there cannot be removed
        return Touched()

    def current(self, namespace: str | None, chosen: Selector) -> list[Entry]:
        entries = (
            self.catalog.options_of_all() if namespace is None else self.catalog.options(namespace)
        )
        return [entry for entry in entries if entry.matches(chosen)]


@dataclass
class Mirror:
    """A client that lists, watches, and keeps what it was told."""

    world: World
    namespace: str | None
    chosen: Selector
    kept: dict[tuple[str, str], Entry] = field(default_factory=dict)
    version: int = 0
    stream: Subscription | None = None

    def come(self) -> None:
        if self.stream is not None:
            return
        if self.version:
            try:
                self._watch()
            except Expired:
                self.version = 0
            else:
                return
        entries = self.world.current(self.namespace, self.chosen)
        self.kept = {(entry.namespace, entry.name): entry for entry in entries}
        self.version = self.world.catalog.versions.current()
        self._watch()

    def _watch(self) -> None:
        self.stream = self.world.catalog.subscribe(
            self.namespace, self.chosen, self.version, on_overflow=lambda: None
        )

    def leave(self) -> None:
        if self.stream is not None:
            self.world.catalog.unsubscribe(self.stream)
            self.stream = None

    def take(self) -> None:
        if self.stream is None:
            return
        for kind, entry in self.stream.take():
            assert entry.version > self.version, "told twice, or out of order"
            self.version = entry.version
            key = (entry.namespace, entry.name)
            if kind is Kind.DELETED:
                self.kept.pop(key, None)
            else:
                self.kept[key] = entry


@settings(max_examples=1000)  # what it looks for needs several steps in a row
@given(
    st.lists(steps, max_size=40),
    st.sampled_from(["tenant-a", "tenant-a-b", "default", None]),
    st.sampled_from(SELECTORS),
)
def test_check_95_a_mirror_ends_equal_to_what_is_there(
    taken: list[tuple[object, ...]], namespace: str | None, labels: str
) -> None:
    world = World()
    mirror = Mirror(world, namespace, selector("", labels))
    mirror.come()
    for step in taken:
        note(str(step))
        if step == ("tell",):
            world.current(namespace, mirror.chosen)
            mirror.take()
        elif step == ("leave",):
            mirror.leave()
        elif step == ("come back",):
            mirror.come()
        else:
            world.catalog.touch(world.do(step))

    mirror.come()
    there = world.current(namespace, mirror.chosen)
    mirror.take()

    assert mirror.kept == {(entry.namespace, entry.name): entry for entry in there}


@given(st.lists(steps, max_size=40))
def test_check_69_versions_of_options_only_grow(taken: list[tuple[object, ...]]) -> None:
    world = World()
    seen: dict[tuple[str, str], int] = {}
    listed = 0
    for step in taken:
        world.catalog.touch(world.do(step))
        for entry in world.catalog.options_of_all():
            key = (entry.namespace, entry.name)
            assert entry.version >= seen.get(key, 0)
            seen[key] = entry.version
        now = world.catalog.versions.current()
        assert now >= max([listed, *seen.values()])
        listed = now
