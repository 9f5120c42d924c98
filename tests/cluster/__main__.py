"""The commands behind the Makefile: build, up, down."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from tests.cluster import supervisor
from tests.cluster.build import REPOSITORY, Binaries, BuildFailed, built
from tests.cluster.cache import Unusable, cache_folder, to_terminal
from tests.cluster.everything import TENANT
from tests.cluster.up import Failed, down, remains, up

RUN = REPOSITORY / ".run"
INTERRUPTED = 130


def main() -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--run", type=Path, default=RUN, help="the folder of all that it writes")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="compile the control plane unless the cache has it")
    commands.add_parser("up", help="have everything running in the background")
    commands.add_parser("down", help="end it")
    supervise = commands.add_parser("supervise", help="what runs in the background; not for hands")
    supervise.add_argument("folder", type=Path)
    supervise.add_argument("binaries", type=Path)
    arguments = parser.parse_args()
    run: Path = arguments.run
    try:
        match arguments.command:
            case "build":
                built(cache_folder(os.environ), to_terminal)
            case "up":
                _up(run)
            case "down":
                to_terminal("it is down" if down(run, to_terminal) else "nothing was up")
            case _:
                folder: Path = arguments.binaries
                supervisor.main(arguments.folder, Binaries(folder, folder.name))
    except (BuildFailed, Failed, Unusable, TimeoutError) as problem:
        to_terminal(f"failed: {problem}")
        return 1
    except KeyboardInterrupt:
        to_terminal(f"interrupted; {remains(run)}")
        return INTERRUPTED
    return 0


def _up(folder: Path) -> None:
    binaries = built(cache_folder(os.environ), to_terminal)
    started = time.monotonic()
    up(folder, binaries, to_terminal)
    run = os.path.relpath(folder)
    to_terminal(
        f"up after {time.monotonic() - started:.0f} s\n"
        f"  as the administrator: {run}/bin/kubectl …\n"
        f"  as {TENANT}: {run}/bin/kubectl --kubeconfig {run}/tenant.kubeconfig …\n"
        f"  logs: {run}/log/; end it: make down"
    )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    if sys.argv[1:2] != ["supervise"]:  # that one heeds signals in its loop
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGHUP, _interrupt)
    sys.exit(main())
