"""What decisions take of the state, and that they take nothing else (rules 5.5 and 6)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from admission import claim, final, gpuclass, pod, vmi
from admission.inputs import (
    UNSEEN,
    ClassInputs,
    FinalInputs,
    OrderInputs,
    PodInputs,
    View,
    VmiInputs,
    rivals,
)
from admission.review import Decision, Request
from shared.core.budgets import Remaining
from shared.core.capacity import Capacity
from shared.core.cluster import ClusterState
from shared.core.model import Claim, Namespace, Node, Put, Quota, RecordEntry, Vmi
from shared.core.terms import LimitingLevel
from shared.errors import BadRequest
from tests.unit.admission.building import A100, GA100

REPOSITORY = Path(__file__).parents[3]


def state() -> ClusterState:
    made = ClusterState()
    node = Node("gpu-1", {GA100: 8}, {"kubevirt.io/schedulable": "true"}, ready=True)
    record = (RecordEntry(claim="train", class_name="a100", resource_name=GA100, count=2),)
    for each in (
        A100,
        node,
        Namespace("tenant-a"),
        Quota("tenant-a", "q", {f"requests.{GA100}": 4}),
        Claim("tenant-a", "train", "a100", 2, resource_name=GA100, node_name="gpu-1"),
        Vmi("tenant-a", "vm1", "vmi-1", record=record, phase="Running"),
        Vmi("tenant-a", "vm2", "vmi-2", record=record, phase="Failed"),
        Vmi("tenant-b", "vm3", "vmi-3", record=record, phase="Running"),
        Vmi("tenant-a", "vm4", "vmi-4", phase="Running"),
    ):
        made.apply(Put(each))
    return made


def test_a_view_is_what_the_catalog_shows() -> None:
    got = View.of(state(), "tenant-a", "a100", 0.5)
    assert got == View(
        0.5,
        GA100,
        Capacity(total=8, bound=2, free=6, largest_set=6),
        Remaining(2, LimitingLevel.SELF, hard=4, used=2),
    )


def test_a_view_of_a_class_that_the_state_does_not_know_promises_nothing() -> None:
    for view in (View.of(state(), "tenant-a", "h100", 0.5), UNSEEN):
        assert view.trouble(A100) is not None


def test_a_view_says_what_cannot_be_read() -> None:
    unreadable = state()
    unreadable.set_unreadable({"pods"})
    lacks = {"pods": "watch", "nodes": "list"}
    for name in ("a100", "h100"):
        got = View.of(unreadable, "tenant-a", name, 0.5, refused=lacks)
        assert got.unreadable == {"pods": "watch"}
        assert View.of(unreadable, "tenant-a", name, 0.5).unreadable == {"pods": "read"}


def test_rivals_are_the_vmis_of_the_namespace_that_are_not_final_and_name_the_claim() -> None:
    assert rivals(state(), "tenant-a", "train") == {"vm1"}
    assert rivals(state(), "tenant-a", "other") == frozenset()


def test_claims_of_a_class_are_counted() -> None:
    assert state().holders.claims_of("a100") == 1
    assert state().holders.claims_of("h100") == 0


def of_kind(group: str, kind: str) -> Request:
    return Request("review-1", "CREATE", group, kind, "things", object={})


Decide = Callable[[Request], Decision]

PATHS: list[tuple[tuple[str, str], Decide]] = [
    (("kubevirt.io", "VirtualMachineInstance"), partial(vmi.decide, inputs=VmiInputs())),
    (("kubevirt.io", "VirtualMachineInstance"), partial(final.decide, inputs=FinalInputs())),
    (("", "Pod"), partial(pod.decide, inputs=PodInputs())),
    (("gpu.cozystack.io", "GPUClaim"), partial(claim.decide, inputs=OrderInputs())),
    (("gpu.cozystack.io", "GPUClass"), partial(gpuclass.decide, inputs=ClassInputs())),
]


@pytest.mark.parametrize(
    "kind",
    [
        ("kubevirt.io", "VirtualMachineInstance"),
        ("", "Pod"),
        ("gpu.cozystack.io", "GPUClaim"),
        ("gpu.cozystack.io", "GPUClass"),
        ("evil.io", "Pod"),
        ("apps", "Deployment"),
    ],
)
def test_each_path_takes_its_own_kind_and_none_lets_another_in(kind: tuple[str, str]) -> None:
    """Trouble 17: an object of an unexpected kind is never silently let in."""
    taken = []
    for own, decide in PATHS:
        try:
            decide(of_kind(*kind))
        except BadRequest:
            continue
        taken.append(own)
    assert taken == [own for own, _ in PATHS if own == kind]


def test_every_module_that_decides_is_held_to_do_nothing_else() -> None:
    """The contract names modules one by one, so that the routes beside them may do I/O."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    (contract,) = (
        each
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["name"].startswith("Admission decides")
    )
    doing = {"routes", "reads"}
    deciding = {path.stem for path in (REPOSITORY / "admission").glob("*.py")} - {"__init__"}
    assert {f"admission.{name}" for name in deciding - doing} == set(contract["source_modules"])
