"""Two binders on a real control plane: who leads, what is written, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from shared import vocabulary
from tests.binder.booker import NODE
from tests.binder.replica import LEASE, Replica, Start, epoch, holder
from tests.cluster.api import Object
from tests.cluster.binder import SYSTEM, system
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kube.relay import Relay

LEASE_SECONDS = 4.0


async def in_office(*replicas: Replica, above: int = 0) -> tuple[Replica, Replica]:
    """Which of two leads, and the other."""

    async def found() -> Replica | None:
        for replica in replicas:
            figures = await replica.figures()
            if figures["gpu_binder_leader"] and figures["gpu_binder_epoch"] > above:
                return replica
        return None

    leader = await wait_until(found, "one of two leads")
    (other,) = [replica for replica in replicas if replica is not leader]
    return leader, other


async def test_one_of_two_leads_and_the_other_writes_nothing(
    audited: ControlPlane, start: Start
) -> None:
    before = await epoch(audited)
    leader, other = await in_office(await start(), await start(), above=before)
    await leader.until_in_office()
    found = await system(audited)
    assert found["status"]["epoch"] == await epoch(audited) > before
    assert other.writes(leases=True) == []
    assert not (await other.figures())["gpu_binder_leader"]
    assert leader.name not in await holder(audited), "an identity is no name that can come again"


async def test_a_leader_that_is_killed_is_followed_after_its_lease_in_a_term_of_its_own(
    audited: ControlPlane, start: Start
) -> None:
    before = await epoch(audited)
    leader, other = await in_office(await start(), await start(), above=before)
    first = await leader.until_in_office()
    await leader.kill()
    await other.until_in_office(first)
    (last, _), (_, taken) = renewals(leader)[-1], renewals(other)[0]
    assert taken - last >= timedelta(seconds=LEASE_SECONDS), "it held the lease until it ran out"


def renewals(replica: Replica) -> list[tuple[datetime, datetime]]:
    """When each write of the Lease came to the API server, and when it was answered."""
    return [
        (
            datetime.fromisoformat(event["requestReceivedTimestamp"]),
            datetime.fromisoformat(event["stageTimestamp"]),
        )
        for event in replica.requests()
        if event["objectRef"]["resource"] == "leases"
        and event["verb"] in {"create", "update", "patch"}
        and event["stage"] == "ResponseComplete"
        and event["responseStatus"]["code"] < 300
    ]


async def test_a_leader_that_is_asked_to_end_gives_the_lease_back(
    audited: ControlPlane, start: Start
) -> None:
    leader = await start()
    await leader.until_in_office()
    await leader.end()
    lease = await audited.cluster.admin.get(LEASE, vocabulary.LEASE_NAME, vocabulary.NAMESPACE)
    assert lease["spec"]["holderIdentity"] == ""
    assert "acquireTime" not in lease["spec"], "an edit would have left it there"
    assert "lease given back" in leader.log.read_text()
    assert "Traceback" not in leader.log.read_text()


async def test_a_gpusystem_that_somebody_deletes_begins_a_new_term_above_every_claim(
    audited: ControlPlane, start: Start, unique: Callable[[str], str]
) -> None:
    leader = await start(mind="books")
    first = await leader.until_in_office()
    claim = await booked(audited, unique)
    assert claim["status"]["epoch"] == first
    await audited.cluster.admin.delete(SYSTEM, vocabulary.SYSTEM_NAME)
    second = await leader.until_in_office(first)
    await audited.cluster.admin.delete(SYSTEM, vocabulary.SYSTEM_NAME)
    await leader.until_in_office(second)  # also above a term that booked nothing


async def test_an_epoch_that_somebody_raises_ends_the_term(
    audited: ControlPlane, start: Start
) -> None:
    leader = await start()
    first = await leader.until_in_office()
    path = await audited.cluster.admin.path(SYSTEM, None, vocabulary.SYSTEM_NAME)
    await audited.cluster.admin.call(
        "PATCH",
        f"{path}/status",
        {"status": {"epoch": first + 10}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    await leader.until_in_office(first + 10)


async def order(audited: ControlPlane, unique: Callable[[str], str]) -> tuple[str, str]:
    """A claim; returns its namespace and name."""
    namespace, name = unique("orders"), unique("order")
    await audited.cluster.create_namespace(namespace)
    await audited.cluster.admin.create(
        {
            "apiVersion": vocabulary.GROUP_VERSION,
            "kind": vocabulary.KIND_CLAIM,
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"className": "some-class", "count": 1},
        }
    )
    return namespace, name


CLAIM = f"{vocabulary.GROUP_VERSION}/{vocabulary.KIND_CLAIM}"


async def booked(audited: ControlPlane, unique: Callable[[str], str]) -> Object:
    """A claim that the leader booked."""
    namespace, name = await order(audited, unique)

    async def done() -> Object | None:
        claim = await audited.cluster.admin.get(CLAIM, name, namespace)
        return claim if claim.get("status", {}).get("nodeName") == NODE else None

    return await wait_until(done, "the claim is booked")


async def test_a_leader_that_was_stopped_past_its_lease_writes_nothing_more(
    audited: ControlPlane, start: Start, unique: Callable[[str], str]
) -> None:
    """Rule 7.1, by the clock: it looks before each write."""
    before = await epoch(audited)
    leader, other = await in_office(
        await start(mind="books"), await start(mind="books"), above=before
    )
    first = await leader.until_in_office()
    leader.stop()
    await other.until_in_office(first)
    written = leader.writes()
    leader.go_on()
    for _ in range(3):
        await booked(audited, unique)

    async def follows() -> bool:
        said = leader.log.read_text()  # whichever it finds out first
        return "leading no longer" in said or "term over" in said

    await wait_until(follows, "the stopped one knows that it leads no longer")
    assert leader.writes() == written
    assert not (await leader.figures())["gpu_binder_leader"]


async def test_a_booking_that_arrives_after_a_change_of_leaders_is_refused(
    audited: ControlPlane, start: Start, unique: Callable[[str], str]
) -> None:
    """Rule 7.1, by the epoch: the leader sleeps after its check, and what it sent comes late."""
    async with Relay(audited.components["kube-apiserver"].port) as relay:
        leader = await start(relay.port, mind="books")
        first = await leader.until_in_office()
        async with asyncio.TaskGroup() as priming:  # so that it has connections left to send on
            for _ in range(5):
                priming.create_task(booked(audited, unique))
        other = await start(mind="idles")
        relay.hold_requests()
        namespace, name = await order(audited, unique)

        async def sent() -> bool:
            lines = leader.log.read_text().splitlines()
            return any('"write"' in line and f'"{name}"' in line for line in lines)

        await wait_until(sent, "the booking is on its way")
        leader.stop()
        await other.until_in_office(first)
        relay.send_requests()

        async def arrived() -> list[Object]:
            return [
                event
                for event in leader.requests()
                if event["verb"] == "patch" and event["objectRef"].get("name") == name
            ]

        events = await wait_until(arrived, "the booking arrived")
        # Where a busy server did not come to look at it in its second, it was given up.
        assert [event["responseStatus"]["code"] for event in events] in ([403], [504])
        assert events[0]["requestObject"]["status"]["epoch"] == first
        claim = await audited.cluster.admin.get(CLAIM, name, namespace)
        assert "nodeName" not in claim.get("status", {})
        leader.go_on()

        async def follows() -> bool:
            return not (await leader.figures())["gpu_binder_leader"]

        await wait_until(follows, "it leads no longer")
