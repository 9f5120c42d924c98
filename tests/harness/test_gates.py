"""What `make check` and `make test` say."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.check import Gate, check, command
from tests.check_wheel import Wrong, compare, files_in_git
from tests.cluster.build import REPOSITORY
from tests.summary import by_folder


def test_all_gates_run_though_one_fails_and_each_says_how_it_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gates = (
        Gate("first", command("sh", "-c", "echo twelve is odd; exit 1")),
        Gate("second", command("true")),
        Gate("third", command("sh", "-c", "exit 3")),
    )
    assert check(gates) == 1
    said = capsys.readouterr().err
    assert said.count("FAILED") == 2
    assert "twelve is odd" in said
    assert "ended with 3" in said
    assert said.splitlines()[-1] == "make check failed: first, third"


def test_gates_that_hold_pass() -> None:
    assert check([Gate("holds", command("true"))]) == 0


def write_wheel(path: Path, names: set[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        archive.writestr("x-1.dist-info/entry_points.txt", "[console_scripts]\na = b:c\n")
    return path


def test_a_wheel_that_lacks_a_file_or_has_one_too_many_is_found(tmp_path: Path) -> None:
    expected = files_in_git()
    assert "shared/vocabulary.py" in expected
    whole = write_wheel(tmp_path / "whole.whl", expected)
    assert compare(whole) == "[console_scripts]\na = b:c\n"
    names = expected - {"shared/vocabulary.py"} | {"tests/__init__.py"}
    broken = write_wheel(tmp_path / "broken.whl", names)
    with pytest.raises(Wrong, match=r"missing \['shared/vocabulary.py'\].*\['tests/__init__.py'\]"):
        compare(broken)


def test_minutes_are_summed_per_folder_and_the_longest_comes_first() -> None:
    durations = [
        ("tests/unit/test_a.py::test_one", 30.0),
        ("tests/api/test_b.py::test_two", 60.0),
        ("tests/api/test_b.py::test_two", 30.0),
        ("tests/api/test_c.py::test_three[a::b/c]", 30.0),
    ]
    assert list(by_folder(durations)) == [("tests/api", 2.0, 2), ("tests/unit", 0.5, 1)]


def test_what_tests_record_is_in_the_summary_whichever_process_ran_them() -> None:
    story = "tests/simulation/test_simulation.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", story, "-k", "killed and a-vm-starts"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "how far the simulation got" in done.stdout
    assert "a-vm-starts: 10 writes, 10 times killed after one and resumed" in done.stdout
