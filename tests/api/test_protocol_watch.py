"""H. Watching: checks 81 to 97 of the contract, as far as a single server has them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from apiserver.flow import WatchLimit
from shared.core.cluster import Touched
from shared.errors import Unavailable
from tests.api.served import ALL, Json, Served, Stream, options_of
from tests.api.source import a_class
from tests.cluster.waiting import wait_until

A = options_of("tenant-a")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def listed(served: Served, target: str = A) -> str:
    """The version of a list."""
    answer = await (await served.admin())(target)
    version: str = answer.json["metadata"]["resourceVersion"]
    return version


async def test_check_84_the_head_of_the_answer_comes_at_once_though_nothing_happens(
    served: Served,
) -> None:
    version = await listed(served)

    async with (await served.admin()).watch(f"{A}?watch=1&resourceVersion={version}") as stream:
        assert stream.response.status == 200
        assert stream.response.headers["Content-Type"] == "application/json"
        assert stream.response.headers["Transfer-Encoding"] == "chunked"
        assert stream.response.headers["Cache-Control"] == "no-cache, private"


@pytest.mark.parametrize("version", ["", "&resourceVersion=0", "&resourceVersion="])
async def test_check_85_from_nowhere_everything_is_added_first_and_then_what_changes(
    served: Served, version: str
) -> None:
    async with (await served.admin()).watch(f"{A}?watch=true{version}") as stream:
        assert await stream.take(2) == [("ADDED", "a100"), ("ADDED", "l4")]

        served.do(served.table.allow("tenant-a", "l4", 1))

        event = await stream.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("MODIFIED", "l4")
    assert event["object"]["status"]["orderableUnits"] == 1


async def test_check_85_from_a_list_only_what_changed_since(served: Served) -> None:
    version = await listed(served)
    served.do(served.table.put(a_class("new")))

    async with (await served.admin()).watch(f"{A}?watch=1&resourceVersion={version}") as stream:
        assert await stream.take(1) == [("ADDED", "new")]
        served.do(served.table.remove("new"))
        event = await stream.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "new")


async def test_check_93_what_went_is_shown_as_it_last_was_under_the_new_version(
    served: Served,
) -> None:
    admin = await served.admin()
    last = (await admin(f"{A}/l4")).json
    async with admin.watch(f"{A}?watch=1&resourceVersion={await listed(served)}") as stream:
        served.do(served.table.remove("l4"))
        event = await stream.next()

    gone = event["object"]
    assert int(gone["metadata"].pop("resourceVersion")) > int(
        last["metadata"].pop("resourceVersion")
    )
    last["status"].pop("observedTime"), gone["status"].pop("observedTime")
    assert gone == last


async def test_check_86_a_version_that_is_too_old_is_expired_and_a_new_list_helps(
    served: Served,
) -> None:
    admin = await served.admin()
    await listed(served)

    answer = await admin(f"{A}?watch=1&resourceVersion=5")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")
    assert answer.json["message"].startswith("too old resource version: 5")

    async with admin.watch(f"{A}?watch=1&resourceVersion={await listed(served)}"):
        pass


@pytest.mark.parametrize("target", [A, ALL])
async def test_a_watch_from_a_version_of_another_replica_is_expired_but_a_list_is_answered(
    served: Served, target: str
) -> None:
    admin = await served.admin()
    own = int(await listed(served, target))
    foreign = own + 1  # of a process that drew the next number, in the same microsecond
    joined = f"resourceVersion={foreign}"

    answer = await admin(f"{target}?watch=1&{joined}")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")
    assert answer.json["message"].startswith(f"too old resource version: {foreign}")

    for query in (joined, f"{joined}&resourceVersionMatch=NotOlderThan"):
        newer = await admin(f"{target}?{query}")
        assert newer.status == 200
        assert int(newer.json["metadata"]["resourceVersion"]) >= foreign
    assert (await admin(f"{A}/a100?{joined}")).status == 200


async def test_check_87_a_watch_ends_when_it_was_asked_to_with_a_clean_end(served: Served) -> None:
    began = time.monotonic()
    async with (await served.admin()).watch(f"{A}?watch=1&timeoutSeconds=1") as stream:
        events = await stream.rest()  # a cut body would raise

    assert [event["type"] for event in events] == ["ADDED", "ADDED"]
    assert time.monotonic() - began >= 1


async def test_check_87_the_deadline_of_other_requests_is_none_for_a_watch(served: Served) -> None:
    target = f"{A}?watch=1&timeout=1ms&timeoutSeconds=1"
    async with (await served.admin()).watch(target) as stream:
        assert len(await stream.rest()) == 2


async def test_check_88_a_bookmark_comes_before_the_end_to_those_who_take_it(
    served: Served,
) -> None:
    admin = await served.admin()
    before = await listed(served)

    async with admin.watch(f"{A}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1") as stream:
        *_, last = await stream.rest()
    assert last["type"] == "BOOKMARK"
    assert last["object"]["kind"] == "GPUClassOption"
    version = last["object"]["metadata"]["resourceVersion"]
    assert int(version) >= int(before)

    async with admin.watch(f"{A}?watch=1&resourceVersion={version}&timeoutSeconds=1") as stream:
        assert await stream.rest() == []


async def test_check_88_nobody_gets_bookmarks_unasked(served: Served) -> None:
    async with (await served.admin()).watch(f"{A}?watch=1&timeoutSeconds=1") as stream:
        assert "BOOKMARK" not in {event["type"] for event in await stream.rest()}


async def test_check_92_selectors_hold_for_watches_too(served: Served) -> None:
    target = f"{A}?watch=1&labelSelector=tier%3Dbig"
    async with (await served.admin()).watch(target) as stream:
        assert await stream.take(1) == [("ADDED", "a100")]

        served.do(served.table.put(a_class("l4", labels={"tier": "big"})))
        assert await stream.take(1) == [("ADDED", "l4")]
        served.do(served.table.put(a_class("a100", labels={"tier": "old"})))
        assert await stream.take(1) == [("DELETED", "a100")]


async def test_check_64_one_name_can_be_watched(served: Served) -> None:
    target = f"{A}?watch=1&fieldSelector=metadata.name%3Dl4"
    async with (await served.admin()).watch(target) as stream:
        assert await stream.take(1) == [("ADDED", "l4")]

        served.do(Touched(everything=True))
        served.table.allow("tenant-a", "a100", 1)
        served.do(served.table.allow("tenant-a", "l4", 1))

        assert await stream.take(1) == [("MODIFIED", "l4")]


async def test_all_tenants_can_be_watched_new_ones_included(served: Served) -> None:
    async with (await served.admin()).watch(f"{ALL}?watch=1") as stream:
        first = [await stream.next() for _ in range(4)]
        assert {event["object"]["metadata"]["namespace"] for event in first} == {
            "tenant-a",
            "tenant-b",
        }

        served.do(served.table.add_namespace("tenant-c"))

        assert await stream.take(2) == [("ADDED", "a100"), ("ADDED", "l4")]


async def test_check_79_and_81_a_table_is_watched_row_by_row(served: Served) -> None:
    target = f"{A}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1"
    async with (await served.admin()).watch(target, Accept=TABLE) as stream:
        events = await stream.rest()

    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    tables = [event["object"] for event in events]
    assert {table["kind"] for table in tables} == {"Table"}
    assert [bool(table["columnDefinitions"]) for table in tables] == [True, False, False]
    assert [len(table["rows"]) for table in tables] == [1, 1, 1]
    assert tables[0]["rows"][0]["object"]["metadata"]["name"] == "a100"
    assert tables[2]["rows"][0]["object"]["metadata"]["resourceVersion"]


async def test_metadata_only_can_be_watched(served: Served) -> None:
    async with (await served.admin()).watch(f"{A}?watch=1", Accept=PARTIAL) as stream:
        event = await stream.next()

    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert set(event["object"]) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize(
    "query",
    [
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        "sendInitialEvents=true",
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    ],
)
async def test_check_90_streaming_lists_are_refused_so_that_clients_list_instead(
    served: Served, query: str
) -> None:
    """Ignored, they would make an informer wait for ever."""
    answer = await (await served.admin())(f"{A}?watch=1&{query}")

    assert (answer.status, answer.json["reason"]) == (422, "Invalid")


async def test_check_94_a_reader_that_does_not_read_is_cut_off_and_others_are_not(
    served: Served,
) -> None:
    for number in range(100):
        served.table.put(a_class(f"class-{number}", description="x" * 1000))
    admin = await served.admin()
    request = f"GET {A}?watch=1 HTTP/1.1\r\nHost: x\r\n"
    identity = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\r\n"
    async with (
        admin.watch(f"{A}?watch=1") as stream,
        served.connection(served.keys.proxy) as (reader, writer),
    ):
        writer.write((request + identity).encode())
        await reader.readuntil(b"\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined] # it reads, too
        await until(served, watchers=2)

        await stream.take(102)
        rounds = 0
        while served.catalog.watchers == 2:
            rounds += 1
            for name in list(served.table.classes):
                served.table.allow("tenant-a", name, rounds % 1000)
            served.do(Touched(everything=True))
            await stream.take(102)

        assert served.catalog.watchers == 1
        assert rounds < 1000  # some megabytes lie in the buffers of two sockets


async def until(served: Served, *, watchers: int) -> None:
    """Wait until there are so many watches."""

    async def reached() -> bool:
        return served.catalog.watchers == watchers

    await wait_until(reached, f"{watchers} watches")


async def test_a_watch_ends_here_when_its_client_goes(served: Served) -> None:
    async with (await served.admin()).watch(f"{A}?watch=1") as stream:
        await stream.take(2)
        assert served.catalog.watchers == 1

    await until(served, watchers=0)


async def test_check_97_a_user_may_have_so_many_watches(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.limit = WatchLimit(per_user_max=2)
    async with served:
        served.believe()
        admin = await served.admin()
        async with admin.watch(f"{A}?watch=1"), admin.watch(f"{ALL}?watch=1"):
            answer = await admin(f"{A}?watch=1")
            assert (answer.status, answer.json["reason"]) == (429, "TooManyRequests")
            assert answer.headers["Retry-After"] == "5"
            assert answer.json["details"]["retryAfterSeconds"] == 5
            assert (await admin(A)).status == 200
        await until(served, watchers=0)
        async with admin.watch(f"{A}?watch=1"):
            pass


async def test_check_83_what_happened_between_list_and_watch_is_not_lost(served: Served) -> None:
    """A client lists, the world changes many times, the client watches from its list."""
    state: dict[str, Json] = {}
    admin = await served.admin()
    answer = await admin(A)
    for item in answer.json["items"]:
        state[item["metadata"]["name"]] = item
    for number in range(5):
        served.do(served.table.put(a_class(f"class-{number}")))
        await admin(A)
    served.do(served.table.remove("class-3"))
    served.do(served.table.remove("l4"))
    served.do(served.table.allow("tenant-a", "a100", 1))

    version = answer.json["metadata"]["resourceVersion"]
    target = f"{A}?watch=1&timeoutSeconds=1&resourceVersion={version}"
    async with admin.watch(target) as stream:
        apply(state, await stream.rest())

    now = {item["metadata"]["name"]: item for item in (await admin(A)).json["items"]}
    assert state == now


def apply(state: dict[str, Json], events: list[Json]) -> None:
    """What a client does with events."""
    for event in events:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            state.pop(name, None)
        else:
            state[name] = event["object"]


async def test_check_104_watches_end_cleanly_when_the_process_does(served: Served) -> None:
    streams: list[Stream] = []
    admin = await served.admin()
    async with admin.watch(f"{A}?watch=1") as one, admin.watch(f"{ALL}?watch=1") as two:
        streams += [one, two]
        await one.take(2)

        served.catalog.end()

        assert await one.rest() == []
        assert len(await two.rest()) <= 4
    answer = await admin(f"{A}?watch=1")  # one that comes too late ends at once
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("accept", ["application/json", TABLE], ids=["objects", "table"])
@pytest.mark.parametrize("target", [A, ALL])
async def test_when_options_cannot_be_served_any_more_watches_end_with_what_a_list_is_answered(
    served: Served, target: str, accept: str
) -> None:
    """Rule 5.4: nobody is told that options went which are only not known any more."""
    admin = await served.admin()
    version = await listed(served, target)
    query = f"watch=1&resourceVersion={version}"
    async with admin.watch(f"{target}?{query}", Accept=accept) as stream:
        served.do(served.table.remove("l4"))

        served.unavailable = "kinds that are not installed here: gpuclasses"
        served.catalog.interrupt(Unavailable(served.unavailable))

        (event,) = await stream.rest()
    answer = await admin(target)
    assert answer.status == 503
    assert event == {"type": "ERROR", "object": answer.json}
    assert (await admin(f"{target}?{query}")).status == 503
    await until(served, watchers=0)

    served.unavailable = ""
    async with admin.watch(f"{A}?watch=1&resourceVersion={await listed(served)}"):
        pass


@pytest.mark.parametrize("target", [f"{A}/l4", A, ALL, f"{A}?watch=1", f"{ALL}?watch=1"])
async def test_options_that_stop_to_be_served_while_a_request_waits_are_not_served_to_it(
    served: Served, target: str
) -> None:
    """It may wait for its version, or for its turn in computing the options of all tenants."""
    admin = await served.admin()
    served.become_unavailable_after = 1

    answer = await admin(target)

    assert (answer.status, answer.json["message"]) == (503, "not any more")
