"""GPUClass: what a hoster offers, and how much of it there is (rule 3.1)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, StrictInt

from shared.api.base import (
    LABEL_LENGTH,
    NAME_LENGTH,
    QUALIFIED_LENGTH,
    RESOURCE_LENGTH,
    Count,
    Model,
    Time,
    Units,
)
from shared.api.columns import Column
from shared.api.conditions import Condition
from shared.api.meta import ListMeta, ObjectMeta
from shared.api.rules import (
    ATOMIC,
    CLASS_NAME,
    POSITIVE_QUANTITY,
    RESOURCE_NAME,
    SECRET_NAME,
    TOLERATION,
    held_to,
    immutable,
    keyed_by,
)
from shared.core.model import Disclosure, Entitlement, Lifecycle, Mode
from shared.vocabulary import GROUP_VERSION, KIND_CLASS


class Vendor(StrEnum):
    """Makers of devices."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"
    INTEL = "Intel"
    OTHER = "Other"


DisplayName = Annotated[str, Field(max_length=128)]
Description = Annotated[str, Field(max_length=1024)]
Memory = Annotated[str, Field(max_length=32)]
ResourceName = Annotated[
    str, Field(max_length=RESOURCE_LENGTH, json_schema_extra=held_to(*RESOURCE_NAME))
]


class Toleration(Model):
    """A taint that pods of the class tolerate, as in a pod."""

    model_config = ConfigDict(json_schema_extra=held_to(*TOLERATION))

    key: Annotated[str, Field(max_length=QUALIFIED_LENGTH)] | None = None
    """Key of the taint; empty tolerates every key, with operator Exists."""

    operator: Literal["", "Equal", "Exists"] | None = None
    """Equal (the default) compares the value; Exists tolerates every value of the key."""

    value: Annotated[str, Field(max_length=LABEL_LENGTH)] | None = None
    """Value of the taint, for operator Equal."""

    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; empty tolerates every effect."""

    toleration_seconds: (
        Annotated[StrictInt, Field(json_schema_extra={"format": "int64"})] | None
    ) = None
    """How long a NoExecute taint is tolerated; absent: for ever."""


class GuestLicense(Model):
    """A licence that guests with this class need."""

    secret_name: Annotated[
        str, Field(max_length=NAME_LENGTH, json_schema_extra=held_to(*SECRET_NAME))
    ]
    """Name of a Secret in the namespace cozy-gpu. Each VM of the class is given, as a disk
    labelled GPULICENSE, the Secret in its own namespace that is called gpu-license- and the name
    of the class. Nothing copies the one to the other yet: put it there before VMs start; without
    it they stand still."""


class GPUClassSpec(Model):
    """What is offered, to whom, and under which terms."""

    display_name: DisplayName | None = None
    """Name of the class for people, shown in the dashboard."""

    description: Description | None = None
    """What the class is good for, in a sentence or two, for those who choose."""

    vendor: Annotated[
        Vendor, Field(json_schema_extra=held_to(immutable("make a new class for other devices")))
    ]
    """Maker of the device: chooses drivers of guests and workers. Immutable."""

    mode: Annotated[
        Mode, Field(json_schema_extra=held_to(immutable("make a new class for the other mode")))
    ]
    """How the device reaches the guest: as a whole device (Passthrough), or as a share that the
    vendor's driver on the host makes (VirtualGPU). Immutable."""

    resource_name: ResourceName
    """Extended resource that the device plugin advertises on nodes for one unit of this class,
    such as nvidia.com/GA102GL_A10. No two classes may name the same. It can be changed: claims
    that are bound keep the old name until they are bound anew."""

    memory: Annotated[Memory, Field(json_schema_extra=held_to(*POSITIVE_QUANTITY))] | None = None
    """Memory of one unit, as a quantity such as 24Gi; for people, nothing is computed from it."""

    max_count: Units | None = None
    """The most units of this class in one order, and on one VM over all its class entries.
    Absent: 1024, the limit of every VM."""

    entitlement: Entitlement | None = None
    """Who may order: everyone (Open), or tenants whose namespace, or the nearest one above it
    that has the label gpu.cozystack.io/vgpu, says entitled (Required). Absent: Required for mode
    VirtualGPU, Open for Passthrough."""

    lifecycle: Lifecycle = Lifecycle.ACTIVE
    """Active; Deprecated: can still be ordered, with a warning; Closed: no new orders and no new
    VMs, claims live on, and a VM that is older than the closing still starts."""

    disclosure: Disclosure = Disclosure.EXACT
    """How much of the stock tenants see: the figures (Exact), None, Low, Medium or High
    (Bucketed), or nothing (Hidden). A tenant's own budget is always shown."""

    tolerations: (
        Annotated[list[Toleration], Field(max_length=32, json_schema_extra=ATOMIC)] | None
    ) = None
    """Taints of nodes that pods of this class tolerate; they are added to those pods."""

    guest_license: GuestLicense | None = None
    """Licence that guests of this class are given."""

    @property
    def entitlement_in_force(self) -> Entitlement:
        """Who may order, with the default of the mode (a CRD's default cannot depend on it)."""
        if self.entitlement is not None:
            return self.entitlement
        return Entitlement.REQUIRED if self.mode is Mode.VIRTUAL_GPU else Entitlement.OPEN


