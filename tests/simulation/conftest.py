"""Quiet logs for binders under simulation, and the figures of the runs at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.summary import recorded


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What a binder logs in a run, its seed can bring back."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how far the simulation got."""
    told = sorted(map(str, recorded(terminalreporter, "simulated")))
    if told:
        terminalreporter.section("simulated")
        for line in told:
            terminalreporter.write_line(line)
