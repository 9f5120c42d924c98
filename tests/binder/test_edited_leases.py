"""The Lease, edited by hand while a binder leads, on the real control plane (rule 7.1).

What operating.md promises: an edit costs a term at most, and never makes two leaders.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pytest

from shared import vocabulary as v
from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import LEASE, WRITES, Replica, epoch, replicas
from tests.cluster.api import Object
from tests.cluster.plane import ControlPlane, system_clock
from tests.cluster.waiting import wait_until
from tests.kubevirt.objects import status_of

LEASE_SECONDS: Final = 4.0
RENEW_SECONDS: Final = 2.4
TIMEOUT_SECONDS: Final = 1.0
"""Flags of these binders, `tests.cluster.binder.BRISK`."""

Pair = tuple[Replica, Replica]


@dataclass(frozen=True, slots=True)
class Write:
    """A write that was carried out, and when it came to the API server."""

    at: datetime
    by: Replica
    event: Object

    @property
    def is_of_the_lease(self) -> bool:
        """Whether it was to lead, or to go on leading."""
        return bool(self.event["objectRef"]["resource"] == "leases")

    @property
    def begins_a_term(self) -> bool:
        """Whether it raised the epoch, or made the object that has it."""
        if self.event["objectRef"]["resource"] != v.RESOURCE_SYSTEMS:
            return False
        return self.event["verb"] == "create" or "epoch" in status_of(self.event["requestObject"])


@pytest.fixture(scope="module")
async def pair(whole: ControlPlane) -> AsyncIterator[Pair]:
    """Two binders; one of them leads, or will before long."""
    numbers = itertools.count(1)
    async with replicas(whole, lambda stem: f"{stem}-by-hand-{next(numbers)}") as start:
        yield await start(), await start()


@pytest.fixture
async def life(whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]) -> Life:
    """A class with room for one VM."""
    life = await Life.begin(whole, recorder, unique)
    await life.node(1)
    return life


async def edit(plane: ControlPlane, spec: Object | None) -> datetime:
    """What an administrator does; deletes it without a spec. Returns a time before that."""
    before = system_clock()
    how = ("patch", "--type=merge", "-p", json.dumps({"spec": spec})) if spec else ("delete",)
    done = await plane.cluster.kubectl(
        how[0], "lease", v.LEASE_NAME, *how[1:], namespace=v.NAMESPACE
    )
    assert done.checked
    return before


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param(
            {
                "holderIdentity": "stranger",
                "leaseDurationSeconds": 6,
                "renewTime": "1970-01-01T00:00:00.000000Z",
            },
            6.0,
            id="made out to a stranger for longer, since long ago",
        ),
        pytest.param(
            {
                "holderIdentity": "stranger",
                "leaseDurationSeconds": 1,
                "renewTime": "9999-12-31T23:59:59.000000Z",
            },
            LEASE_SECONDS,
            id="made out to a stranger for a second, from far ahead",
        ),
        pytest.param(
            {"holderIdentity": "", "leaseDurationSeconds": 1},
            LEASE_SECONDS,
            id="emptied as if it were given back",
        ),
        pytest.param(None, LEASE_SECONDS, id="deleted"),
    ],
)
async def test_a_lease_that_is_taken_from_its_leader_costs_a_term_and_makes_no_two_leaders(
    life: Life, pair: Pair, spec: Object | None, seconds: float
) -> None:
    before = await until_one_leads(pair)
    async with never_two(pair):
        edited = await edit(life.plane, spec)
        await until_over(pair, before)
        idle = system_clock()
        await life.machine("train", 1)
        await until_one_leads(pair, above=before)
        await life.until_running("train")
    written = writes(pair)
    begun = next(each.at for each in written if each.begins_a_term and each.at > edited)
    assert begun - edited >= timedelta(seconds=seconds), "the old one might have led until then"
    of_nobody = [each for each in written if idle < each.at < begun and not each.is_of_the_lease]
    assert of_nobody == []
    assert unfounded(written) == []


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "leaseDurationSeconds": 2**31 - 1,
                "leaseTransitions": 2**31 - 1,
                "renewTime": "9999-12-31T23:59:59.000000Z",
            },
            id="for ever, from far ahead",
        ),
        pytest.param(
            {
                "leaseDurationSeconds": 1,
                "leaseTransitions": None,
                "acquireTime": None,
                "renewTime": None,
            },
            id="for a second, since never",
        ),
    ],
)
async def test_a_leader_whose_name_stays_in_the_lease_goes_on_whatever_else_it_says(
    life: Life, pair: Pair, spec: Object
) -> None:
    term = await until_one_leads(pair)
    async with never_two(pair):
        edited = await edit(life.plane, spec)

        async def renewed() -> bool:
            lease = await life.api.get(LEASE, v.LEASE_NAME, v.NAMESPACE)
            told = datetime.fromisoformat(lease["spec"].get("renewTime") or "0001-01-01T00:00:00Z")
            return edited + timedelta(seconds=LEASE_SECONDS) < told <= system_clock()

        await wait_until(renewed, "it went on for longer than a lease lasts")
        await life.machine("train", 1)
        await life.until_running("train")
    assert await epoch(life.plane) == term
    assert unfounded(writes(pair)) == []


async def until_one_leads(pair: Pair, above: int = 0) -> int:
    """Wait until one of them works in a term above this one; returns its epoch."""

    async def found() -> int | None:
        for each in pair:
            figures = await each.figures()
            term = int(figures["gpu_binder_epoch"])
            if figures["gpu_binder_in_term"] and term > above:
                return term
        return None

    return await wait_until(found, f"one of two leads in a term above {above}")


async def until_over(pair: Pair, term: int) -> None:
    """Wait until neither says that it leads in this term."""

    async def over() -> bool:
        found = [await each.figures() for each in pair]
        return not any(
            figures["gpu_binder_leader"] and figures["gpu_binder_epoch"] == term
            for figures in found
        )

    await wait_until(over, f"nobody leads in the term {term}")


async def leaders(pair: Pair) -> list[str]:
    """Those who say that they lead, of two that are asked at once."""
    found = await asyncio.gather(*(each.figures() for each in pair))
    return [
        each.name
        for each, figures in zip(pair, found, strict=True)
        if figures["gpu_binder_leader"] or figures["gpu_binder_in_term"]
    ]


@asynccontextmanager
async def never_two(pair: Pair) -> AsyncIterator[None]:
    """Look all the time who leads: never two.

    Between one that stops and the next that begins nobody does for longer than a look takes; a
    look that took longer, on a busy machine, tells nothing.
    """
    over = asyncio.Event()
    looks = 0

    async def two() -> list[str] | bool:
        nonlocal looks
        began = time.monotonic()
        found = await leaders(pair)
        is_of_one_moment = time.monotonic() - began < LEASE_SECONDS - RENEW_SECONDS
        looks += is_of_one_moment
        return found if len(found) > 1 and is_of_one_moment else over.is_set()

    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(wait_until(two, "the look ends", deadline_seconds=600))
        try:
            yield
        finally:
            over.set()
    assert looking.result() is True, "two lead"
    assert looks > 1


def writes(pair: Pair) -> list[Write]:
    """What either of them wrote, in order."""
    found = [
        Write(datetime.fromisoformat(event["requestReceivedTimestamp"]), each, event)
        for each in pair
        for event in each.requests()
        if event["verb"] in WRITES
        and event["stage"] == "ResponseComplete"
        and event["responseStatus"]["code"] < 300
    ]
    return sorted(found, key=lambda each: each.at)


def unfounded(written: list[Write]) -> list[Write]:
    """Writes of one whose term was not the last, or who had not kept the Lease for too long."""
    found = []
    kept: dict[str, datetime] = {}
    in_office = ""
    for each in written:
        if each.is_of_the_lease:
            kept[each.by.name] = each.at
            continue
        if each.begins_a_term:
            in_office = each.by.name
        late = each.at - kept[each.by.name] > timedelta(seconds=RENEW_SECONDS + TIMEOUT_SECONDS)
        if late or in_office != each.by.name:
            found.append(each)
    return found
