"""What we know of the cluster, as frozen values.

Only fields that a rule reads are here; `shared.kube.decode` fills them from the API server's
JSON. Counts of devices are whole units. Names are Kubernetes names; a uid is an opaque string,
empty where the object had none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

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
class Taint:
    """A node's taint: `effect` is NoSchedule, NoExecute or PreferNoSchedule."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """As Kubernetes has it: an empty key with Exists tolerates all, an empty effect any.

    `seconds` is how long a NoExecute taint is tolerated, None for ever.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node; `allocatable` holds every resource in whole units, rounded down, never negative."""

    name: str
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod; `requests` is Kubernetes' own sum over its containers, in whole units, rounded up.

    `owner` is the uid of the controlling owner where that is a VirtualMachineInstance, else
    empty. `pinned_to` is the node that every required node-affinity term names by
    `metadata.name`, else empty.
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


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota's hard limits in whole units, rounded down; `scoped` ones never count."""

    namespace: str
    name: str
    hard: Mapping[str, int] = field(default_factory=dict)
    scoped: bool = False

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace; `entitlement` is the value of that label, None where it has none."""

    name: str
    entitlement: str | None = None


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
    """A VirtualMachineInstanceMigration: which VMI it moves, and whether it is over."""

    namespace: str
    name: str
    uid: str
    vmi_name: str = ""
    final: bool = False

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)


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
class Settings:
    """The settings in force that a reading depends on (rule 9), as values."""

    enabled: bool = True
    placement: Placement = Placement.BINDER
    kubevirt_namespace: str = "cozy-kubevirt"
    resource_names: frozenset[str] = frozenset()


Object = Node | Pod | Claim | GpuClass | Quota | Namespace | Vmi | Migration | KubeVirt | Settings
"""Everything that a state holds."""


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
