"""How the naive binder writes, and the faults that it can have."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import orjson

from shared import vocabulary as v
from shared.errors import ApiError
from shared.kube import paths
from tests.kubevirt.objects import (
    condition,
    name_of,
    namespace_of,
    uid_of,
)
from tests.simulation import facts
from tests.simulation.http import JSON_PATCH, MERGE
from tests.simulation.naive_view import View
from tests.simulation.simulation import Surroundings

Raw = dict[str, Any]

TIMEOUT_SECONDS: Final = 2.0


class Fault(StrEnum):
    """What may be wrong with this binder."""

    OLD_VIEW = "plans on what it read one pass ago"
    FORGETS_ITS_OWN = "does not count what this pass booked"
    UNFENCED = "leads without asking, and writes in whatever term there is"
    KEEPS_TERM = "does not raise the term when it begins to lead"
    PINS_FIRST = "pins before it books"
    PINS_BLINDLY = "pins though a booking was not confirmed"
    ONE_TERM = "pins the first of several terms alone"
    ALL_GATES = "takes away all gates"
    SPLITS = "places each claim for itself"
    NO_BUDGET = "does not look at budgets"
    NO_MEMORY = "forgets which node refused"
    IGNORES_OFF = "places while the feature is off"
    DELETES_GATED = "deletes a pod that waits"
    FREES_EARLY = "lets a claim go while its pod runs"
    TELLS_AGAIN = "makes an event in every pass"
    REWRITES = "writes a status in every pass"
    LOWERS_TERM = "counts terms from one in each process"
    WRITES_VMI = "writes into a VMI's status"
    UNSETTLED = "takes a write without an answer for one that never comes"
    STARVES = "never places a VM that waited once"


NONE: Final[frozenset[Fault]] = frozenset()


class Hands:
    """What a process of the naive binder writes with, and what it has to know for that."""

    def __init__(self, at: Surroundings, faults: frozenset[Fault]) -> None:
        self.at, self.faults = at, faults
        self.term = 0
        self.leads_until = float("-inf")
        self.begun = False
        self.newest = 0
        """The newest version that is known."""
        self.told: dict[str, tuple[str, str]] = {}

    def _attachment(self, vmi: Raw) -> Raw:
        owner = next(iter(vmi["metadata"].get("ownerReferences") or ()), None)
        if owner is None:
            return {"kind": v.KIND_VMI, "name": name_of(vmi), "uid": uid_of(vmi)}
        return {"kind": v.KIND_VM, "name": owner["name"], "uid": owner["uid"]}

    def _condition(self, claim: Raw, status: str, reason: str) -> Raw:
        known = condition(claim, "Bound")
        same = known.get("status") == status and Fault.REWRITES not in self.faults
        return {
            "type": "Bound",
            "status": status,
            "reason": reason,
            "message": "",
            "lastTransitionTime": known["lastTransitionTime"] if same else self._stamp(),
        }

    async def _tell(self, vmi: Raw, reason: str) -> None:
        about = f"{uid_of(vmi)}"
        if self.told.get(about) == (reason, "") and Fault.TELLS_AGAIN not in self.faults:
            return
        # Its name is what it says: a process that starts anew does not say it again.
        name = f"{name_of(vmi)}.{uid_of(vmi)[:8]}.{reason.lower()}"
        if Fault.TELLS_AGAIN in self.faults:
            name += f".{self.at.chance.getrandbits(32)}"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace_of(vmi)},
            "involvedObject": {
                "kind": v.KIND_VMI,
                "name": name_of(vmi),
                "namespace": namespace_of(vmi),
                "uid": uid_of(vmi),
            },
            "type": "Warning",
            "reason": reason,
            "message": "",
        }
        self.told[about] = (reason, "")
        try:
            await self._send("POST", paths.collection("v1", "events", namespace_of(vmi)), body)
        except ApiError as error:
            if error.code != 409:
                raise

    async def _pin(self, pod: Raw, node: str) -> None:
        """One patch: the node in every term, our gate gone (rule 7.8)."""
        field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
        affinity = dict(pod["spec"].get("affinity") or {})
        node_affinity = dict(affinity.get("nodeAffinity") or {})
        known = facts.terms(pod) or [{}]
        terms = [
            {**term, "matchFields": [*(term.get("matchFields") or ()), field_]}
            if term or len(known) == 1
            else term
            for term in (known[:1] if Fault.ONE_TERM in self.faults else known)
        ]
        if Fault.ONE_TERM in self.faults:
            terms += known[1:]
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        affinity["nodeAffinity"] = {**node_affinity, required: {"nodeSelectorTerms": terms}}
        patch: list[Raw] = [
            *unchanged(pod),
            {"op": "add", "path": "/spec/affinity", "value": affinity},
        ]
        gates = pod["spec"]["schedulingGates"]
        kept = [] if Fault.ALL_GATES in self.faults else [g for g in gates if g["name"] != v.GATE]
        patch.append({"op": "replace", "path": "/spec/schedulingGates", "value": kept})
        await self._send("PATCH", path_of(pod), patch, JSON_PATCH)
        pod["spec"] = {**pod["spec"], "affinity": affinity, "schedulingGates": kept}

    # Writing.

    async def _delete(self, obj: Raw) -> None:
        await self._send("DELETE", path_of(obj), {"preconditions": {"uid": uid_of(obj)}})

    async def _claim(self, claim: Raw, metadata: Raw, view: View) -> Raw:
        guarded = {"resourceVersion": claim["metadata"]["resourceVersion"], **metadata}
        written = await self._send("PATCH", path_of(claim), {"metadata": guarded}, MERGE)
        self._replace(view, claim, written)
        return written

    async def _status(self, view: View, claim: Raw, status: Raw) -> None:
        guarded = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        change = {"metadata": guarded, "status": status}
        written = await self._send("PATCH", f"{path_of(claim)}/status", change, MERGE)
        if Fault.FORGETS_ITS_OWN not in self.faults:
            self._replace(view, claim, written)

    def _replace(self, view: View, old: Raw, new: Raw) -> None:
        view.claims[:] = [new if uid_of(each) == uid_of(old) else each for each in view.claims]

    async def _send(
        self, method: str, path: str, body: object, form: str = "", *, fenced: bool = True
    ) -> Raw:
        if fenced and self.at.clock() + TIMEOUT_SECONDS > self.leads_until:
            self.begun = False
            raise ApiError("the lease is over")
        found: Raw = orjson.loads(await self._request(method, path, body, form))
        self.newest = max(self.newest, int(found["metadata"].get("resourceVersion", 0)))
        return found

    async def _get(self, path: str) -> Raw:
        found: Raw = orjson.loads(await self._request("GET", path))
        return found

    async def _request(self, method: str, path: str, body: object = None, form: str = "") -> bytes:
        headers = {"Content-Type": form} if form else None
        return await self.at.connection.request(
            method, path, body=body, headers=headers, timeout_seconds=TIMEOUT_SECONDS
        )

    def _stamp(self) -> str:
        return self.at.wall().astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


KIND_OF_CLAIM: Final = {"apiVersion": v.GROUP_VERSION, "kind": v.KIND_CLAIM}
KIND_OF_VMI: Final = {"apiVersion": v.KUBEVIRT_GROUP_VERSION, "kind": v.KIND_VMI}


def path_of(obj: Raw) -> str:
    kinds = {
        v.KIND_CLAIM: (v.GROUP_VERSION, v.RESOURCE_CLAIMS),
        v.KIND_VMI: (v.KUBEVIRT_GROUP_VERSION, "virtualmachineinstances"),
    }
    group_version, resource = kinds.get(obj.get("kind", "Pod"), ("v1", "pods"))
    return paths.item(group_version, resource, name_of(obj), namespace_of(obj))


def unchanged(pod: Raw) -> Iterator[Raw]:
    for part in ("uid", "resourceVersion"):
        yield {"op": "test", "path": f"/metadata/{part}", "value": pod["metadata"][part]}
