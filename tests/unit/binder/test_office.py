"""How a term begins (rule 7.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from binder import office
from binder.office import FollowedSystem, epoch_of, next_epoch
from shared.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, Unavailable
from shared.fields import Json
from shared.kube.writer import Writer
from shared.vocabulary import EPOCH_MAX
from tests.unit.binder.acting import Server, play

SYSTEM = "/gpusystems/default"
log = logging.getLogger(__name__).info


def system(epoch: int | None, version: str = "7") -> dict[str, Any]:
    status = {} if epoch is None else {"status": {"epoch": epoch}}
    return {"metadata": {"name": "default", "resourceVersion": version}, **status}


def claims(*epochs: int, more: str = "") -> dict[str, Any]:
    items = [{"status": {"epoch": epoch}} for epoch in epochs]
    return {"metadata": {"continue": more}, "items": items}


def begin(
    server: Server, seen: int = 0, hindered: Callable[[str], None] = log
) -> tuple[int, list[tuple[float, str]], list[Json]]:
    """The epoch, what happened when, and what was learnt."""
    steps: list[tuple[float, str]] = []
    learnt: list[Json] = []

    async def scene(writer: Writer) -> int:
        clock = asyncio.get_running_loop().time
        followed = FollowedSystem(lambda: None)
        followed.highest = seen

        async def reread() -> None:
            steps.append((clock(), "read"))

        epoch = await office.take(
            writer,
            server,
            reread,
            followed,
            wrote=learnt.append,
            chance=Random(1),
            hindered=hindered,
        )
        steps.append((clock(), "begun"))
        return epoch

    epoch = play(scene, server)
    steps.extend((at, method) for at, method, path in server.asked if method == "PATCH")
    return epoch, sorted(steps, key=lambda step: step[0]), learnt


def raised(server: Server) -> list[Any]:
    return [body["status"]["epoch"] for body in server.bodies if body and "status" in body]


def test_everything_is_read_then_the_epoch_is_raised_then_a_request_s_time_passes() -> None:
    server = Server()
    server.answer("GET", SYSTEM, system(4))
    epoch, steps, learnt = begin(server)
    assert epoch == 5
    assert [what for _, what in steps] == ["read", "PATCH", "read", "begun"]
    times = {what: at for at, what in steps[1:3]}
    assert times["read"] - times["PATCH"] >= 5.0
    assert raised(server) == [5]
    assert server.bodies[-1]["metadata"] == {"resourceVersion": "7"}
    assert learnt, "known before the watch tells it"


def test_a_missing_gpusystem_is_made_and_starts_above_every_claim() -> None:
    server = Server()
    server.answer("POST", "/gpusystems", system(None, "1"))
    server.answer("GET", "/gpuclaims", claims(2, 9, more="next"), claims(3))
    assert begin(server)[0] == 10
    assert server.story[:5] == [
        "GET gpusystems/default",
        "GET v1alpha1/gpuclaims",
        "GET v1alpha1/gpuclaims",
        "POST v1alpha1/gpusystems",
        "PATCH default/status",
    ]


def test_an_epoch_that_was_set_back_goes_on_above_every_claim_and_what_was_seen() -> None:
    for seen, expected in ((0, 10), (12, 13)):
        server = Server()
        server.answer("GET", SYSTEM, system(1))
        server.answer("GET", "/gpuclaims", claims(9))
        assert begin(server, seen)[0] == expected


def test_a_claim_with_the_highest_number_there_is_hides_no_other_of_its_page() -> None:
    server = Server()
    server.answer("GET", SYSTEM, system(1))
    server.answer("GET", "/gpuclaims", claims(9, EPOCH_MAX, 3, more="next"), claims(EPOCH_MAX, 5))
    assert begin(server)[0] == 10


@pytest.mark.parametrize(
    ("method", "end", "error"),
    [
        ("PATCH", "/default/status", Conflict("changed")),
        ("PATCH", "/default/status", Forbidden("no")),
        ("PATCH", "/default/status", Unavailable("cut")),
        ("GET", SYSTEM, Unavailable("cut")),
        ("GET", "/gpuclaims", Unavailable("cut")),
        ("GET", SYSTEM, b"<html>"),
        ("GET", "/gpuclaims", b"<html>"),
    ],
)
def test_what_fails_is_tried_again_from_what_there_is_then(
    method: str, end: str, error: ApiError | bytes
) -> None:
    server = Server()
    server.answer("GET", SYSTEM, system(4), system(6))
    server.answer(method, end, error, system(6))
    if end == "/gpuclaims":
        server.answer(method, end, error, claims())
    reasons: list[str] = []
    epoch, steps, _ = begin(server, hindered=reasons.append)
    assert epoch >= 5
    assert [what for _, what in steps][-2:] == ["read", "begun"]
    assert len(reasons) == 1
    expected = "an answer that is no object" if isinstance(error, bytes) else error.message
    assert expected in reasons[0]
    assert reasons[0].startswith("epoch not r")  # read, or raised


def test_two_that_make_the_gpusystem_at_once_do_not_share_an_epoch() -> None:
    server = Server()
    server.answer("GET", SYSTEM, NotFound("none"), system(1))
    server.answer("POST", "/gpusystems", AlreadyExists("there is one"))
    assert begin(server)[0] == 2


@pytest.mark.parametrize("value", [None, "7", True, 1.5, [], {}])
def test_an_epoch_that_is_none_counts_as_none(value: object) -> None:
    assert epoch_of({"status": {"epoch": value}}) is None
    assert next_epoch({"status": {"epoch": value}}, [3]) == 4


def test_the_highest_epoch_is_remembered_when_the_object_goes() -> None:
    woken: list[None] = []
    followed = FollowedSystem(lambda: woken.append(None))
    followed.put(system(8))
    followed.put(system(3))
    followed.put(system(2**31 - 1))
    followed.gone(system(3))
    assert followed.highest == 8
    assert followed.raw == {}
    assert len(woken) == 4


@pytest.mark.parametrize("absurd", [2**31 - 1, 2**31, 2**63 - 1])
def test_a_term_begins_also_after_somebody_wrote_the_highest_number_there_is(absurd: int) -> None:
    """The one above it would be refused for ever, and nobody would bind."""
    assert next_epoch(system(absurd), [7, absurd]) == 8
    assert next_epoch(system(absurd), [absurd]) == 1
    assert next_epoch(system(2**31 - 2), [7]) == 2**31 - 1