class Capacity(Model):
    """Units of the class in the whole cluster.

    total = bound + outside + unavailable + free - overbooked.
    """

    total: Count | None = None
    """Units that nodes advertise as allocatable."""

    bound: Count | None = None
    """Units that claims hold, used or not."""

    outside: Count | None = None
    """Units that pods hold without a claim."""

    unavailable: Count | None = None
    """Units that nobody holds, on nodes that take no new pods of this class: cordoned, not ready,
    with a taint that the class does not tolerate, not schedulable for KubeVirt, quarantined."""

    free: Count | None = None
    """Units that nobody holds, on nodes that take new pods of this class."""

    overbooked: Count | None = None
    """Units held beyond what the nodes that hold them advertise: a device plugin restarts, or pods
    without a claim took what claims hold."""

    largest_set: Count | None = None
    """The most units that are free together on one node, for one VM."""

    observed_time: Time | None = None
    """When these figures were computed."""


class GPUClassStatus(Model):
    """How much there is, and whether it can be had. Written by the binder."""

    capacity: Capacity | None = None
    """Units of the class in the whole cluster. Only where disclosure is Exact; of other classes the
    figures are in the metrics of gpu-apiserver alone."""

    conditions: (
        Annotated[list[Condition], Field(max_length=16, json_schema_extra=keyed_by("type"))] | None
    ) = None
    """Ready: the class can be ordered; Open: its lifecycle is not Closed (its time of transition
    is when it was closed or opened); ResourceNameUnique: no other class has its resourceName;
    Permitted: KubeVirt's table of permitted host devices has it, or there is no table."""


class GPUClass(Model):
    """A sort of GPU that tenants can order by the unit, as the hoster offers it.

    What a tenant can order of it now is in the GPUClassOption of the same name in the tenant's
    namespace.
    """

    model_config = ConfigDict(json_schema_extra=held_to(*CLASS_NAME))

    api_version: str = GROUP_VERSION
    """Version of this kind: gpu.cozystack.io/v1alpha1."""

    kind: str = KIND_CLASS
    """GPUClass."""

    metadata: ObjectMeta
    """Standard metadata. The name is a DNS label of at most 63 characters."""

    spec: GPUClassSpec
    """What is offered, to whom, and under which terms."""

    status: GPUClassStatus | None = None
    """How much there is, and whether it can be had."""


class GPUClassList(Model):
    """GPU classes."""

    api_version: str = GROUP_VERSION
    """Version of this kind: gpu.cozystack.io/v1alpha1."""

    kind: str = f"{KIND_CLASS}List"
    """GPUClassList."""

    metadata: ListMeta
    """Standard list metadata."""

    items: list[GPUClass]
    """The classes, by name."""


_READY: Final = '.status.conditions[?(@.type=="Ready")].status'

COLUMNS: Final = (
    Column("Mode", "string", "Passthrough or VirtualGPU.", json_path=".spec.mode"),
    Column("Vendor", "string", "Maker of the device.", json_path=".spec.vendor"),
    Column("Memory", "string", "Memory of one unit.", json_path=".spec.memory"),
    Column("Total", "integer", "Units on all nodes.", json_path=".status.capacity.total"),
    Column("Free", "integer", "Units that can be had now.", json_path=".status.capacity.free"),
    Column("Ready", "string", "Whether the class can be ordered.", json_path=_READY),
    Column("Age", "date", "How old the class is.", json_path=".metadata.creationTimestamp"),
    Column(
        "Resource",
        "string",
        "Extended resource of one unit.",
        priority=1,
        json_path=".spec.resourceName",
    ),
    Column(
        "Max", "integer", "The most units in one order.", priority=1, json_path=".spec.maxCount"
    ),
    Column(
        "Lifecycle",
        "string",
        "Active, Deprecated or Closed.",
        priority=1,
        json_path=".spec.lifecycle",
    ),
    Column(
        "Unavailable",
        "integer",
        "Units nobody holds on nodes that take no new GPU pods.",
        priority=1,
        json_path=".status.capacity.unavailable",
    ),
    Column(
        "Largest",
        "integer",
        "The most units free together, for one VM.",
        priority=1,
        json_path=".status.capacity.largestSet",
    ),
)
