"""The flags of the binder, and what is refused of them before anything starts."""

from __future__ import annotations

import pytest

from binder.__main__ import BinderSettings
from shared.settings import BadSettings, read


def test_without_flags_leaders_follow_each_other_as_in_kubernetes() -> None:
    times = read(BinderSettings, []).times()
    assert (times.lease, times.renew, times.retry) == (15, 10, 2)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--lease-duration=5"], "renew: 10 s, expected less than the lease of 5 s"),
        (["--retry-period=9"], "retry: 9 s, expected at most a third of the 10 s"),
        (["--lease-duration=nan"], "lease: nan s, expected at least 1 s"),
        (["--request-timeout=6"], "--request-timeout: 6 s, expected at most 5 s"),
    ],
)
def test_times_by_which_two_could_lead_are_refused(flags: list[str], told: str) -> None:
    """Rule 7.1."""
    with pytest.raises(BadSettings, match=told):
        read(BinderSettings, flags).times()


def test_values_that_are_none_are_refused_with_what_was_expected() -> None:
    with pytest.raises(BadSettings, match=r"--request-timeout: '0'.*greater than 0"):
        read(BinderSettings, ["--request-timeout=0"])
