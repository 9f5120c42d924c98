"""The binaries are built once, whole, by one builder at a time, and kept where others find them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cluster.build import REPOSITORY, BuildFailed, built, sources_key, vetted
from tests.cluster.cache import Unusable, cache_folder
from tests.cluster.processes import is_alive
from tests.cluster.waiting import wait_until
from tests.harness.programs import HEEDS_INTERRUPTS

PROGRAM = 'package main\n\nfunc main() { println("built") }\n'
SLOW_GO = """#!/bin/sh
case "$1" in
version) echo "go version go1.26.0 linux/amd64" ;;
*) echo $$ > "$PID_FILE"; exec sleep 3600 ;;
esac
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A Go module of the same shape as ours that compiles in a second."""
    folder = tmp_path / "module"
    for name in ("controlplane", "kwok"):
        (folder / "cmd" / name).mkdir(parents=True)
        (folder / "cmd" / name / "main.go").write_text(PROGRAM)
    (folder / "go.mod").write_text("module example.com/tiny\n\ngo 1.26.0\n")
    return folder


async def builder(
    cache: Path, module: Path, environ: dict[str, str] | None = None
) -> asyncio.subprocess.Process:
    """Build in a process of its own; it says on standard output what it is told to say."""
    code = (
        HEEDS_INTERRUPTS + "import sys, pathlib\n"
        "from tests.cluster.build import built\n"
        "cache, module = map(pathlib.Path, sys.argv[1:])\n"
        "print(built(cache, lambda line: print(line, flush=True), module=module).key)\n"
    )
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        cache,
        module,
        cwd=REPOSITORY,
        env={**os.environ, **(environ or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )


async def slow_builder(cache: Path, module: Path, folder: Path) -> asyncio.subprocess.Process:
    """A builder whose compiler never ends; its process id appears in `folder/pid`."""
    go = folder / "slow" / "go"
    go.parent.mkdir()
    go.write_text(SLOW_GO)
    go.chmod(0o755)
    path = f"{go.parent}:{os.environ['PATH']}"
    process = await builder(cache, module, {"PATH": path, "PID_FILE": str(folder / "pid")})

    async def compiles() -> bool:
        return (folder / "pid").exists() and (folder / "pid").read_text() != ""

    await wait_until(compiles, "the compiler runs")
    return process


def left_in(cache: Path) -> list[str]:
    return [path.name for path in (cache / "bin").iterdir()]


async def test_two_builders_at_once_compile_once(tmp_path: Path, module: Path) -> None:
    processes = [await builder(tmp_path, module) for _ in range(2)]
    outputs = [(await process.communicate())[0].decode() for process in processes]
    key = sources_key(module)
    assert [process.returncode for process in processes] == [0, 0]
    assert [output.splitlines()[-1] for output in outputs] == [key, key]
    assert sum("building Kubernetes" in output for output in outputs) == 1
    assert left_in(tmp_path) == [key]


def test_what_was_built_is_taken_from_the_cache(tmp_path: Path, module: Path) -> None:
    said: list[str] = []
    first = built(tmp_path, said.append, module=module)
    assert len(said) == 1
    assert built(tmp_path, said.append, module=module) == first
    assert len(said) == 1


def test_other_sources_are_built_beside(tmp_path: Path, module: Path) -> None:
    first = built(tmp_path, lambda _: None, module=module)
    (module / "cmd" / "kwok" / "main.go").write_text(PROGRAM.replace("built", "again"))
    second = built(tmp_path, lambda _: None, module=module)
    assert sorted(left_in(tmp_path)) == sorted([first.key, second.key])


def test_what_nothing_used_for_long_is_removed(tmp_path: Path, module: Path) -> None:
    first = built(tmp_path, lambda _: None, module=module)
    (module / "cmd" / "kwok" / "main.go").write_text(PROGRAM.replace("built", "again"))
    long_ago = first.folder.stat().st_mtime - 31 * 24 * 3600
    os.utime(first.folder, (long_ago, long_ago))
    second = built(tmp_path, lambda _: None, module=module)
    assert left_in(tmp_path) == [second.key]


def test_a_compile_error_is_shown_and_leaves_nothing(tmp_path: Path, module: Path) -> None:
    (module / "cmd" / "kwok" / "main.go").write_text("package main\n\nfunc main() { nothing() }\n")
    with pytest.raises(BuildFailed, match="undefined: nothing"):
        built(tmp_path, lambda _: None, module=module)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
async def test_a_builder_that_ends_ends_its_compiler_and_the_next_one_builds(
    tmp_path: Path, module: Path, number: signal.Signals
) -> None:
    process = await slow_builder(tmp_path, module, tmp_path)
    compiler = int((tmp_path / "pid").read_text())
    process.send_signal(number)
    assert await process.wait() != 0

    async def ended() -> bool:
        return not is_alive(compiler)

    await wait_until(ended, "the compiler has ended")
    binaries = built(tmp_path, lambda _: None, module=module)
    assert left_in(tmp_path) == [binaries.key]


def test_vetting_names_what_is_wrong(tmp_path: Path, module: Path) -> None:
    assert vetted(tmp_path, lambda _: None, module=module) == []
    careless = 'package main\n\nimport "fmt"\n\nfunc main()  { fmt.Printf("%d", "x") }\n'
    (module / "cmd" / "kwok" / "main.go").write_text(careless)
    problems = "\n".join(vetted(tmp_path, lambda _: None, module=module))
    assert "not formatted by gofmt: cmd/kwok/main.go" in problems
    assert "Printf format %d has arg" in problems


def test_the_cache_is_where_the_user_keeps_caches(tmp_path: Path) -> None:
    xdg, home = tmp_path / "xdg", tmp_path / "home"
    both = {"XDG_CACHE_HOME": str(xdg), "HOME": str(home)}
    assert cache_folder(both) == xdg / "cozystack-gpu"
    assert cache_folder({"HOME": str(home)}) == home / ".cache" / "cozystack-gpu"


def test_a_home_that_cannot_be_written_is_passed_over(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    folder = cache_folder({"XDG_CACHE_HOME": str(blocked), "HOME": str(tmp_path)})
    assert folder == tmp_path / ".cache" / "cozystack-gpu"


def test_without_any_setting_there_is_a_cache_all_the_same() -> None:
    try:
        assert cache_folder({}).is_dir()
    except Unusable as unusable:
        pytest.fail(str(unusable))
