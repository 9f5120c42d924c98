"""Elections of two and three, with every fault, in virtual time (rule 7.1).

At every moment at most one leads, and once the faults are over somebody does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import looptime
import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.errors import AlreadyExists, Conflict, NotFound, TimedOut, Unavailable
from shared.kube.leases import Candidate, Elector, Times

TIMES = Times(lease=15, renew=10, retry=2)
LOOK_SECONDS = 0.5
Raw = dict[str, Any]
T = TypeVar("T")


@dataclass
class Store:
    """The Lease as an API server keeps it, and who looked after it when."""

    lease: Raw | None = None
    version: int = 0
    writes: int = 0

    def put(self, body: Raw) -> bytes:
        self.version += 1
        self.writes += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.lease = body
        return orjson.dumps(body)

    def edit(self, **spec: object) -> None:
        """Somebody edits the Lease by hand."""
        assert self.lease is not None
        self.put({**self.lease, "spec": {**self.lease["spec"], **spec}})

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else "-"


@dataclass
class Line:
    """One process's way to the API server.

    `mode` is "well", "cut" (fails at once), "mute" (nothing arrives), "deaf" (writes are carried
    out, their answers are lost) or "broken" (the server answers 503).
    """

    store: Store
    mode: str = "well"
    lag: float = 0.01

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        del params, headers, path
        if self.mode in {"cut", "broken"}:
            raise Unavailable("no connection")
        if self.mode == "mute":
            await asyncio.sleep(timeout_seconds)
            raise TimedOut("no answer")
        await asyncio.sleep(self.lag)
        answer = self._serve(method, body)
        if self.mode == "deaf":
            await asyncio.sleep(timeout_seconds)
            raise TimedOut("no answer")
        await asyncio.sleep(self.lag)
        return answer

    def _serve(self, method: str, sent: object) -> bytes:
        body: Raw = orjson.loads(orjson.dumps(sent))
        match method, self.store.lease:
            case "GET" | "PUT", None:
                raise NotFound("no such lease")
            case "GET", lease:
                return orjson.dumps(lease)
            case "POST", None:
                return self.store.put(body)
            case "POST", _:
                raise AlreadyExists("there is one")
            case _, lease:
                assert lease is not None
                if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
                    raise Conflict("changed in between")
                return self.store.put(body)


@dataclass
class Runner:
    """One process."""

    name: str
    line: Line
    elector: Elector
    skew: float = 0.0
    terms: int = 0
    working: bool = False

    async def lead(self) -> None:
        self.terms += 1
        self.working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False

    def has_stopped(self) -> bool:
        return not self.working

    @property
    def leads(self) -> bool:
        return self.elector.leads()


@dataclass
class Election:
    """Several processes at one store; twice a second somebody looks who leads."""

    tasks: asyncio.TaskGroup
    store: Store = field(default_factory=Store)
    runners: dict[str, Runner] = field(default_factory=dict)
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    history: list[tuple[float, str]] = field(default_factory=list)

    def join(self, name: str) -> Runner:
        line = Line(self.store)
        loop = asyncio.get_running_loop()
        runner: Runner
        elector = Elector(
            line,
            Candidate(name, "gpu-binder", "cozy-gpu", TIMES),
            TIMES,
            lease=("cozy-gpu", "gpu-binder"),
            clock=loop.time,
            wall=lambda: 1e9 + runner.skew,
            chance=random.Random(name),
        )
        runner = self.runners[name] = Runner(name, line, elector)
        self.running[name] = self.tasks.create_task(elector.run(runner.lead))
        return runner

    async def kill(self, name: str) -> None:
        """End a process in its own way."""
        self.running[name].cancel()
        await asyncio.wait([self.running[name]])

    async def look(self) -> None:
        """Fail as soon as two lead, or one works that does not lead."""
        loop = asyncio.get_running_loop()
        while True:
            leaders = [name for name, runner in self.runners.items() if runner.leads]
            assert len(leaders) <= 1, f"{leaders} lead at {loop.time()}"
            self.history.append((loop.time(), "".join(leaders)))
            await asyncio.sleep(LOOK_SECONDS)

    async def until(self, condition: Callable[[], bool], within: float) -> float:
        """Wait for a condition; returns how long that took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not condition():
            assert loop.time() - began < within, f"not within {within} s; {self.history[-5:]}"
            await asyncio.sleep(LOOK_SECONDS)
        return loop.time() - began

    def leader(self) -> Runner | None:
        return next((each for each in self.runners.values() if each.leads), None)


