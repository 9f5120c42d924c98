"""Nodes."""

from __future__ import annotations

import pytest

from shared.kube import decode
from tests.unit.decoding.raws import NODE, changed, no_problem


class TestNode:
    """What a node offers, and whether it is up."""

    @pytest.mark.parametrize(
        ("conditions", "want"),
        [
            ([{"type": "Ready", "status": "True"}], True),
            ([{"type": "Ready", "status": "False"}], False),
            ([{"type": "Ready", "status": "Unknown"}], False),
            ([], False),
            (None, False),
        ],
    )
    def test_is_ready_only_where_it_says_so(self, conditions: object, want: bool) -> None:
        assert decode.node(changed(NODE, "status.conditions", conditions), no_problem).ready is want

    def test_an_amount_that_is_no_quantity_offers_nothing_and_is_told(self) -> None:
        told: list[str] = []
        raw = changed(NODE, "status.allocatable", {"nvidia.com/GA100": "eight", "cpu": "-2"})
        assert decode.node(raw, told.append).allocatable == {"nvidia.com/GA100": 0, "cpu": 0}
        assert len(told) == 1
        assert told[0].startswith("status.allocatable[nvidia.com/GA100]: 'eight' is not a quantity")
        assert told[0].endswith("; taken as 0")
