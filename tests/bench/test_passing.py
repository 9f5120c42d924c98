"""The benchmark of passes, small: what it measures is what happens."""

from __future__ import annotations

from random import Random

from binder.actions import StartPod
from tests.bench.passing import TOO_LARGE, Cluster
from tests.bench.size import Size
from tests.bench.world import make
from tests.unit.binder.applier import actions

SMALL = Size(nodes=100, pods=500, claims=100, tenants=5, quotas=0, classes=5)


def test_passes_at_rest_write_nothing_and_those_over_new_vms_start_or_leave_waiting() -> None:
    cluster = Cluster(make(SMALL))
    assert not cluster.decide().result.works
    fit, misfit = cluster.vms(5, Random(1), (1,)), cluster.vms(5, Random(1), TOO_LARGE)
    cluster.happen([*fit, *misfit])
    found = cluster.decide().result
    assert sum(isinstance(each, StartPod) for each in actions(found)) == 5
    assert len(found.works) == 10
    cluster.do(found)
    cluster.do(cluster.decide().result)  # figures of classes
    assert not cluster.decide().result.works
