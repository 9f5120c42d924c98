"""What a change of the state says it touched, where no property can tell (rule 5.3)."""

from __future__ import annotations

from shared.core.cluster import ClusterState, Touched
from shared.core.model import GpuClass, Namespace, Put
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