def election(scene: Callable[[Election], Awaitable[T]]) -> T:
    """Play a scene in virtual time."""

    async def main() -> T:
        async with asyncio.TaskGroup() as tasks:
            stage = Election(tasks)
            looking = tasks.create_task(stage.look())
            result = await scene(stage)
            looking.cancel()
            for task in stage.running.values():
                task.cancel()
        return result

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(main())


async def two(stage: Election) -> tuple[Runner, Runner]:
    """The one that leads, and the other."""
    one, other = stage.join("a"), stage.join("b")
    await stage.until(lambda: stage.leader() is not None, 30)
    return (one, other) if one.leads else (other, one)


def test_of_three_one_leads_and_goes_on_leading() -> None:
    async def scene(stage: Election) -> None:
        for name in "abc":
            stage.join(name)
        await stage.until(lambda: stage.leader() is not None, 30)
        first = stage.leader()
        await asyncio.sleep(600)
        assert stage.leader() is first
        assert sum(each.terms for each in stage.runners.values()) == 1
        assert stage.store.writes <= 600 / TIMES.retry, "only the leader writes, and not often"

    election(scene)


def test_a_leader_that_ends_gives_the_lease_back_and_the_other_leads_within_seconds() -> None:
    async def scene(stage: Election) -> None:
        leader, other = await two(stage)
        await stage.kill(leader.name)
        assert not leader.working
        assert stage.store.holder == ""
        assert await stage.until(lambda: other.leads, 30) < 3

    election(scene)


def test_a_leader_that_crashes_is_followed_after_its_lease() -> None:
    async def scene(stage: Election) -> None:
        leader, other = await two(stage)
        leader.line.mode = "cut"
        await stage.kill(leader.name)
        took = await stage.until(lambda: other.leads, 30)
        assert 10 < took < 20

    election(scene)


def test_a_leader_that_is_cut_off_stops_before_the_other_begins() -> None:
    async def scene(stage: Election) -> None:
        for mode in ("cut", "mute", "broken"):
            leader = stage.leader() or (await two(stage))[0]
            other = next(each for each in stage.runners.values() if each is not leader)
            leader.line.mode = mode
            took = await stage.until(leader.has_stopped, 11)
            assert took > 5, "a short fault would have been survived"
            await asyncio.sleep(2)
            assert stage.leader() is None, "nobody leads for a while"
            await stage.until(other.elector.leads, 20)
            leader.line.mode = "well"
            await asyncio.sleep(60)
            assert other.leads

    election(scene)


def test_a_fault_shorter_than_the_time_for_renewing_changes_nothing() -> None:
    async def scene(stage: Election) -> None:
        leader, _ = await two(stage)
        for mode in ("cut", "mute", "deaf", "broken"):
            leader.line.mode = mode
            await asyncio.sleep(5)
            leader.line.mode = "well"
            await asyncio.sleep(30)
            assert leader.leads
        assert leader.terms == 1

    election(scene)


def test_a_leader_that_is_heard_but_hears_nothing_stops_all_the_same() -> None:
    async def scene(stage: Election) -> None:
        leader, _ = await two(stage)
        leader.line.mode = "deaf"
        await stage.until(lambda: not leader.working, 11)

    election(scene)


def test_a_deleted_lease_ends_the_term_and_is_made_anew() -> None:
    async def scene(stage: Election) -> None:
        leader, _ = await two(stage)
        stage.store.lease = None
        await stage.until(lambda: not leader.working, 5)
        assert await stage.until(lambda: stage.leader() is not None, 30) > 10

    election(scene)


def test_a_lease_that_was_made_out_to_somebody_else_ends_the_term() -> None:
    async def scene(stage: Election) -> None:
        leader, other = await two(stage)
        for holder in ("nobody", "", other.name):
            stage.store.edit(holderIdentity=holder)
            await stage.until(lambda: stage.leader() is None, 5)
            await stage.until(lambda: stage.leader() is not None, 30)
        assert leader.terms + other.terms == 4

    election(scene)


def test_a_lease_that_was_emptied_as_a_holder_gives_it_back_makes_no_two_leaders() -> None:
    async def scene(stage: Election) -> None:
        leader, _ = await two(stage)
        stage.store.edit(holderIdentity="", leaseDurationSeconds=1)
        await stage.until(leader.has_stopped, 5)
        assert await stage.until(lambda: stage.leader() is not None, 30) > 10

    election(scene)


