"""What a class that closes and a budget mean for a VM (rule 6.1)."""

from __future__ import annotations

from dataclasses import replace

from admission import vmi as rules
from admission.inputs import View, VmiInputs
from admission.review import Allow, Refuse
from shared.core.budgets import Remaining
from shared.core.model import (
    Claim,
    Placement,
    Vm,
)
from shared.core.terms import LimitingLevel
from tests.unit.admission.building import (
    CLASSES,
    GA100,
    HOSTER,
    entries,
    hoster,
    request,
    vmi,
)
from tests.unit.admission.vms import (
    BY_SCHEDULER,
    CLASSES_FIELD,
    CLOSING,
    KIND,
    ONE,
    PLAIN,
    TRAIN,
    claimed,
    of_vm,
    units,
    verdict,
    view,
)
from tests.unit.scripted_api import Raw


@units(
    all_the_units_there_may_be=(vmi(entries(("l40s", 1024))), PLAIN, "1024"),
    summed_before_expanding=(vmi(entries(("l40s", 10**15), ("l40s", 1))), PLAIN, "TooManyUnits"),
    claims_count_as_well=(
        vmi(entries(("l40s", 1023)), '["train"]'),
        claimed(TRAIN),
        "TooManyUnits",
    ),
    claims_alone=(
        vmi(claims='["train","big"]'),
        claimed(TRAIN, Claim("tenant-a", "big", "l40s", 1022)),
        "1024",
    ),
    thirty_two_entries=(vmi(entries(*[("l40s", 1)] * 32)), PLAIN, "32"),
    thirty_three_entries=(vmi(entries(*[("l40s", 1)] * 33)), PLAIN, "TooManyUnits"),
)
def test_how_many_units_and_entries_a_vm_may_have(thing: Raw, inputs: VmiInputs, want: str) -> None:
    assert verdict(thing, inputs) == want


@units(
    older_than_the_closing=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        of_vm("2026-11-29T11:59:59Z"),
        "1",
    ),
    made_in_the_same_second=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        of_vm("2026-11-29T12:00:00Z"),
        "1",
    ),
    younger=(vmi(CLOSING, vm=("vm1", "vm-1")), of_vm("2026-11-29T12:00:01Z"), "ClassClosed"),
    the_same_moment_in_another_zone=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        of_vm("2026-11-29T13:59:59+02:00"),
        "1",
    ),
    closed_a_moment_ago_so_that_nobody_has_dated_it=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        VmiInputs(
            hoster(replace(CLASSES["p40"], closed_since="")),
            owner=Vm("tenant-a", "vm1", "vm-1", "2026-11-29T12:00:01Z"),
        ),
        "1",
    ),
    without_a_vm=(vmi(CLOSING), PLAIN, "ClassClosed"),
    with_a_vm_that_is_gone=(vmi(CLOSING, vm=("vm1", "vm-1")), PLAIN, "ClassClosed"),
    with_another_vm_of_the_name=(
        vmi(CLOSING, vm=("vm1", "vm-0")),
        of_vm("2026-11-29T10:00:00Z"),
        "ClassClosed",
    ),
    posing_as_an_older_vms=(
        vmi(CLOSING, name="other", vm=("vm1", "vm-1")),
        of_vm("2026-11-29T10:00:00Z"),
        "ClassClosed",
    ),
)
def test_a_closed_class_starts_the_vms_that_are_older_than_its_closing(
    thing: Raw, inputs: VmiInputs, want: str
) -> None:
    assert verdict(thing, inputs) == want


FOUR = vmi(entries(("a100", 2), ("a100", 2)))


@units(
    the_binder_checks_it_later=(FOUR, VmiInputs(HOSTER, views={"a100": view(0)}), "4"),
    unlimited=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": replace(view(0), remaining=None)}),
        "4",
    ),
    just_enough=(FOUR, VmiInputs(BY_SCHEDULER, views={"a100": view(4)}), "4"),
    one_too_few=(FOUR, VmiInputs(BY_SCHEDULER, views={"a100": view(3)}), "BudgetExceeded"),
    overdrawn=(FOUR, VmiInputs(BY_SCHEDULER, views={"a100": view(-3)}), "BudgetExceeded"),
    not_seen=(FOUR, VmiInputs(BY_SCHEDULER), "InputsUnreadable"),
    seen_too_long_ago=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": view(9, age=10.1)}),
        "InputsUnreadable",
    ),
    seen_just_in_time=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": view(9, age=10.0)}),
        "4",
    ),
    seen_in_part=(
        FOUR,
        VmiInputs(
            BY_SCHEDULER,
            views={"a100": replace(view(9), unreadable={"resourcequotas": "list"})},
        ),
        "InputsUnreadable",
    ),
    seen_with_another_resource=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": replace(view(9), resource_name="n/old")}),
        "InputsUnreadable",
    ),
    claims_are_in_the_budget_already=(
        vmi(claims='["train"]'),
        VmiInputs(BY_SCHEDULER, claims={"train": TRAIN}, views={"a100": view(0)}),
        "2",
    ),
)
def test_a_budget_refuses_only_where_nobody_checks_it_later(
    thing: Raw, inputs: VmiInputs, want: str
) -> None:
    assert verdict(thing, inputs) == want


def test_a_budget_of_nothing_is_told_as_the_option_tells_it() -> None:
    got = rules.decide(request(FOUR, kind=KIND), VmiInputs(BY_SCHEDULER, views={"a100": view(-3)}))
    assert isinstance(got, Refuse)
    assert got.message == (
        f"{CLASSES_FIELD}[0]: class a100: asked 4, cannot be ordered: this tenant's budget has 0 "
        "left"
    )


def test_a_budget_above_is_told_as_such_and_not_as_the_tenant_s_own() -> None:
    above = replace(view(0), remaining=Remaining(3, LimitingLevel.ANCESTOR))
    got = rules.decide(request(FOUR, kind=KIND), VmiInputs(BY_SCHEDULER, views={"a100": above}))
    assert isinstance(got, Refuse)
    assert got.message == (
        f"{CLASSES_FIELD}[0]: class a100: asked 4, up to 3: the budget of a tenant above has 3 left"
    )


def test_a_vm_is_never_refused_for_lack_of_units() -> None:
    """Trouble 29: a refusal at the start sends a VM into KubeVirt's growing pauses; it waits."""
    nothing_free = View(1.0, GA100)
    for placement in Placement:
        inputs = VmiInputs(hoster(placement=placement), views={"a100": nothing_free})
        assert verdict(vmi(ONE), inputs) == "1"


def test_a_deprecated_class_comes_with_a_warning() -> None:
    got = rules.decide(request(vmi(entries(("v100", 1), ("v100", 1))), kind=KIND), PLAIN)
    assert isinstance(got, Allow)
    assert got.warnings == ("GPU class v100 is deprecated and will close",)
