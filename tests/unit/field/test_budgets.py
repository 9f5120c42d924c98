"""Quotas and budgets: keys, hierarchies, quantities, and who counts (troubles 1 to 9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.core.tenants import Tenants
from shared.kube import decode
from shared.kube.decode import Undecodable
from shared.quantity import QuantityError, parse
from tests.unit.field.world import (
    CLASS_KEY,
    L40S,
    Cluster,
    Raw,
    claim,
    namespace,
    node,
    pod,
    quota,
)

A = namespace("tenant-a")
ROOT = namespace("tenant-root")
MANY = node("g1", "100")


@pytest.mark.parametrize(
    ("hard", "budget"),
    [
        pytest.param(
            {L40S: "4", f"requests.{L40S}": "2", f"limits.{L40S}": "3"}, 2, id="all three"
        ),
        pytest.param({f"limits.{L40S}": "3", L40S: "4"}, 3, id="two of them"),
        pytest.param({L40S: "4"}, 4, id="bare"),
        pytest.param({f"limits.{L40S}": "3"}, 3, id="limits"),
        pytest.param({CLASS_KEY: "5", f"requests.{L40S}": "6"}, 5, id="the class's key is smaller"),
        pytest.param({f"requests.{L40S.lower()}": "2"}, None, id="in lower case"),
        pytest.param({f"requests.{L40S} ": "2"}, None, id="with a blank"),
        pytest.param({f"requests.requests.{L40S}": "2"}, None, id="prefixed twice"),
        pytest.param({"count/gpuclaims.gpu.cozystack.io": "5"}, None, id="a count of objects"),
        pytest.param({"requests.nvidia.com/gpu": "1"}, None, id="the vendor's common name"),
    ],
)
def test_the_smallest_spelling_of_a_key_counts_and_another_name_is_another_resource(
    hard: Raw, budget: int | None
) -> None:
    """Trouble 1: of several spellings one was never honoured, or all were added up."""
    assert Cluster.of(A, MANY, quota("tenant-a", hard)).remaining("tenant-a") == budget


def test_a_budget_is_one_for_a_tenant_and_all_below_it() -> None:
    """Trouble 2: checked for each namespace alone, a limit of 4 became 4 for each."""
    got = Cluster.of(
        A, namespace("tenant-a-dev"), MANY, quota("tenant-a", {f"requests.{CLASS_KEY}": "4"})
    )
    got.put(claim("tenant-a", "c1", 3))
    assert (got.remaining("tenant-a"), got.remaining("tenant-a-dev")) == (1, 1)

    got.put(claim("tenant-a-dev", "c1", 3))  # they raced; equal names are two claims
    assert (got.remaining("tenant-a"), got.remaining("tenant-a-dev")) == (0, 0)

    got.gone(claim("tenant-a", "c1", 3))
    assert (got.remaining("tenant-a"), got.remaining("tenant-a-dev")) == (1, 1)


VALUES = {
    "1k": 1000,
    "1Ki": 1024,
    "1M": 1000000,
    "1Mi": 1048576,
    "1e3": 1000,
    "1E3": 1000,
    "1e+3": 1000,
    "12e0": 12,
    "129e6": 129000000,
    "1E": 10**18,
    "1Ei": 2**60,
    ".5Ki": 512,
    "4.0": 4,
    "+4": 4,
    "-1": -1,
    "004": 4,
    "110": 110,
    # Strange, but Kubernetes' own answers.
    "4 ": 4,
    " 4": 4,
    "e3": 0,
    ".": 0,
    "+": 0,
}
NONE = ["1K", "1KI", "1ki", "1e3k", "1e", "1.2.3", "0x10", "", "--1"]
NONE += ["1_000", "NaN", "inf", "4 units", "1e1e1", "\u0661"]


@pytest.mark.parametrize(("text", "units"), VALUES.items())
def test_a_suffix_is_no_exponent_and_an_exponent_is_no_suffix(text: str, units: int) -> None:
    """Trouble 4: `129e6` was read as 129 times 10^18."""
    assert parse(text) == units * 10**9


@pytest.mark.parametrize("text", NONE)
def test_what_kubernetes_takes_for_no_quantity_is_none(text: str) -> None:
    """Trouble 4."""
    with pytest.raises(QuantityError):
        parse(text)


def test_the_quantities_of_this_table_are_among_those_that_an_api_server_judged() -> None:
    """Trouble 4: so that no value here is our own opinion."""
    path = Path(__file__).parents[2] / "data/quantities.json"
    answers = dict(json.loads(path.read_text())["answers"])
    assert [text for text in VALUES if answers.get(text) is None] == []
    assert [text for text in NONE if answers.get(text, "not asked") is not None] == []


@pytest.mark.parametrize(
    ("scalar", "budget"), [(4, 4), (4.0, 4), (1e3, 1000), (True, 0), (None, 0), ([], 0), ("1K", 0)]
)
def test_a_budget_that_is_no_quantity_grants_nothing_and_leaves_the_other_keys_alone(
    scalar: object, budget: int
) -> None:
    """Trouble 4: what YAML makes of unquoted scalars, and what is none."""
    told: list[str] = []
    raw = quota("tenant-a", {f"requests.{L40S}": scalar, f"requests.{CLASS_KEY}": "2000"})
    got = decode.quota(raw, told.append)
    assert got.hard == {f"requests.{L40S}": budget, f"requests.{CLASS_KEY}": 2000}
    assert len(told) == (budget == 0)
    assert all(f"spec.hard[requests.{L40S}]" in each for each in told)


@pytest.mark.parametrize(
    "hostile", ["1e999999999", "9" * 100_000, "9223372036854775808", "1e-999999999", "1e-1"]
)
def test_a_hostile_quantity_is_answered_and_makes_no_other_figure_wrong(hostile: str) -> None:
    """Trouble 4: within the test's time, which a conversion of the exponent would not end in."""
    hard = {f"requests.{L40S}": hostile, f"requests.{CLASS_KEY}": "3"}
    told: list[str] = []
    decode.quota(quota("tenant-a", hard), told.append)
    got = Cluster.of(A, MANY)
    got.put(quota("tenant-a", {f"requests.{CLASS_KEY}": "3"}))
    assert got.remaining("tenant-a") == 3


