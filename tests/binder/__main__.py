"""The rush at length: `python -m tests.binder --seconds 120 --machines 200 --nodes 50`."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import sys
from dataclasses import fields

from tests.binder.drill import Drill
from tests.binder.replica import replicas
from tests.binder.stage import CALM, USUAL, Size, stage
from tests.cluster.build import REPOSITORY, built
from tests.cluster.cache import cache_folder, to_terminal
from tests.cluster.runs import run_folder


def main() -> int:
    """Returns the exit code: 1 where anything was wrong, or a usual reason never came up."""
    parser = argparse.ArgumentParser(prog="python -m tests.binder", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--machines", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    size = Size(given.seconds, given.machines, given.nodes)
    return asyncio.run(_rush(size, random.Random(given.seed)))


async def _rush(size: Size, chance: random.Random) -> int:
    numbers = itertools.count(1)
    binaries = built(cache_folder(os.environ), to_terminal)
    with run_folder(REPOSITORY / ".run" / "rush") as folder:
        async with (
            stage(folder / "plane", binaries, size) as plane,
            replicas(plane, lambda stem: f"{stem}-{next(numbers)}", CALM) as start,
        ):
            report = await Drill(plane, start, size, chance).run()
    for each in fields(report):
        value = getattr(report, each.name)
        sys.stdout.write(f"{each.name}: {dict(value) if isinstance(value, dict) else value}\n")
    missing = [reason for reason in USUAL if not report.told[reason]]
    if missing:
        sys.stdout.write(f"nobody waited for {', '.join(missing)}\n")
    return 1 if report.wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
