"""What every test can ask for: a real control plane, names of its own, and our server on it."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.cluster.build import REPOSITORY, Binaries, built
from tests.cluster.cache import cache_folder, to_terminal
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.runs import run_folder
from tests.cluster.session import Cluster
from tests.summary import RECORDED, by_folder, recorded

# The machine is shared: an example's time says nothing, so no deadline.
settings.register_profile(
    "default", deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")

WITHOUT_PLANES = frozenset({"property", "simulation", "unit"})
"""Folders of which at most one file needs a control plane."""

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """The control plane's programs; `make test` has built them before."""
    return built(cache_folder(os.environ), to_terminal)


@pytest.fixture(scope="session")
def run() -> Iterator[Path]:
    """A folder of this run: keys, data and logs. It is left until the next run."""
    with run_folder(REPOSITORY / ".run" / "tests") as folder:
        yield folder


@pytest.fixture(scope="session")
async def plane(binaries: Binaries, run: Path) -> AsyncIterator[ControlPlane]:
    """The control plane of the run, with what only its owner can do."""
    async with control_plane(run / "plane", binaries) as plane:
        yield plane
        plane.check()  # one that died on the way explains the failures


@pytest.fixture(scope="session")
async def cluster(plane: ControlPlane) -> Cluster:
    """The control plane of the run, as its users see it.

    Nodes, classes and settings are everybody's: a test uses names and node labels of its own,
    and does not wait until its namespaces are gone.
    """
    return plane.cluster


@pytest.fixture(scope="session")
async def catalog(plane: ControlPlane) -> AsyncIterator[Catalog]:
    """Our API server on the run's control plane, installed as a user would."""
    catalog = Catalog(plane)
    try:
        await catalog.install()
        yield catalog
    finally:
        await catalog.stop()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes names that no other test has: `unique("node")` is `node-7`, then `node-8`."""

    def name(stem: str) -> str:
        return f"{stem}-{next(_numbers)}"

    return name


@pytest.fixture
async def namespace(cluster: Cluster, unique: Callable[[str], str]) -> str:
    """A namespace of the test's own, in which pods can be created."""
    name = unique("test")
    await cluster.create_namespace(name)
    return name


class ByFolder(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Which of the processes of `make test` gets which tests.

    Tests of a folder share control planes: one process has them all, one after the other. Tests
    that need no plane go by file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = Path(file).parts[1]
        return file if folder in WITHOUT_PLANES else folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFolder:
    """Share tests among processes, where there are several."""
    return ByFolder(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what tests recorded and where the time went; the runner's own closing line comes after.

    For all folders: the process that says it has loaded no other `conftest.py` of theirs.
    """
    for name, title in RECORDED.items():
        lines = recorded(terminalreporter, name)
        if lines:
            terminalreporter.section(title)
        for line in sorted(map(str, lines)):
            terminalreporter.write_line(line)
    reports = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    terminalreporter.section("minutes per folder")
    for folder, minutes, tests in by_folder((r.nodeid, r.duration) for r in reports):
        terminalreporter.write_line(f"{minutes:6.2f}  {folder}  ({tests} tests)")
