"""Durations, and how many watches a user may have."""

import pytest

from apiserver.flow import Lifecycle, Stage, WatchLimit, parse_duration
from shared.errors import BadRequest, TooManyRequests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("10us", 1e-5),
        ("10µs", 1e-5),
        (".5s", 0.5),
        ("0", 0),
        ("+2s", 2),
        ("-2s", -2),
    ],
)
def test_check_72_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1d", "1s ", "1e3s", "--1s", "1s1", "½s", "9" * 99])
def test_check_72_anything_else_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest, match="duration"):
        parse_duration(text)


def test_an_endless_duration_is_refused_unread_and_not_told_back() -> None:
    with pytest.raises(BadRequest, match="duration") as caught:
        parse_duration("1" * 3000)

    assert len(str(caught.value)) < 200


def test_check_97_a_user_may_have_so_many_watches_and_no_more() -> None:
    limit = WatchLimit(per_user_max=2)

    with limit.hold("alice"), limit.hold("alice"):
        with pytest.raises(TooManyRequests) as caught, limit.hold("alice"):
            pass
        assert caught.value.headers() == {"Retry-After": "5"}
        with limit.hold("bob"):
            pass
    with limit.hold("alice"):
        pass


async def test_the_end_is_told_once_and_stays() -> None:
    lifecycle = Lifecycle()
    stages = [lifecycle.stage]

    for _ in range(2):
        lifecycle.leave()
        stages.append(lifecycle.stage)

    await lifecycle.wait_until_leaving()
    assert stages == [Stage.SERVING, Stage.LEAVING, Stage.LEAVING]
