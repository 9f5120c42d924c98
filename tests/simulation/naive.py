"""A small binder to try the simulation on, with faults that can be switched on.

It polls: each pass reads everything anew and writes one thing after the other. It is slow, knows
no volumes, spread or reservations, and is no model for the real one: only what the judge asks of
every binder. Each of its faults is one that a binder could have, and that the simulation finds.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from typing_extensions import override

from shared import vocabulary as v
from shared.errors import ApiError, NotFound
from shared.kube import paths
from shared.kube.collections import Collection
from shared.kube.reflector import Reflector
from tests.kubevirt.objects import (
    annotations_of,
    condition,
    finalizers_of,
    is_final,
    is_going,
    name_of,
    namespace_of,
    owner_reference,
    status_of,
    uid_of,
)
from tests.simulation import facts
from tests.simulation.http import JSON_PATCH, MERGE
from tests.simulation.naive_hands import (
    KIND_OF_CLAIM,
    KIND_OF_VMI,
    NONE,
    TIMEOUT_SECONDS,
    Fault,
    path_of,
    unchanged,
)
from tests.simulation.naive_term import Term
from tests.simulation.naive_view import View, affordable
from tests.simulation.simulation import Surroundings

Raw = dict[str, Any]

PAUSE_SECONDS: Final = 1.0
SKIP_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 20.0
REFUSALS: Final = "gpu-refusals"


@dataclass(slots=True)
class _Pods:
    """Sees pods refused, which are gone before a list shows them (rule 7.10)."""

    refused: list[Raw] = field(default_factory=list)

    def put(self, pod: Raw) -> None:
        if facts.was_refused(pod):
            self.refused.append(pod)

    def gone(self, pod: Raw) -> None:
        self.put(pod)


@dataclass(frozen=True, slots=True)
class Naive:
    """The binder; call it with its surroundings."""

    faults: frozenset[Fault] = NONE

    @property
    def name(self) -> str:
        """`naive`, and its faults."""
        return ":".join(("naive", *sorted(fault.name for fault in self.faults)))

    async def __call__(self, surroundings: Surroundings) -> None:
        """One process."""
        seen = _Pods()
        pods = Collection("pods", "/api/v1/pods", _as_it_is)
        reflector = Reflector(
            pods,
            surroundings.connection,
            seen,
            clock=surroundings.clock,
            chance=surroundings.chance,
        )
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(reflector.run())
            await _Process(surroundings, self.faults, seen).run()
            following.cancel()


def _as_it_is(raw: Mapping[str, Any], note: object) -> Raw:
    del note
    return dict(raw)


class _Process(Term):
    """A process, from its start on."""

    def __init__(self, at: Surroundings, faults: frozenset[Fault], seen: _Pods) -> None:
        super().__init__(at, faults)
        self.seen = seen
        self.old: View | None = None
        self.waited: set[str] = set()
        self.refusals: dict[str, Raw] = {}
        self.mark = b""
        self.looked_at = 0.0

    async def run(self) -> None:
        """Passes, while it leads."""
        while True:
            try:
                if await self._leads():
                    await self._pass()
            except ApiError as error:
                self.mark = b""
                if error.code >= 500 and Fault.UNSETTLED not in self.faults:
                    await asyncio.sleep(2 * TIMEOUT_SECONDS)  # until then it may arrive
                self.begun = self.begun and self.at.clock() < self.leads_until
            await asyncio.sleep(PAUSE_SECONDS * self.at.chance.uniform(0.8, 1.2))

    @override
    async def _settle(self) -> None:
        """What was seen in another term is old; refusals are kept where a restart finds them."""
        self.refusals |= await self._memory()
        self.old = None

    async def _pass(self) -> None:
        view = await self._view()
        if view is None:
            return  # nothing changed since the last pass, and that one had nothing more to do
        if Fault.OLD_VIEW in self.faults and self.old is not None:
            view, self.old = self.old, view
        else:
            self.old = view
        await self._remember(view)
        await self._free(view)
        for step in (self._truth, self._repair):
            for vmi in view.vmis:
                await step(view, vmi)
        off = not view.enabled and Fault.IGNORES_OFF not in self.faults
        gated = [pod for pod in view.pods if v.GATE in facts.gates(pod) and not is_going(pod)]
        for pod in sorted(gated, key=lambda pod: (_made_at(pod), name_of(pod))):
            await (self._release(pod) if off else self._start(view, pod))
        if not off:
            await self._move(view)
            for claim in sorted(view.claims, key=lambda c: (_made_at(c), name_of(c))):
                await self._order(view, claim)

    async def _view(self) -> View | None:
        """All that a pass reads; None where it is what the last one read, and not long ago."""
        answers = [await self._request("GET", path) for path in _READ]
        mark = hashlib.sha256(
            b"".join(_VERSION.sub(b"", each, count=1) for each in answers)
        ).digest()
        if mark == self.mark and self.at.clock() < self.looked_at + LOOK_SECONDS:
            return None
        found = [orjson.loads(each) for each in answers]
        versions = [int(each["metadata"]["resourceVersion"]) for each in found]
        if min(versions) < self.newest:
            return None  # older than what we know: somebody lags
        self.newest = max(versions)
        self.mark, self.looked_at = mark, self.at.clock()
        nodes, pods, claims, vmis, classes, quotas, namespaces, vms, settings = (
            list[Raw](each["items"]) for each in found
        )

        return View(
            nodes,
            pods,
            claims,
            vmis,
            {name_of(each): each for each in classes},
            quotas,
            {name_of(each) for each in namespaces},
            {uid_of(each) for each in vms},
            all(each["data"].get("enabled") != "false" for each in settings if "data" in each),
        )

    async def _remember(self, view: View) -> None:
        """Refusals that were seen since the last pass are kept where a restart finds them."""
        if Fault.NO_MEMORY in self.faults:
            return
        new = {}
        by_uid = {uid_of(vmi): vmi for vmi in view.vmis}
        nodes = {name_of(node): node for node in view.nodes}
        while self.seen.refused:
            pod = self.seen.refused.pop()
            name = annotations_of(pod).get("kubevirt.io/domain", "")
            vmi = by_uid.get(facts.mark_of(pod))
            node = pod["spec"].get("nodeName", "")
            if not facts.mark_of(pod) or node not in nodes:
                continue
            name = name_of(vmi) if vmi else name
            key = f"{namespace_of(pod)}.{name}.{node}"
            print_of = facts.fingerprint(nodes[node])
            known = self.refusals.get(key)
            if known is None or known["print"] != print_of or known["pod"] != uid_of(pod):
                new[key] = {"at": self.at.clock(), "print": print_of, "pod": uid_of(pod)}
        if new:
            self.refusals |= new
            data = {key: orjson.dumps(each).decode() for key, each in self.refusals.items()}
            path = paths.item("v1", "configmaps", REFUSALS, v.NAMESPACE)
            await self._send("PATCH", path, {"data": data}, MERGE)

    async def _memory(self) -> dict[str, Raw]:
        path = paths.item("v1", "configmaps", REFUSALS, v.NAMESPACE)
        try:
            found = await self._get(path)
        except NotFound:
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": REFUSALS}}
            found = await self._send("POST", path.rpartition("/")[0], made)
        return {key: orjson.loads(each) for key, each in (found.get("data") or {}).items()}

    # Steps of a pass, in the order of rule 7.3.

    async def _free(self, view: View) -> None:
        """Claims that end, and claims whose VM is gone."""
        alive = {uid_of(vmi) for vmi in view.vmis if not is_final(vmi)}
        users = alive | view.vms | {uid_of(vmi) for vmi in view.vmis}
        for claim in [*view.claims]:
            held = [
                pod
                for pod in view.pods
                if pod["spec"].get("nodeName")
                and not is_final(pod)
                and (
                    view.is_left_with(pod, claim)
                    or any(
                        uid_of(vmi) == facts.mark_of(pod)
                        and facts.machine_of(vmi) == facts.attached_to(claim)
                        for vmi in view.vmis
                    )
                )
            ]
            if held and Fault.FREES_EARLY not in self.faults:
                continue
            if is_going(claim) and v.FINALIZER_CLAIM in finalizers_of(claim):
                kept = [each for each in finalizers_of(claim) if each != v.FINALIZER_CLAIM]
                await self._claim(claim, {"finalizers": kept}, view)
            elif facts.is_template(claim) and not is_going(claim):
                if not (facts.made_for(claim) & alive):
                    await self._send(
                        "DELETE", path_of(claim), {"preconditions": {"uid": uid_of(claim)}}
                    )
            elif facts.attached_to(claim) and facts.attached_to(claim) not in users:
                await self._status(view, claim, {"attachedTo": None})

    async def _truth(self, view: View, vmi: Raw) -> None:
        """Where a launcher runs, there its set is (rule 7.17)."""
        for pod in view.pods:
            node = pod["spec"].get("nodeName", "")
            if facts.mark_of(pod) != uid_of(vmi) or not node or is_final(pod):
                continue
            if is_final(vmi) or is_going(vmi):
                continue
            for claim in await self._whole(view, vmi) or ():
                if facts.node_of(claim) != node:
                    await self._book(view, claim, vmi, node)

    async def _repair(self, view: View, vmi: Raw) -> None:
        """A set that is in parts is gathered when it is placed; without a pod it is let go."""
        claims = view.set_of(vmi)
        places = {facts.node_of(claim) for claim in claims}
        runs = any(facts.mark_of(pod) == uid_of(vmi) and facts.place_of(pod) for pod in view.pods)
        if len(places) > 1 and not runs and not is_final(vmi):
            for claim in claims:
                if facts.node_of(claim):
                    await self._unbind(view, claim, "NodeLost")

    async def _start(self, view: View, pod: Raw) -> None:
        """A pod at the gate: book its set, then pin it and let it through."""
        vmi = next((each for each in view.vmis if uid_of(each) == facts.mark_of(pod)), None)
        if vmi is None or is_going(vmi) or is_final(vmi):
            return
        if Fault.WRITES_VMI in self.faults:
            await self._send("PATCH", path_of(vmi), {"status": {"reason": "seen"}}, MERGE)
        if Fault.DELETES_GATED in self.faults and uid_of(pod) in self.waited:
            await self._delete(pod)
            return
        claims = await self._whole(view, vmi)
        if claims is None:
            return
        node, reason = self._place(view, vmi, claims)
        if Fault.STARVES in self.faults and uid_of(pod) in self.waited:
            node = ""
        if not node:
            self.waited.add(uid_of(pod))
            for claim in claims:
                await self._waits(view, claim, vmi, reason)
            await self._tell(vmi, reason)
            return
        if Fault.PINS_FIRST in self.faults:
            await self._pin(pod, node)
        for place, claim in enumerate(claims):
            chosen = node
            if Fault.SPLITS in self.faults and place:
                chosen = self._place(view, vmi, [claim])[0] or node
            try:
                await self._book(view, claim, vmi, chosen)
            except ApiError:
                if Fault.PINS_BLINDLY not in self.faults:
                    raise
        if Fault.PINS_FIRST not in self.faults:
            await self._pin(pod, node)

    async def _release(self, pod: Raw) -> None:
        """With the feature off pods pass unpinned (rule 7.15)."""
        index = facts.gates(pod).index(v.GATE)
        patch = [*unchanged(pod), {"op": "remove", "path": f"/spec/schedulingGates/{index}"}]
        await self._send("PATCH", path_of(pod), patch, JSON_PATCH)

    async def _move(self, view: View) -> None:
        """An idle set on a node that is not there any more is Lost."""
        nodes = {name_of(node) for node in view.nodes}
        for claim in [*view.claims]:
            if facts.node_of(claim) and facts.node_of(claim) not in nodes and not is_going(claim):
                await self._unbind(view, claim, "NodeLost")

    async def _order(self, view: View, claim: Raw) -> None:
        """An order that nobody uses is bound where there is room."""
        if facts.node_of(claim) or facts.is_template(claim) or is_going(claim):
            return
        if facts.attached_to(claim) or any(
            name_of(claim) in {e.claim for e in facts.record_of(vmi)}
            and namespace_of(vmi) == namespace_of(claim)
            for vmi in view.vmis
        ):
            return
        node, reason = self._place(view, None, [claim])
        if node:
            await self._book(view, claim, None, node)
        else:
            await self._waits(view, claim, None, reason)

    # What a step is made of.

    async def _whole(self, view: View, vmi: Raw) -> list[Raw] | None:
        """The whole set of a VMI, missing template claims made; None where it cannot be."""
        found = view.set_of(vmi)
        claims = []
        for place, entry in enumerate(facts.record_of(vmi)):
            if entry.claim:
                mine = [each for each in found if name_of(each) == entry.claim]
                if not mine or is_going(mine[0]):
                    return None
                claims.append(mine[0])
                continue
            name = f"{uid_of(vmi)}-{place}"
            mine = [each for each in found if name_of(each) == name]
            if not mine:
                mine = [await self._template(vmi, name, entry)]
                view.claims.append(mine[0])
            claims.append(mine[0])
        return claims

    async def _template(self, vmi: Raw, name: str, entry: facts.Entry) -> Raw:
        metadata = {
            "name": name,
            "namespace": namespace_of(vmi),
            "labels": {v.LABEL_TEMPLATE: "true"},
            "finalizers": [v.FINALIZER_CLAIM],
            "ownerReferences": [owner_reference({**KIND_OF_VMI, **vmi})],
        }
        spec = {"className": entry.class_name, "count": entry.count}
        body = {**KIND_OF_CLAIM, "metadata": metadata, "spec": spec}
        path = paths.collection(v.GROUP_VERSION, v.RESOURCE_CLAIMS, namespace_of(vmi))
        return await self._send("POST", path, body)

    def _place(self, view: View, vmi: Raw | None, claims: list[Raw]) -> tuple[str, str]:
        """The fullest node that fits, else the reason."""
        wanted = Counter[str]()
        for claim in claims:
            wanted[view.resource(claim)] += facts.count_of(claim)
        if Fault.NO_BUDGET not in self.faults and not affordable(view, claims):
            return "", "BudgetExceeded"
        fitting = []
        for node in view.nodes:
            free = {device: view.free(node, device, claims) for device in wanted}
            is_open = facts.is_ready(node) and not node["spec"].get("unschedulable")
            if not is_open or self._refused(vmi, node):
                continue
            if all(free[device] >= units for device, units in wanted.items()):
                stays = all(facts.node_of(claim) == name_of(node) for claim in claims)
                fitting.append((not stays, sum(free.values()), name_of(node)))
        return (min(fitting)[2], "") if fitting else ("", "NoCapacity")

    def _refused(self, vmi: Raw | None, node: Raw) -> bool:
        if vmi is None:
            return False
        known = self.refusals.get(f"{namespace_of(vmi)}.{name_of(vmi)}.{name_of(node)}")
        return (
            known is not None
            and self.at.clock() - float(known["at"]) < SKIP_SECONDS
            and known["print"] == facts.fingerprint(node)
        )

    async def _book(self, view: View, claim: Raw, vmi: Raw | None, node: str) -> None:
        if facts.node_of(claim) == node and (vmi is None or facts.attached_to(claim)):
            return
        status: Raw = {
            "epoch": self.term,
            "nodeName": node,
            "resourceName": view.resource(claim),
            "boundTime": status_of(claim).get("boundTime") or self._stamp(),
            "waiting": None,
            "conditions": [self._condition(claim, "True", "Placed")],
        }
        if vmi is not None:
            status["attachedTo"] = self._attachment(vmi)
        if v.FINALIZER_CLAIM not in finalizers_of(claim):
            claim = await self._claim(
                claim, {"finalizers": [*finalizers_of(claim), v.FINALIZER_CLAIM]}, view
            )
        await self._status(view, claim, status)

    async def _unbind(self, view: View, claim: Raw, reason: str) -> None:
        if any(facts.place_of(pod) and view.is_left_with(pod, claim) for pod in view.pods):
            return
        gone: Raw = dict.fromkeys(("nodeName", "resourceName"))
        status = {
            **gone,
            "epoch": self.term,
            "conditions": [self._condition(claim, "False", reason)],
        }
        await self._status(view, claim, status)

    async def _waits(self, view: View, claim: Raw, vmi: Raw | None, reason: str) -> None:
        known = condition(claim, "Bound")
        lost = facts.is_lost(claim)
        if facts.node_of(claim) and vmi is not None:
            await self._unbind(view, claim, "NodeLost")
            return
        if known.get("status") == "False" and Fault.REWRITES not in self.faults:
            waiting = status_of(claim).get("waiting") or {}
            if waiting.get("reason") == reason:
                return
        told = "NodeLost" if lost else reason
        since = {"reason": reason, "message": "", "sinceTime": self._stamp()}
        status: Raw = {"conditions": [self._condition(claim, "False", told)], "waiting": since}
        if vmi is not None:
            status["attachedTo"] = self._attachment(vmi)
        await self._status(view, claim, status)


_READ: Final = (
    "/api/v1/nodes",
    "/api/v1/pods",
    paths.collection(v.GROUP_VERSION, v.RESOURCE_CLAIMS),
    paths.collection(v.KUBEVIRT_GROUP_VERSION, "virtualmachineinstances"),
    paths.collection(v.GROUP_VERSION, v.RESOURCE_CLASSES),
    "/api/v1/resourcequotas",
    "/api/v1/namespaces",
    paths.collection(v.KUBEVIRT_GROUP_VERSION, "virtualmachines"),
    paths.collection("v1", "configmaps", v.NAMESPACE),
)
_VERSION: Final = re.compile(rb'"metadata":\{"resourceVersion":"\d+"\}')
"""Of a list: it grows with every change of anything."""


def _made_at(obj: Raw) -> str:
    return str(obj["metadata"]["creationTimestamp"])