def test_hostile_values_cost_a_term_at_most() -> None:
    async def scene(stage: Election) -> None:
        await two(stage)
        for spec in (
            {"leaseDurationSeconds": 2_147_483_647},
            {"renewTime": "9999-12-31T23:59:59.000000Z"},
            {"leaseTransitions": 2_147_483_647},
            {"holderIdentity": "x" * 100_000, "leaseDurationSeconds": 2_147_483_647},
        ):
            stage.store.edit(**spec)
            await asyncio.sleep(150)
            assert stage.leader() is not None

    election(scene)


def test_wall_clocks_that_differ_by_years_or_jump_change_nothing() -> None:
    async def scene(stage: Election) -> None:
        leader, other = await two(stage)
        for skew in (1e9, -9e8, 0.0):
            leader.skew, other.skew = skew, -skew / 2
            await asyncio.sleep(60)
            assert leader.leads
        assert leader.terms == 1

    election(scene)


def test_work_that_ends_by_itself_is_begun_anew_soon_under_the_same_lease() -> None:
    async def scene(stage: Election) -> None:
        leader, _ = await two(stage)
        calls: list[float] = []
        loop = asyncio.get_running_loop()

        async def short() -> None:
            calls.append(loop.time())
            await asyncio.sleep(1)

        await stage.kill(leader.name)
        line = Line(stage.store)
        other = Elector(
            line,
            Candidate("c", "gpu-binder", "cozy-gpu", TIMES),
            TIMES,
            lease=("cozy-gpu", "gpu-binder"),
            clock=loop.time,
            wall=lambda: 1e9,
            chance=random.Random(1),
        )
        for name in list(stage.running):
            await stage.kill(name)
        stage.running["c"] = stage.tasks.create_task(other.run(short))
        await asyncio.sleep(30)
        assert len(calls) > 5

    election(scene)


class _Stop(Exception):
    pass


def test_work_that_fails_ends_the_process_and_gives_the_lease_back() -> None:
    async def scene(stage: Election) -> None:
        loop = asyncio.get_running_loop()
        elector = Elector(
            Line(stage.store),
            Candidate("a", "gpu-binder", "cozy-gpu", TIMES),
            TIMES,
            lease=("cozy-gpu", "gpu-binder"),
            clock=loop.time,
            wall=lambda: 1e9,
            chance=random.Random(1),
        )

        async def broken() -> None:
            raise _Stop

        caught = []
        try:
            await elector.run(broken)
        except* _Stop as group:
            caught.append(group)
        assert caught
        assert stage.store.holder == ""

    election(scene)


def test_who_slept_through_its_lease_does_not_lead_for_a_moment() -> None:
    """As after SIGSTOP: its clock went on, and nothing else of it did."""
    now = 100.0
    candidate = Candidate("a", "gpu-binder", "cozy-gpu", TIMES)
    elector = Elector(
        Line(Store()),
        candidate,
        TIMES,
        lease=("cozy-gpu", "gpu-binder"),
        clock=lambda: now,
        wall=lambda: 1e9,
        chance=random.Random(1),
    )
    candidate.saw({"metadata": {}, "spec": {"leaseDurationSeconds": 1, "holderIdentity": ""}}, now)
    bid = candidate.bid(now, 1e9)
    assert bid is not None
    candidate.won(bid.body, now, now)
    assert elector.leads()
    now = 130.0
    assert not elector.leads()


FAULTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["cut", "mute", "deaf", "broken", "slow", "end", "delete", "steal"]),
        st.floats(0.5, 40.0),
    ),
    max_size=8,
)


@settings(max_examples=50)
@example([("a", "cut", 1.0)] * 3 + [("a", "cut", 38.0), ("a", "delete", 1.0), ("a", "end", 1.0)])
@given(FAULTS)
def test_whatever_fails_two_never_lead_and_in_the_end_one_does(
    faults: list[tuple[str, str, float]],
) -> None:
    async def scene(stage: Election) -> None:
        for name in "abc":
            stage.join(name)
        for number, (name, fault, seconds) in enumerate(faults):
            runner = stage.runners.get(name)
            if runner is None:
                continue
            match fault:
                case "delete":
                    stage.store.lease = None
                case "steal" if stage.store.lease is not None:
                    stage.store.edit(holderIdentity=name)
                case "slow":
                    runner.line.lag = min(seconds, 1.2)
                case "end":
                    await stage.kill(name)
                    del stage.runners[name]
                    stage.join(f"{name}{number}")
                case "steal":
                    pass
                case mode:
                    runner.line.mode = mode
            await asyncio.sleep(seconds)
            runner.line.mode = "well"
        for runner in stage.runners.values():
            runner.line.lag = 0.01
        await stage.until(lambda: stage.leader() is not None, 60)

    election(scene)
