"""Requests that come at once (rules 6.1.4 and 6.3): each is judged by what was there before.

No server remembers what it let in, since there are several: what raced is settled later, by the
binder, which gives units and claims in order of age (rules 7.4 and 7.7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from shared import vocabulary as words
from tests.admission.launching import Launching, shown
from tests.admission.people import make_person
from tests.catalog.objects import CLAIM, claim, class_key, quota
from tests.catalog.tenants import Tenant
from tests.cluster.api import Object, Refused, Reply
from tests.cluster.session import Cluster
from tests.kubevirt import words as w

AT_ONCE = 20


async def post(tenant: Tenant, things: Sequence[Object]) -> list[Reply]:
    """Create all at once."""
    kind = f"{things[0]['apiVersion']}/{things[0]['kind']}"
    path = await tenant.api.path(kind, tenant.namespace)
    async with asyncio.TaskGroup() as tasks:
        replies = [tasks.create_task(tenant.api.request("POST", path, each)) for each in things]
    return [reply.result() for reply in replies]


def reasons(replies: Sequence[Reply]) -> set[str]:
    """Why those were refused that were."""
    return {str(reply.body["reason"]) for reply in replies if reply.status != 201}


async def test_of_vms_that_name_one_claim_at_once_none_starts_without_the_binder(
    launching: Launching,
) -> None:
    await launching.tainted()
    await launching.person.sees(launching.class_name, orderableUnits=4)
    order = claim(launching.namespace, "held", launching.class_name, 2)
    await launching.person.api.create(order)
    annotations = {words.ANNOTATION_CLAIMS: '["held"]', "note": "copied"}
    template = launching.template(annotations)
    things = [
        {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstance",
            "metadata": {
                **template["metadata"],
                "name": f"vm{number}",
                "namespace": launching.namespace,
            },
            "spec": template["spec"],
        }
        for number in range(AT_ONCE)
    ]
    replies = await post(launching.person, things)
    admitted = [reply for reply in replies if reply.status == 201]
    assert admitted, "at least one gets the claim"
    assert reasons(replies) <= {"ClaimInUse"}

    # Those that raced have the claim in their record, and their pods wait: the binder gives it to
    # the oldest (rule 6.1.4). Whoever comes later is told.
    async with launching.kubevirt(launching.home):
        for reply in admitted:
            pod = await launching.launcher(reply.body["metadata"]["name"])
            assert shown(pod)["gates"] == [words.GATE]
    with pytest.raises(Refused) as refused:
        await launching.standalone(annotations, "late")
    assert refused.value.reason == "ClaimInUse"
    assert "the claim held belongs to the VirtualMachineInstance vm" in refused.value.message


@pytest.fixture
async def sibling(launching: Launching, cluster: Cluster) -> Tenant:
    """Somebody of another tenant, without a budget."""
    namespace = launching.unique("tenant-sibling")
    await cluster.create_namespace(namespace)
    return await make_person(cluster, namespace)


@pytest.fixture
async def last_unit(launching: Launching, sibling: Tenant) -> Launching:
    """A budget of one unit, and a second tenant without any, on a node with four."""
    await launching.tainted()
    hard = {class_key(launching.class_name): "1"}
    await launching.api.create(quota(launching.namespace, hard))
    await launching.person.sees(launching.class_name, remaining=1, orderableUnits=1)
    await sibling.sees(launching.class_name, orderableUnits=4)
    return launching


async def test_orders_that_race_for_the_last_unit_of_a_budget_all_count(
    last_unit: Launching,
) -> None:
    """More may be let in than the budget has; none is forgotten, and the next one is refused."""
    person, name = last_unit.person, last_unit.class_name
    orders = [claim(person.namespace, f"order{n}", name, 1) for n in range(AT_ONCE)]
    replies = await post(person, orders)
    admitted = [reply for reply in replies if reply.status == 201]
    assert admitted, "the unit was there to be had"
    assert reasons(replies) <= {"BudgetExceeded"}

    await person.sees(name, used=len(admitted), remaining=0, orderableUnits=0)
    with pytest.raises(Refused) as refused:
        await person.api.create(claim(person.namespace, "late", name, 1))
    assert refused.value.message.endswith(
        "asked 1, cannot be ordered: this tenant's budget has 0 left, 4 free"
    )

    # Given back, all that is over the budget, there is nothing left to have; one more, one is.
    names = [reply.body["metadata"]["name"] for reply in admitted]
    for over in names[1:]:
        await person.api.delete(CLAIM, over, person.namespace)
    await person.sees(name, remaining=0, orderableUnits=0)
    await person.api.delete(CLAIM, names[0], person.namespace)
    await person.sees(name, remaining=1, orderableUnits=1)


async def test_orders_one_after_another_never_exceed_a_budget(last_unit: Launching) -> None:
    """A race takes two at once: who orders after the figure has changed is refused."""
    person, name = last_unit.person, last_unit.class_name
    await person.api.create(claim(person.namespace, "first", name, 1))
    await person.sees(name, remaining=0, orderableUnits=0, reason="BudgetExceeded")
    replies = await post(person, [claim(person.namespace, f"more{n}", name, 1) for n in range(5)])
    assert [reply.status for reply in replies] == [403] * 5
    assert reasons(replies) == {"BudgetExceeded"}


async def test_orders_of_all_that_is_free_at_once_wait_for_the_binder(
    last_unit: Launching, sibling: Tenant
) -> None:
    """Until the binder books one it holds nothing: stock is given by age, not by admission."""
    name = last_unit.class_name
    orders = [claim(sibling.namespace, f"order{n}", name, 4) for n in range(5)]
    replies = await post(sibling, orders)
    assert [reply.status for reply in replies] == [201] * 5
    for order in await sibling.api.list(CLAIM, sibling.namespace):
        assert "nodeName" not in order.get("status", {})
    replies = await post(sibling, [claim(sibling.namespace, "more", name, 5)])
    assert reasons(replies) == {"NoCapacity"}


async def test_ten_dry_runs_take_nothing(launching: Launching, cluster: Cluster) -> None:
    """Dry runs are judged like real requests, and leave nothing behind."""
    await launching.tainted(2)
    person, name = launching.person, launching.class_name
    await person.sees(name, orderableUnits=2)
    order = claim(person.namespace, "order", name, 2)
    for _ in range(10):
        assert (await person.api.create(order, dryRun="All"))["spec"]["count"] == 2
    with pytest.raises(Refused, match="asked 3, up to 2: 2 free"):
        await person.api.create(claim(person.namespace, "order", name, 3), dryRun="All")
    assert await person.api.list(CLAIM, person.namespace) == []
    assert await cluster.admin.list("v1/Event", person.namespace) == []
    await person.api.create(order)
    annotations = {words.ANNOTATION_CLAIMS: '["order"]'}
    for number in range(10):
        vmi = {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstance",
            "metadata": {
                "name": f"dry{number}",
                "namespace": person.namespace,
                "annotations": annotations,
            },
            "spec": {"domain": {"devices": {}}},
        }
        await person.api.create(vmi, dryRun="All")
    await launching.standalone(annotations)
