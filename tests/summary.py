"""What the end of a run says: how long each folder took, and what tests recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

RECORDED: Final = {
    "simulated": "how far the simulation got",
    "shown": "how long it took to show, from a write to the get unless told otherwise",
}
"""What tests record (`record_property`), and its title in the summary."""


def recorded(reporter: pytest.TerminalReporter, name: str) -> list[object]:
    """What tests recorded under a name, in whichever process they ran."""
    return [
        value
        for reports in reporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for property_name, value in report.user_properties
        if property_name == name
    ]


def by_folder(durations: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float, int]]:
    """Sum up what each part of each test took.

    Args:
        durations: a test's node id and seconds; a test may come more than once, for its set-up,
            its call and its tear-down.

    Yields:
        Folder, minutes and number of tests, the longest first.
    """
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for test, duration in durations:
        folder = test.partition("::")[0].rpartition("/")[0]
        seconds[folder] += duration
        tests[folder].add(test)
    for folder in sorted(seconds, key=lambda folder: -seconds[folder]):
        yield folder, seconds[folder] / 60, len(tests[folder])
