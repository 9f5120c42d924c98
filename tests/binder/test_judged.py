"""What judges how VMs stand finds what is wrong: by hand, with one node of four units."""

from __future__ import annotations

import pytest

from tests.binder.judged import Scene, judge
from tests.binder.objects import claim, instance, machine, pod, world


def scene(first: int, reason: str, *, budget: int | None = None) -> Scene:
    """One VM runs with so many units; another one of two waits for a reason."""
    return Scene(
        world=world(budget=budget),
        machines=[machine("runs"), machine("waits")],
        instances=[instance("runs", "Running"), instance("waits")],
        pods=[pod("runs", on="node"), pod("waits", gated=True)],
        claims=[claim("runs", first, "node"), claim("waits", reason=reason)],
        told={"waits": reason},
    )


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        pytest.param(scene(3, "NoCapacity"), "", id="one is left, of two"),
        pytest.param(scene(2, "NoCapacity"), "it fits on node", id="two are left"),
        pytest.param(scene(3, "NoCapacity", budget=4), "it is BudgetExceeded", id="budget first"),
        pytest.param(scene(3, "SetDoesNotFitOneNode"), "it is NoCapacity", id="another reason"),
    ],
)
def test_a_reason_is_true_or_found_out(seen: Scene, wrong: str) -> None:
    found = judge(seen).wrong
    assert (wrong in found[0]) if wrong else found == ()


def test_a_vm_that_runs_beside_its_claims_is_found_out() -> None:
    seen = scene(3, "NoCapacity")
    seen.claims[0]["status"]["nodeName"] = "other"
    assert any("its claims are on {'other'}" in each for each in judge(seen).wrong)
