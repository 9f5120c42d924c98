"""Which node takes a set, and what is told where none does (rules 7.5, 7.6 and 3.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.demand import Demand, Part
from shared.core.eligibility import Misfit
from shared.core.model import Object, RecordEntry, Vmi, Volume
from shared.core.placement import Placed, place
from shared.core.placing import PodPlacing
from shared.core.scheduling import NodeTerm, Requirement
from shared.reasons import Reason
from tests.unit.placing.building import (
    GPU,
    TOLERANT,
    A,
    B,
    C,
    ask,
    booked,
    node,
    pod,
    sites,
    units,
    waiting,
)

ZONE = "topology.kubernetes.io/zone"
IN_Z2 = NodeTerm(expressions=(Requirement(ZONE, "In", ("z2",)),))


@pytest.mark.parametrize(
    ("demand", "nodes", "want"),
    [
        pytest.param(ask(2), (node("a", 8), node("b", 2), node("c", 4)), "b", id="the fullest"),
        pytest.param(ask(3), (node("a", 8), node("b", 2), node("c", 4)), "c", id="that has room"),
        pytest.param(ask(2), (node("b", 4), node("a", 4)), "a", id="among equals by name"),
        pytest.param(
            ask(2),
            (node("a", {A: 4, B: 2}), node("b", {A: 4, B: 1}), node("c", {A: 4, B: 2})),
            "b",
            id="among equals that which offers least to others",
        ),
        pytest.param(
            ask(2),
            (node("a", {A: 4, B: 1}), node("b", {A: 4, C: 3}), node("c", {C: 97, B: 9})),
            "b",
            id="three of a hundred are scarcer than one of ten",
        ),
        pytest.param(
            ask(2),
            (node("a", 4), node("b", 4, cpu=48_000), node("c", {A: 4, B: 1}, cpu=8000)),
            "b",
            id="among equals also in that, the one with the least CPU left",
        ),
        pytest.param(
            Demand((units(1), units(1, B))),
            (node("a", {A: 5, B: 5}), node("b", {A: 1, B: 8}), node("c", {A: 2, B: 2})),
            "c",
            id="the fullest over all devices of the set",
        ),
        pytest.param(
            Demand((units(1), units(1))),
            (node("a", 1), node("b", 2), node("c", 3)),
            "b",
            id="several claims of one device",
        ),
        pytest.param(
            ask(2),
            (node("a", 2, taints=(GPU,)), node("b", 4)),
            "b",
            id="a fuller one that the class does not tolerate is passed",
        ),
        pytest.param(
            ask(2, waiting(node_selector={"disk": "fast"})),
            (node("a", 2), node("b", 4), node("c", 8, {"disk": "fast"})),
            "c",
            id="fuller ones that the pod does not accept are passed",
        ),
        pytest.param(
            ask(2, stays_on="c"), (node("a", 2), node("c", 8)), "c", id="where orders are it stays"
        ),
        pytest.param(
            ask(4, stays_on="a"), (node("a", 2), node("c", 8)), "c", id="but not without room"
        ),
        pytest.param(
            ask(2, stays_on="gone"), (node("a", 2), node("c", 8)), "a", id="nor on what is gone"
        ),
    ],
)
def test_the_fullest_node_that_fits_takes_the_set(
    demand: Demand, nodes: tuple[Object, ...], want: str
) -> None:
    assert place(demand, sites(*nodes)) == Placed(want)


def test_a_device_that_nobody_names_is_nothing_scarce() -> None:
    nodes = (node("a", {A: 4, "intel.com/nic": 1}), node("b", {A: 4, B: 1}))
    assert place(ask(2), sites(*nodes)) == Placed("a")


@pytest.mark.parametrize(
    ("demand", "objects", "reason", "text"),
    [
        pytest.param(
            ask(4),
            (node("a", 2), replace(node("b"), unschedulable=True)),
            Reason.NO_CAPACITY,
            "asked 4: 2 free",
            id="too few are free",
        ),
        pytest.param(
            ask(1),
            (node("a", 2), booked("c", "a", 2)),
            Reason.NO_CAPACITY,
            "asked 1: none free",
            id="none is free",
        ),
        pytest.param(
            ask(1),
            (),
            Reason.NO_CAPACITY,
            "asked 1: none free",
            id="there are no nodes",
        ),
        pytest.param(
            ask(4),
            (node("a", 3, taints=(GPU,)), node("b", 3)),
            Reason.NO_CAPACITY,
            "asked 4: 3 free",
            id="what the class does not tolerate is not free",
        ),
        pytest.param(
            Demand((units(4), units(2, B))),
            (node("a", {A: 4, B: 1}),),
            Reason.NO_CAPACITY,
            "asked 2 of beta: 1 free",
            id="too few of the second class",
        ),
        pytest.param(
            ask(4),
            (node("a", 2), node("b", 3)),
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            "asked 4: at most 3 can be had together, 5 free",
            id="enough, but nowhere together",
        ),
        pytest.param(
            Demand((units(2), units(2, B))),
            (node("a", {A: 8, B: 1}), node("b", {B: 8})),
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            "asked 2 of alpha and 2 of beta: nowhere can both be had together, 8 of alpha and 9 of"
            " beta free",
            id="each class can be had by itself, but nowhere both",
        ),
        pytest.param(
            Demand((units(2), units(2, B), units(1, C))),
            (node("a", {A: 8, B: 2}), node("b", {B: 8, C: 1})),
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            "asked 2 of alpha, 2 of beta and 1 of gamma: nowhere can all be had together, 8 of"
            " alpha, 10 of beta and 1 of gamma free",
            id="two of three can be had, but nowhere all",
        ),
        pytest.param(
            Demand((units(2), units(4, B))),
            (node("a", {A: 8, B: 3}), node("b", {A: 1, B: 2})),
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            "asked 4 of beta: at most 3 can be had together, 5 free",
            id="one of two classes is scattered",
        ),
        pytest.param(
            Demand((units(2), units(2), units(1, B))),
            (node("a", {A: 3, B: 1}), node("b", {A: 2})),
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            "asked 4 of alpha: at most 3 can be had together, 5 free",
            id="several claims of one class are asked for as one",
        ),
        pytest.param(
            Demand((units(1, tolerations=TOLERANT), units(1, B))),
            (node("a", 8, taints=(GPU,)), node("b", {B: 8})),
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            "asked 1 of alpha and 1 of beta: nowhere can both be had together, 8 of alpha and 8 of"
            " beta free",
            id="only one class tolerates what is reserved",
        ),
        pytest.param(
            ask(4, waiting(node_selector={"disk": "fast"})),
            (node("a", 8), node("b", 2, {"disk": "fast"})),
            Reason.NO_ELIGIBLE_NODE,
            "asked 4: units are free, but only where the VM cannot run: the node selector or node"
            " affinity of the VM, or what KubeVirt adds to them for its CPU, architecture or"
            " machine type, 10 free",
            id="room where the VM cannot run",
        ),
        pytest.param(
            Demand((units(4), units(1, B)), waiting(node_selector={"disk": "fast"})),
            (node("a", {A: 8, B: 2}), node("b", 2, {"disk": "fast"})),
            Reason.NO_ELIGIBLE_NODE,
            "asked 4 of alpha and 1 of beta: units are free, but only where the VM cannot run: the"
            " node selector or node affinity of the VM, or what KubeVirt adds to them for its CPU,"
            " architecture or machine type, 10 of alpha and 2 of beta free",
            id="room for two classes where the VM cannot run",
        ),
        pytest.param(
            ask(4, replace(waiting(), requests={"memory": 2 << 40})),
            (node("a", 8),),
            Reason.NO_ELIGIBLE_NODE,
            "asked 4: units are free, but only where the VM cannot run: too little memory is left"
            " there, 8 free",
            id="room, but too little memory",
        ),
        pytest.param(
            ask(2, waiting(), volumes=(Volume("pv", (IN_Z2,)),)),
            (node("g1", 4, {ZONE: "z1"}), node("g2", 0, {ZONE: "z2"}), node("g3", 1, {ZONE: "z2"})),
            Reason.VOLUME_OUT_OF_REACH,
            "asked 2: units are free, but out of reach: a volume of the VM is bound elsewhere,"
            " 5 free",
            id="room where the volume is not",
        ),
        pytest.param(
            ask(2, waiting(node_selector={"disk": "fast"}), skipped=frozenset({"b"})),
            (node("a", 4), node("b", 4, {"disk": "fast"})),
            Reason.NODE_REFUSED,
            "asked 2: units are free, but only where starting the VM failed lately, 8 free",
            id="the node that got furthest tells",
        ),
        pytest.param(
            ask(2, reserved=frozenset({"a"})),
            (node("a", 4),),
            Reason.RESERVED,
            "asked 2: the free units are kept for a VM that has waited longer, 4 free",
            id="kept for an older set",
        ),
        pytest.param(
            ask(2, stays_on="a"),
            (replace(node("a", 4), unschedulable=True), node("b", 1)),
            Reason.NO_CAPACITY,
            "asked 2: 1 free; the units that the VM holds already are where no VM can start now",
            id="its orders are on a node that is cordoned",
        ),
        pytest.param(
            ask(2, stays_on="gone"),
            (node("b", 1), node("c", 1)),
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            "asked 2: at most 1 can be had together, 2 free; the units that the VM holds already"
            " are where no VM can start now",
            id="its orders are on a node that is gone",
        ),
        pytest.param(
            ask(2, stays_on="a"),
            (node("a", 1), node("b", 0)),
            Reason.NO_CAPACITY,
            "asked 2: 1 free",
            id="its orders are on a node that has too little besides",
        ),
    ],
)
def test_the_most_telling_reason_is_told(
    demand: Demand, objects: tuple[Object, ...], reason: Reason, text: str
) -> None:
    got = place(demand, sites(*objects))
    assert isinstance(got, Misfit)
    assert (got.reason, got.text) == (reason, text)


@pytest.mark.parametrize(
    ("demand", "text"),
    [
        (Demand((units(9, is_disclosed=False),)), "asked 9: fewer are free"),
        (Demand((units(5, is_disclosed=False),)), "asked 5: fewer can be had together"),
        (
            ask(4, reserved=frozenset({"a", "b"})),
            "asked 4: the free units are kept for a VM that has waited longer, 8 free",
        ),
        (
            Demand((units(4, is_disclosed=False),), reserved=frozenset({"a", "b"})),
            "asked 4: the free units are kept for a VM that has waited longer",
        ),
        (
            Demand((units(1, B), units(9, is_disclosed=False))),
            "asked 9 of alpha: fewer are free",
        ),
        (
            Demand((units(1, B), units(5, is_disclosed=False))),
            "asked 5 of alpha: fewer can be had together",
        ),
        (
            Demand((units(4, is_disclosed=False), units(2, B))),
            "asked 4 of alpha and 2 of beta: nowhere can both be had together, 2 of beta free",
        ),
        (
            Demand((units(4, is_disclosed=False), units(2, B, is_disclosed=False))),
            "asked 4 of alpha and 2 of beta: nowhere can both be had together",
        ),
    ],
)
def test_a_class_that_keeps_its_stock_to_itself_shows_no_figure_of_it(
    demand: Demand, text: str
) -> None:
    """Rule 3.4."""
    got = place(demand, sites(node("a", 4), node("b", 4), node("c", {A: 0, B: 2})))
    assert isinstance(got, Misfit)
    assert got.text == text


def test_one_decision_is_claimed_before_the_next() -> None:
    """Rule 7.2: it is applied to the state, and the next one sees it."""
    claims = (booked("c1", "b", 2), booked("c2", "a", 2))
    nodes = (node("a", 4), node("b", 2))
    assert place(ask(2), sites(*nodes)) == Placed("b")
    assert place(ask(2), sites(*nodes, *claims[:1])) == Placed("a")
    assert place(ask(2), sites(*nodes, *claims)) == Placed("a")
    assert isinstance(place(ask(2), sites(*nodes, *claims, booked("c3", "a", 2))), Misfit)


def test_what_a_pod_of_the_set_will_request_counts_for_the_next() -> None:
    large = replace(waiting(), requests={"cpu": 40_000})
    there = pod("first", "a", requests={"cpu": 40_000}, placing=PodPlacing())
    assert place(ask(1, large), sites(node("a"), node("b"))) == Placed("a")
    assert place(ask(1, large), sites(node("a", 7), node("b"), there)) == Placed("b")


def test_a_device_that_only_a_waiting_vm_still_names_is_found_for_it() -> None:
    """Rule 3.2: a class's new name is for those who are bound after it."""
    entry = RecordEntry("", 0, "alpha", "nvidia.com/OLD", 1)
    record = Vmi("tenant-a", "vm", "vm-uid", record=(entry,))
    old = Demand((Part("alpha", "nvidia.com/OLD", 1),))
    there = node("a", {"nvidia.com/OLD": 1})
    assert isinstance(place(old, sites(there)), Misfit)
    assert place(old, sites(there, record)) == place(old, sites(record, there)) == Placed("a")
