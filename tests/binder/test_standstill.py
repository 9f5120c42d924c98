"""A leader that sleeps in the worst moment, and one that has nothing to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared import vocabulary as v
from shared.kube.podspec import pinned_to
from tests.binder.booker import SLEEPS, SLEEPS_BEFORE_STARTS
from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import Replica, replicas
from tests.binder.truth import is_gated, node_of
from tests.catalog.objects import CLAIM, CLASS
from tests.cluster.api import Object
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kubevirt import power
from tests.kubevirt import words as w
from tests.kubevirt.objects import name_of, status_of, uid_of

GIVEN_UP = 504
"""The answer where a busy server did not come to look at a request in its second."""


@pytest.mark.parametrize(
    ("mind", "code"),
    [
        pytest.param("idles", 403, id="by its epoch, where the claim is as it saw it"),
        pytest.param("", 409, id="by its version, where the claim was booked meanwhile"),
    ],
)
async def test_a_leader_that_slept_between_its_check_and_its_send_books_nothing(
    whole: ControlPlane,
    recorder: Recorder,
    unique: Callable[[str], str],
    mind: str,
    code: int,
) -> None:
    """Rule 7.1: SIGSTOP past its lease. What it goes on to send is refused, or not sent at all."""
    life = await Life.begin(whole, recorder, unique)
    node = await life.node(4)
    async with replicas(whole, unique) as start:
        sleeper = await start(mind=f"{SLEEPS}{life.namespace}")
        first = await sleeper.until_in_office()
        other = await start(mind=mind)
        for number in range(3):
            await life.order(f"order-{number}", 1)
        await other.until_in_office(first)
        booked = [] if mind == "idles" else [node] * 3

        async def as_it_should() -> bool:
            found = map(node_of, await life.api.list(CLAIM, life.namespace))
            return [each for each in found if each] == booked

        await wait_until(as_it_should, "the one that follows did what it does")
        sleeper.stop()  # it is; so that it goes on whatever happens here
        sleeper.go_on()
        await until_it_knows(sleeper)

        (sent,) = await answered(sleeper, life.namespace, v.RESOURCE_CLAIMS, "status")
        assert sent["requestObject"]["status"]["epoch"] == first
        assert sent["responseStatus"]["code"] in {code, GIVEN_UP}
        assert await as_it_should()
        assert "Traceback" not in sleeper.log.read_text()


async def answered(
    sleeper: Replica, namespace: str, resource: str, subresource: str | None = None
) -> list[Object]:
    """Its patches of such objects of a namespace, as the audit log has them, once there are any."""

    async def patches() -> list[Object]:
        return [
            event
            for event in sleeper.requests()
            if event["verb"] == "patch"
            and (ref := event["objectRef"])["resource"] == resource
            and ref.get("subresource") == subresource
            and ref["namespace"] == namespace
        ]

    return await wait_until(patches, "what it was about to send was answered")


async def until_it_knows(sleeper: Replica) -> None:
    """Wait until it knows that it leads no longer."""

    async def knows() -> bool:
        said = sleeper.log.read_text()
        return "leading no longer" in said or "term over" in said

    await wait_until(knows, "it knows that it leads no longer")


async def test_a_leader_that_slept_before_a_start_starts_no_pod_whose_units_another_vm_has(
    whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]
) -> None:
    """Rule 7.1: no policy refuses a start for its term, but it names the pod as it was."""
    life = await Life.begin(whole, recorder, unique)
    node = await life.node(2)
    async with replicas(whole, unique) as start:
        sleeper = await start(mind=f"{SLEEPS_BEFORE_STARTS}{life.namespace}")
        first = await sleeper.until_in_office()
        await life.order("own", 2)
        await until_standing(life, "own", "Placed", "NotInUse")
        await life.machine("train", claims=["own"])
        await sleeper.until_stopped()
        await life.api.delete(CLAIM, "own", life.namespace)
        other = await start()
        await other.until_in_office(first)
        await life.machine("next", 2)
        assert await life.until_running("next") == node
        sleeper.go_on()
        await until_it_knows(sleeper)

        (sent,) = await answered(sleeper, life.namespace, "pods")
        assert sent["responseStatus"]["code"] in {422, GIVEN_UP}
        (pod,) = await life.pods_made(uid_of(await life.vmi("train")))
        there = await life.api.get(w.POD, name_of(pod), life.namespace)
        assert is_gated(there)
        assert pinned_to(there["spec"]) == ""
        assert (await life.ledger()).wrong == []
        assert "Traceback" not in sleeper.log.read_text()


@pytest.fixture
async def lives(
    whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]
) -> list[Life]:
    """Of each disclosure a class with three units, and orders for four: nobody has booked yet."""
    lives = []
    for disclosure in ("Exact", "Bucketed", "Hidden"):
        life = await Life.begin(whole, recorder, unique, disclosure=disclosure)
        await life.node(3)
        for name, count in (("a-used", 1), ("b-held", 1), ("c-large", 2)):
            await life.order(name, count)
        lives.append(life)
    return lives


async def test_an_unchanged_cluster_of_all_that_there_is_costs_ten_passes_no_write_and_no_event(
    whole: ControlPlane, lives: list[Life], unique: Callable[[str], str]
) -> None:
    """Rule 7.2: VMs run, wait and are stopped; orders are bound and unbound, in use and not."""
    async with replicas(whole, unique) as start:
        leader = await start()
        await leader.until_in_office()
        for life in lives:
            await life.machine("runs", 1)
            await life.machine("keeps", claims=["a-used"])
            await life.until_running("runs")
            await life.until_running("keeps")
            await life.machine("waits", 2)
            assert await life.until_waiting("waits") == "NoCapacity"
        exact = lives[0]
        await power.stop(exact.api, exact.namespace, "keeps")
        for life in lives:
            await until_standing(life, "a-used", "Placed", "NotInUse" if life is exact else "InUse")
            await until_standing(life, "b-held", "Placed", "NotInUse")
            await until_standing(life, "c-large", "NoCapacity", "NotInUse")
        await exact.until_stock(bound=3, free=0)
        # One was free when it began to wait: nothing but the clock has that text written again.
        await until_saying(exact, "c-large", "asked 2: none free")

        written, versions = leader.writes(), await versions_of(whole)
        passes = await passes_of(leader)
        for number in range(10):
            label = {"metadata": {"labels": {v.LABEL_ENTITLEMENT: f"no-{number}"}}}
            await exact.api.patch("v1/Namespace", exact.namespace, label)
            at = passes + number + 1

            async def passed(at: float = at) -> bool:
                return await passes_of(leader) >= at

            await wait_until(passed, "a pass")
        assert leader.writes() == written, "events among them"
        assert any("/events" in each for each in written), "it tells events, where there are any"
        assert await versions_of(whole) == versions
        assert any("leases" in each for each in leader.writes(leases=True))


async def until_saying(life: Life, name: str, words: str) -> None:
    """Wait until an order says in these words why it waits."""

    async def says() -> bool:
        found = await life.api.get(CLAIM, name, life.namespace)
        return (status_of(found).get("waiting") or {}).get("message") == words

    await wait_until(says, f"{name} says {words}")


async def until_standing(life: Life, name: str, bound: str, attached: str) -> None:
    """Wait until an order says why it is bound or not, and attached or not."""

    async def says() -> bool:
        found = await life.api.get(CLAIM, name, life.namespace)
        reasons = {c["type"]: c["reason"] for c in status_of(found).get("conditions", ())}
        return (reasons.get("Bound"), reasons.get("Attached")) == (bound, attached)

    await wait_until(says, f"{name} is {bound} and {attached}")


async def passes_of(leader: Replica) -> float:
    """How many passes there were."""
    return (await leader.figures())["gpu_binder_passes_total"]


async def versions_of(plane: ControlPlane) -> dict[str, str]:
    """The version of everything that the binder writes."""
    found = [*await plane.cluster.admin.list(CLAIM), *await plane.cluster.admin.list(CLASS)]
    return {uid_of(each): each["metadata"]["resourceVersion"] for each in found}
