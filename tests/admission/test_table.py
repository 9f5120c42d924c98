"""Sixty VMIs through the real API server: verdict, message and what is stored (rule 6.1)."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from shared import vocabulary as words
from tests.admission.people import VMI, make_person
from tests.admission.world import World
from tests.catalog.objects import settings_object
from tests.catalog.tenants import Tenant
from tests.cluster.api import Object
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.vmis.table import Case, cases

SERVERS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")

CODES = {
    "Malformed": 422,
    "TooManyUnits": 422,
    "MixedRequests": 422,
    "ClaimNotFound": 422,
    "ClassNotFound": 422,
}
"""HTTP codes by reason (design, 6); of the others 403."""


@pytest.fixture(scope="module")
async def people(world: World, cluster: Cluster, acme: Tenant) -> dict[str, Tenant]:
    """Somebody of each namespace of the table."""
    del world
    lab = await make_person(cluster, "tenant-acme-lab")
    return {person.namespace: person for person in (acme, lab)}


@pytest.fixture
async def settings(cluster: Cluster, case: Case) -> AsyncIterator[None]:
    """The settings of a case."""
    if not case.settings:
        yield
        return
    installed = await cluster.admin.get("v1/ConfigMap", words.SETTINGS_NAME, words.NAMESPACE)
    data: dict[str, str] = installed["data"]
    await cluster.admin.apply(settings_object(data | case.settings))
    yield
    await cluster.admin.apply(settings_object(data))


@pytest.fixture
async def predecessor(enforced: Catalog, acme: Tenant, case: Case) -> AsyncIterator[None]:
    """Delete the instance of the case's name, if there is one; it is there again afterwards."""
    admin, name = enforced.plane.cluster.admin, case.vmi["metadata"].get("name", "none")
    before = await admin.find(VMI, name, case.namespace)
    if before is None:
        yield
        return
    await admin.delete(VMI, name, case.namespace)
    yield
    for key in SERVERS:
        before["metadata"].pop(key, None)
    before["spec"] = {"domain": {"devices": {}}}
    await admin.create(before)
    rival = copy.deepcopy(before)
    rival["metadata"]["name"] = "rival"
    path = await acme.api.path(VMI, case.namespace)

    async def is_known() -> bool:
        reply = await acme.api.request("POST", path, rival, query={"dryRun": "All"})
        return reply.status == 403

    await wait_until(is_known, f"our server knows {name}")


@pytest.mark.usefixtures("settings", "predecessor")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
async def test_verdict_message_and_object_are_those_of_the_table(
    world: World, people: dict[str, Tenant], case: Case
) -> None:
    api = people[case.namespace].api
    path = await api.path(VMI, case.namespace)

    # A dry run: the next case finds the world as it was.
    reply = await api.request("POST", path, real(case.vmi, world), query={"dryRun": "All"})

    if case.reason:
        hook = "vmis.gpu.cozystack.io"
        assert reply.body["message"] == (
            f'admission webhook "{hook}" denied the request: {case.message}'
        )
        assert reply.status == reply.body["code"] == CODES.get(case.reason, 403)
        assert reply.body["reason"] == case.reason
        assert {cause["reason"] for cause in reply.body["details"]["causes"]} == {case.reason}
        return
    assert reply.status == 201, reply.text
    assert case.stored is not None
    assert written(reply.body, case.vmi) == real(case.stored, world)
    told = reply.headers.get("Warning", "")
    assert [warning for warning in case.warnings if warning in told] == list(case.warnings)


def real(vmi: Object, world: World) -> Object:
    """An object of the table with the uids that things really have."""
    text = orjson.dumps(vmi).decode()
    for name, uid in world.uids.items():
        if name:
            text = text.replace(f'"uid":"{name}"', f'"uid":"{uid}"')
    found: Object = orjson.loads(text)
    return found


def written(stored: Object, posted: Object) -> Object:
    """An answer without what the API server itself puts into every object."""
    found = copy.deepcopy(stored)
    metadata: dict[str, Any] = found["metadata"]
    for name in SERVERS:
        metadata.pop(name, None)
    if "generateName" in posted["metadata"]:
        del metadata["name"]
    return found


async def test_what_was_let_in_is_really_stored_so(
    enforced: Catalog, acme: Tenant, unique: Callable[[str], str]
) -> None:
    name = unique("stored")
    annotations = {words.ANNOTATION_CLASSES: '[{"className":"a100","count":2}]'}
    device = "nvidia.com/GA100_A100_PCIE_40GB"
    await acme.api.create(
        {
            "apiVersion": words.KUBEVIRT_GROUP_VERSION,
            "kind": words.KIND_VMI,
            "metadata": {"name": name, "namespace": acme.namespace, "annotations": annotations},
            "spec": {"domain": {"devices": {}}},
        }
    )
    stored = await enforced.plane.cluster.admin.get(VMI, name, acme.namespace)
    assert stored["spec"]["domain"]["devices"]["gpus"] == [
        {"name": "class-0-0", "deviceName": device},
        {"name": "class-0-1", "deviceName": device},
    ]
    await acme.api.delete(VMI, name, acme.namespace)
