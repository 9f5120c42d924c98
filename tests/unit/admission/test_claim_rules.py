"""Orders: refused where they cannot be met now, in the figures of the catalog (rule 6.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from admission import claim as rules
from admission.inputs import Classes, Hoster, OrderInputs, OrderNeeds, Unread, View
from admission.review import Allow, Decision, Refuse
from shared.core.budgets import Remaining
from shared.core.capacity import Capacity
from shared.core.cluster import ClusterState
from shared.core.model import Disclosure, GpuClass, Lifecycle, Namespace, Placement, Put
from shared.core.options import BOUNDS
from shared.core.tenants import Tenants
from shared.core.terms import LimitingLevel
from shared.reasons import PRECEDENCE, Reason
from shared.settings import GpuSettings
from tests.unit.admission.building import A100, CLASSES, GA100, HOSTER, TENANT, hoster, request
from tests.unit.scripted_api import Raw
from tests.worlds.reading import WORLDS, World, value

KIND = ("gpu.cozystack.io", "GPUClaim")
BINDER = "system:serviceaccount:cozy-gpu:gpu-binder"

FREE_9 = Capacity(total=16, bound=7, free=9, largest_set=9)
NINE = View(1.0, GA100, FREE_9)


def order(class_name: str = "a100", count: int | None = 1, **metadata: object) -> Raw:
    spec: Raw = {"className": class_name}
    if count is not None:
        spec["count"] = count
    return {
        "apiVersion": "gpu.cozystack.io/v1alpha1",
        "kind": "GPUClaim",
        "metadata": {"name": "c1", "namespace": "tenant-a", **metadata},
        "spec": spec,
    }


def left(units: int, view: View = NINE) -> View:
    return replace(view, remaining=Remaining(units, LimitingLevel.SELF))


def seen(view: View = NINE, base: Hoster = HOSTER, **changes: Any) -> OrderInputs:  # noqa: ANN401 - of a GpuClass
    """What is known, with changes to the class that is ordered."""
    classes = base.classes | {"a100": replace(A100, **changes)} if changes else base.classes
    return OrderInputs(replace(base, classes=Classes(classes)), view)


def decided(thing: Raw, inputs: OrderInputs, chain: Any = rules.CHAIN) -> Decision:  # noqa: ANN401 - a part of it
    return rules.decide(request(thing, kind=KIND), inputs, chain)


@dataclass(frozen=True)
class Refused:
    """An order that one rule alone refuses."""

    told: str
    order: Raw
    inputs: OrderInputs
    field: str = "spec.count"


PLENTY = View(1.0, GA100, Capacity(total=4000, free=3000, largest_set=3000))

ALONE: dict[Reason, Refused] = {
    Reason.DISABLED: Refused(
        "GPUs are switched off on this platform", order(), seen(base=hoster(enabled=False)), ""
    ),
    Reason.TOO_MANY_UNITS: Refused(
        "asked 1025, up to 1024: a VM has at most 1024 units, 3000 free",
        order(count=1025),
        seen(PLENTY, max_count=None),
    ),
    Reason.INPUTS_UNREADABLE: Refused(
        "GPU admission: the cluster cannot be read fully at the moment: the state of the cluster: "
        "it was last known 11 seconds ago",
        order(),
        seen(replace(NINE, age=11.0)),
        "",
    ),
    Reason.NOT_OFFERED: Refused(
        "claims are not offered on this platform; name the class on a VM instead",
        order(),
        seen(base=hoster(placement=Placement.SCHEDULER)),
        "",
    ),
    Reason.CLASS_NOT_FOUND: Refused(
        "spec.className: there is no class h100", order("h100"), seen(), "spec.className"
    ),
    Reason.CLASS_CONFLICT: Refused(
        "asked 1, cannot be ordered: another class names the same device, which the platform must "
        "mend, 9 free",
        order(),
        seen(base=hoster(GpuClass("too", GA100))),
        "spec.className",
    ),
    Reason.NOT_PERMITTED: Refused(
        "asked 1, cannot be ordered: virtual machines are not permitted to use this device, 9 free",
        order(),
        seen(
            replace(NINE, resource_name="nvidia.com/ga100_A100_PCIE_40GB"),
            resource_name="nvidia.com/ga100_A100_PCIE_40GB",
        ),
        "spec.className",
    ),
    Reason.CLASS_CLOSED: Refused(
        "asked 1, cannot be ordered: the class takes no new orders and no new VMs, 9 free",
        order(),
        seen(lifecycle=Lifecycle.CLOSED),
        "spec.className",
    ),
    Reason.NOT_ENTITLED: Refused(
        "asked 1, cannot be ordered: this tenant is not entitled to the class, 9 free",
        order("t4-1q"),
        seen(
            replace(NINE, resource_name="nvidia.com/GRID_T4-1Q"),
            hoster(namespaces={"tenant-a": Namespace("tenant-a")}),
        ),
        "spec.className",
    ),
    Reason.MAX_COUNT_EXCEEDED: Refused(
        "asked 9, up to 8: one order, or one VM, has at most 8 units of this class, 9 free",
        order(count=9),
        seen(),
    ),
    Reason.BUDGET_EXCEEDED: Refused(
        "asked 4, up to 2: this tenant's budget has 2 left, 9 free", order(count=4), seen(left(2))
    ),
    Reason.NO_CAPACITY: Refused(
        "asked 4, up to 3: 3 free",
        order(count=4),
        seen(replace(NINE, capacity=Capacity(total=3, free=3, largest_set=3))),
    ),
    Reason.SET_DOES_NOT_FIT_ONE_NODE: Refused(
        "asked 6, up to 5: at most 5 can be had together, 9 free",
        order(count=6),
        seen(replace(NINE, capacity=replace(FREE_9, largest_set=5))),
    ),
}


def test_the_chain_stands_in_the_order_of_precedence_with_a_case_for_each_rule() -> None:
    assert [reason for reason, _ in rules.CHAIN] == list(ALONE)
    ranks = [PRECEDENCE[reason] for reason, _ in rules.CHAIN]
    assert ranks == sorted(ranks)


def test_every_limit_of_the_options_is_a_rule() -> None:
    assert {reason for reason, _ in BOUNDS} <= {reason for reason, _ in rules.CHAIN}


@pytest.mark.parametrize("reason", ALONE, ids=str)
def test_each_rule_refuses_in_the_words_of_the_option(reason: Reason) -> None:
    case = ALONE[reason]
    got = decided(case.order, case.inputs)
    assert isinstance(got, Refuse)
    assert (got.reason, got.message) == (reason.value, case.told)
    assert [(cause.reason, cause.field) for cause in got.causes] == [(reason, case.field)]


@pytest.mark.parametrize("reason", ALONE, ids=str)
def test_without_its_rule_each_case_is_let_in(reason: Reason) -> None:
    case = ALONE[reason]
    chain = tuple(each for each in rules.CHAIN if each[0] is not reason)
    assert isinstance(decided(case.order, case.inputs, chain), Allow)


@pytest.mark.parametrize("reason", ALONE, ids=str)
def test_no_refusal_counts_or_names_nodes(reason: Reason) -> None:
    assert "node" not in ALONE[reason].told


def test_an_order_that_can_be_met_is_let_in() -> None:
    for count in (None, 1, 8):
        assert decided(order(count=count), seen()) == Allow()


def test_several_limits_are_all_told_the_first_by_precedence_as_reason() -> None:
    got = decided(order(count=9), seen(left(2), max_count=4))
    assert isinstance(got, Refuse)
    assert got.reason == "MaxCountExceeded"
    assert got.message == (
        "asked 9, up to 2: one order, or one VM, has at most 4 units of this class, this tenant's "
        "budget has 2 left, 9 free"
    )
    assert [cause.reason for cause in got.causes] == ["MaxCountExceeded", "BudgetExceeded"]


@pytest.mark.parametrize("disclosure", [Disclosure.BUCKETED, Disclosure.HIDDEN])
@pytest.mark.parametrize(
    ("view", "count", "told"),
    [
        pytest.param(NINE, 8, None, id="there is enough"),
        pytest.param(
            replace(NINE, capacity=Capacity(total=3, free=3, largest_set=3)),
            4,
            "asked 4: fewer are free",
            id="fewer are free",
        ),
        pytest.param(
            replace(NINE, capacity=Capacity(total=3, bound=3)),
            1,
            "asked 1: fewer are free",
            id="none is free",
        ),
        pytest.param(
            replace(NINE, capacity=replace(FREE_9, largest_set=5)),
            6,
            "asked 6: fewer can be had together",
            id="not together",
        ),
        pytest.param(left(2), 4, "asked 4: this tenant's budget has 2 left", id="own budget"),
    ],
)
def test_a_stock_that_is_not_disclosed_is_compared_and_not_told(
    disclosure: Disclosure, view: View, count: int, told: str | None
) -> None:
    got = decided(order(count=count), seen(view, disclosure=disclosure))
    assert (got.message if isinstance(got, Refuse) else None) == told


@pytest.mark.parametrize(
    ("view", "told"),
    [
        pytest.param(replace(NINE, age=10.0), None, id="just in time"),
        pytest.param(
            replace(NINE, age=10.5), "it was last known 10 seconds ago", id="just too late"
        ),
        pytest.param(replace(NINE, age=59.0, age_max=60.0), None, id="in time by another bound"),
        pytest.param(
            replace(NINE, age=61.0, age_max=60.0),
            "it was last known 61 seconds ago",
            id="too late by another bound",
        ),
        pytest.param(View(float("inf")), "it is not known yet", id="never"),
        pytest.param(
            replace(NINE, age=42.0, unreadable={"resourcequotas": "list", "pods": "list"}),
            "we may not list pods, resourcequotas; it was last known 42 seconds ago",
            id="in part",
        ),
        pytest.param(
            View(float("inf"), unreadable={"pods": "list", "nodes": "watch"}),
            "we may not list pods; we may not watch nodes",
            id="in part, and never",
        ),
        pytest.param(View(1.0), "the class has just been changed", id="a class made just now"),
        pytest.param(
            replace(NINE, resource_name="n/old"), "the class has just been changed", id="renamed"
        ),
    ],
)
def test_a_view_of_the_cluster_that_promises_nothing_refuses(view: View, told: str | None) -> None:
    got = decided(order(), seen(view))
    start = (
        "GPU admission: the cluster cannot be read fully at the moment: the state of the cluster"
    )
    why = f"{start}: {told}"
    assert (got.message if isinstance(got, Refuse) else None) == (told and why)


def test_what_could_not_be_read_refuses_with_its_cause_before_anything_that_hangs_on_it() -> None:
    inputs = replace(seen(), unread=(Unread("the budgets", "no answer in time"),))
    got = decided(order("h100", 2000), inputs)
    assert isinstance(got, Refuse)
    assert (got.code, got.reason) == (503, "InputsUnreadable")
    assert got.message.endswith(": the budgets: no answer in time")


def test_a_claim_of_the_binder_is_not_judged() -> None:
    """Its VM may wait, for units and for budget."""
    labels = {"gpu.cozystack.io/template": "true"}
    asked = request(order(count=1024, labels=labels), kind=KIND, username=BINDER)
    assert rules.decide(asked, seen(left(0))) == Allow()


@pytest.mark.parametrize("mark", ["true", "false", ""])
def test_nobody_else_passes_an_order_off_as_the_binders(mark: str) -> None:
    labels = {"gpu.cozystack.io/template": mark}
    got = decided(order(labels=labels), seen())
    assert isinstance(got, Refuse)
    assert (got.code, got.reason) == (403, "Forbidden")
    assert got.causes[0].field == "metadata.labels[gpu.cozystack.io/template]"


def test_an_order_brings_no_finalizer_that_would_keep_it_when_it_is_deleted() -> None:
    ours = "gpu.cozystack.io/claim"  # as where it was saved and comes back
    assert decided(order(finalizers=[ours]), seen()) == Allow()
    got = decided(order(finalizers=[ours, "example.com/mine"]), seen())
    assert isinstance(got, Refuse)
    assert (got.code, got.reason) == (403, "Forbidden")
    assert got.message == (
        "metadata.finalizers: 'example.com/mine' would keep the order, its units and its class "
        "after it is deleted, and who orders cannot take it away; order without finalizers"
    )


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_only_the_creation_is_judged(operation: str) -> None:
    """Trouble 19: the class may be gone by the time that the last finalizer goes."""
    asked = request(
        None if operation == "DELETE" else order("gone", 1024),
        kind=KIND,
        operation=operation,
        old=order("gone", 1024),
    )
    assert rules.needs(asked) is None
    assert rules.decide(asked, seen(left(0), hoster(enabled=False))) == Allow()


def test_what_is_read_for_a_decision_is_named_before() -> None:
    asked = request(order("l40s"), kind=KIND, username=TENANT, namespace="tenant-x")
    assert rules.needs(asked) == OrderNeeds("tenant-x", "l40s")


def test_a_deprecated_class_comes_with_a_warning() -> None:
    view = replace(NINE, resource_name=CLASSES["v100"].resource_name)
    got = decided(order("v100"), seen(view))
    assert got == Allow(warnings=("GPU class v100 is deprecated and will close",))


# The same figures as the catalog's (rule 5.5), on worlds with figures worked by hand.


def state_of(world: World) -> ClusterState:
    state = ClusterState()
    for raw in world.objects:
        found = value(raw)
        if found is not None:
            state.apply(Put(found))
    return state


def inputs_of(state: ClusterState, namespace: str, class_name: str) -> OrderInputs:
    """As fresh reads and the state would give them."""
    tenants = Tenants()
    for name in state.namespaces:
        tenants.add(name)
    base = Hoster(
        GpuSettings(reading=state.settings),
        Classes(state.classes),
        state.kubevirt,
        tenants.line(namespace),
        state.namespaces,
    )
    return OrderInputs(base, View.of(state, namespace, class_name, 0.5))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_what_an_option_shows_can_be_ordered_and_one_more_cannot(world: World) -> None:
    """Troubles 1 and 8."""
    state = state_of(world)
    tried = 0
    for namespace in state.namespaces:
        for class_name in state.classes:
            shown = state.option(namespace, class_name)
            assert shown is not None
            if shown.orderable is None:
                continue
            inputs = inputs_of(state, namespace, class_name)
            if shown.orderable:
                fits = decided(order(class_name, shown.orderable), inputs)
                assert isinstance(fits, Allow), (namespace, class_name)
            refused = decided(order(class_name, shown.orderable + 1), inputs)
            assert isinstance(refused, Refuse), (namespace, class_name)
            assert refused.reason == shown.limited_by[0]
            if shown.limited_by[0] not in {Reason.DISABLED, Reason.NOT_OFFERED}:
                message = shown.message.removesuffix("; the class is deprecated and will close")
                assert refused.message == f"asked {shown.orderable + 1}, {message}"
            tried += 1
    disclosed = [each for each in state.classes.values() if each.disclosure is Disclosure.EXACT]
    assert tried or not disclosed
