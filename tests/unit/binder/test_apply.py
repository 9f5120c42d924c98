"""Works carried out: their order, their outcomes, and what is known afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from binder.actions import (
    AddFinalizer,
    BookClaim,
    CreateClaim,
    DeleteClaim,
    FencePod,
    Kind,
    Ref,
    RemoveFinalizer,
    Result,
    StartPod,
    TellVmi,
    Work,
)
from binder.apply import Hand, is_stale
from shared.errors import ApiError, Conflict, Forbidden, NotFound, Unavailable
from shared.fields import Json, version_of
from shared.kube.outcomes import Missing, Refused, Stale, Unknown, Withheld
from shared.kube.writer import Writer
from shared.reasons import Reason
from shared.vocabulary import FINALIZER_CLAIM, GATE
from tests.unit.binder.acting import Server, play

AT = "2026-01-01T00:00:00Z"


def claim(name: str, version: str = "7") -> Ref:
    return Ref("tenant-a", name, f"uid-{name}", version)


def book(name: str, version: str = "7") -> BookClaim:
    return BookClaim(claim(name, version), "n1", "example.com/a10", AT)


START = StartPod(Ref("tenant-a", "pod", "uid-pod", "8"), "n1", (GATE,))
EVENT = TellVmi("tenant-a", "vm", "u", Reason.NO_CAPACITY, "none free", AT)


def perform(
    server: Server, *works: Work, may_write: bool = True
) -> tuple[list[Result], list[tuple[str, Json]], float]:
    """What came of works, what was learnt, and how long that took."""
    learnt: list[tuple[str, Json]] = []

    async def scene(writer: Writer) -> tuple[list[Result], float]:
        clock = asyncio.get_running_loop().time
        hand = Hand(
            writer,
            5,
            wrote=lambda kind, raw: learnt.append((kind, raw)),
            told=lambda event: learnt.append((Kind.EVENT, {"name": event.event_name})),
            clock=clock,
        )
        began = clock()
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(hand.perform(work)) for work in works]
        return [task.result() for task in running], clock() - began

    results, seconds = play(scene, server, lambda: may_write)
    return results, learnt, seconds


def test_a_pod_starts_only_after_every_claim_of_it_was_booked() -> None:
    """Rule 7.1."""
    server = Server()
    results, _, _ = perform(server, Work("set/a", ((book("a"), book("b")), (START,))))
    assert results == [Result("set/a")]
    assert server.story == ["PATCH a/status", "PATCH b/status", "PATCH pods/pod"]


def test_a_pod_that_was_fenced_starts_as_it_is_then() -> None:
    server = Server()
    fence, start = FencePod(START.pod), replace(START, pod=replace(START.pod, version=""))
    work = Work("set/a", ((fence,), (book("a"),), (start,)))
    results, _, _ = perform(server, work)
    assert results == [Result("set/a")]
    assert server.story == ["PATCH pods/pod", "PATCH a/status", "PATCH pods/pod"]
    tested = {each["path"]: each["value"] for each in server.bodies[2] if each["op"] == "test"}
    assert tested["/metadata/resourceVersion"] == "101", "that of the first answer"
    assert tested["/metadata/uid"] == "uid-pod"


def test_nothing_is_freed_where_the_pod_could_not_be_fenced() -> None:
    for error, done in ((Conflict("x"), False), (Forbidden("x"), False), (NotFound("x"), True)):
        server = Server()
        server.answer("PATCH", "/pods/pod", error)
        release = RemoveFinalizer(Kind.CLAIM, claim("b"), FINALIZER_CLAIM, (FINALIZER_CLAIM,))
        (result,), _, _ = perform(server, Work("claim/b", ((FencePod(START.pod),), (release,))))
        assert result.done is done, "a pod that is gone starts nowhere"
        assert ("PATCH gpuclaims/b" in server.story) is done


@pytest.mark.parametrize("error", [Conflict("x"), Forbidden("x"), NotFound("x"), Unavailable("x")])
def test_a_pod_does_not_start_where_one_claim_was_not_booked(error: ApiError) -> None:
    server = Server()
    server.answer("PATCH", "/b/status", error)
    work = Work("set/a", ((book("a"), book("b")), (START,)))
    (result,), _, _ = perform(server, work)
    assert not result.done
    assert result.failed == book("b")
    assert "PATCH pods/pod" not in server.story


def test_one_work_that_fails_holds_up_no_other() -> None:
    """Rule 7.3."""
    server = Server()
    server.answer("PATCH", "/a/status", Forbidden("no"))
    bad, good = Work("set/a", ((book("a"),), (START,))), Work("set/b", ((book("b"),),))
    results, _, seconds = perform(server, bad, good)
    assert [result.done for result in results] == [False, True]
    assert seconds < 0.1


def test_what_was_written_is_known_before_the_pass_ends() -> None:
    """Rule 7.2."""
    server = Server()
    _, learnt, _ = perform(server, Work("set/a", ((book("a"),), (START,))))
    assert [(kind, version_of(raw)) for kind, raw in learnt] == [
        ("gpuclaims", "101"),
        ("pods", "102"),
    ]


def test_what_was_deleted_for_good_teaches_nothing() -> None:
    server = Server()
    server.answer("DELETE", "/a", {"kind": "Status", "status": "Success", "metadata": {}})
    results, learnt, _ = perform(server, Work("claim/a", ((DeleteClaim(claim("a")),),)))
    assert results == [Result("claim/a")]
    assert learnt == []


def test_a_lost_answer_is_found_out_once_the_write_can_come_no_more() -> None:
    server = Server()
    server.answer("PATCH", "/a/status", Unavailable("cut"))
    server.answer(
        "GET", "/a", Unavailable("still"), {"metadata": {"name": "a", "resourceVersion": "55"}}
    )
    (result,), learnt, seconds = perform(server, Work("set/a", ((book("a"),), (START,))))
    assert isinstance(result.outcome, Unknown)
    assert not is_stale(result)
    assert [version_of(raw) for _, raw in learnt] == ["55"]
    assert 5.0 <= seconds <= 8.0, "the write bears a deadline of 5 s"
    assert server.story == ["PATCH a/status", "GET gpuclaims/a", "GET gpuclaims/a"]


def test_a_conflict_is_looked_into_for_it_may_be_our_own_write_carried_out_before() -> None:
    """As where a proxy sent it twice: the answer to the second says nothing of the first."""
    server = Server()
    server.answer("PATCH", "/a/status", Conflict("the object has been modified"))
    server.answer("GET", "/a", {"metadata": {"name": "a", "resourceVersion": "55"}})
    (result,), learnt, seconds = perform(server, Work("set/a", ((book("a"),), (START,))))
    assert is_stale(result)
    assert [version_of(raw) for _, raw in learnt] == ["55"]
    assert seconds < 0.1
    assert server.story == ["PATCH a/status", "GET gpuclaims/a"]


def test_what_is_gone_needs_no_deleting_and_no_releasing() -> None:
    server = Server()
    server.answer("DELETE", "/a", NotFound("none"))
    server.answer("PATCH", "/b", NotFound("none"))
    release = RemoveFinalizer(Kind.CLAIM, claim("b"), FINALIZER_CLAIM, (FINALIZER_CLAIM,))
    results, _, _ = perform(
        server, Work("claim/a", ((DeleteClaim(claim("a")),),)), Work("claim/b", ((release,),))
    )
    assert all(result.done for result in results)


@pytest.mark.parametrize("error", [Conflict("told before"), Forbidden("x"), Unavailable("x")])
def test_nothing_waits_for_an_event(error: ApiError) -> None:
    server = Server()
    server.answer("POST", "/events", error)
    (result,), learnt, seconds = perform(server, Work("set/a", ((EVENT,), (book("a"),))))
    assert result.done
    assert learnt[0] == (Kind.EVENT, {"name": EVENT.event_name}), "it is not sent again"
    assert seconds < 0.1


def test_an_event_that_is_there_is_told_and_nothing_else_is_learnt_of_it() -> None:
    (result,), learnt, _ = perform(Server(), Work("set/a", ((EVENT,),)))
    assert result.done
    assert learnt == [(Kind.EVENT, {"name": EVENT.event_name})]


def test_nothing_is_sent_and_nothing_counts_as_done_once_we_do_not_lead() -> None:
    server = Server()
    results, learnt, _ = perform(
        server, Work("set/a", ((EVENT,),)), Work("set/b", ((book("b"),),)), may_write=False
    )
    assert learnt == []
    assert [result.outcome for result in results] == [Withheld(), Withheld()]
    assert server.asked == []


def test_a_claim_that_was_just_made_is_booked_in_the_version_that_it_was_made_in() -> None:
    server = Server()
    made: dict[str, Any] = {"name": "a", "namespace": "tenant-a", "uid": "new"}
    server.answer("POST", "/gpuclaims", {"metadata": {**made, "resourceVersion": "31"}})
    new = Ref("tenant-a", "a")
    create = CreateClaim(new, "a10", 1, "vm", "u")
    booking = BookClaim(new, "n1", "example.com/a10", AT)
    perform(server, Work("set/a", ((create,), (booking,))))
    assert server.bodies[1]["metadata"] == {"resourceVersion": "31"}


def test_a_claim_that_got_its_finalizer_first_is_booked_in_the_version_after_that() -> None:
    server = Server()
    finalizer = AddFinalizer(Kind.CLAIM, claim("a"), FINALIZER_CLAIM)
    perform(server, Work("claim/a", ((finalizer,), (book("a", version=""),))))
    assert server.bodies[1]["metadata"] == {"resourceVersion": "101"}


def test_what_only_has_to_be_decided_anew_is_told_from_what_failed() -> None:
    assert is_stale(Result("a", EVENT, Stale("")))
    assert is_stale(Result("a", EVENT, Missing("")))
    assert not is_stale(Result("a", EVENT, Refused(403, "", "")))
