"""How the naive binder comes to lead, and what a term of its begins with."""

from __future__ import annotations

import abc
import asyncio
from typing import Any, Final

from shared import vocabulary as v
from shared.errors import NotFound
from shared.kube import paths
from tests.kubevirt.objects import status_of
from tests.simulation.http import MERGE
from tests.simulation.naive_hands import TIMEOUT_SECONDS, Fault, Hands
from tests.simulation.simulation import Surroundings

Raw = dict[str, Any]

LEASE_SECONDS: Final = 15.0

_LEASE: Final = paths.item("coordination.k8s.io/v1", "leases", "gpu-binder", v.NAMESPACE)
_SYSTEM: Final = paths.item(v.GROUP_VERSION, v.RESOURCE_SYSTEMS, v.SYSTEM_NAME)


class Term(Hands, abc.ABC):
    """A process that leads at times."""

    def __init__(self, at: Surroundings, faults: frozenset[Fault]) -> None:
        super().__init__(at, faults)
        self._lease_version, self._lease_seen_at = "", 0.0

    @abc.abstractmethod
    async def _settle(self) -> None:
        """A term has begun: forget what another one knew."""

    async def _leads(self) -> bool:
        if Fault.UNFENCED in self.faults:
            self.term = (await self._system()).get("epoch", 1)
            self.leads_until = float("inf")
            return True
        asked_at = self.at.clock()
        lease = await self._lease()
        spec = lease.get("spec", {})
        mine = spec.get("holderIdentity") == self.at.name
        if not mine and not self._is_over(lease):
            self.begun = False
            return False
        new = {**spec, "holderIdentity": self.at.name, "leaseDurationSeconds": int(LEASE_SECONDS)}
        new["leaseTransitions"] = int(spec.get("leaseTransitions", 0)) + 1
        await self._send("PUT", _LEASE, {**lease, "spec": new}, fenced=False)
        self.leads_until = asked_at + LEASE_SECONDS
        if not self.begun:
            await self._begin()
        return self.begun

    def _is_over(self, lease: Raw) -> bool:
        """Whether nobody has renewed it for as long as it lasts, by our own clock."""
        version = lease["metadata"]["resourceVersion"]
        if self._lease_version != version:
            self._lease_version, self._lease_seen_at = version, self.at.clock()
        held = bool(lease.get("spec", {}).get("holderIdentity"))
        return not held or self.at.clock() - self._lease_seen_at > LEASE_SECONDS

    async def _lease(self) -> Raw:
        try:
            return await self._get(_LEASE)
        except NotFound:
            made = {"metadata": {"name": "gpu-binder"}, "spec": {"leaseDurationSeconds": 15}}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **made}
            return await self._send("POST", _LEASE.rpartition("/")[0], body, fenced=False)

    async def _begin(self) -> None:
        """A new term; what the last leader sent has arrived by then (rule 7.1)."""
        status = await self._system()
        term = int(status.get("epoch", 0))
        if Fault.LOWERS_TERM in self.faults:
            term = 0
        if Fault.KEEPS_TERM not in self.faults or not term:
            term += 1
            version = status["_version"]
            change = {"metadata": {"resourceVersion": version}, "status": {"epoch": term}}
            await self._send("PATCH", f"{_SYSTEM}/status", change, MERGE)
        self.term = term
        await asyncio.sleep(TIMEOUT_SECONDS)
        await self._settle()
        self.begun = True

    async def _system(self) -> Raw:
        try:
            found = await self._get(_SYSTEM)
        except NotFound:
            named = {"apiVersion": v.GROUP_VERSION, "kind": v.KIND_SYSTEM}
            body = {**named, "metadata": {"name": v.SYSTEM_NAME}}
            found = await self._send("POST", _SYSTEM.rpartition("/")[0], body)
        return {**status_of(found), "_version": found["metadata"]["resourceVersion"]}
