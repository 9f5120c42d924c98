"""Whether figures keep up with a storm of changes, and whether none was missed."""

from __future__ import annotations

from pathlib import Path

from tests.bench.processes import dump, read, replayed
from tests.bench.results import Row, at_most
from tests.bench.size import FULL, Size

RATE = 200
SECONDS = 30
LAG_MAX_SECONDS = 1.0
"""Behind by more is falling behind; options are read every 50 ms."""


def measure(
    runs: int, folder: Path, size: Size = FULL, seconds: int = SECONDS, seed: int = 1
) -> list[Row]:
    """Storms over a dump, each with a server and a reading process of its own."""
    found = []
    for run in range(runs):
        with replayed(dump(folder, size)) as address:
            given = {"rate": RATE, "seconds": seconds, "seed": seed + run}
            arguments = [text for name, each in given.items() for text in (f"--{name}", str(each))]
            found.append(read(address, *arguments))

    def row(what: str, name: str, unit: str = "") -> Row:
        return Row(what, tuple(each[name] for each in found), unit)

    return [
        Row(
            "final state equal to one read anew (1: yes)",
            tuple(float(each["is_equal"]) for each in found),
            "",
            "1",
            all(each["is_equal"] for each in found),
        ),
        at_most(
            "from sent to read again, most",
            [each["lag_most"] for each in found],
            LAG_MAX_SECONDS,
            "s",
        ),
        row("from sent to read again, p99", "lag_p99", "s"),
        row("from sent to read again, median", "lag_median", "s"),
        row("changes sent", "sent"),
        row("options read again for 50 tenants", "options_read"),
        row("processor time of the reading process, share of one core", "cpu_share"),
        row("the sender's own delay, most", "sender_latest", "s"),
        row("resident memory before", "rss", "MiB"),
        row("resident memory after", "rss_after_storm", "MiB"),
    ]
