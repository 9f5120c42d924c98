"""J. Health and lifecycle: checks 33 and 102 to 105 of the contract."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest

from tests.api.served import ALL, BASE, Served, options_of
from tests.cluster.waiting import wait_until

A = options_of("tenant-a")


async def test_check_102_each_endpoint_says_ok(served: Served) -> None:
    nobody = await served.caller()

    for path in ("/healthz", "/livez", "/readyz"):
        answer = await nobody(path)
        assert (answer.status, answer.text) == (200, "ok")
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_check_102_the_checks_are_listed_when_asked(served: Served) -> None:
    answer = await (await served.caller())("/readyz?verbose")

    assert answer.text == (
        "[+]ping ok\n[+]request-header-ca ok\n[+]shutdown ok\nreadyz check passed\n"
    )


async def test_check_33_and_103_without_trust_it_lives_and_is_not_ready(starting: Served) -> None:
    nobody = await starting.caller()

    assert (await nobody("/livez")).status == 200
    answer = await nobody("/readyz")
    assert answer.status == 500
    assert "[-]request-header-ca failed: reason withheld" in answer.text
    assert "not read yet" not in answer.text

    starting.believe()
    assert (await nobody("/readyz")).status == 200


async def test_check_102_a_failing_check_can_be_left_out(starting: Served) -> None:
    nobody = await starting.caller()

    assert (await nobody("/readyz?exclude=request-header-ca")).status == 200
    assert (await nobody("/readyz?exclude=ping")).status == 500


async def test_check_102_each_check_can_be_asked_for_by_those_who_may(served: Served) -> None:
    admin = await served.admin()
    served.believe(client_ca_file="nonsense -----BEGIN CERTIFICATE-----\n")

    assert (await admin("/readyz/ping")).status == 200
    answer = await admin("/readyz/request-header-ca")
    assert answer.status == 500
    assert "reason withheld" in answer.text
    assert (await admin("/readyz/nonsense")).status == 404


async def test_check_105_figures_are_counted_by_verb_resource_and_code(served: Served) -> None:
    admin = await served.admin()
    await admin(A)
    await admin(A)
    await admin(f"{A}/nope")
    async with admin.watch(f"{A}?watch=1") as stream:
        await stream.take(2)
        text = (await admin("/metrics")).text
    assert (
        'gpu_apiserver_requests_total{code="200",resource="gpuclassoptions",verb="list"} 2.0'
        in (text)
    )
    assert 'gpu_apiserver_requests_total{code="404",resource="gpuclassoptions",verb="get"} 1.0' in (
        text
    )
    assert "gpu_apiserver_watchers 1.0" in text
    assert "gpu_apiserver_trust_problem 0.0" in text
    assert "process_resident_memory_bytes" in text
    assert re.search(r"gpu_apiserver_request_duration_seconds_bucket{[^}]*verb=\"list\"", text)


async def test_figures_do_not_multiply_with_what_strangers_ask(served: Served) -> None:
    admin = await served.admin()
    for number in range(20):
        await admin(f"{BASE}/resource-{number}", method="GET")
        await admin(A, method=f"M{number}")

    text = (await admin("/metrics")).text

    assert len(re.findall("(?m)^gpu_apiserver_requests_total", text)) <= 4


async def test_check_104_asked_to_end_it_is_not_ready_and_still_answers_each_last_time(
    served: Served,
) -> None:
    admin = await served.admin()
    assert "Connection" not in (await admin(A)).headers

    served.lifecycle.leave()

    ready = await admin("/readyz")
    assert ready.status == 500
    assert "[-]shutdown failed" in ready.text
    assert (await admin("/livez")).status == 200
    answer = await admin(A)
    assert (answer.status, answer.headers["Connection"]) == (200, "close")
    assert (await admin(f"{A}/nope")).headers["Connection"] == "close"


async def test_check_104_what_is_in_flight_ends_and_nothing_new_comes(tmp_path: Path) -> None:
    async with Served(tmp_path) as served:
        served.believe()
        served.rights.grants.add(("alice", "list", "tenant-a"))
        served.rights.gate.clear()
        alice = await served.aggregator("alice")

        async def asked() -> bool:
            return bool(served.rights.asked)

        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(alice(A))
            await wait_until(asked, "the request has arrived")
            ending = tasks.create_task(served.stop())
            await wait_until(lambda: refused(served), "nothing new is accepted")
            assert not ending.done()
            served.rights.gate.set()
        assert waiting.result().status == 200


async def refused(served: Served) -> bool:
    """Whether a new connection is refused."""
    try:
        _, writer = await asyncio.open_connection(*served.address)
    except ConnectionError:
        return True
    writer.close()
    return False


async def test_check_104_idle_connections_do_not_hold_up_the_end(tmp_path: Path) -> None:
    async with Served(tmp_path) as served:
        served.believe()
        admin = await served.admin()
        await admin(ALL)
        async with asyncio.timeout(10):
            await served.stop()
        with pytest.raises(aiohttp.ClientError):
            await admin(ALL)
