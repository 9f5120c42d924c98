"""A replaying server and a reading process, each a process of its own, ended with ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

from tests.bench.replay import write_dump
from tests.bench.size import Size
from tests.bench.world import make
from tests.cluster import tether
from tests.cluster.build import REPOSITORY

_DONE = "complete"


def tied(module: str, *arguments: str) -> list[str]:
    """The command of a module that ends when this process does."""
    python = sys.executable
    return [python, "-I", "-S", tether.__file__, str(os.getpid()), python, "-m", module, *arguments]


def dump(folder: Path, size: Size) -> Path:
    """A dump of a world on disk; one that is there already is used again."""
    path = folder / f"dump-{crc32(f'{size} {_sources()}'.encode()):08x}"
    if not (path / _DONE).exists():
        write_dump(path, make(size))
        (path / _DONE).touch()
    return path


def _sources() -> str:
    """Changes whenever the code that makes a dump does."""
    here = Path(__file__).parent
    sources = [here / f"{name}.py" for name in ("world", "shapes", "hardware")]
    return "".join(path.read_text() for path in sources + sorted(here.glob("raw*.py")))


@contextmanager
def replayed(folder: Path) -> Iterator[str]:
    """Serve a dump; yields the address."""
    command = tied("tests.bench.replay", str(folder))
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            if not address:
                raise RuntimeError("the replaying server ended before it said its address")
            yield address
        finally:
            server.terminate()


def read(address: str, *arguments: str) -> dict[str, Any]:
    """Let a process read; returns what it told."""
    done = subprocess.run(
        tied("tests.bench.reading", address, *arguments),
        cwd=REPOSITORY,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the reading process ended with {done.returncode}: {done.stderr!r}")
    found: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
    return found
