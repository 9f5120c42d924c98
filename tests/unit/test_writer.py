"""Each write has one outcome (rule 7.1), and is sent again only where nobody looked at it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import looptime
import orjson
import pytest
from typing_extensions import override

from shared.errors import (
    AlreadyExists,
    ApiError,
    Cause,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    NotFound,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from shared.kube.outcomes import Done, Missing, Outcome, Refused, Stale, Unknown, Withheld
from shared.kube.writer import Writer

T = TypeVar("T")
TEST_FAILED = "the server rejected our request due to an error in our request"
WEBHOOK_AWAY = (
    'Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: '
    'Post "https://127.0.0.1:1/?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
)


@dataclass
class Server:
    """Answers as told, in order; then with an empty object."""

    answers: list[ApiError | bytes] = field(default_factory=list)
    sent: list[tuple[str, str, Mapping[str, str], Any, str]] = field(default_factory=list)
    seconds: float = 0.0
    at_once: int = 0
    most_at_once: int = 0

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
        del timeout_seconds
        self.sent.append(
            (method, path, params or {}, body, (headers or {}).get("Content-Type", ""))
        )
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.seconds)
        self.at_once -= 1
        answer = self.answers.pop(0) if self.answers else b"{}"
        if isinstance(answer, ApiError):
            raise answer
        return answer


def play(
    server: Server,
    scene: Callable[[Writer], Awaitable[T]],
    may_write: Callable[[], bool] = lambda: True,
    at_once: int = 3,
    at_least: int = 1,
) -> tuple[T, float]:
    """Play a scene in virtual time; returns what came of it, and how long it took."""

    async def main() -> tuple[T, float]:
        clock = asyncio.get_running_loop().time
        writer = Writer(
            server,
            may_write=may_write,
            clock=clock,
            chance=random.Random(1),
            timeout=5.0,
            at_once=at_once,
            at_least=at_least,
        )
        began = clock()
        return await scene(writer), clock() - began

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(main())


async def change(writer: Writer) -> Outcome:
    return await writer.merge_patch("/a", {"status": {}}, version="7")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b'{"kind":"Pod"}', Done({"kind": "Pod"})),
        (Conflict("changed"), Stale("changed")),
        (AlreadyExists("there is one"), Stale("there is one")),
        (NotFound("none"), Missing("none")),
        (Unauthorized(), Refused(401, "Unauthorized", "Unauthorized")),
        (
            Forbidden("no", causes=[Cause("NamespaceTerminating", "ends")]),
            Refused(403, "Forbidden", "no", ("NamespaceTerminating",)),
        ),
        (Invalid("bad"), Refused(422, "Invalid", "bad")),
        (Invalid(TEST_FAILED), Refused(422, "Invalid", TEST_FAILED)),
        (InternalError("etcd"), Unknown("etcd", 5.0)),
        (InternalError(WEBHOOK_AWAY), Refused(500, "InternalError", WEBHOOK_AWAY)),
        (Unavailable("cut"), Unknown("cut", 5.0)),
        (TimedOut("late"), Unknown("late", 5.0)),
        (b"<html>", Unknown("the answer is not JSON", 5.0)),
    ],
)
def test_each_answer_is_one_outcome_and_is_asked_for_once(
    answer: ApiError | bytes, outcome: Outcome
) -> None:
    server = Server([answer])
    assert play(server, change)[0] == outcome
    assert len(server.sent) == 1


def test_a_test_of_a_json_patch_that_fails_says_that_the_object_changed() -> None:
    server = Server([Invalid(TEST_FAILED)])
    assert play(server, lambda writer: writer.json_patch("/a", []))[0] == Stale(TEST_FAILED)


def test_what_the_server_did_not_look_at_is_sent_again_when_it_asked_for_it() -> None:
    server = Server([TooManyRequests("busy", retry_after=3), TooManyRequests("busy")])
    outcome, seconds = play(server, change)
    assert outcome == Done({})
    assert len(server.sent) == 3
    assert 4.0 <= seconds <= 4.8, "3 s and 1 s, each a little longer by chance"


def test_a_server_that_stays_busy_is_a_refusal_in_bounded_time() -> None:
    server = Server([TooManyRequests("busy", retry_after=60) for _ in range(9)])
    outcome, seconds = play(server, change)
    assert outcome == Refused(429, "TooManyRequests", "busy")
    assert len(server.sent) == 4
    assert seconds <= 3 * 5 * 1.2


def test_nothing_is_sent_once_writing_is_not_ours_not_even_again() -> None:
    server = Server()
    assert play(server, change, may_write=lambda: False)[0] == Withheld()
    assert server.sent == []
    allowed = [True, False]
    busy = Server([TooManyRequests("busy")])
    assert play(busy, change, may_write=lambda: allowed.pop(0))[0] == Withheld()
    assert len(busy.sent) == 1


def test_the_server_is_told_how_long_it_may_take() -> None:
    server = Server()
    play(server, change)
    assert server.sent[0][2] == {"timeout": "5s"}


def test_a_write_names_the_version_or_the_object_that_it_is_about() -> None:
    server = Server()

    async def scene(writer: Writer) -> None:
        await writer.merge_patch("/a", {"status": {"x": None}}, version="7")
        await writer.merge_patch("/a", {"metadata": {"labels": {}}})
        await writer.delete("/a", uid="u", version="7")
        await writer.delete("/a")
        await writer.create("/as", {"kind": "A"})
        await writer.json_patch("/a", [{"op": "test", "path": "/x", "value": 1}])

    play(server, scene)
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    merge, patch = "application/merge-patch+json", "application/json-patch+json"
    assert [(each[0], each[3], each[4]) for each in server.sent] == [
        ("PATCH", {"status": {"x": None}, "metadata": {"resourceVersion": "7"}}, merge),
        ("PATCH", {"metadata": {"labels": {}}}, merge),
        (
            "DELETE",
            {**options, "preconditions": {"uid": "u", "resourceVersion": "7"}},
            "application/json",
        ),
        ("DELETE", {**options, "preconditions": {}}, "application/json"),
        ("POST", {"kind": "A"}, "application/json"),
        ("PATCH", [{"op": "test", "path": "/x", "value": 1}], patch),
    ]


def test_so_many_are_under_way_at_a_time_and_each_is_counted() -> None:
    server = Server(seconds=1.0, answers=[b"{}"] * 6 + [Conflict("changed")])

    async def scene(writer: Writer) -> Mapping[tuple[str, str], int]:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(7):
                tasks.create_task(change(writer))
        return writer.counts

    counts, seconds = play(server, scene)
    assert counts == {("patch", "Done"): 6, ("patch", "Stale"): 1}
    assert server.most_at_once == 3
    assert seconds == pytest.approx(3.0)


@dataclass
class SlowServer(Server):
    """What it carries out at the same time slows each other down; what is late is given up."""

    @override
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
        self.at_once += 1
        takes = self.seconds * self.at_once
        await asyncio.sleep(min(takes, timeout_seconds))
        self.at_once -= 1
        if takes > timeout_seconds:
            raise TimedOut("late")
        return b"{}"


def test_a_server_that_answers_none_of_so_many_in_time_is_asked_for_fewer_at_a_time() -> None:
    """With 32 at a time each takes eight seconds of its five, and nothing is ever done."""
    server = SlowServer(seconds=0.25)

    async def scene(writer: Writer) -> Mapping[tuple[str, str], int]:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(400):
                tasks.create_task(change(writer))
        return writer.counts

    counts, _ = play(server, scene, at_once=32)
    assert counts["patch", "Done"] > 300


def test_what_is_lost_together_counts_once_and_answers_make_room_again() -> None:
    server = Server(seconds=1.0, answers=[TimedOut("late")] * 4)

    async def scene(writer: Writer) -> list[int]:
        most = []
        for _ in range(4):
            server.most_at_once = 0
            async with asyncio.TaskGroup() as tasks:
                for _ in range(4):
                    tasks.create_task(change(writer))
            most.append(server.most_at_once)
        return most

    assert play(server, scene, at_once=4)[0] == [4, 2, 3, 4]


def test_however_many_are_lost_some_go_on_beside_each_other() -> None:
    """Those of one tenant may be lost for ever, in a webhook of its own."""
    server = Server(seconds=1.0, answers=[TimedOut("late")] * 128)

    async def scene(writer: Writer) -> int:
        for _ in range(4):
            server.most_at_once = 0
            async with asyncio.TaskGroup() as tasks:
                for _ in range(32):
                    tasks.create_task(change(writer))
        return server.most_at_once

    assert play(server, scene, at_once=32, at_least=8)[0] == 8


def test_a_write_that_is_cancelled_before_its_turn_or_in_it_leaves_its_place_to_others() -> None:
    server = Server(seconds=1.0)

    async def scene(writer: Writer) -> list[Outcome]:
        async with asyncio.TaskGroup() as tasks:
            first, second, third, last = (tasks.create_task(change(writer)) for _ in range(4))
            await asyncio.sleep(0.5)
            third.cancel()  # it waits
            await asyncio.sleep(0)
            first.cancel()  # its place is handed to the second one, which is cancelled too
            second.cancel()
        return [last.result()]

    outcomes, seconds = play(server, scene, at_once=1)
    assert outcomes == [Done({})]
    assert seconds == pytest.approx(1.5)


def test_a_read_tells_what_there_is() -> None:
    server = Server([orjson.dumps({"kind": "A"}), NotFound("none")])

    async def scene(writer: Writer) -> list[Any]:
        return [await writer.read("/a"), await writer.read("/a")]

    assert play(server, scene)[0] == [{"kind": "A"}, None]


@pytest.mark.parametrize("answer", [b"<html>", b"", b"[]", b"null"])
def test_an_answer_that_is_no_object_is_no_reading(answer: bytes) -> None:
    async def scene(writer: Writer) -> None:
        with pytest.raises(Unavailable, match="/a: an answer that is no object"):
            await writer.read("/a")

    play(Server([answer]), scene)
