"""What a change costs does not grow with the cluster: counted in calls, so never by chance.

Rule 11 asks it of a pod; the others are held to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import pytest

from shared.core.model import Change
from tests.bench.cost import KINDS, RATIO_MAX, Bench
from tests.bench.counting import calls_of
from tests.bench.size import Size

SMALL, LARGE = (Size.of_nodes(nodes, classes=50) for nodes in (500, 5000))


@pytest.fixture(scope="module")
def small() -> Bench:
    return Bench(SMALL)


@pytest.fixture(scope="module")
def large() -> Bench:
    return Bench(LARGE)


def cost(bench: Bench, changes: Sequence[Change]) -> float:
    """Calls of the arithmetic for one change, with the options read afterwards."""
    calls, options = bench.counted(changes)
    assert sum(calls) > 0
    assert len(options) == len(changes)
    return mean(calls)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_costs_at_most_twice_as_much_in_a_cluster_ten_times_as_large(
    kind: str, small: Bench, large: Bench
) -> None:
    costs = [cost(each, each.changes(KINDS[kind], seed=1, count=60)) for each in (small, large)]
    assert costs[1] <= RATIO_MAX * costs[0], costs


def test_the_count_sees_every_call_of_the_arithmetic_and_no_other(small: Bench) -> None:
    change, back = small.changes(KINDS["pod"], seed=1, count=2)
    counted = calls_of(lambda: small.take(change))
    small.take(back)
    assert counted.result == len(small.views.names)
    assert counted.by_name["ClusterState.apply"] == 1
    assert counted.by_name["ClusterState.option"] == len(small.views.names)
    assert "Views.refresh" not in counted.by_name
