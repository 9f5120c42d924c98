"""Run a scenario again from its seed, or many scenarios for a number of steps."""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
from collections.abc import Sequence

import structlog

from tests.simulation.binders import DEFAULT, binder_named, invariants_of
from tests.simulation.network import FAULTS, Doom, Fate
from tests.simulation.scenarios import CHAOS, SCENARIOS, STORIES
from tests.simulation.simulation import Binder, Scenario, simulate


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 where something was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    names = sorted(SCENARIOS)
    parser.add_argument("scenario", nargs="?", choices=names, help="all by chance unless given")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins")
    parser.add_argument("--binder", default=DEFAULT, help="who is simulated")
    parser.add_argument("--steps", type=int, default=0, help="go on with the next seeds so long")
    parser.add_argument("--every-write", action="store_true", help="each fault at each write")
    parser.add_argument("--kill", help="end the first process at a write: before 7- or after 7+")
    parser.add_argument("--fate", action="append", default=[], help="of a write: 7=lost")
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        binder = binder_named(chosen.binder)
        doom = Doom(int(chosen.kill[:-1]), chosen.kill[-1] == "+") if chosen.kill else None
        fates = {int(n): Fate(fate) for n, _, fate in (each.partition("=") for each in chosen.fate)}
    except (LookupError, ValueError) as error:
        parser.error(str(error))
    if chosen.every_write:
        stories = [each for each in STORIES if chosen.scenario in {None, each.name}]
        return max(_at_every_write(story, chosen.seed, binder) for story in stories)
    scenarios = [SCENARIOS[chosen.scenario]] if chosen.scenario else list(CHAOS)
    steps = 0
    for seed in itertools.count(chosen.seed):
        for scenario in scenarios:
            report = simulate(
                scenario, seed, binder, doom=doom, fates=fates, invariants=invariants_of(binder)
            )
            _say(f"{report.told()}\n  history {report.digest}")
            steps += report.steps
            if report.broken:
                return 1
        if steps >= chosen.steps:
            break
    _say(f"{steps} steps, nothing broken")
    return 0


def _at_every_write(story: Scenario, seed: int, binder: Binder) -> int:
    """Run a story once for each of its writes and each thing that can happen to it."""
    judged = invariants_of(binder)
    whole = simulate(story, seed, binder, invariants=judged)
    for fate in FAULTS:
        for write in range(1, whole.writes + 1):
            report = simulate(story, seed, binder, fates={write: fate}, invariants=judged)
            if report.broken:
                _say(report.told())
                return 1
        _say(f"{story.name}: {whole.writes} writes, each once {fate}, nothing broken")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
