"""A budget that limits nothing, on a real control plane (rule 4.4)."""

from __future__ import annotations

from collections.abc import Callable

from shared import vocabulary
from tests.binder.replica import Replica, Start
from tests.catalog.objects import gpu_class, quota
from tests.cluster.api import Object
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until


async def test_a_key_that_names_no_gpu_is_told_once_in_an_event_on_its_quota(
    audited: ControlPlane, start: Start, unique: Callable[[str], str]
) -> None:
    """Trouble 1: also where the leader changes, and the quota does."""
    admin = audited.cluster.admin
    tenant, name = unique("tenant-keys"), unique("Known")
    await audited.cluster.create_namespace(tenant)
    await admin.create(gpu_class(name.lower(), f"example.com/{name}"))
    right, wrong = f"requests.example.com/{name}", f"requests.example.com/{name.lower()}"
    await admin.create(quota(tenant, {right: "4", wrong: "2", "pods": "10"}))
    first: Replica = await start()
    await first.until_in_office()

    told = await wait_until(lambda: _told(audited, tenant), "it is told")
    known = f"nor is it a GPU that is known here; example.com/{name} is one"
    assert told == [f"{wrong} limits no GPUs: there is no class of this device, {known}"]
    shown = await audited.cluster.kubectl(
        "events", "--namespace", tenant, "--for", "resourcequota/gpus"
    )
    assert told[0] in shown.checked
    assert "ClassNotFound" in shown.checked
    listed = await audited.cluster.kubectl(
        "get", "events", "-A", "--field-selector", "involvedObject.kind=ResourceQuota"
    )
    assert told[0] in listed.checked

    second: Replica = await start()
    await first.end()
    await second.until_in_office()
    again = f"example.com/{name.upper()}"
    await admin.patch("v1/ResourceQuota", "gpus", {"spec": {"hard": {again: "1"}}}, tenant)

    async def both() -> list[str] | None:
        found = await _told(audited, tenant)
        return found if len(found) > 1 else None

    found = await wait_until(both, "the other key is told")
    assert sorted(each.split()[0] for each in found) == sorted([again, wrong])
    figures = await second.figures()
    assert figures["gpu_binder_unknown_budget_keys"] >= 2
    posts = [each for each in second.writes() if f"/namespaces/{tenant}/events" in each]
    assert sorted(each.rpartition(" ")[2] for each in posts) == ["201", "409"]
    await admin.delete("v1/ResourceQuota", "gpus", tenant)  # else each later leader tells of it


async def _told(plane: ControlPlane, namespace: str) -> list[str]:
    """The messages of the binder's events about quotas."""
    events: list[Object] = await plane.cluster.admin.list("v1/Event", namespace)
    return [
        each["message"]
        for each in events
        if each["involvedObject"]["kind"] == vocabulary.KIND_QUOTA
        and each["source"]["component"] == "gpu-binder"
    ]
