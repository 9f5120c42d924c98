"""What is wrong can be seen (rule 7.16): a start that is refused, a leader without a term."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from shared import vocabulary as v
from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import Replica, Start, epoch, replicas
from tests.binder.stage import CALM
from tests.catalog.objects import CLAIM
from tests.cluster.api import Api, Object
from tests.cluster.binder import SYSTEM
from tests.cluster.components import HOST
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import name_of, status_of

POLICIES: Final = "admissionregistration.k8s.io/v1"
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
PROBED: Final = "has(object.metadata.annotations) && 'probe' in object.metadata.annotations"
UNGATED: Final = (
    "has(oldObject.spec.schedulingGates) && !(has(object.spec.schedulingGates) && "
    "object.spec.schedulingGates.exists(gate, gate.name == 'gpu.cozystack.io/claims'))"
)


@asynccontextmanager
async def refused(api: Api, name: str, rule: Object, what: str, told: str) -> AsyncIterator[None]:
    """A policy of the platform's own refuses updates; `what` is of which, in CEL."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{"apiVersions": ["*"], "operations": ["UPDATE"], **rule}]
        },
        "validations": [{"expression": f"!({what})", "message": told, "reason": "Forbidden"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": spec, "ValidatingAdmissionPolicyBinding": binding}
    for kind, content in kinds.items():
        metadata = {"name": name}
        await api.create(
            {"apiVersion": POLICIES, "kind": kind, "metadata": metadata, "spec": content}
        )
    try:
        yield
    finally:
        for kind in reversed(kinds):
            await api.delete(f"{POLICIES}/{kind}", name)


async def until_in_force(api: Api, path: str, told: str) -> None:
    """Wait until an annotation `probe` is refused; nothing is written."""

    async def denied() -> bool:
        probe = {"metadata": {"annotations": {"probe": "x"}}}
        reply = await api.request("PATCH", path, probe, headers=MERGE, query={"dryRun": "All"})
        return reply.status >= 400 and told in reply.text

    await wait_until(denied, "the policy is in force")


async def test_a_vm_whose_start_a_policy_refuses_says_so_until_it_starts(
    whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]
) -> None:
    life = await Life.begin(whole, recorder, unique)
    words = unique("not on this one")
    mine = f"object.metadata.namespace == '{life.namespace}' && (({PROBED}) || ({UNGATED}))"
    pods: Object = {"apiGroups": [""], "resources": ["pods"]}
    async with replicas(whole, unique, CALM) as start:
        leader = await start()
        await leader.until_in_office()
        await life.machine("train", 1)
        assert await life.until_waiting("train") == "NoCapacity"
        (pod,) = await life.api.list(w.POD, life.namespace)
        async with refused(life.api, unique("policy"), pods, mine, words):
            path = await life.api.path(w.POD, life.namespace, pod["metadata"]["name"])
            await until_in_force(life.api, path, words)
            node = await life.node(1)
            event = await until_told(life, "NodeRefused")
            assert event["message"] == (
                "the platform refuses the start of the VM (Forbidden); it is tried again; if it"
                " stays so, ask your provider"
            )
            assert event["involvedObject"]["name"] == "train"
            (its,) = await life.api.list(CLAIM, life.namespace)
            await life.until_attached(name_of(its), ("True", "InUse", event["message"]))
            assert await figure(leader, "gpu_binder_starts_refused") == 1
            assert words in leader.log.read_text(), "the hoster reads whose rule it was"
        assert await life.until_running("train") == node
        await life.until_attached(name_of(its), ("True", "InUse", ""))
        events = [await reasons(life), await figure(leader, "gpu_binder_starts_refused")]
    assert events == [["NoCapacity", "NodeRefused"], 0]


async def until_told(life: Life, reason: str) -> Object:
    """Wait for an event of ours."""

    async def found() -> Object | None:
        events = await life.api.list("v1/Event", life.namespace)
        return next((each for each in events if each["reason"] == reason), None)

    return await wait_until(found, f"an event {reason}")


async def reasons(life: Life) -> list[str]:
    """Of our events, in alphabetical order."""
    events = await life.api.list("v1/Event", life.namespace)
    ours = (each for each in events if each["source"].get("component") == "gpu-binder")
    return sorted(each["reason"] for each in ours)


async def figure(replica: Replica, name: str) -> float:
    """One of its figures."""
    return (await replica.figures())[name]


async def test_a_leader_whose_term_cannot_begin_is_seen_to_have_none(
    audited: ControlPlane, start: Start, unique: Callable[[str], str]
) -> None:
    leader = await start()
    await leader.until_in_office()
    assert await figure(leader, "gpu_binder_in_term") == 1
    assert await unready(leader) == ""
    api = audited.cluster.admin
    words = unique("no new terms")
    status: Object = {"apiGroups": [v.GROUP], "resources": ["gpusystems", "gpusystems/status"]}
    raised = "has(oldObject.status.epoch) && object.status.epoch > oldObject.status.epoch"
    path = await api.path(SYSTEM, None, v.SYSTEM_NAME)
    what = f"({PROBED}) || ({raised}) && request.userInfo.username != 'admin'"
    async with refused(api, unique("policy"), status, what, words):
        await until_in_force(api, path, words)
        assert await write_epoch(api, await epoch(audited) + 1) == ""

        async def has_none() -> bool:
            figures = await leader.figures()
            is_idle = bool(figures["gpu_binder_leader"]) and not figures["gpu_binder_in_term"]
            return await unready(leader) == "term" if is_idle else False

        await wait_until(has_none, "it leads, but has no term")
        assert words in leader.log.read_text()

    async def has_one() -> bool:
        return await figure(leader, "gpu_binder_in_term") == 1 and await unready(leader) == ""

    await wait_until(has_one, "its term has begun")


async def unready(replica: Replica) -> str:
    """The checks for which it says that it is not ready."""
    url = f"http://{HOST}:{replica.port}/readyz?verbose"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        lines = (await answer.text()).splitlines()
    return " ".join(line[3:].split()[0] for line in lines if line.startswith("[-]"))


async def write_epoch(api: Api, number: int) -> str:
    """Somebody who may writes the epoch; returns with which words that was refused."""
    path = await api.path(SYSTEM, None, v.SYSTEM_NAME)
    body = {"status": {"epoch": number}}
    reply = await api.request("PATCH", f"{path}/status", body, headers=MERGE)
    return str(reply.body["message"]) if reply.status >= 400 else ""


async def test_a_term_begins_also_after_somebody_wrote_the_highest_number(
    audited: ControlPlane, start: Start
) -> None:
    leader = await start()
    before = await leader.until_in_office()
    api = audited.cluster.admin
    assert "should be less than or equal to 2147483647" in await write_epoch(api, 2**31)
    assert await write_epoch(api, 2**31 - 1) == ""

    async def goes_on() -> bool:
        found = await api.get(SYSTEM, v.SYSTEM_NAME)
        epoch = int(status_of(found)["epoch"])
        begun = int(await figure(leader, "gpu_binder_epoch"))
        return before < epoch == begun < 2**31 - 1

    await wait_until(goes_on, "a term begins above those that were counted")
