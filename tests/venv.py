"""Make the virtual environment that every other command runs in.

Run by the Makefile with whatever `python3` the machine has, so it takes only the standard
library, and says clearly when that Python is too old. What changed is made again, under a lock,
so that two commands may start at once.

    python3 tests/venv.py [FOLDER]
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements" / "dev.txt"


def say(text: str) -> None:
    """Show progress at once, also through a pipe."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def fingerprint(*parts: bytes) -> str:
    """One line that is different when any part or the Python is."""
    digest = hashlib.sha256(sys.version.encode())
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def packages_wanted() -> str:
    """The fingerprint of what is installed from the registry."""
    return fingerprint(REQUIREMENTS.read_bytes())


def project_wanted() -> str:
    """The fingerprint of our own entry: where it is and its metadata, not the tools' settings."""
    import tomllib  # newer than the oldest Python that has to understand this file

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return fingerprint(bytes(ROOT), json.dumps(project, sort_keys=True).encode())


def holds(stamp: Path, wanted: str) -> bool:
    """Whether a step was finished for what is wanted now."""
    python = stamp.parent / "bin" / "python"
    return os.access(python, os.X_OK) and stamp.exists() and stamp.read_text() == wanted


def run(*command: str) -> None:
    """Run a step; a failure shows what the step printed and ends the program."""
    step = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    started = time.monotonic()
    output = None
    try:
        while output is None:
            try:
                output, _ = step.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                say(f"virtual environment: {time.monotonic() - started:.0f} s; usually 60")
    finally:
        step.terminate()
        step.wait()
    if step.returncode:
        say(output.strip())
        sys.exit("this step failed: " + " ".join(command))


def make(folder: Path) -> None:
    """Do the steps whose stamp is missing; it comes last, so an interrupted step is done again."""
    pip = (str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "-q")
    packages, project = folder / "packages.stamp", folder / "project.stamp"
    if not holds(packages, packages_wanted()):
        say(f"virtual environment: installing requirements/dev.txt into {folder}")
        try:
            run(sys.executable, "-m", "venv", "--clear", str(folder))
        except SystemExit as failure:
            sys.exit(f"{failure}\nOn Debian and its like this needs the package python3-venv")
        run(*pip, "--require-hashes", "-r", str(REQUIREMENTS))
        packages.write_text(packages_wanted())
    if not holds(project, project_wanted()):
        # The build tools are pinned above; isolation would fetch others, and without hashes.
        run(*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
        project.write_text(project_wanted())


def main() -> None:
    """Make sure that the environment is there and fits."""
    if sys.version_info < OLDEST:
        sys.exit(
            "Python {}.{} or newer is needed, this is {}: name another with make PYTHON=…".format(
                *OLDEST, sys.version.split()[0]
            )
        )
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".venv").absolute()
    lock = ROOT / ".run" / "venv.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        make(folder)


if __name__ == "__main__":
    main()
