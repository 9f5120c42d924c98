"""Every world, on a real API server: tenants see exactly the figures that were worked by hand.

The controllers are stopped, since they would go on from these states; what reads the cluster,
serves and authorizes is real. `tests/unit` shows the same figures without a server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from shared import vocabulary as words
from shared.core.tenants import is_tenant
from tests.catalog.kubevirt import apply_kinds
from tests.catalog.objects import OPTION
from tests.catalog.survival import unharmed
from tests.catalog.tenants import Tenant, bind, figures, make_role
from tests.catalog.worlds import CONTROLLERS, Stage
from tests.cluster.access import User
from tests.cluster.api import Object
from tests.cluster.build import Binaries
from tests.cluster.install import Catalog
from tests.cluster.plane import control_plane
from tests.cluster.session import Cluster
from tests.cluster.waiting import NeverHappened, wait_until
from tests.worlds.reading import WORLDS, World, differs

SOMEBODY = User("somebody-of-every-tenant")


@pytest.fixture(scope="module")
async def own(binaries: Binaries, run: Path) -> AsyncIterator[Catalog]:
    """Our server on a control plane without controllers."""
    async with control_plane(run / "worlds", binaries) as plane:
        catalog = Catalog(plane)
        try:
            await catalog.apply_base()
            await apply_kinds(plane.cluster)
            await catalog.component.start()
            await catalog.apply_service()
            await catalog.wait_until_available()
            await make_role(plane.cluster)
            for name in CONTROLLERS:
                await plane.components[name].stop()
            async with unharmed(catalog):
                yield catalog
        finally:
            await catalog.stop()


@pytest.fixture
async def stage(own: Catalog) -> AsyncIterator[Stage]:
    """An empty cluster, empty again afterwards as far as our server sees."""
    admin = own.plane.cluster.admin
    stage = Stage(admin)
    yield stage
    await stage.clear()

    async def empty() -> bool:
        return await admin.list(OPTION) == []

    await wait_until(empty, "no tenant has an option any more")


async def options_of(cluster: Cluster, world: World) -> dict[str, Object]:
    """All options of the world's namespaces, by namespace and name."""
    found = await cluster.admin.list(OPTION)
    for namespace in {key.partition("/")[0] for key in world.options}:
        if not is_tenant(namespace):
            found += await cluster.admin.list(OPTION, namespace)
    return {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in found}


def wrong(world: World, options: dict[str, Object]) -> list[tuple[object, ...]]:
    """Every figure that is not the one worked by hand: which, wanted, got."""
    found: list[tuple[object, ...]] = [
        (key, "missing") for key in world.options if key not in options
    ]
    for key in world.options.keys() & options.keys():
        got = figures(options[key])
        found += [
            (key, name, want, got[name])
            for name, want in world.options[key].items()
            if differs(want, got[name])
        ]
    return found


def texts(value: object) -> Iterator[str]:
    """Every text in an object, names of fields included."""
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield key
                yield from texts(each)
        case list():
            for each in value:
                yield from texts(each)
        case _:
            return


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
async def test_tenants_see_the_figures_of_a_world(own: Catalog, stage: Stage, world: World) -> None:
    cluster = own.plane.cluster
    await stage.set_up(world)
    seen: list[tuple[object, ...]] = []

    async def as_worked_by_hand() -> bool:
        nonlocal seen
        seen = wrong(world, await options_of(cluster, world))
        return not seen

    try:
        await wait_until(as_worked_by_hand, "the figures of the world")
    except NeverHappened as never:
        raise AssertionError(f"{never}; which, wanted, got: {seen}") from None

    nodes = [each["metadata"]["name"] for each in await cluster.admin.list("v1/Node")]
    assert nodes
    everywhere = await options_of(cluster, world)
    for namespace in {key.partition("/")[0] for key in world.options}:
        await bind(cluster, SOMEBODY, namespace)
        tenant = Tenant(cluster, namespace, SOMEBODY)
        for option in await tenant.options():
            name = option["metadata"]["name"]
            assert await tenant.option(name) == {
                "apiVersion": words.CATALOG_GROUP_VERSION,
                "kind": words.KIND_OPTION,
                **option,
            }
            assert everywhere[f"{namespace}/{name}"] == option
            assert not [text for text in texts(option) if any(node in text for node in nodes)]
            if figures(option)["limitingLevel"] == "Ancestor":
                assert not {"hard", "used"} & option["status"]["budget"].keys()
    for namespace in world.no_options:
        assert await cluster.admin.list(OPTION, namespace) == []
    assert wrong(world, await options_of(cluster, world)) == []
