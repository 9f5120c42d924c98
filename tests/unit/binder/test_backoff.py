"""Rule 7.3: what failed rests, longer each time, and holds up nobody else."""

from __future__ import annotations

from binder.backoff import Failure, Holds


def test_who_failed_rests_and_the_others_do_not() -> None:
    holds = Holds().after(10.0, [Failure("a")], 10.0, 0.5)
    assert holds.held(10.0) == {"a"}
    assert 10.8 <= holds.next() <= 11.6
    assert holds.held(holds.next()) == frozenset()


def test_each_failure_in_a_row_makes_the_rest_longer_up_to_half_a_minute() -> None:
    holds, now, rests = Holds(), 0.0, []
    for _ in range(8):
        holds = holds.after(now, [Failure("a")], now, 1.0)
        rests.append(holds.next() - now)
        now = holds.next()
    assert rests == sorted(rests)
    assert rests[0] == 1.6
    assert rests[-1] == 30.0


def test_who_only_has_to_be_decided_anew_rests_for_a_moment() -> None:
    holds, now, rests = Holds(), 0.0, []
    for _ in range(9):
        holds = holds.after(now, [Failure("a", is_stale=True)], now, 1.0)
        rests.append(round(holds.next() - now, 6))
        now = holds.next()
    assert rests[:4] == [0.05, 0.1, 0.2, 0.4]
    assert rests[-1] == 5.0


def test_who_was_due_and_did_not_fail_is_forgotten() -> None:
    holds = Holds().after(0.0, [Failure("a"), Failure("b")], 0.0, 0.0)
    due = holds.next()
    holds = holds.after(due, [Failure("b")], due, 0.0)
    assert set(holds.holds) == {"b"}
    assert holds.holds["b"].failures == 2


def test_who_rests_goes_on_resting_through_passes_that_are_about_others() -> None:
    holds = Holds().after(0.0, [Failure("a")], 0.0, 1.0)
    later = holds.after(0.5, [Failure("b")], 0.5, 1.0)
    assert later.holds["a"] == holds.holds["a"]


def test_a_rest_begins_when_the_pass_has_ended() -> None:
    """A pass can last for long: what was not answered is waited for."""
    holds = Holds().after(10.0, [Failure("a")], 70.0, 0.5)
    assert holds.held(70.0) == {"a"}


def test_nobody_rests_for_ever_where_nobody_rests() -> None:
    assert Holds().next() == float("inf")
