"""Versions, and what a reader of changes sees (checks 69, 92 to 94 and 111)."""

import re
from datetime import UTC, datetime

import pytest

from apiserver.entry import Entry, freshness
from apiserver.options import Bookmarks
from apiserver.selectors import EVERYTHING, Selector, selector
from apiserver.versions import Versions, instant
from apiserver.watch import Change, Kind, Subscription, seen
from tests.api.pki import NOW
from tests.api.source import Table, a_class


class Wall:
    """A clock that a test moves, also back."""

    seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


def test_check_69_versions_are_decimal_numbers_that_grow_with_the_clock() -> None:
    wall = Wall()
    versions = Versions(wall, identity=7)

    first = versions.next()
    wall.seconds += 1
    second = versions.current()

    assert re.fullmatch(r"[1-9][0-9]*", str(first))
    assert second - first == 1_000_000_000


def test_check_111_versions_never_go_back_when_the_clock_does() -> None:
    wall = Wall()
    versions = Versions(wall, identity=7)
    before = versions.current()

    wall.seconds -= 10

    assert versions.current() == before
    assert versions.next() == before + 1000
    assert versions.current() == before + 1000


def test_a_change_has_a_larger_version_than_any_given_out_before() -> None:
    versions = Versions(Wall(), identity=7)

    listed = versions.current()
    changes = [versions.next() for _ in range(3)]

    assert changes == [listed + 1000, listed + 2000, listed + 3000]


def test_the_last_three_digits_of_every_version_are_the_number_of_the_process() -> None:
    wall = Wall()
    versions = Versions(wall, identity=42)

    given = [versions.current(), versions.next()]
    wall.seconds += 0.0123457
    given += [versions.current(), versions.next()]

    assert {str(version)[-3:] for version in given} == {"042"}
    assert given == sorted(set(given))
    assert max(given) < 2**63
    assert instant(given[0]) == datetime(2027, 1, 15, 8, 0, tzinfo=UTC)


def test_a_process_knows_the_versions_that_it_gave_out_from_those_of_another() -> None:
    wall = Wall()
    one, other = Versions(wall, identity=1), Versions(wall, identity=2)
    mine, foreign = [], []
    for _ in range(3):
        wall.seconds += 1
        mine += [one.current(), one.next()]
        foreign += [other.current(), other.next()]

    assert [one.is_own(version) for version in mine] == [True] * 6
    assert [one.is_own(version) for version in foreign] == [False] * 6
    assert not one.is_own(mine[-1] + 1000 * 3_000_000)  # not given out yet
    assert not Versions(wall, identity=1).is_own(mine[0])  # a process that had this number before


def test_versions_of_two_processes_can_be_compared_as_their_clocks_agree() -> None:
    wall = Wall()
    one, other = Versions(wall, identity=999), Versions(wall, identity=0)
    earlier = one.next()
    wall.seconds += 1e-5

    assert other.current() > earlier


@pytest.mark.parametrize("identity", [-1, 1000])
def test_a_number_of_more_than_three_digits_is_none(identity: int) -> None:
    with pytest.raises(ValueError, match="must be from 0 to 999"):
        Versions(Wall(), identity=identity)


def entry(version: int, **labels: str) -> Entry:
    table = Table("tenant-a")
    table.put(a_class("a100", labels=labels))
    option = table.option("tenant-a", "a100")
    assert option is not None
    return Entry(option, version, version, version, version, freshness(None, NOW))


BIG = selector("", "tier=big")


def test_check_92_a_reader_with_a_selector_sees_entering_and_leaving() -> None:
    big, small = entry(1, tier="big"), entry(1, tier="small")

    def told(before: Entry, after: Entry) -> tuple[Kind, int] | None:
        change = Change(2, before, after.at(2), before.at(2))
        got = seen(change, BIG)
        return None if got is None else (got[0], got[1].version)

    assert told(big, big) == (Kind.MODIFIED, 2)
    assert told(small, big) == (Kind.ADDED, 2)
    assert told(big, small) == (Kind.DELETED, 2)
    assert told(small, small) is None


def test_check_92_who_leaves_is_shown_as_it_last_was_seen() -> None:
    big, small = entry(1, tier="big"), entry(2, tier="small")

    got = seen(Change(2, big, small, big.at(2)), BIG)

    assert got is not None
    assert got[1].option.gpu_class.labels == {"tier": "big"}


def test_check_93_what_went_carries_its_last_state_under_the_new_version() -> None:
    last = entry(1)

    got = seen(Change(5, last, None, last.at(5)), EVERYTHING)

    assert got is not None
    kind, shown = got
    assert (kind, shown.version, shown.option) == (Kind.DELETED, 5, last.option)


def test_where_earlier_labels_are_not_known_leaving_is_told_to_whom_it_could_concern() -> None:
    small = entry(5, tier="small")
    change = Change(5, small, small, small, relabelled=True)

    left = seen(change, BIG)
    assert left is not None
    assert left[0] is Kind.DELETED
    assert seen(change, selector("metadata.name=other", "tier=big")) is None
    still = seen(change, selector("", "tier=small"))
    assert still is not None
    assert still[0] is Kind.MODIFIED


class Cut:
    """Counts how often a connection was cut."""

    times = 0

    def __call__(self) -> None:
        self.times += 1


def subscription(cut: Cut, *, bound: int, chosen: Selector = EVERYTHING) -> Subscription:
    return Subscription("tenant-a", chosen, [], on_overflow=cut, queue_max=bound)


def changes(count: int, start: int = 1) -> list[Change]:
    return [Change(n, None, entry(n), None) for n in range(start, start + count)]


async def test_a_reader_takes_what_came_in_order_and_once() -> None:
    reader = subscription(Cut(), bound=10)
    reader.push(changes(2))
    reader.push(changes(1, start=3))

    await reader.wait()
    assert [(kind, shown.version) for kind, shown in reader.take()] == [
        (Kind.ADDED, 1),
        (Kind.ADDED, 2),
        (Kind.ADDED, 3),
    ]
    assert reader.take() == []


async def test_check_94_who_lags_too_far_behind_is_cut_off_once_and_keeps_no_memory() -> None:
    cut = Cut()
    reader = subscription(cut, bound=3)
    reader.push(changes(3))
    assert cut.times == 0

    reader.push(changes(1, start=4))
    reader.push(changes(100, start=5))

    assert cut.times == 1
    assert reader.ended
    assert reader.take() == []


async def test_what_a_reader_starts_with_may_be_more_than_it_may_lag() -> None:
    cut = Cut()
    reader = Subscription("n", EVERYTHING, changes(50), on_overflow=cut, queue_max=3)

    reader.push(changes(3, start=51))
    assert cut.times == 0
    assert len(reader.take()) == 53
    reader.push(changes(4, start=60))
    assert cut.times == 1


async def test_a_reader_that_is_ended_wakes_up() -> None:
    reader = subscription(Cut(), bound=3)

    reader.end()

    await reader.wait()
    assert reader.ended


def test_check_88_bookmarks_come_every_minute_and_before_the_end() -> None:
    marks = Bookmarks(start=0, end=120)
    due = []
    while marks.due < 120:
        due.append(marks.due)
        marks.sent(marks.due)

    assert due == [50, 100, 118]


def test_check_88_a_short_watch_has_one_bookmark_in_its_middle() -> None:
    marks = Bookmarks(start=10, end=11)

    assert marks.due == 10.5
    marks.sent(10.5)
    assert marks.due > 11
