"""A cluster as a table, its options, and who reads them."""

import asyncio
from collections.abc import Callable

from apiserver.catalog import Catalog
from apiserver.selectors import EVERYTHING, Selector
from apiserver.versions import Versions
from apiserver.watch import Subscription
from shared.core.cluster import Touched
from tests.api.source import Table

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
