"""What depends on the GPUSystem and on bindings, and what does not (rule 6.6)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shared import vocabulary as words
from tests.catalog.objects import CLAIM
from tests.cluster.api import Object
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.policies import attacks, lawful, raw_names
from tests.policies.attempts import Attempt, patches, policy_name
from tests.policies.changes import booking
from tests.policies.force import POLICY, changed, until_let_in, until_refused
from tests.policies.people import BINDER
from tests.policies.scene import EPOCH, NAMESPACE, SYSTEM, Scene
from tests.policies.system import make_system, no_system

ATTACKS = (*attacks.ATTACKS, *raw_names.ATTACKS)
LAWFUL = (*lawful.LAWFUL, *lawful.PASSES, *raw_names.LAWFUL)
BINDING = f"{POLICY}Binding"
NO_PARAMETER = "no params found for policy binding with `Deny` parameterNotFoundAction"


def without(attempts: Iterable[Attempt], *things: str) -> list[Attempt]:
    """Those about other things."""
    return [each for each in attempts if each.thing not in things]


def the(thing: str, named: str) -> Attempt:
    """One by its name."""
    (found,) = [each for each in (*ATTACKS, *LAWFUL) if (each.thing, each.named) == (thing, named)]
    return found


async def told(cluster: Cluster, epoch: int) -> str:
    """What the binder is told when it books in a term; empty where it may."""
    reply = await patches(CLAIM, "order", booking(epoch), "status")(
        cluster, Scene(), cluster.api(BINDER)
    )
    return str(reply.body["message"]) if reply.status >= 400 else ""


async def test_without_a_system_only_the_status_of_claims_is_refused(
    cluster: Cluster, scene: Scene
) -> None:
    async with no_system(cluster, scene):

        async def is_missed() -> bool:
            return NO_PARAMETER in await told(cluster, EPOCH)

        await wait_until(is_missed, "bookings are refused")
        for attempt in without(LAWFUL, "epoch"):
            if (attempt.thing, attempt.named) != ("status", "a new term"):  # of what is not there
                assert await attempt.refusal(cluster, scene) == "", attempt.named
        # Raw names are not known any more, so that nobody is refused for one.
        for attempt in raw_names.ATTACKS:
            await until_let_in(cluster, scene, attempt)
        # Whatever needs no term is guarded as before; a claim's status twice.
        for attempt in without(attacks.ATTACKS, "epoch", "status"):
            assert await attempt.refusal(cluster, scene), attempt.named


async def test_a_system_made_anew_is_obeyed_at_once(cluster: Cluster, scene: Scene) -> None:
    async with no_system(cluster, scene):
        await make_system(cluster, {"epoch": 40})

        async def is_known() -> bool:
            return "since term 40 has begun" in await told(cluster, 39)

        await wait_until(is_known, "an older term is refused")
        assert await told(cluster, 40) == ""
        assert await told(cluster, 41) == ""


async def test_before_a_term_has_begun_nothing_is_booked(cluster: Cluster, scene: Scene) -> None:
    async with no_system(cluster, scene):
        await make_system(cluster, {"resourceNames": []})

        async def is_refused() -> bool:
            return "status.epoch: no term has begun" in await told(cluster, EPOCH)

        await wait_until(is_refused, "no term has begun")

        def take_out(spec: Object) -> None:
            del spec["validations"][0]

        async def is_let_in() -> bool:
            return await told(cluster, EPOCH) == ""

        async with changed(cluster, policy_name("epoch"), take_out):
            await wait_until(is_let_in, "without that rule it is booked")
        await wait_until(is_refused, "with it, it is not")


async def test_a_term_that_begins_ends_the_one_before_at_once(
    cluster: Cluster, scene: Scene
) -> None:
    binder = cluster.api(BINDER)
    for epoch in (EPOCH + 1, EPOCH + 2):
        begun = {"status": {"epoch": epoch}}
        await binder.patch(SYSTEM, words.SYSTEM_NAME, begun, subresource="status")

        async def is_over(term: int = epoch - 1) -> bool:
            return f"a booking of term {term} is refused" in await told(cluster, term)

        await wait_until(is_over, f"term {epoch - 1} is over")
        assert await told(cluster, epoch) == ""
    await make_system(cluster, {"epoch": EPOCH})
    await until_refused(cluster, scene, [the("epoch", "an older term books")])
    await until_let_in(cluster, scene, the("epoch", "books in its term"))


@pytest.mark.parametrize("switch", ["true", "false"])
async def test_raw_names_are_switched_by_the_setting(
    cluster: Cluster, scene: Scene, switch: str
) -> None:
    attempt = the("raw-name", "a GPU by its name")
    status = {"effectiveSettings": {"forbidRawNames": switch}}
    await make_system(cluster, status)
    try:
        if switch == "true":
            await until_refused(cluster, scene, [attempt])
        else:
            await until_let_in(cluster, scene, attempt)
    finally:
        await make_system(cluster, {"effectiveSettings": None})
        await until_refused(cluster, scene, [attempt])


async def test_without_bindings_nothing_is_refused_and_made_anew_they_work(
    catalog: Catalog, cluster: Cluster, scene: Scene
) -> None:
    for binding in await cluster.admin.list(BINDING):
        if binding["metadata"]["name"].startswith(words.POLICY_PREFIX):
            await cluster.admin.delete(BINDING, binding["metadata"]["name"])
    try:
        for attempt in (*ATTACKS, *LAWFUL):
            await until_let_in(cluster, scene, attempt)
    finally:
        await catalog.apply_policies(["raw-names"])
        await until_refused(cluster, scene, ATTACKS)
    for attempt in LAWFUL:
        assert await attempt.refusal(cluster, scene) == "", attempt.named


def test_the_scene_is_a_tenants() -> None:
    assert NAMESPACE.startswith(words.TENANT_PREFIX)
