"""The wheel holds what the packages hold, and its commands start from it alone.

A flat source tree hides a broken wheel: in the checkout everything imports. So the wheel is
built, its list of files compared with git's, and installed where the checkout is not.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES: tuple[str, ...] = tuple(
    tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]["packages"]
)


class Wrong(Exception):
    """What is wrong with the wheel."""


def run(*command: str | Path, folder: Path, environ: dict[str, str] | None = None) -> str:
    """What a command prints.

    Raises:
        Wrong: when it fails, with what it printed.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise Wrong(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(folder: Path) -> Path:
    """Build the wheel with the pinned tools of this environment."""
    options = ("--wheel", "--no-isolation", "--outdir", folder)
    run(sys.executable, "-m", "build", *options, REPOSITORY, folder=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def files_in_git() -> set[str]:
    """The files of the packages: in git, or new and not ignored."""
    options = ("--cached", "--others", "--exclude-standard", "--deduplicate")
    listed = run("git", "ls-files", *options, "--", *PACKAGES, folder=REPOSITORY)
    return {line for line in listed.splitlines() if (REPOSITORY / line).exists()}


def compare(wheel: Path) -> str:
    """Compare the wheel's files with git's; returns its entry points.

    Raises:
        Wrong: when a file is missing, or there that should not be.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (points,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        entry_points = archive.read(points).decode()
    held = {name for name in names if ".dist-info/" not in name}
    expected = files_in_git()
    if held != expected:
        raise Wrong(
            f"{wheel.name}: missing {sorted(expected - held)}, too many {sorted(held - expected)}"
        )
    return entry_points


def start_commands(wheel: Path, entry_points: str, folder: Path) -> list[str]:
    """Start each command of the wheel where no checkout is; returns their names.

    Raises:
        Wrong: when one does not start.
    """
    scratch = folder / "installed"
    venv.create(scratch, with_pip=False)
    python = scratch / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "-q", "--no-deps", "--no-index", wheel, folder=folder)
    # The dependencies of this environment. Its own path files, of which one leads to the
    # checkout, are not read from there.
    purelib = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder
    )
    path_file = Path(purelib.strip()) / "dependencies.pth"
    path_file.write_text(sysconfig.get_path("purelib") + "\n")
    environ = {"PATH": os.environ["PATH"], "PYTHONSAFEPATH": "1"}
    parsed = configparser.ConfigParser()
    parsed.read_string(entry_points)
    commands = list(parsed["console_scripts"])
    for name in commands:
        run(scratch / "bin" / name, "--help", folder=folder, environ=environ)
    return commands


def main() -> int:
    """Check the wheel; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="wheel-") as beside:
        folder = Path(beside)
        try:
            wheel = build(folder)
            commands = start_commands(wheel, compare(wheel), folder)
        except Wrong as wrong:
            sys.stderr.write(f"{wrong}\n")
            return 1
    sys.stderr.write(f"{wheel.name}: whole; started {', '.join(commands)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
