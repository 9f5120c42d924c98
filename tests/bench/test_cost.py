"""What a change costs does not grow with the cluster: counted in calls, so never by chance.

Rule 11 asks it of a pod; the others are held to the same.
"""

from __future__ import annotations

from statistics import mean

import pytest

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_costs_at_most_twice_as_much_in_a_cluster_ten_times_as_large(
    kind: str, small: Bench, large: Bench
) -> None:
    counts = [each.counted(each.changes(KINDS[kind], seed=1, count=60)) for each in (small, large)]
    # Also without what is read afterwards, which is much and would hide what grows.
    applied = [mean(each.applied for each in of) for of in counts]
    assert 0 < applied[1] <= RATIO_MAX * applied[0], applied
    both = [mean(each.applied + each.read for each in of) for of in counts]
    assert both[1] <= RATIO_MAX * both[0], both


def test_the_count_sees_every_call_of_the_arithmetic_and_no_other(small: Bench) -> None:
    change, back = small.changes(KINDS["pod"], seed=1, count=2)
    counted = calls_of(lambda: small.take(change))
    small.take(back)
    assert counted.result == len(small.views.names)
    assert counted.by_name["ClusterState.apply"] == 1
    assert counted.by_name["ClusterState.option"] == len(small.views.names)
    assert "Views.refresh" not in counted.by_name