@pytest.mark.parametrize("amount", ["-2", "-.1Ki", "-1e9", "-0.001"])
def test_a_negative_amount_is_nothing_wherever_it_stands(amount: str) -> None:
    """Trouble 5: a negative budget, a node with less than nothing, a pod that gives."""
    told: list[str] = []
    assert decode.quota(quota("tenant-a", {L40S: amount}), told.append).hard == {L40S: 0}
    assert decode.node(node("g1", amount), told.append).allocatable.get(L40S, 0) == 0
    giving = pod("tenant-a", "p", "Running", at="g1")
    giving["spec"]["containers"][0]["resources"] = {"requests": {L40S: amount}}
    assert dict(decode.pod(giving, told.append).requests).get(L40S, 0) == 0


@pytest.mark.parametrize("count", [-1, 0, 2147483648, 1.5, "1", True, None])
def test_a_claim_of_no_possible_count_never_enlarges_a_budget(count: object) -> None:
    """Trouble 5: it is refused by the schema; one that were stored all the same is not read."""
    with pytest.raises(Undecodable, match=r"spec\.count"):
        decode.claim(claim("tenant-a", "neg", count), lambda _: None)


def test_what_one_node_lacks_is_not_taken_from_another() -> None:
    """Trouble 5: 2 free on one and 1 too many on the other are 2 free, not 1."""
    got = Cluster.of(A, node("g1", "2"), node("g2", "1"))
    got.put(pod("tenant-a", "p1", "Running", at="g2"), pod("tenant-a", "p2", "Running", at="g2"))
    stock = got.state.capacity("l40s")
    assert (stock.free, stock.outside, stock.overbooked, stock.total) == (2, 2, 1, 3)


def test_a_pod_that_ended_holds_nothing_and_one_that_has_not_begun_is_counted() -> None:
    """Trouble 6: pods that a device plugin's restart had failed were counted for days."""
    got = Cluster.of(A, namespace("tenant-b"), node("g1", "4"))
    got.put(quota("tenant-a", {f"requests.{L40S}": "5"}))
    failed = pod("tenant-a", "p1", "Failed", at="g1")
    failed["status"] |= {"reason": "UnexpectedAdmissionError", "message": "Allocate failed"}
    leaving = pod("tenant-a", "p3", "Running", at="g1", deletionTimestamp="2026-03-01T10:00:00Z")
    gated = pod("tenant-a", "p5", "Pending")
    gated["spec"]["schedulingGates"] = [{"name": "x.example/y"}]
    got.put(failed, pod("tenant-a", "p2", "Succeeded", at="g1"), leaving, gated)
    got.put(pod("tenant-b", "p4", "Unknown", at="g1"))
    assert (got.free, got.remaining("tenant-a")) == (2, 3)

    got.gone(leaving)
    assert (got.free, got.remaining("tenant-a")) == (3, 4)


