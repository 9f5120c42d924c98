"""The page of troubles at admission names tests that exist, and is what tests cite."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "field-admission.md").read_text()


def test_every_trouble_is_held_by_tests_that_exist() -> None:
    rows = re.findall(r"^\| A\d+ \|.*", PAGE, re.MULTILINE)
    assert rows
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            assert re.search(rf"^(?:async )?def {test}\(", (TOP / file).read_text(), re.MULTILINE)


def test_every_trouble_that_a_test_cites_is_on_the_page() -> None:
    numbers = set(re.findall(r"^\| (A\d+) \|", PAGE, re.MULTILINE))
    cited = {
        number
        for path in (TOP / "tests").rglob("*.py")
        for told in re.findall(r"\b[Tt]roubles? (A\d+(?:(?:, | and )A\d+)*)", path.read_text())
        for number in re.findall(r"A\d+", told)
    }
    assert cited
    assert cited <= numbers
