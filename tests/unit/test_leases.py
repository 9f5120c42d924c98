"""What a candidate makes of a Lease (rule 7.1), on times given by hand."""

from __future__ import annotations

from typing import Any

import pytest

from shared.kube.leases import Bid, Candidate, Times

TIMES = Times(lease=15, renew=10, retry=2)
WALL = 1_767_225_600.0
LATER = WALL + 2
TOLD = "2026-01-01T00:00:00.000000Z"
TOLD_LATER = "2026-01-01T00:00:02.000000Z"


def candidate(identity: str = "a") -> Candidate:
    return Candidate(identity, "gpu-binder", "cozy-gpu", TIMES)


def lease(
    holder: str, *, seconds: object = 15, renewed: str = TOLD, version: int = 7, **spec: object
) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "gpu-binder",
            "resourceVersion": str(version),
            "labels": {"kept": "yes"},
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "renewTime": renewed,
            **spec,
        },
    }


def accepted(bid: Bid | None) -> dict[str, Any]:
    """What the API server makes of a bid."""
    assert bid is not None
    metadata: Any = bid.body["metadata"]
    return {**bid.body, "metadata": {**metadata, "resourceVersion": "8"}}


def leading(sent: float = 100.0) -> Candidate:
    """A candidate whose first bid, sent at that time, was answered half a second later."""
    one = candidate()
    one.saw(lease("", seconds=1), sent)
    one.won(accepted(one.bid(sent, WALL)), sent, sent + 0.5)
    return one


def test_who_won_leads_from_the_moment_of_sending_not_of_the_answer() -> None:
    one = leading(sent=100.0)
    assert one.leads(109.9)
    assert not one.leads(110.0)


def test_an_answer_that_comes_after_the_end_of_its_time_makes_no_leader() -> None:
    one = candidate()
    one.saw(lease("", seconds=1), 100.0)
    one.won(accepted(one.bid(100.0, WALL)), 100.0, 130.0)
    assert not one.leads(130.0)


def test_a_lease_that_changes_is_left_alone() -> None:
    one = candidate()
    for second in range(0, 100, 10):
        one.saw(lease("b", version=second), second)
        assert one.bid(second, WALL) is None


def test_a_lease_that_does_not_change_is_taken_after_its_duration_as_seen_here() -> None:
    one = candidate()
    one.saw(lease("b"), 100.0)
    one.saw(lease("b"), 114.9)
    assert one.bid(114.9, WALL) is None
    assert accepted(one.bid(115.0, WALL))["spec"]["holderIdentity"] == "a"


