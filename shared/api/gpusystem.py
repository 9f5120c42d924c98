"""GPUSystem: the state of the system, one object (rule 3.6)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from shared.api.base import RESOURCE_LENGTH, Epoch, Model, Name
from shared.api.columns import Column
from shared.api.conditions import Condition
from shared.api.meta import ListMeta, ObjectMeta
from shared.api.rules import SET, held_to, keyed_by, only_name
from shared.core.model import Placement
from shared.vocabulary import GROUP_VERSION, KIND_SYSTEM, SYSTEM_NAME

Switch = Literal["true", "false"]
"""As the ConfigMap spells it."""

Duration = Annotated[str, Field(max_length=32)]
Account = Annotated[str, Field(max_length=256)]
Accounts = Annotated[list[Account], Field(max_length=64, json_schema_extra=SET)]
ResourceNames = Annotated[
    list[Annotated[str, Field(max_length=RESOURCE_LENGTH)]],
    Field(max_length=1024, json_schema_extra=SET),
]


class EffectiveSettings(Model):
    """The settings in force."""

    enabled: Switch | None = None
    """Whether GPU classes can be used."""

    placement: Placement | None = None
    """Who chooses the node of a VM with GPU classes: binder or scheduler."""

    resource_names: ResourceNames | None = None
    """Resources that count as GPUs though no class names them."""

    forbid_raw_names: Switch | None = None
    """Whether tenants are kept from asking for GPUs by resource name, past the classes."""

    kubevirt_namespace: Name | None = None
    """Where KubeVirt is installed."""

    kubevirt_usernames: Accounts | None = None
    """Accounts of KubeVirt's controllers."""

    binder_username: Account | None = None
    """Account of the binder."""

    trusted_groups: Accounts | None = None
    """Groups that may by hand ungate pods, entitle tenants and remove finalizers of ours."""

    node_loss_grace: Duration | None = None
    """How long a node may be unfit before idle claims leave it, such as 5m."""

    refusal_skip: Duration | None = None
    """How long a node that refused a VM is skipped for it, such as 10m."""

    pin_timeout: Duration | None = None
    """How long a VM may stay unschedulable on its node before another is looked for, such as
    5m."""

    starvation_bound: Duration | None = None
    """How long a VM waits before a node is reserved for it, such as 15m."""


class GPUSystemStatus(Model):
    """The state of the system. Written by the binder."""

    epoch: Epoch | None = None
    """The present term of the binder, raised by each new leader."""

    resource_names: ResourceNames | None = None
    """Everything that counts as a GPU: the resources of all classes, the mediated devices that
    KubeVirt permits, and those that the settings name."""

    effective_settings: EffectiveSettings | None = None
    """The settings in force: those of the ConfigMap gpu-settings, spelt alike, with the last good
    value in the place of a bad one."""

    conditions: (
        Annotated[list[Condition], Field(max_length=16, json_schema_extra=keyed_by("type"))] | None
    ) = None
    """SettingsValid: no setting was refused; Placing: the binder chooses nodes; KubeVirtFound:
    there is a KubeVirt whose devices are known; RecordsKept: usage records of claims stay."""


class GPUSystem(Model):
    """The state of GPU classes and claims in this cluster; one object, with the name default."""

    model_config = ConfigDict(json_schema_extra=held_to(only_name(KIND_SYSTEM, SYSTEM_NAME)))

    api_version: str = GROUP_VERSION
    """Version of this kind: gpu.cozystack.io/v1alpha1."""

    kind: str = KIND_SYSTEM
    """GPUSystem."""

    metadata: ObjectMeta
    """Standard metadata; the name is default."""

    status: GPUSystemStatus | None = None
    """The state of the system."""


class GPUSystemList(Model):
    """The state of the system, as a list."""

    api_version: str = GROUP_VERSION
    """Version of this kind: gpu.cozystack.io/v1alpha1."""

    kind: str = f"{KIND_SYSTEM}List"
    """GPUSystemList."""

    metadata: ListMeta
    """Standard list metadata."""

    items: list[GPUSystem]
    """At most the one object."""


def _status(condition: str) -> str:
    return f'.status.conditions[?(@.type=="{condition}")].status'


COLUMNS: Final = (
    Column(
        "Placement",
        "string",
        "Who chooses nodes: binder or scheduler.",
        json_path=".status.effectiveSettings.placement",
    ),
    Column("Placing", "string", "Whether nodes are chosen.", json_path=_status("Placing")),
    Column(
        "Settings-Valid",
        "string",
        "Whether all settings are good.",
        json_path=_status("SettingsValid"),
    ),
    Column(
        "KubeVirt-Found",
        "string",
        "Whether KubeVirt's devices are known.",
        json_path=_status("KubeVirtFound"),
    ),
    Column("Age", "date", "How old the object is.", json_path=".metadata.creationTimestamp"),
    Column("Epoch", "integer", "Term of the binder.", priority=1, json_path=".status.epoch"),
    Column(
        "Records-Kept",
        "string",
        "Whether usage records stay.",
        priority=1,
        json_path=_status("RecordsKept"),
    ),
)
