"""`make check`: every gate but the tests, all of them run even when one fails."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.build import REPOSITORY, built, vetted
from tests.cluster.cache import cache_folder, to_terminal

SCRIPTS = Path(sysconfig.get_path("scripts"))
MANIFESTS = REPOSITORY / "manifests"


@dataclass(frozen=True, slots=True)
class Gate:
    """One thing that must hold; `check` returns what is wrong, as lines."""

    name: str
    check: Callable[[], str]


def command(*arguments: str | Path) -> Callable[[], str]:
    """A gate that holds when a command succeeds."""

    def run() -> str:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.stdout or f"ended with {done.returncode}" if done.returncode else ""

    return run


def go_module() -> str:
    """`gofmt` and `go vet`; shows its progress, since the first time on a machine takes minutes."""
    return "\n".join(vetted(cache_folder(os.environ), to_terminal))


def manifests_render() -> str:
    """Every kustomization that stands alone renders; components are part of others."""
    kubectl = built(cache_folder(os.environ), to_terminal).controlplane
    problems = []
    for path in sorted(MANIFESTS.rglob("kustomization.yaml")):
        if yaml.safe_load(path.read_text())["kind"] == "Kustomization":
            folder = path.parent.relative_to(REPOSITORY)
            problem = command(kubectl, "kubectl", "kustomize", folder)()
            problems += [f"{folder}: {problem}"] if problem else []
    return "\n".join(problems)


GATES = (
    Gate("format", command(SCRIPTS / "ruff", "format", "--check", ".")),
    Gate("lint", command(SCRIPTS / "ruff", "check", ".")),
    Gate("types", command(SCRIPTS / "mypy")),
    Gate("import contracts", command(SCRIPTS / "lint-imports")),
    Gate("Go module", go_module),
    Gate("wheel", command(sys.executable, "-m", "tests.check_wheel")),
    Gate("manifests", manifests_render),
)


def check(gates: Sequence[Gate]) -> int:
    """Run the gates and say how each ended; returns the exit code."""
    failed = []
    for gate in gates:
        started = time.monotonic()
        problems = gate.check()
        seconds = time.monotonic() - started
        to_terminal(f"{'FAILED' if problems else 'ok':6}  {gate.name} ({seconds:.1f} s)")
        if problems:
            to_terminal(problems.rstrip())
            failed.append(gate.name)
    if failed:
        to_terminal(f"make check failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(check(GATES))