def test_the_clock_of_the_holder_is_not_believed() -> None:
    for renewed in ("1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "", "yesterday"):
        one = candidate()
        one.saw(lease("b", renewed=renewed), 100.0)
        assert one.bid(114.0, WALL) is None
        assert one.bid(115.0, WALL) is not None


def test_others_are_given_the_longer_of_both_durations_within_reason() -> None:
    for seconds, taken in ((15, 115.0), (40, 140.0), (2_147_483_647, 220.0), (1, 115.0)):
        one = candidate()
        one.saw(lease("b", seconds=seconds), 100.0)
        assert one.bid(taken - 0.1, WALL) is None, seconds
        assert one.bid(taken, WALL) is not None, seconds


@pytest.mark.parametrize("seconds", [None, "15", -3, 0, True, 1.5, [], {}])
def test_a_duration_that_is_none_reads_as_ours(seconds: object) -> None:
    one = candidate()
    one.saw(lease("b", seconds=seconds), 100.0)
    assert one.bid(114.9, WALL) is None
    assert one.bid(115.0, WALL) is not None


@pytest.mark.parametrize("spec", [None, [], "b", {}, {"holderIdentity": 5}])
def test_a_lease_that_says_nothing_is_waited_for(spec: object) -> None:
    one = candidate()
    one.saw({"metadata": {"resourceVersion": "7"}, "spec": spec}, 100.0)
    assert one.bid(114.9, WALL) is None
    assert one.bid(115.0, WALL) is not None


def test_a_lease_that_was_given_back_is_taken_at_once() -> None:
    one = candidate()
    one.saw(lease("", seconds=1), 100.0)
    assert one.bid(100.0, WALL) is not None


@pytest.mark.parametrize("seconds", [15, 1])
def test_a_lease_that_was_emptied_by_hand_is_waited_for(seconds: int) -> None:
    """Its holder may not have noticed; who gives it back leaves no time of acquiring."""
    one = candidate()
    one.saw(lease("", seconds=seconds, acquireTime=TOLD), 100.0)
    assert one.bid(114.9, WALL) is None


def made(sent: float = 100.0) -> Candidate:
    """A candidate that found no Lease, and made one; it was answered half a second later."""
    one = candidate()
    one.saw(None, sent)
    bid = one.bid(sent, WALL)
    assert bid is not None
    assert bid.is_new
    one.won(accepted(bid), sent, sent + 0.5)
    return one


def test_a_lease_that_is_gone_is_made_anew_at_once_and_leads_after_its_duration() -> None:
    one = made()
    for second in range(102, 116, 2):
        assert not one.leads(second)
        one.won(accepted(one.bid(second, WALL)), second, second + 0.1)
    assert not one.leads(115.4)
    assert one.leads(115.5), "whoever held the deleted one has stopped by then"


def test_who_made_a_lease_and_then_was_cut_off_does_not_lead_sooner() -> None:
    one = made()
    one.won(accepted(one.bid(111.0, WALL)), 111.0, 111.1)
    assert not one.leads(111.1)
    assert one.leads(115.5)


def test_who_made_a_lease_and_got_no_answer_counts_from_when_it_knew() -> None:
    one = candidate()
    one.saw(None, 100.0)
    landed = accepted(one.bid(100.0, WALL))
    one.doubt()
    one.saw(landed, 104.0)
    one.won(accepted(one.bid(104.0, WALL)), 104.0, 104.1)
    one.won(accepted(one.bid(113.0, WALL)), 113.0, 113.1)
    assert not one.leads(119.0)
    assert one.leads(119.1)


def test_a_bid_carries_the_version_that_was_read_and_leaves_the_rest_of_the_object() -> None:
    bid = leading().bid(102.0, LATER)
    assert bid is not None
    assert bid.body["metadata"] == {
        "name": "gpu-binder",
        "resourceVersion": "8",
        "labels": {"kept": "yes"},
    }
    assert not bid.is_new


def test_a_leader_renews_under_the_same_term_and_a_new_one_counts_up() -> None:
    one = candidate()
    one.saw(lease("b", leaseTransitions=4), 0.0)
    first = accepted(one.bid(15.0, WALL))
    assert first["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": TOLD,
        "renewTime": TOLD,
        "leaseTransitions": 5,
    }
    one.won(first, 15.0, 15.1)
    assert accepted(one.bid(17.0, LATER))["spec"] == {
        **first["spec"],
        "renewTime": TOLD_LATER,
    }


def test_a_clock_that_stands_still_or_goes_back_does_not_look_like_a_death() -> None:
    one = leading()
    times = []
    for wall in (WALL, WALL, WALL - 3600):
        bid = accepted(one.bid(101.0, wall))
        times.append(bid["spec"]["renewTime"])
        one.won(bid, 101.0, 101.0)
    assert times == [f"2026-01-01T00:00:00.00000{n}Z" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("before", "after"), [(2_147_483_647, 2_147_483_647), (-5, 1), ("7", 1), (None, 1), (True, 1)]
)
def test_a_count_of_terms_that_cannot_go_up_does_not_stop_us(before: object, after: int) -> None:
    one = candidate()
    one.saw(lease("b", leaseTransitions=before), 0.0)
    assert accepted(one.bid(15.0, WALL))["spec"]["leaseTransitions"] == after


def test_a_leader_that_sees_another_holder_leads_no_longer() -> None:
    one = leading()
    one.saw(lease("b", version=9), 101.0)
    assert not one.leads(101.0)
    assert one.bid(101.0, WALL) is None


def test_a_leader_whose_lease_is_gone_leads_no_longer_and_begins_like_the_others() -> None:
    one = leading()
    one.saw(None, 101.0)
    assert not one.leads(101.0)
    one.won(accepted(one.bid(101.0, WALL)), 101.0, 101.1)
    assert not one.leads(101.1)


def test_a_leader_goes_on_where_something_else_of_its_lease_was_edited() -> None:
    one = leading()
    one.saw(lease("a", seconds=3600, renewed="edited", version=9), 101.0)
    assert one.leads(101.0)
    assert accepted(one.bid(101.0, WALL))["spec"]["leaseDurationSeconds"] == 15


def test_who_finds_its_own_lost_bid_in_the_lease_bids_again_at_once() -> None:
    one = candidate()
    one.saw(lease("", seconds=1), 100.0)
    landed = accepted(one.bid(100.0, WALL))
    one.doubt()
    one.saw(landed, 104.0)
    assert not one.leads(104.0), "the answer was lost: when it was taken in is not known"
    assert one.bid(104.0, LATER) is not None


def test_a_lease_that_somebody_made_out_to_us_is_waited_for() -> None:
    one = candidate("a")
    one.saw(lease("a"), 100.0)
    assert one.bid(114.9, WALL) is None


def test_what_was_given_back_can_be_taken_at_once_and_counts_as_a_new_term() -> None:
    one = leading()
    given = accepted(one.release(101.0, LATER))
    assert not one.leads(100.5)
    assert given["spec"]["holderIdentity"] == ""
    assert given["spec"]["leaseDurationSeconds"] == 1
    assert "acquireTime" not in given["spec"]
    other = candidate("b")
    other.saw(given, 200.0)
    assert accepted(other.bid(200.0, LATER))["spec"]["leaseTransitions"] == 2


def test_only_the_holder_has_something_to_give_back() -> None:
    one = candidate()
    one.saw(lease("b"), 100.0)
    assert one.release(100.0, WALL) is None
    assert candidate().release(100.0, WALL) is None


def test_who_made_the_lease_anew_does_not_give_it_back_before_it_was_to_lead() -> None:
    """Whoever held the deleted one may still lead: the next one must wait, too."""
    one = made(sent=100.0)
    one.won(accepted(one.bid(111.0, WALL)), 111.0, 111.1)
    assert one.release(115.4, WALL) is None
    one = made(sent=100.0)
    one.won(accepted(one.bid(111.0, WALL)), 111.0, 111.1)
    assert one.release(115.5, WALL) is not None


def test_who_made_the_lease_anew_and_got_no_answer_does_not_give_it_back() -> None:
    one = candidate()
    one.saw(None, 100.0)
    landed = accepted(one.bid(100.0, WALL))
    one.doubt()
    one.saw(landed, 130.0)
    assert one.release(130.0, WALL) is None


def test_a_lease_that_somebody_made_out_to_us_is_not_given_back() -> None:
    one = candidate("a")
    one.saw(lease("a"), 100.0)
    assert one.release(130.0, WALL) is None


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ((0.5, 0.4, 0.1), "lease: 0.5 s, expected at least 1 s"),
        ((15, 15, 2), "renew: 15 s, expected less than the lease of 15 s"),
        ((15, 10, 4), "retry: 4 s, expected at most a third of the 10 s"),
        ((15, 10, 0), "retry: 0 s"),
        ((float("nan"), 10, 2), "lease: nan s"),
    ],
)
def test_times_that_leave_no_room_are_refused(times: tuple[float, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Times(*times)
