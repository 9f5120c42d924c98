"""The benchmark of placing, small: both place all, and every figure is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.placing import UNITS, measure

SETS = 2 * UNITS
"""On two nodes; a quarter of it warms up."""


@pytest.mark.usefixtures("binaries")
def test_binder_and_twin_place_the_same_vms_and_each_figure_is_made(tmp_path: Path) -> None:
    ratio, ours, twin, deciding, passes = measure(2, tmp_path, SETS)
    assert [len(row.runs) for row in (ratio, ours, twin, deciding, passes)] == [2] * 5
    assert all(figure > 0 for row in (ours, twin, deciding, passes) for figure in row.runs)
    by_hand = [mine / other for mine, other in zip(ours.runs, twin.runs, strict=True)]
    assert list(ratio.runs) == by_hand
