"""One run: a cluster, its actors, the weather, and binders under it, from a seed.

The seed decides everything: the same scenario with the same seed and the same binder makes the
same history, byte for byte. `python -m tests.simulation` runs one again.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import random
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tests.kubevirt.objects import phase_of
from tests.simulation import facts, policies, rest
from tests.simulation.cluster_actors import Collector, Kubelets, Scheduler
from tests.simulation.fake_api import FakeApi
from tests.simulation.http import Http
from tests.simulation.judge import INVARIANTS, Invariant, Judge
from tests.simulation.kinds import POD
from tests.simulation.kubevirt import KubeVirt
from tests.simulation.network import Doom, Exchange, Fate, Network, Port, Process, Weather
from tests.simulation.people import People, World
from tests.simulation.stage import NOON, Stage
from tests.simulation.store import Change, Store
from tests.simulation.virtual import run

STILL_SECONDS: Final = 40.0
"""A cluster in which nobody has written for so long is unchanged: the binder has seen it all, and
told it. Other words for the same may stand for 30 seconds before they are written (rule 7.9)."""

RECENT: Final = 40
"""So many lines of a history are shown with what it broke."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a binder is given, and all that it is given.

    Attributes:
        connection: as `shared.kube.connect.Connection`, already entered.
        clock: monotonic seconds.
        wall: the time of its machine, which may jump.
        chance: its own.
        name: of the process, another one for each.
    """

    connection: Port
    clock: Callable[[], float]
    wall: Callable[[], datetime.datetime]
    chance: random.Random
    name: str


class Binder(Protocol):
    """A binder under simulation.

    It runs until it is cancelled, which is how a process is killed here: nothing that it still
    does then reaches the API server. One that returns has ended by itself, as one that lost its
    lease may, and is started again; one that raises has a fault.
    """

    @property
    def name(self) -> str:
        """As the command line knows it."""
        ...

    def __call__(self, surroundings: Surroundings, /) -> Coroutine[Any, Any, None]:
        """One process from its start to its end."""
        ...


Script = Callable[[People], None]
"""What people do in a scenario that is not left to chance: plans steps on the stage."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, but for the seed.

    Attributes:
        seconds: how long people and weather are busy.
        calm: how long everything then has to settle.
        quiet: how long after that nothing may be written.
        binders: how many processes take part.
        lives: seconds between two restarts of a process, from and to; None for none.
        refuses: chance of a launcher to be refused by its node.
        denies: chance of a launcher's start to be refused by a policy of somebody else's.
        jumps: whether the binders' wall clocks jump.
        script: instead of what people do by chance.
    """

    name: str
    seconds: float = 300.0
    calm: float = 200.0
    quiet: float = 100.0
    binders: int = 1
    world: World = field(default_factory=World)
    weather: Weather = field(default_factory=Weather)
    lives: tuple[float, float] | None = None
    refuses: float = 0.0
    denies: float = 0.0
    jumps: bool = False
    script: Script | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """How a run went.

    Attributes:
        steps: writes that reached the API server, taken or refused, Leases aside.
        writes: those of binders.
        digest: of the whole history.
        broken: what did not hold.
        recent: the last lines of the history before the first of these.
        answers: to writes of binders, how often each: by method and code.
        reached: what became of launchers, how often each: so that a scenario that tests nothing
            is noticed.
        killed: whether the doom came.
        given: what was not left to chance, as the command line takes it.
    """

    scenario: str
    seed: int
    binder: str
    steps: int
    writes: int
    digest: str
    broken: tuple[str, ...]
    recent: tuple[bytes, ...]
    answers: Counter[str]
    reached: Counter[str]
    killed: bool
    given: str

    @property
    def replay(self) -> str:
        """The command that does the same again."""
        chosen = f"--seed {self.seed} --binder {self.binder}{self.given}"
        return f"python -m tests.simulation {self.scenario} {chosen}"

    def told(self) -> str:
        """For people."""
        if not self.broken:
            return f"{self.scenario}, seed {self.seed}: {self.steps} steps, nothing broken"
        lines = [f"{self.scenario}, seed {self.seed}: broken after {self.steps} steps"]
        lines += [f"  {each}" for each in self.broken[:20]]
        lines += ["  the last changes before:", *(f"    {e.decode()[:300]}" for e in self.recent)]
        return "\n".join([*lines, f"  again: {self.replay}"])


def simulate(
    scenario: Scenario,
    seed: int,
    binder: Binder,
    *,
    doom: Doom | None = None,
    fates: Mapping[int, Fate] | None = None,
    invariants: Sequence[Invariant] = INVARIANTS,
) -> Report:
    """Run once, in virtual time.

    Args:
        scenario: what happens.
        seed: everything that is left to chance.
        binder: who is judged.
        doom: when the first process of the first binder ends.
        fates: of some of its writes, by their number.
        invariants: what is judged at each change.
    """
    first = Process(f"{policies.BINDER}#a1", doom=doom, fates=fates or {})
    return run(_Run(scenario, seed, binder, first, invariants).whole())


class _Broken(Exception):
    """Enough was broken to end a run early."""


class _Run:
    """The state of one run."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        binder: Binder,
        first: Process,
        invariants: Sequence[Invariant],
    ) -> None:
        self.scenario, self.seed, self.binder, self.first = scenario, seed, binder, first
        self.judge = Judge(invariants)
        self.steps = self.writes = 0
        self.digest = hashlib.sha256()
        self.recent: deque[bytes] = deque(maxlen=RECENT)
        self.answers = Counter[str]()
        self.reached = Counter[str]()
        self.broken: list[str] = []
        self.over = asyncio.Event()
        self.is_quiet = False
        self.others_at = 0.0
        self.now: Callable[[], float] = lambda: 0.0

    def chance(self, whose: str) -> random.Random:
        """A source of chance that nobody shares."""
        return random.Random(f"{self.seed}/{whose}")

    async def whole(self) -> Report:
        """The run from its begin to its end."""
        scenario, loop = self.scenario, asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        self.now = loop.time
        store = Store(loop.time, [self._changed])

        def now() -> datetime.datetime:
            return NOON + datetime.timedelta(seconds=loop.time())

        self.foreign = policies.Foreign(self.chance("foreign"), scenario.denies)
        api = FakeApi(store, now, self.chance("api"), (*policies.ALL, self.foreign))
        stage = Stage(api, self.chance("actors"), loop)
        weather = _until(scenario.weather, scenario.seconds)
        self.network = Network(Http(api), self.chance("network"), weather, self._exchanged)
        people = People(stage, scenario.world)
        self.kubelets = Kubelets(stage, scenario.refuses)
        for actor in (KubeVirt(stage), Scheduler(stage), self.kubelets, Collector(stage)):
            actor.begin()
        people.settle()
        if scenario.script is not None:
            scenario.script(people)
        else:
            people.begin()
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(self._processes(f"{'abcdef'[number]}"))
                for number in range(scenario.binders)
            ]
            with contextlib.suppress(_Broken):
                await self._acts(people)
            for each in running:
                each.cancel()
        return Report(
            scenario.name,
            self.seed,
            self.binder.name,
            self.steps,
            self.writes,
            self.digest.hexdigest(),
            tuple(self.broken),
            tuple(self.recent),
            self.answers,
            self.reached,
            self.first.ended.is_set(),
            _shown(self.first),
        )

    async def _acts(self, people: People) -> None:
        await self._lasts(self.scenario.seconds)
        people.rest()
        self.kubelets.refuses = self.foreign.denies = 0.0
        await self._lasts(self.scenario.calm)
        await self._still()
        self._note(f"at rest: {each}" for each in rest.wrongs(self.judge.seen))
        self.is_quiet = True
        await self._lasts(self.scenario.quiet)

    async def _still(self) -> None:
        """Wait until nobody but the binder has written for a while; KubeVirt may still try."""
        while self.now() - self.others_at < STILL_SECONDS:
            await self._lasts(STILL_SECONDS)
            if self.now() > self.scenario.seconds + 2000:
                raise RuntimeError(f"{self.scenario.name}: the actors do not come to rest")

    async def _lasts(self, seconds: float) -> None:
        """Let time pass; less of it once something is broken."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()
        if self.over.is_set():
            raise _Broken

    def _note(self, messages: Iterable[object]) -> None:
        for message in messages:
            self.broken.append(str(message))
            self.over.set()

    def _changed(self, change: Change) -> None:
        if change.kind.resource == "leases":
            return
        if policies.account(change.who) != policies.BINDER:
            self.others_at = change.at
        line = change.to_json()
        self.digest.update(line)
        if not self.broken:
            self.recent.append(line)
        self.steps += 1
        if change.kind is POD and facts.mark_of(change.after):
            was = phase_of(change.before) if change.before else ""
            if phase_of(change.after) != was:
                self.reached[phase_of(change.after)] += 1
        before = len(self.judge.broken)
        self.judge.see(change)
        self._note(self.judge.broken[before:])

    def _exchanged(self, exchange: Exchange) -> None:
        self.digest.update(repr(exchange).encode())
        if exchange.method == "GET" or "/leases" in exchange.path:
            return
        self.answers[f"{exchange.method} {exchange.code}"] += 1
        if exchange.code >= 400:
            self.steps += 1
        self.writes += 1
        if self.is_quiet and self.now() - self.others_at > STILL_SECONDS:
            self._note([f"at rest: {exchange.method} {exchange.path} to an unchanged cluster"])

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        error = context.get("exception")
        self._note([f"an actor failed: {error!r}" if error else str(context.get("message"))])

    # Processes.

    async def _processes(self, name: str) -> None:
        """One binder, started again whenever it ended."""
        chance = self.chance(f"process {name}")
        number = 0
        while True:
            number += 1
            who = f"{policies.BINDER}#{name}{number}"
            process = self.first if who == self.first.who else Process(who)
            await self._lives(process, chance)
            await asyncio.sleep(chance.uniform(0.5, 5))

    async def _lives(self, process: Process, chance: random.Random) -> None:
        loop = asyncio.get_running_loop()
        lives, end = self.scenario.lives, self.scenario.seconds
        seconds = chance.uniform(*lives) if lives and loop.time() < end else None
        jump = datetime.timedelta(hours=chance.uniform(-5, 5)) if self.scenario.jumps else None
        jumps_at = loop.time() + chance.uniform(0, 60)

        def wall() -> datetime.datetime:
            now = NOON + datetime.timedelta(seconds=loop.time())
            return now + jump if jump and loop.time() > jumps_at else now

        who = process.who.partition("#")[2]
        surroundings = Surroundings(
            self.network.port(process), loop.time, wall, self.chance(f"binder {who}"), who
        )
        async with asyncio.TaskGroup() as tasks:
            living = tasks.create_task(self._one_life(surroundings))
            dying = tasks.create_task(_dies(process, seconds))
            await asyncio.wait([living, dying], return_when=asyncio.FIRST_COMPLETED)
            process.is_dead = True
            living.cancel()
            dying.cancel()

    async def _one_life(self, surroundings: Surroundings) -> None:
        try:
            await self.binder(surroundings)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the binder's fault
            told = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            self._note([f"binder {surroundings.name} failed: {told!r}"])


def _shown(process: Process) -> str:
    """What of a process was not left to chance, as the command line takes it."""
    doom = process.doom
    killed = f" --kill {doom.write}{'+' if doom.after else '-'}" if doom else ""
    return killed + "".join(f" --fate {number}={fate}" for number, fate in process.fates.items())


async def _dies(process: Process, seconds: float | None) -> None:
    """Return when a process is to be killed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.ended.wait()


def _until(weather: Weather, seconds: float) -> Weather:
    return Weather(
        weather.latency,
        weather.lag,
        weather.write_faults,
        weather.breaks,
        weather.expires,
        weather.goes_back,
        weather.pause,
        seconds,
    )
