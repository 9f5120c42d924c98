"""Whether an instance's disks let it start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition, controller_of, items, namespace_of, phase_of
from tests.kubevirt.rendering import claim_of

_READY_PHASES: Final = frozenset({w.SUCCEEDED, "PendingPopulation"})


@dataclass(frozen=True, slots=True)
class Disks:
    """What the claims and data volumes behind an instance's volumes say.

    Attributes:
        ready: nothing is waited for but, perhaps, a first consumer.
        wait_for_consumer: a data volume is imported only once a pod has chosen its node.
        missing: `namespace/name` of a claim that does not exist; empty when all do.
        data_volumes: those that the instance's claims come from.
    """

    ready: bool = True
    wait_for_consumer: bool = False
    missing: str = ""
    data_volumes: tuple[Object, ...] = ()

    @property
    def any_failed(self) -> bool:
        """Whether an import was given up."""
        return any(phase_of(each) == w.FAILED for each in self.data_volumes)


def disks_of(
    vmi: Object, claims: Mapping[str, Object], data_volumes: Mapping[str, Object]
) -> Disks:
    """Look at the claims of all volumes, hotpluggable ones too.

    A claim that no data volume owns counts as ready even when unbound, and so does a data volume
    that a populator fills (KubeVirt observed 42). One that waits for its first consumer holds
    nothing up: it asks for a temporary pod (KubeVirt observed 38). Any other phase is waited for
    (KubeVirt observed 39).

    Args:
        vmi: the instance.
        claims: PersistentVolumeClaims of its namespace by name.
        data_volumes: DataVolumes of its namespace by name.
    """
    names = [name for volume in items(vmi, "spec", "volumes") if (name := claim_of(volume))]
    sources = tuple(data_volumes[name] for name in names if name in data_volumes)
    ready, waits = True, False
    for name in names:
        if name not in claims:
            return Disks(ready=False, missing=f"{namespace_of(vmi)}/{name}", data_volumes=sources)
        owner = controller_of(claims[name])
        if owner.get("kind") != "DataVolume" or owner["name"] not in data_volumes:
            continue
        phase = phase_of(data_volumes[owner["name"]])
        waits = waits or phase == w.WAITS_FOR_CONSUMER
        ready = ready and (phase in _READY_PHASES or phase == w.WAITS_FOR_CONSUMER)
    return Disks(ready=ready, wait_for_consumer=waits, data_volumes=sources)


def imports_condition(disks: Disks) -> tuple[str, str, str]:
    """Status, reason and message of DataVolumesReady."""
    states = {_readiness(each) for each in disks.data_volumes}
    if states == {"True"}:
        return ("True", "AllDVsReady", "All of the VMI's DVs are bound and ready")
    status = "False" if "False" in states else "Unknown"
    return (status, "NotAllDVsReady", "Not all of the VMI's DVs are ready")


def _readiness(data_volume: Object) -> str:
    return str(condition(data_volume, "Ready").get("status", "Unknown"))
