"""A rush in small: `make soak` has it for two minutes, with 200 VMs over 50 nodes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.binder.drill import Drill
from tests.binder.replica import replicas
from tests.binder.stage import CALM, Size, stage
from tests.cluster.build import Binaries

SIZE = Size(seconds=12, machines=48, nodes=10)


async def test_in_a_rush_with_leaders_killed_no_unit_is_booked_twice_and_all_run_or_say_why_not(
    binaries: Binaries, run: Path, unique: Callable[[str], str]
) -> None:
    """Rules 7.1, 7.3, 7.4, 7.7, 7.9 and 3.2."""
    async with stage(run / "rush", binaries, SIZE) as plane, replicas(plane, unique, CALM) as start:
        report = await Drill(plane, start, SIZE, random.Random(6)).run()
    assert report.wrong == []
    assert report.kills >= 1
    assert min(report.carried_out) > 0, "no leader was killed before it did something"
    told = report.standing
    assert told["Running"] > 0
    assert told["NoCapacity"] + told["BudgetExceeded"] + told["SetDoesNotFitOneNode"] > 0
    assert report.repeated <= report.kills, "an event tells of a change of reason"
