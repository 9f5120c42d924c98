"""What only placing needs to know of an object: the part of a value that other processes leave out.

Times are RFC 3339 as written, empty where there is none. Mappings are shared; never change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.core.scheduling import HostPort, NodeTerm, PodTerm, Spread, Toleration


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object's status, as last written."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""
    """When the status last changed (lastTransitionTime)."""
    generation: int | None = None
    """The generation that it was set for (observedGeneration)."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What a pod means for others that are to be placed near it. Most pods share theirs."""

    labels: Mapping[str, str] = field(default_factory=dict)
    anti_affinity: tuple[PodTerm, ...] = ()
    """Required terms: they keep others away, as they keep this pod away from others."""
    host_ports: tuple[HostPort, ...] = ()
    is_leaving: bool = False
    """Whether its deletion was asked for: it takes room until it is gone, and spreads no more."""


@dataclass(frozen=True, slots=True)
class PodPlacing:
    """What it takes to place a VM's pod, and how it fared.

    Attributes:
        resource_version: as a JSON Patch tests it.
        gates: names of all scheduling gates, in order: a JSON Patch removes one by its index.
        affinity: `spec.affinity` as written, as JSON, empty where there is none: what a JSON
            Patch tests and adds to.
        node_terms: the required node-affinity terms, by index; None where none are required.
        pod_affinity: required terms; those against other pods are in the pod's `Presence`.
        spread: constraints with DoNotSchedule.
        volume_claims: names of the PersistentVolumeClaims among its volumes, sorted.
        phase, reason, message: as its status has them; a refusal by the kubelet is a reason.
        scheduled: the condition PodScheduled.
        is_started: whether one of its containers ever ran.
        is_temporary: whether it only lets volumes be provisioned, and a launcher follows.
        migration: the uid of the migration that it is the target of, else empty.
    """

    resource_version: str = ""
    created: str = ""
    deleted: str = ""
    gates: tuple[str, ...] = ()
    affinity: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeTerm, ...] | None = None
    pod_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    volume_claims: tuple[str, ...] = ()
    phase: str = ""
    reason: str = ""
    message: str = ""
    scheduled: Condition | None = None
    is_started: bool = False
    is_temporary: bool = False
    migration: str = ""


@dataclass(frozen=True, slots=True)
class VmiVolume:
    """A volume of a VMI that is a PersistentVolumeClaim of this name."""

    claim: str
    is_hotpluggable: bool = False


@dataclass(frozen=True, slots=True)
class Moving:
    """A migration of a VMI, under way or over: the last that its status tells of."""

    uid: str
    source_node: str = ""
    target_node: str = ""
    target_pod: str = ""
    is_completed: bool = False
    is_failed: bool = False


@dataclass(frozen=True, slots=True)
class VmiPlacing:
    """What placing the pods of a VMI needs of it.

    Attributes:
        vm_name: of the VirtualMachine that controls it, empty where none does.
        pods: its pods as KubeVirt lists them, uid and node (empty while it has none).
        classes, claims: our two annotations as written, empty where there is none.
        volumes: in order.
        moving: from `status.migrationState`.
        start_strategy: as its spec has it; Paused, or empty.
    """

    created: str = ""
    deleted: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    vm_name: str = ""
    pods: Mapping[str, str] = field(default_factory=dict)
    classes: str = ""
    claims: str = ""
    volumes: tuple[VmiVolume, ...] = ()
    moving: Moving | None = None
    start_strategy: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a claim is not bound yet."""

    reason: str
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class ClaimWritten:
    """What was last written to a claim, and what writing to it again needs."""

    resource_version: str = ""
    generation: int = 0
    created: str = ""
    deleted: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    epoch: int = 0
    bound: str = ""
    """When it was booked (boundTime)."""
    waiting: Waiting | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassWritten:
    """What was last written to a class, and what writing to it again needs."""

    resource_version: str = ""
    generation: int = 0
    deleted: str = ""
    finalizers: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    capacity: Mapping[str, int] | None = None
    """Figures by name as the status has them (`total`, `bound`, …); None where it has none."""
    observed: str = ""
    """When those figures were true (observedTime)."""
