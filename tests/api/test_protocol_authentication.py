"""B. Who asks: checks 12 to 32 of the contract, over TLS."""

from __future__ import annotations

import asyncio
import itertools

import aiohttp
import orjson
import pytest

from apiserver.identity import User
from tests.api.pki import SERVER, authority, now
from tests.api.served import ALL, BASE, Caller, Served, options_of
from tests.cluster.waiting import wait_until

A = options_of("tenant-a")


_numbers = itertools.count(1)


async def seen_as(served: Served, caller: Caller) -> User:
    """Whom the server takes a caller for: what it asks the cluster about."""
    answer = await caller(options_of(f"tenant-{next(_numbers)}"))  # never asked about before
    assert answer.status in {200, 403}, answer.text
    return served.rights.asked[-1].user


async def test_a_front_proxy_names_the_user_its_groups_uid_and_extras(served: Served) -> None:
    caller = await served.caller(
        ("X-Remote-User", "alice"),
        ("X-Remote-Uid", "42"),
        ("X-Remote-Group", "devs"),
        ("X-Remote-Group", "a,b"),
        ("X-Remote-Extra-Scopes", "one"),
        ("X-Remote-Extra-Scopes", "two"),
        shown=served.keys.proxy,
    )

    assert await seen_as(served, caller) == User(
        "alice",
        uid="42",
        groups=("devs", "a,b", "system:authenticated"),
        extra=(("scopes", ("one", "two")),),
    )


async def test_check_13_a_change_of_the_config_map_counts_at_once(served: Served) -> None:
    caller = await served.caller(
        ("X-Remote-User", "alice"), ("X-Who", "bob"), shown=served.keys.proxy
    )
    assert (await seen_as(served, caller)).name == "alice"

    served.believe(requestheader_username_headers='["X-Who"]')

    assert (await seen_as(served, caller)).name == "bob"


async def test_check_14_both_authorities_of_a_bundle_count_and_one_that_goes_stops_counting(
    served: Served,
) -> None:
    following = authority("front-proxy-ca-2", now=now())
    served.believe(requestheader_client_ca_file=served.keys.front.pem + following.pem)
    old = await served.aggregator("alice")
    new = await served.aggregator("bob", shown=following.issue("front-proxy-client", now=now()))
    assert (await seen_as(served, old)).name == "alice"
    assert (await seen_as(served, new)).name == "bob"

    served.believe(requestheader_client_ca_file=following.pem)

    answer = await old(A)  # on the connection that exists
    assert answer.status == 401
    assert answer.json["message"] == "Unauthorized"
    assert (await seen_as(served, new)).name == "bob"
    with pytest.raises(aiohttp.ClientError):  # a new one fails in the handshake
        await old(A)


async def test_check_15_a_name_that_is_not_allowed_cannot_speak_for_others(served: Served) -> None:
    other = served.keys.front.issue("somebody-else", now=now())
    caller = await served.aggregator("admin", "system:masters", shown=other)

    assert (await caller(A)).status == 401

    served.rights.tokens["t"] = User("robot")
    caller = await served.caller(("X-Remote-User", "admin"), shown=other, token="t")
    assert (await seen_as(served, caller)).name == "robot"


async def test_check_16_an_empty_list_of_names_allows_any(served: Served) -> None:
    served.believe(requestheader_allowed_names="[]")
    other = served.keys.front.issue("somebody-else", now=now())

    assert (await seen_as(served, await served.aggregator("alice", shown=other))).name == "alice"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"usages": SERVER}, id="check 17: not for clients"),
        pytest.param({"days": (-10, -1)}, id="check 18: expired"),
    ],
)
async def test_a_faulty_certificate_is_refused_in_the_handshake(
    served: Served, fault: dict[str, tuple[int, int]]
) -> None:
    bad = served.keys.front.issue("front-proxy-client", now=now(), **fault)  # type: ignore[arg-type] # by name

    with pytest.raises(aiohttp.ClientError):
        await (await served.aggregator("admin", "system:masters", shown=bad))(A)


