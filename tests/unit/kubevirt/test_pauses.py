"""How long KubeVirt waits before it tries again."""

from __future__ import annotations

import random

import pytest

from tests.kubevirt.backoff import retry_seconds, start_pause_seconds


@pytest.mark.parametrize(
    ("failures", "least", "most"),
    [
        (1, 10, 15),
        (2, 40, 60),
        (3, 90, 135),
        (4, 160, 240),
        (5, 250, 300),
        (6, 300, 300),
        (50, 300, 300),
    ],
)
def test_pauses_after_failed_starts_grow_with_the_square_up_to_five_minutes(
    failures: int, least: int, most: int
) -> None:
    """KubeVirt observed 28."""
    pauses = {start_pause_seconds(failures, random.Random(seed)) for seed in range(500)}
    assert (min(pauses), max(pauses)) == (least, most)


def test_observed_pauses_are_among_them() -> None:
    """KubeVirt observed 28: from the failure to the next launcher."""
    for failures, seen in ((1, 15), (2, 45), (2, 56), (3, 114), (4, 202), (5, 300), (6, 300)):
        pauses = {start_pause_seconds(failures, random.Random(seed)) for seed in range(500)}
        assert seen in pauses


def test_retries_double_from_milliseconds_to_a_quarter_of_an_hour() -> None:
    """KubeVirt observed 15: a few quick ones, then 0.33, 0.65, 1.3 s and so on."""
    pauses = [retry_seconds(failures) for failures in range(1, 31)]
    assert pauses[:5] == [0.005, 0.01, 0.02, 0.04, 0.08]
    observed = [0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
    assert pauses[6:15] == pytest.approx(observed)
    assert pauses[-1] == 1000.0