def test_a_pod_at_the_gate_is_nowhere_whatever_its_tenant_pinned_it_to() -> None:
    """Else a VM that waits would take a node from all others, by a line in its affinity (4.6)."""
    got = Cluster.of(A, node("g1", "4"))
    mark = {"gpu.cozystack.io/launcher": "vmi-1"}
    gated = pod("tenant-a", "p1", "Pending", units=8, annotations=mark)
    here = {"key": "metadata.name", "operator": "In", "values": ["g1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    gated["spec"] |= {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "schedulingGates": [{"name": "other/gate"}, {"name": "gpu.cozystack.io/claims"}],
    }
    got.put(gated)
    assert got.free == 4
    started: Raw = {**gated, "spec": {**gated["spec"], "schedulingGates": [{"name": "other/gate"}]}}
    got.put(started)
    assert got.free == 0


VMI: Raw = {
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm1", "namespace": "tenant-a", "uid": "vmi-1"},
    "status": {"phase": "Running", "nodeName": "g1", "activePods": {"tenant-a/src": "g1"}},
}
HELD = {
    "nodeName": "g1",
    "resourceName": L40S,
    "attachedTo": {"kind": "VirtualMachineInstance", "name": "vm1", "uid": "vmi-1"},
}


def launcher(name: str, at: str, phase: str = "Running") -> Raw:
    """A pod of the VM, with our mark."""
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm1"}
    return pod(
        "tenant-a",
        name,
        phase,
        at=at,
        annotations={"gpu.cozystack.io/launcher": "vmi-1"},
        ownerReferences=[{**owner, "uid": "vmi-1", "controller": True}],
    )


@pytest.mark.parametrize(
    ("source", "target", "nodes"),
    [
        pytest.param("Running", "Running", (7, 7), id="while it moves"),
        pytest.param("Succeeded", "Running", (7, 7), id="moved, its booking not yet"),
        pytest.param("Running", "Failed", (7, 8), id="the target failed"),
    ],
)
def test_a_vm_that_moves_is_one_in_the_budget_and_holds_both_nodes(
    source: str, target: str, nodes: tuple[int, int]
) -> None:
    """Trouble 7: with the quota used up the second pod was one too many."""
    got = Cluster.of(A, node("g1", "8"), node("g2", "8"))
    got.put(quota("tenant-a", {f"requests.{L40S}": "1"}), claim("tenant-a", "c1", 1, **HELD), VMI)
    both = {"tenant-a/src": "g1", "tenant-a/dst": "g2"}
    got.put({**VMI, "status": {**VMI["status"], "activePods": both}})
    got.put(launcher("src", "g1", source), launcher("dst", "g2", target))
    assert got.remaining("tenant-a") == 0
    assert got.free == sum(nodes)
    got.put(quota("tenant-a", {f"requests.{L40S}": "2"}))
    assert got.remaining("tenant-a") == 1


@pytest.mark.parametrize("hard", [None, {}, {"cpu": "8"}, ...], ids=str)
def test_no_limit_at_any_level_is_no_figure(hard: object) -> None:
    """Trouble 8: it was shown as 0, as -1, or as the largest number there is."""
    got = Cluster.of(ROOT, A, MANY)
    if hard is not ...:
        got.put(quota("tenant-a", hard))
    shown = got.option("tenant-a")
    assert (shown.budget.remaining, shown.budget.hard, shown.budget.used) == (None, None, None)
    assert shown.orderable == 100


def test_a_limit_of_the_parent_is_a_figure_without_what_makes_it() -> None:
    """Trouble 8."""
    got = Cluster.of(A, namespace("tenant-a-b"), namespace("other"), MANY)
    got.put(quota("tenant-a", {f"requests.{CLASS_KEY}": "4"}), claim("tenant-a", "c", 1))
    shown = got.option("tenant-a-b")
    assert (shown.budget.remaining, shown.budget.hard, shown.budget.used) == (3, None, None)
    assert shown.orderable == 3
    assert got.option("other").budget.remaining is None


PARENTS = {
    "tenant-root": None,
    "tenant-a": "tenant-root",
    "tenant-a-b": "tenant-a",
    "tenant-ab": "tenant-root",
    "tenant-a-b-c": "tenant-a-b",
    "tenant-aa": "tenant-root",
    "tenant-aa-b": "tenant-aa",
    "default": None,
    "tenant-": None,
    "tenants": None,
    "kube-system": None,
}


def test_a_tenant_has_the_parent_that_its_name_says_and_no_prefix_of_it() -> None:
    """Trouble 9: dashes within names, and plain prefixes, broke the tree."""
    tenants = Tenants()
    for name in PARENTS:
        tenants.add(name)
    assert {name: (*tenants.line(name), None)[1] for name in PARENTS} == PARENTS


def test_use_counts_below_the_tenant_that_has_the_budget_and_nowhere_else() -> None:
    """Trouble 9."""
    got = Cluster.of(MANY, *map(namespace, PARENTS))
    got.put(quota("tenant-a", {f"requests.{CLASS_KEY}": "4"}))
    got.put(*(claim(name, "c", 1) for name in PARENTS))
    below = {"tenant-a", "tenant-a-b", "tenant-a-b-c"}
    assert {name for name in PARENTS if got.remaining(name) is not None} == below
    assert {got.remaining(name) for name in below} == {1}

    got.put(quota("tenant-a", {f"requests.{CLASS_KEY}": "2"}))
    assert {got.remaining(name) for name in below} == {0}
