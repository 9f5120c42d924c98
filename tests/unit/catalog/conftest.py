"""What the tests of the catalog share."""

import pytest

from tests.api.source import a_class
from tests.unit.catalog.world import World


@pytest.fixture
def world() -> World:
    world = World("tenant-a", "tenant-b", "default")
    world.do(world.table.put(a_class("l4")))
    world.do(world.table.put(a_class("a100")))
    return world
