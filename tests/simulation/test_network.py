"""What becomes of a request, by its fate, and what of a watch: each in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from shared.errors import ApiError, Conflict, Expired, NotFound, TimedOut, Unavailable
from tests.simulation.fake_api import FakeApi
from tests.simulation.http import MERGE, Http
from tests.simulation.kinds import CONFIG_MAP, NAMESPACE
from tests.simulation.network import Doom, Exchange, Fate, Network, Port, Process, Weather
from tests.simulation.stage import NOON
from tests.simulation.store import Store
from tests.simulation.virtual import run

Raw = dict[str, Any]

MAPS = "/api/v1/namespaces/home/configmaps"
CALM = Weather()


@dataclass
class Wire:
    """An API server with one ConfigMap `a`, and who talks to it."""

    weather: Weather = CALM
    process: Process = field(default_factory=lambda: Process("who#1"))
    arrived: list[Exchange] = field(default_factory=list)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.api = FakeApi(Store(loop.time), lambda: NOON, random.Random(1))
        self.api.create(NAMESPACE, "", {"metadata": {"name": "home"}}, "admin")
        self.api.create(CONFIG_MAP, "home", {"metadata": {"name": "a"}}, "admin")
        self.network = Network(Http(self.api), random.Random(1), self.weather, self.arrived.append)

    @property
    def port(self) -> Port:
        return self.network.port(self.process)

    async def write(self, value: str, version: str = "") -> Raw:
        """Write the ConfigMap, within two seconds."""
        metadata = {"metadata": {"resourceVersion": version}} if version else {}
        body = {**metadata, "data": {"a": value}}
        form = {"Content-Type": MERGE}
        answer = await self.port.request(
            "PATCH", f"{MAPS}/a", body=body, headers=form, timeout_seconds=2.0
        )
        written: Raw = orjson.loads(answer)
        return written

    @property
    def stored(self) -> Raw:
        return self.api.get(CONFIG_MAP, ("home", "a"))


def meets(fate: Fate) -> Weather:
    return Weather(write_faults={fate: 1.0})


def virtually(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    run(main())


def test_a_write_arrives_once_and_its_answer_comes_back() -> None:
    async def main() -> None:
        wire = Wire()
        assert (await wire.write("1"))["data"] == {"a": "1"}
        assert len(wire.arrived) == 1

    virtually(main)


def test_a_lost_write_never_arrives_and_times_out() -> None:
    async def main() -> None:
        wire = Wire(meets(Fate.LOST))
        with pytest.raises(TimedOut):
            await wire.write("1")
        await asyncio.sleep(60)
        assert asyncio.get_running_loop().time() == pytest.approx(62)
        assert wire.arrived == []

    virtually(main)


def test_an_unanswered_write_was_applied() -> None:
    async def main() -> None:
        wire = Wire(meets(Fate.UNANSWERED))
        with pytest.raises(TimedOut):
            await wire.write("1")
        assert wire.stored["data"] == {"a": "1"}

    virtually(main)


def test_a_repeated_write_arrives_twice_and_the_second_answer_comes_back() -> None:
    async def main() -> None:
        wire = Wire(meets(Fate.TWICE))
        version = wire.stored["metadata"]["resourceVersion"]
        with pytest.raises(Conflict):
            await wire.write("1", version)
        assert [each.code for each in wire.arrived] == [200, 409]
        assert wire.stored["data"] == {"a": "1"}

    virtually(main)


def test_a_late_write_arrives_after_its_sender_gave_up() -> None:
    async def main() -> None:
        wire = Wire(meets(Fate.LATE))
        with pytest.raises(TimedOut):
            await wire.write("1")
        assert "data" not in wire.stored
        await asyncio.sleep(2)
        assert wire.stored["data"] == {"a": "1"}

    virtually(main)


def test_a_beaten_write_finds_another_version() -> None:
    async def main() -> None:
        wire = Wire(meets(Fate.BEATEN))
        with pytest.raises(Conflict):
            await wire.write("1", wire.stored["metadata"]["resourceVersion"])

    virtually(main)


def test_a_busy_server_does_nothing() -> None:
    async def main() -> None:
        wire = Wire(meets(Fate.BUSY))
        with pytest.raises(Unavailable):
            await wire.write("1")
        assert wire.arrived == []

    virtually(main)


def test_a_paused_process_sends_when_it_wakes() -> None:
    async def main() -> None:
        wire = Wire(meets(Fate.PAUSED))
        with pytest.raises(TimedOut):
            await wire.write("1")
        woken = asyncio.get_running_loop().time()
        assert woken >= 20
        assert wire.arrived == []
        await asyncio.sleep(1)
        (arrived,) = wire.arrived
        assert woken < arrived.at

    virtually(main)


@pytest.mark.parametrize(("after", "applied"), [(False, 0), (True, 1)])
def test_a_doomed_process_ends_at_its_write(after: bool, applied: int) -> None:
    async def main() -> None:
        wire = Wire(process=Process("who#1", doom=Doom(2, after)))
        await wire.write("1")
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(wire.write("2"))
            await wire.process.ended.wait()
            writing.cancel()
        await asyncio.sleep(10)
        assert len(wire.arrived) == 1 + applied

    virtually(main)


def test_nothing_reaches_anybody_from_a_dead_process() -> None:
    async def main() -> None:
        wire = Wire(process=Process("who#1", is_dead=True))
        with pytest.raises(Unavailable):
            await wire.write("1")
        assert wire.arrived == []

    virtually(main)


def test_refusals_come_back_as_the_errors_of_a_connection() -> None:
    async def main() -> None:
        with pytest.raises(NotFound) as raised:
            await Wire().port.request("GET", f"{MAPS}/none")
        assert str(raised.value) == 'configmaps "none" not found'

    virtually(main)


async def followed(wire: Wire, version: str, seconds: int) -> list[tuple[float, str]]:
    """What a watch brings within some seconds, and when."""
    loop = asyncio.get_running_loop()
    params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
    found = []
    stream = wire.port.stream(MAPS, params, idle_seconds=30)
    async with aclosing(stream) as lines:
        async for line in lines:
            event = orjson.loads(line)
            found.append((loop.time(), event["type"]))
            if event["type"] == "ERROR":
                code = event["object"]["code"]
                raise Expired(str(code)) if code == 410 else ApiError(str(code))
    return found


def test_a_watch_lags_in_order_and_ends_when_agreed() -> None:
    async def main() -> None:
        wire = Wire(Weather(lag=(3.0, 3.0)))
        version = wire.stored["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(followed(wire, version, 10))
            await asyncio.sleep(1)
            for value in ("1", "2"):
                patch = {"data": {"a": value}}
                wire.api.merge(CONFIG_MAP, ("home", "a"), patch, "admin")
        assert [(round(at, 3), what) for at, what in watching.result()] == [
            (4.0, "MODIFIED"),
            (4.0, "MODIFIED"),
        ]
        assert asyncio.get_running_loop().time() == pytest.approx(10)

    virtually(main)


def test_a_watch_whose_version_is_forgotten_is_told_so() -> None:
    async def main() -> None:
        wire = Wire(Weather(expires=1.0))
        version = wire.stored["metadata"]["resourceVersion"]
        wire.api.merge(CONFIG_MAP, ("home", "a"), {"data": {"a": "1"}}, "admin")
        with pytest.raises(Expired):
            await followed(wire, version, 10)

    virtually(main)


def test_a_broken_watch_is_noticed() -> None:
    async def main() -> None:
        wire = Wire(Weather(breaks=1.0))
        with pytest.raises(Unavailable):
            await followed(wire, "0", 10)

    virtually(main)


def test_an_old_view_shows_what_was_up_to_half_a_minute_ago() -> None:
    async def main() -> None:
        wire = Wire(Weather(goes_back=1.0))
        await asyncio.sleep(60)
        await wire.write("1")
        listed = orjson.loads(await wire.port.request("GET", MAPS))
        (old,) = listed["items"]
        assert "data" not in old
        assert int(listed["metadata"]["resourceVersion"]) < wire.api.store.version

    virtually(main)


def test_in_the_end_the_weather_is_calm() -> None:
    async def main() -> None:
        wire = Wire(Weather(write_faults={Fate.LOST: 1.0}, until=5.0))
        await asyncio.sleep(5)
        assert (await wire.write("1"))["data"] == {"a": "1"}

    virtually(main)