async def test_check_19_headers_without_a_certificate_mean_nothing(served: Served) -> None:
    caller = await served.caller(("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"))

    user = await seen_as(served, caller)

    assert user == User("system:anonymous", groups=("system:unauthenticated",))
    assert (await caller(A)).status == 403


async def test_check_20_with_a_users_certificate_its_holder_counts_and_no_header(
    served: Served,
) -> None:
    alice = served.keys.users.issue("alice", organizations=["devs"], now=now())
    caller = await served.aggregator("admin", "system:masters", shown=alice)

    user = await seen_as(served, caller)

    assert (user.name, user.groups) == ("alice", ("devs", "system:authenticated"))
    assert user.extra[0][0] == "authentication.kubernetes.io/credential-id"


async def test_check_21_a_front_proxy_that_names_nobody_is_not_believed(served: Served) -> None:
    caller = await served.caller(("X-Remote-Group", "system:masters"), shown=served.keys.proxy)

    assert (await caller(A)).status == 401


async def test_check_25_names_that_are_no_utf_8_are_a_bad_request(served: Served) -> None:
    status, body = await served.raw(
        f"GET {A} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Remote-User: al".encode()
        + b"\xffice\r\n\r\n",
        served.keys.proxy,
    )

    assert (status, orjson.loads(body)["reason"]) == (400, "BadRequest")


async def test_names_beyond_ascii_arrive_whole(served: Served) -> None:
    served.rights.grants.add(("größe", "list", "tenant-a"))

    assert (await (await served.aggregator("größe"))(A)).status == 200


async def test_check_27_a_token_is_reviewed_once_in_ten_seconds_whatever_the_answer(
    served: Served,
) -> None:
    served.rights.tokens["good"] = User("robot", groups=("robots",))
    good, bad = await served.caller(token="good"), await served.caller(token="bad")

    for _ in range(3):
        assert (await seen_as(served, good)).groups == ("robots", "system:authenticated")
        assert (await bad(A)).status == 401

    assert served.rights.reviewed == ["good", "bad"]


async def test_check_27_a_review_that_fails_is_not_kept(served: Served) -> None:
    caller = await served.caller(token="good")
    served.rights.failing = True
    assert (await caller(A)).status == 401

    served.rights.failing = False
    served.rights.tokens["good"] = User("robot")
    served.rights.grants.add(("robot", "list", "tenant-a"))
    assert (await caller(A)).status == 200


async def test_check_27_ten_requests_at_once_are_one_review(served: Served) -> None:
    served.rights.tokens["good"] = User("robot")
    served.rights.grants.add(("robot", "list", "tenant-a"))
    served.rights.gate.clear()
    caller = await served.caller(token="good")

    async def reviewed() -> bool:
        return bool(served.rights.reviewed)

    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(caller(A)) for _ in range(10)]
        await wait_until(reviewed, "the token is reviewed")
        served.rights.gate.set()

    assert [task.result().status for task in asking] == [200] * 10
    assert len(served.rights.reviewed) == 1


async def test_check_28_a_bad_token_is_unauthorized_although_nobody_may_come(
    served: Served,
) -> None:
    served.rights.grants.add(("system:unauthenticated", "list", "tenant-a"))

    assert (await (await served.caller(token="bad"))(A)).status == 401
    assert (await (await served.caller())(A)).status == 200


async def test_check_29_a_caller_without_credentials_is_authorized_as_nobody(
    served: Served,
) -> None:
    assert (await (await served.caller())(A)).status == 403
    served.rights.grants.add(("system:anonymous", "list", "tenant-b"))
    assert (await (await served.caller())(options_of("tenant-b"))).status == 200


@pytest.mark.parametrize("name", ["Impersonate-User", "Impersonate-Group", "Impersonate-Extra-x"])
async def test_check_31_nobody_acts_as_somebody_else_here(served: Served, name: str) -> None:
    caller = await served.caller(
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
        (name, "bob"),
        shown=served.keys.proxy,
    )

    answer = await caller(A)

    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")


async def test_check_32_without_an_authority_for_users_front_proxies_still_count(
    starting: Served,
) -> None:
    starting.believe(client_ca_file="")

    assert (await (await starting.admin())(ALL)).status == 200
    assert (await (await starting.admin())(BASE)).status == 200
