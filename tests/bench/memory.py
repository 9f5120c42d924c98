"""What a process weighs that has read everything, and how long that takes."""

from __future__ import annotations

from pathlib import Path

from tests.bench.processes import dump, read, replayed
from tests.bench.results import Row, at_most
from tests.bench.size import FULL, Size

RSS_MAX_MIB = 250.0
PLACING_RSS_MAX_MIB = 500.0


def measure(runs: int, folder: Path, size: Size = FULL) -> list[Row]:
    """Read a dump through the real informer, in a process of its own each time."""
    return [
        *_rows("", RSS_MAX_MIB, runs, folder, size),
        *_rows("for placing: ", PLACING_RSS_MAX_MIB, runs, folder, size, "--placing"),
    ]


def _rows(
    reader: str, most: float, runs: int, folder: Path, size: Size, *arguments: str
) -> list[Row]:
    found = []
    for _ in range(runs):
        with replayed(dump(folder, size)) as address:
            found.append(read(address, *arguments))
    counts = found[0]["objects"]
    expected = {"nodes": size.nodes, "pods": size.pods, "gpuclaims": size.claims}
    assert {name: counts[name] for name in expected} == expected, counts

    def row(what: str, name: str, unit: str) -> Row:
        return Row(f"{reader}  {what}", tuple(each[name] for each in found), unit)

    return [
        at_most(
            f"{reader}resident memory after everything was read and garbage collected",
            [each["rss"] for each in found],
            most,
            "MiB",
        ),
        row("of it before anything was read", "rss_started", "MiB"),
        row("most while reading", "rss_peak", "MiB"),
        row("from connecting to synced", "synced_seconds", "s"),
        row("processor time of the reading process", "synced_cpu_seconds", "s"),
        row("a turn of the loop came late by, p99", "hold_up_p99", "s"),
        row("a turn of the loop came late by, most", "hold_up_most", "s"),
    ]
