"""What we know of the cluster, as frozen values.

Only fields that a rule reads are here; `shared.kube.decode` fills them from the API server's
JSON. Resources count as kube-scheduler counts them: CPU in thousandths, everything else in whole
units. Names are Kubernetes names; a uid is an opaque string, empty where the object had none.
`placing` and `written` hold what only the binder needs, and are None where another process reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shared.core.placing import (
    ClaimWritten,
    ClassWritten,
    Condition,
    PodPlacing,
    Presence,
    VmiPlacing,
)
from shared.core.scheduling import NodeTerm, Taint, Toleration

Key = tuple[str, str]
"""Namespace and name of a namespaced object."""

NOTHING: Mapping[str, int] = {}

FINAL_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases of pods, VMIs and migrations that nothing follows on."""


def _set_key(value: object, namespace: str, name: str) -> None:
    """Make the key once: tables and indexes hold the one that the value has."""
    object.__setattr__(value, "key", (namespace, name))


class Mode(StrEnum):
    """How a device reaches the guest."""

    PASSTHROUGH = "Passthrough"
    VIRTUAL_GPU = "VirtualGPU"


class Entitlement(StrEnum):
    """Who may order a class."""

    OPEN = "Open"
    REQUIRED = "Required"


class Lifecycle(StrEnum):
    """Whether a class takes new orders and new VMs."""

    ACTIVE = "Active"
    DEPRECATED = "Deprecated"
    CLOSED = "Closed"


class Disclosure(StrEnum):
    """How much of a class's stock tenants see."""

    EXACT = "Exact"
    BUCKETED = "Bucketed"
    HIDDEN = "Hidden"


class Placement(StrEnum):
    """Who places launchers (settings, rule 9)."""

    BINDER = "binder"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True)
class Node:
    """A node; `allocatable` holds every resource, rounded down, never negative.

    `ready_since` is when the condition Ready last changed, either way: RFC 3339 as written.
    """

    name: str
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False
    ready_since: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod; `requests` is Kubernetes' own sum over its containers, rounded up after adding.

    `owner` is the uid of the controlling owner where that is a VirtualMachineInstance, else
    empty. `pinned_to` is the node that every required node-affinity term names by
    `metadata.name`, else empty; empty at our gate too. Only the pods of VMIs have a `placing`.
    """

    namespace: str
    name: str
    uid: str = ""
    node_name: str = ""
    requests: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False
    owner: str = ""
    launcher_mark: str = ""
    pinned_to: str = ""
    presence: Presence | None = None
    placing: PodPlacing | None = None
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _set_key(self, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a claim is attached to: `kind` VirtualMachine or VirtualMachineInstance."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A GPUClaim. `resource_name` and `node_name` are the status's, empty where not set.

    `owner` is the uid of the VMI that owns a template claim, else empty. `deleting` is True
    from the request to delete it until its finalizers are gone.
    """

    namespace: str
    name: str
    class_name: str
    count: int = 1
    uid: str = ""
    is_template: bool = False
    owner: str = ""
    resource_name: str = ""
    node_name: str = ""
    attached_to: Attachment | None = None
    deleting: bool = False
    written: ClaimWritten | None = None
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _set_key(self, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class GpuClass:
    """A GPUClass. `memory` is the quantity as written; times are RFC 3339 as written.

    `closed_since` is when its status says that it was closed, empty where it does not;
    `license_secret` names a Secret in our namespace, empty where guests need none.
    """

    name: str
    resource_name: str
    mode: Mode = Mode.PASSTHROUGH
    uid: str = ""
    created: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    display_name: str = ""
    description: str = ""
    vendor: str = ""
    memory: str = ""
    max_count: int | None = None
    entitlement: Entitlement = Entitlement.OPEN
    lifecycle: Lifecycle = Lifecycle.ACTIVE
    disclosure: Disclosure = Disclosure.EXACT
    tolerations: tuple[Toleration, ...] = ()
    closed_since: str = ""
    license_secret: str = ""
    written: ClassWritten | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota's hard limits in whole units, rounded down; `scoped` ones never count."""

    namespace: str
    name: str
    hard: Mapping[str, int] = field(default_factory=dict)
    scoped: bool = False
    uid: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace; `entitlement` is the value of that label, None where it has none.

    `labels` are there for placing alone: a pod affinity can select namespaces.
    """

    name: str
    entitlement: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One item of the record of admission: a claim by name, or a class entry by index."""

    claim: str = ""
    entry: int = -1
    class_name: str = ""
    resource_name: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Vmi:
    """A VirtualMachineInstance; `vm` is the uid of the VirtualMachine that controls it.

    `active_pods` are the uids of its pods, sorted; `node_name` is where it runs, empty until it
    does.
    """

    namespace: str
    name: str
    uid: str
    vm: str = ""
    active_pods: tuple[str, ...] = ()
    record: tuple[RecordEntry, ...] = ()
    phase: str = ""
    node_name: str = ""
    placing: VmiPlacing | None = None
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _set_key(self, self.namespace, self.name)

    @property
    def final(self) -> bool:
        """Whether it ended: it will never run again."""
        return self.phase in FINAL_PHASES


@dataclass(frozen=True, slots=True)
class Vm:
    """A VirtualMachine, as far as a decision about one of its instances reads it."""

    namespace: str
    name: str
    uid: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class Migration:
    """A VirtualMachineInstanceMigration: which VMI it moves, and whether it is over.

    Read when a decision is made about its pod, and not followed.
    """

    namespace: str
    name: str
    uid: str
    vmi_name: str = ""
    final: bool = False


@dataclass(frozen=True, slots=True)
class KubeVirt:
    """A KubeVirt object. `permitted` is None where it has no table of permitted host devices."""

    namespace: str
    name: str
    phase: str = ""
    permitted: frozenset[str] | None = None
    mediated: frozenset[str] = frozenset()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim; `volume` is the name of the volume it is bound to, else empty.

    `selected_node` is the node that a volume is being made for, else empty.
    """

    namespace: str
    name: str
    uid: str = ""
    volume: str = ""
    phase: str = ""
    selected_node: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume, as far as it binds pods to nodes.

    `node_terms` are alternatives, one of which a node must meet, None where any node does.
    `zones` are the values that a zone or region label of a node may have, where a node has any.
    """

    name: str
    node_terms: tuple[NodeTerm, ...] | None = None
    zones: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret that we manage: that it is there. Its content is never read."""

    namespace: str
    name: str

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class System:
    """The GPUSystem as last written; `settings` are the effective ones as they stand there."""

    name: str
    resource_version: str = ""
    generation: int = 0
    epoch: int = 0
    resource_names: tuple[str, ...] = ()
    settings: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force that a reading depends on (rule 9), as values."""

    enabled: bool = True
    placement: Placement = Placement.BINDER
    kubevirt_namespace: str = "cozy-kubevirt"
    resource_names: frozenset[str] = frozenset()


Object = (
    Node
    | Pod
    | Claim
    | GpuClass
    | Quota
    | Namespace
    | Vmi
    | KubeVirt
    | VolumeClaim
    | Volume
    | Secret
    | System
    | Settings
)
"""Everything that can be followed."""


@dataclass(frozen=True, slots=True)
class Put:
    """An object was added or changed to this."""

    object: Object


@dataclass(frozen=True, slots=True)
class Gone:
    """An object was deleted; this is its last state."""

    object: Object


Change = Put | Gone
"""One step of a state."""
