"""A reason that was not true when it was written is found out: a node of four units, by hand."""

from __future__ import annotations

import pytest

from tests.binder.history import State
from tests.binder.objects import claim, instance, pod, world
from tests.binder.told import Reasons
from tests.cluster.api import Object

TAKEN = claim("taken", 3, on="node")
WAITS = (instance("waits"), pod("waits", gated=True), claim("waits"))
SAYS = claim("waits", reason="NoCapacity")


def judged(*history: tuple[float, Object | None]) -> Reasons:
    """Reasons in a history: what is so from when on. None is that `taken` is gone."""
    found = Reasons(world(), patience=2.0)
    found.follow(
        State(version, TAKEN, at, is_gone=True) if obj is None else State(version, obj, at)
        for version, (at, obj) in enumerate(history)
    )
    return found


def test_a_reason_that_is_true_when_it_is_written_is_right() -> None:
    found = judged((0, TAKEN), *((1, each) for each in WAITS), (2, SAYS))
    assert (found.told, found.apart, found.wrong) == ({"NoCapacity": 1}, {}, [])


@pytest.mark.parametrize(
    ("history", "seconds"),
    [
        pytest.param(((1.5, None), (3, SAYS)), 1, id="it was true a moment before"),
        pytest.param(((0.5, None), (2.9, SAYS), (3.5, TAKEN)), 0, id="it is true a moment later"),
    ],
)
def test_a_reason_of_a_moment_close_by_is_counted_as_such(
    history: tuple[tuple[float, Object | None], ...], seconds: int
) -> None:
    found = judged((0, TAKEN), *((0, each) for each in WAITS), *history)
    assert (found.apart, found.wrong) == ({seconds: 1}, [])


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(((0, None), (9, SAYS)), id="it was true long ago"),
        pytest.param(((0, None), (3, SAYS), (9, TAKEN)), id="it is true long after"),
        pytest.param(((0, None), (3, SAYS)), id="it never was"),
    ],
)
def test_a_reason_that_was_not_true_is_found_out(
    history: tuple[tuple[float, Object | None], ...],
) -> None:
    found = judged((0, TAKEN), *((0, each) for each in WAITS), *history)
    (wrong,) = found.wrong
    assert wrong.startswith("t/waits-0 was told NoCapacity (), and that was not so within 2 s")
    assert "fits on node" in wrong


def test_a_reason_for_one_that_does_not_wait_is_found_out() -> None:
    (wrong,) = judged((0, TAKEN), (0, claim("waits")), (1, SAYS)).wrong
    assert "it did not wait" in wrong
