"""A storm over the wire, small: what follows it ends where one ends that reads everything anew."""

from __future__ import annotations

from pathlib import Path

from tests.bench.processes import dump, read, replayed
from tests.bench.size import Size

SMALL = Size(nodes=60, pods=900, claims=150, tenants=40, quotas=80, classes=7)


def test_figures_after_a_storm_are_those_of_the_objects_that_are_there(tmp_path: Path) -> None:
    with replayed(dump(tmp_path, SMALL)) as address:
        found = read(address, "--rate=500", "--seconds=3", "--watched=20", "--seed=3")
    assert found["objects"]["pods"] == SMALL.pods
    assert found["sent"] > 500
    assert found["is_equal"]
