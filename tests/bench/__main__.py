"""The benchmarks: `make bench`, or `python -m tests.bench cost --runs 1`.

Each prints its table and leaves `.run/bench/<name>.json`. They report; only a wrong result fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.bench import (
    admitting,
    cost,
    deciding,
    decoding,
    keeping_up,
    memory,
    openb,
    passing,
    placing,
)
from tests.bench.results import Row, table, write
from tests.bench.size import FULL

FOLDER = Path(".run/bench")
NAMES = ("cost", "decide", "pass", "decode", "memory", "storm", "admission", "placing")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _measures(given: argparse.Namespace) -> dict[str, Callable[[], list[Row]]]:
    runs: int = given.runs
    return {
        "cost": lambda: cost.measure(runs),
        "decide": lambda: deciding.measure(runs),
        "pass": lambda: passing.measure(runs),
        "decode": lambda: decoding.measure(runs),
        "memory": lambda: memory.measure(runs, FOLDER),
        "storm": lambda: keeping_up.measure(runs, FOLDER),
        "admission": lambda: admitting.measure(runs, FOLDER),
        "placing": lambda: placing.measure(runs, FOLDER),
        "openb": lambda: openb.measure(given.openb),
        "soak": lambda: keeping_up.measure(1, FOLDER, seconds=given.minutes * 60, seed=given.seed),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(NAMES)}; openb; soak")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--openb", type=Path, help="the folder of the openb trace, for openb")
    parser.add_argument("--minutes", type=int, default=60, help="of the soak")
    parser.add_argument("--seed", type=int, default=1, help="of the soak's changes")
    given = parser.parse_args()
    measures = _measures(given)
    unknown = sorted(set(given.names) - measures.keys())
    if unknown:
        parser.error(f"{unknown[0]}: expected {', '.join(measures)}")
    names = given.names or [*NAMES, *(["openb"] if given.openb else [])]
    if "openb" in names and given.openb is None:
        parser.error("openb: expected --openb with the folder of the trace")
    wrong = False
    for name in names:
        began = time.monotonic()
        runs = {"soak": 1, "openb": openb.SEEDS}.get(name, given.runs)
        say(f"\n== {name}: {runs} {'run' if runs == 1 else 'runs'}")
        rows = measures[name]()
        path = write(FOLDER, name, asdict(FULL), rows)
        say(f"{table(rows)}\n({time.monotonic() - began:.0f} s; {path})")
        wrong |= any(row.holds is False for row in rows if row.what.startswith("final state"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
