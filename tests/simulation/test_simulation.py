"""The simulation itself: it finds faults, finds none where there are none, and repeats itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.build import REPOSITORY
from tests.kubevirt.objects import condition
from tests.simulation.binders import DEFAULT, binder_named, invariants_of
from tests.simulation.judge import INVARIANTS
from tests.simulation.naive import Naive
from tests.simulation.naive_hands import Fault
from tests.simulation.network import Doom, Fate
from tests.simulation.scenarios import CHAOS, REFUSED, SCENARIOS, STORIES
from tests.simulation.seen import CLAIMS, Seen
from tests.simulation.simulation import Scenario, simulate
from tests.simulation.store import DELETED, Change

OURS = binder_named(DEFAULT)
JUDGED = invariants_of(OURS)

STEPS_MIN = 50_000
"""So many steps in all scenarios together."""

SEEDS_MIN = 3
"""So many runs of each scenario at least."""

SEEDS_MAX = 60


def shell(*arguments: str, hashes: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("binder", ["naive", DEFAULT])
def test_the_same_seed_makes_the_same_history_in_any_process(binder: str) -> None:
    named = ("--binder", binder)
    one, other = (shell("storm", "--seed", "5", *named, hashes=hashes) for hashes in ("1", "2"))
    assert "history" in one.stdout, one.stderr
    assert one.stdout == other.stdout


def test_another_seed_makes_another_history() -> None:
    one, other = (simulate(SCENARIOS["storm"], seed, Naive()) for seed in (5, 6))
    assert one.digest != other.digest


def test_a_run_that_fails_names_the_command_that_repeats_it() -> None:
    report = simulate(SCENARIOS["fair"], 3, Naive(frozenset({Fault.PINS_FIRST})))
    assert report.broken
    assert report.replay in report.told()
    _, _, *arguments = report.replay.split()
    again = shell(*arguments[1:])
    assert again.returncode == 1
    assert report.broken[0] in again.stdout
    assert report.digest in again.stdout


def test_the_command_names_what_was_not_left_to_chance() -> None:
    report = simulate(
        SCENARIOS["a-vm-starts"], 1, Naive(), doom=Doom(3, after=True), fates={6: Fate.LATE}
    )
    assert report.killed
    given = "a-vm-starts --seed 1 --binder naive --kill 3+ --fate 6=late"
    assert report.replay == f"python -m tests.simulation {given}"
    again = shell(*given.split())
    assert f"history {report.digest}" in again.stdout, again.stderr


FOUND: dict[Fault, tuple[str, str]] = {
    Fault.OLD_VIEW: ("restarts", "no_unit_is_booked_twice"),
    Fault.FORGETS_ITS_OWN: ("fair", "no_unit_is_booked_twice"),
    Fault.UNFENCED: ("fair", "at rest"),
    Fault.KEEPS_TERM: ("two-binders", "a_booking_is_of_the_present_term"),
    Fault.LOWERS_TERM: ("two-binders", "a_booking_is_of_the_present_term"),
    Fault.PINS_FIRST: ("a-vm-starts", "a_launcher_starts_where_its_claims_are"),
    Fault.PINS_BLINDLY: ("repeated-writes", "a_launcher_starts_where_its_claims_are"),
    Fault.ONE_TERM: ("two-terms", "a_launcher_starts_where_its_claims_are"),
    Fault.ALL_GATES: ("a-foreign-gate", "only_its_own_gate_and_pin"),
    Fault.SPLITS: ("fair", "a_launcher_starts_where_its_claims_are"),
    Fault.NO_BUDGET: ("fair", "budgets_hold"),
    Fault.NO_MEMORY: ("a-node-refuses", "a_node_that_refused_is_skipped"),
    Fault.IGNORES_OFF: ("a-vm-waits-while-all-is-off", "nothing_is_placed_while_off"),
    Fault.DELETES_GATED: ("room-appears", "no_launcher_is_taken_away_without_need"),
    Fault.FREES_EARLY: (
        "an-order-ends-while-it-is-used",
        "units_are_kept_while_a_pod_holds_them",
    ),
    Fault.TELLS_AGAIN: ("room-appears", "a_reason_is_told_once"),
    Fault.REWRITES: ("fair", "at rest"),
    Fault.WRITES_VMI: ("a-vm-starts", "others_are_left_alone"),
    Fault.STARVES: ("room-appears", "at rest"),
}


@pytest.mark.parametrize("fault", FOUND, ids=lambda fault: fault.name)
def test_a_fault_is_found_by_its_scenario(fault: Fault) -> None:
    name, invariant = FOUND[fault]
    for seed in range(1, SEEDS_MAX):
        report = simulate(SCENARIOS[name], seed, Naive(frozenset({fault})))
        if report.broken:
            assert any(each.startswith(invariant) for each in report.broken), report.told()
            return
    raise AssertionError(f"{fault}: {name} does not find it")


def test_every_fault_is_looked_for() -> None:
    assert set(FOUND) | {Fault.UNSETTLED} == set(Fault)


def test_a_write_that_comes_late_as_its_node_fails_breaks_nothing() -> None:
    """The pin among them; nothing is given away that a late write may still take."""
    scenario = SCENARIOS["the-node-fails-as-a-vm-starts"]
    for seed in range(1, 4):
        whole = simulate(scenario, seed, OURS, invariants=JUDGED)
        for write in range(1, whole.writes + 1):
            fates = {write: Fate.LATE}
            report = simulate(scenario, seed, OURS, fates=fates, invariants=JUDGED)
            assert not report.broken, report.told()


def test_a_pin_that_comes_late_finds_its_booking_still_there() -> None:
    """The sixth write is the pin; its node fails before it is known what became of it."""
    broken = set[str]()
    for seed in range(1, 11):
        for faults in (frozenset[Fault](), frozenset({Fault.UNSETTLED})):
            scenario, fates = SCENARIOS["the-node-fails-as-a-vm-starts"], {6: Fate.LATE}
            report = simulate(scenario, seed, Naive(faults), fates=fates)
            assert faults or not report.broken, report.told()
            broken |= {each.partition(" ")[0] for each in report.broken}
    assert "a_launcher_starts_where_its_claims_are" in broken


@pytest.mark.parametrize("scenario", CHAOS, ids=lambda each: each.name)
def test_nothing_is_broken_whatever_happens(
    scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    steps, reached = 0, Counter[str]()
    for seed in range(1, SEEDS_MAX):
        report = simulate(scenario, seed, OURS, invariants=JUDGED)
        assert not report.broken, report.told()
        steps += report.steps
        reached += report.reached
        if seed >= SEEDS_MIN and steps >= STEPS_MIN / len(CHAOS):
            break
    told = f"{scenario.name}: {steps} steps of {seed} seeds, launchers {dict(reached)}"
    record_property("simulated", told)
    assert steps >= STEPS_MIN / len(CHAOS)
    assert reached["Running"] >= 10, "it would show nothing"


@pytest.mark.parametrize("scenario", STORIES, ids=lambda each: each.name)
def test_a_story_ends_well_with_the_process_killed_at_any_of_its_writes(
    scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    whole = simulate(scenario, 1, OURS, invariants=JUDGED)
    assert not whole.broken, whole.told()
    assert whole.writes > 0
    for after in (False, True):
        resumed = 0
        for write in range(1, whole.writes + 1):
            report = simulate(scenario, 1, OURS, doom=Doom(write, after), invariants=JUDGED)
            assert not report.broken, report.told()
            resumed += report.killed
        when = "after" if after else "before"
        told = f"{whole.writes} writes, {resumed} times killed {when} one and resumed"
        record_property("simulated", f"{scenario.name}: {told}")
        assert resumed == whole.writes


@pytest.mark.parametrize("scenario", [*CHAOS, *STORIES], ids=lambda each: each.name)
def test_a_binder_without_faults_is_not_complained_of(scenario: Scenario) -> None:
    """The small one, so that what our own may not do is not what the judge forbids by mistake."""
    report = simulate(scenario, 1, Naive())
    assert not report.broken, report.told()


def test_a_node_that_refuses_is_passed_over() -> None:
    """Our own does not remember it yet (rule 7.10)."""
    report = simulate(REFUSED, 1, Naive())
    assert not report.broken, report.told()
    assert report.reached["Failed"] == 1
    assert report.reached["Running"] == 1


def test_claims_say_that_a_start_is_refused() -> None:
    """That they do not say it for longer is judged at rest."""
    told = set[str]()

    def listening(seen: Seen, change: Change) -> Iterator[str]:
        del seen
        if change.kind.resource == CLAIMS and change.what != DELETED:
            attached = condition(change.after, "Attached")
            told.add(f"{attached.get('status')} {attached.get('message', '')}".strip())
        return iter(())

    report = simulate(SCENARIOS["a-start-is-denied"], 1, OURS, invariants=[*JUDGED, listening])
    assert not report.broken, report.told()
    refused = "the platform refuses the start of the VM (Forbidden); it is tried again"
    assert any(each.startswith(f"True {refused}") for each in told)


def test_each_invariant_can_be_taken_out() -> None:
    binder = Naive(frozenset({Fault.WRITES_VMI}))
    without = [each for each in INVARIANTS if each.__name__ != "others_are_left_alone"]
    assert simulate(SCENARIOS["a-vm-starts"], 1, binder).broken
    assert not simulate(SCENARIOS["a-vm-starts"], 1, binder, invariants=without).broken
