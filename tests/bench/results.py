"""Figures of several runs: their spread, the file they are kept in, the table that is shown."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import orjson
from typing_extensions import override

from tests.cluster.build import REPOSITORY


@dataclass(frozen=True, slots=True)
class Spread:
    """The smallest, middle and largest of some runs."""

    least: float
    middle: float
    most: float

    @override
    def __str__(self) -> str:
        return f"{shown(self.least)} / {shown(self.middle)} / {shown(self.most)}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    Attributes:
        what: what was measured, at which size.
        runs: the figure of each run.
        unit: of the figures; empty for a ratio or a count.
        target: what the figure is to be, as in rule 11 or in the question that was asked.
        holds: whether it is; None where there is no target.
        is_detail: kept in the file and not shown.
    """

    what: str
    runs: tuple[float, ...]
    unit: str = ""
    target: str = ""
    holds: bool | None = None
    is_detail: bool = False

    @property
    def spread(self) -> Spread:
        """Over the runs."""
        return spread(self.runs)


def at_most(what: str, runs: Sequence[float], limit: float, unit: str = "") -> Row:
    """A figure whose middle run is to be at most this."""
    target = f"at most {shown(limit)} {unit}".rstrip()
    return Row(what, tuple(runs), unit, target, median(runs) <= limit)


def spread(runs: Sequence[float]) -> Spread:
    """Over at least one run."""
    return Spread(min(runs), median(runs), max(runs))


def shown(figure: float) -> str:
    """A figure with three digits that mean something."""
    if figure == int(figure) and abs(figure) < 1e9:
        return f"{int(figure)}"
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def table(rows: Iterable[Row]) -> str:
    """Rows as lines of text, in columns."""
    heads = ("", "min / median / max", "unit", "target", "")
    verdicts = {None: "", True: "held", False: "MISSED"}
    cells = [heads] + [
        (row.what, str(row.spread), row.unit, row.target, verdicts[row.holds])
        for row in rows
        if not row.is_detail
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def write(folder: Path, name: str, size: Mapping[str, object], rows: Sequence[Row]) -> Path:
    """Keep the figures of one benchmark, with what one needs to get them again."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    found = {
        "name": name,
        "command": " ".join(["python", "-m", "tests.bench", *sys.argv[1:]]),
        **_commit(),
        "machine": f"{platform.machine()}, {platform.system()} {platform.release()}",
        "processor": _processor(),
        "python": platform.python_version(),
        "size": dict(size),
        "rows": [asdict(row) | {"spread": asdict(row.spread)} for row in rows],
    }
    path.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    return path


def _commit() -> dict[str, object]:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "changed": changed.splitlines()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()
