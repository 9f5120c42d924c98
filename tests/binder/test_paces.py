"""A text that is written too soon is found out, and nothing else is."""

from __future__ import annotations

import pytest

from shared import vocabulary as v
from tests.binder.history import State
from tests.binder.objects import claim, instance
from tests.binder.paces import Paces
from tests.cluster.api import Object


def says(free: int, reason: str = "NoCapacity") -> Object:
    """The one claim of a VM waits, and says so with a figure."""
    told = claim("waits", reason=reason)
    told["status"]["waiting"]["message"] = f"{free} free"
    return told


def of_two() -> Object:
    """Its VM has another claim."""
    vmi = instance("waits")
    annotations = vmi["metadata"]["annotations"]
    record = annotations[v.ANNOTATION_ATTACHMENTS]
    annotations[v.ANNOTATION_ATTACHMENTS] = f"{record[:-1]},{record[1:-1].replace(':0', ':1')}]"
    return vmi


def followed(*history: tuple[float, Object]) -> Paces:
    """What is found in a history: what is so from when on."""
    found = Paces()
    found.follow(State(version, obj, at) for version, (at, obj) in enumerate(history))
    return found


def test_other_words_that_come_late_enough_are_right() -> None:
    found = followed((0, instance("waits")), (1, says(1)), (31, says(2)), (61, says(3)))
    assert (found.reworded, found.wrong) == (2, [])


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(((1, says(1)), (3, says(2))), id="at once"),
        pytest.param(((1, says(1)), (31, says(2)), (33, says(3))), id="once more"),
        pytest.param(((1, says(1)), (2, says(1)), (3, says(2))), id="seen again before"),
    ],
)
def test_other_words_that_come_too_soon_are_found_out(
    history: tuple[tuple[float, Object], ...],
) -> None:
    (wrong,) = followed((0, instance("waits")), *history).wrong
    assert wrong.startswith("t/waits-0 was told '")
    assert " 2.0 s after other words" in wrong


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(((1, says(1)), (3, says(1, "BudgetExceeded"))), id="another reason"),
        pytest.param(((1, claim("waits", on="node")), (3, says(1))), id="it waits anew"),
        pytest.param(((1, says(1)), (3, says(1))), id="nothing new"),
        pytest.param(((0, of_two()), (1, says(1)), (3, says(2))), id="not alone"),
    ],
)
def test_what_is_more_than_words_is_not_looked_at(
    history: tuple[tuple[float, Object], ...],
) -> None:
    found = followed(*history)
    assert (found.reworded, found.wrong) == (0, [])


def test_a_claim_of_the_same_name_is_another_one() -> None:
    found = Paces()
    one, other = says(1), says(2)
    found.follow([State(1, one, 1), State(2, one, 2, is_gone=True), State(3, other, 3)])
    assert (found.reworded, found.wrong) == (0, [])
