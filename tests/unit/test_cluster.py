"""What a change of the state says it touched, where no property can tell (rule 5.3)."""

from __future__ import annotations

import pytest

from shared.core.cluster import ClusterState, Touched
from shared.core.model import (
    Gone,
    GpuClass,
    Key,
    Namespace,
    Object,
    Put,
    Secret,
    System,
    Volume,
    VolumeClaim,
)
from shared.core.terms import Truth


def test_a_collection_that_cannot_be_read_touches_every_option_once() -> None:
    state = ClusterState()
    state.apply(Put(Namespace("tenant-a")))
    state.apply(Put(GpuClass("a100", "nvidia.com/GA100")))

    assert state.set_unreadable({"kubevirts"}) == Touched(everything=True)
    assert state.set_unreadable({"kubevirts"}) == Touched()
    unknown = state.option("tenant-a", "a100")
    assert unknown is not None
    # Nothing is free here, which is certain whatever KubeVirt permits.
    assert unknown.selectable is Truth.FALSE

    assert state.set_unreadable(()) == Touched(everything=True)


def test_what_is_not_known_has_no_option() -> None:
    state = ClusterState()
    state.apply(Put(Namespace("tenant-a")))
    assert state.option("tenant-a", "a100") is None
    state.apply(Put(GpuClass("a100", "nvidia.com/GA100")))
    assert state.option("tenant-b", "a100") is None


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        (VolumeClaim("a", "c"), VolumeClaim("a", "c", volume="pv"), ("a", "c")),
        (Volume("pv"), Volume("pv", ()), "pv"),
        (Secret("a", "s"), Secret("a", "s"), ("a", "s")),
        (System("default"), System("default", epoch=1), "default"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_no_figure_rests_on_is_kept_and_touches_nothing(
    first: Object, second: Object, key: Key | str
) -> None:
    state = ClusterState()
    tables = (state.volume_claims, state.volumes, state.secrets, state.systems)
    for value in (first, second):
        assert state.apply(Put(value)) == Touched()
        assert [table for table in tables if table] == [{key: value}]
    assert state.apply(Gone(second)) == Touched()
    assert not any(tables)
