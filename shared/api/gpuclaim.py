"""GPUClaim: units of one class that a tenant holds, and where they are (rule 3.2)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue
from pydantic.config import JsonDict

from shared.api.base import (
    LABEL_LENGTH,
    MESSAGE_LENGTH,
    RESOURCE_LENGTH,
    Epoch,
    Model,
    Name,
    Time,
    Uid,
    Units,
)
from shared.api.columns import Column
from shared.api.conditions import Condition, ConditionType
from shared.api.meta import ListMeta, ObjectMeta
from shared.api.rules import CLASS_REFERENCE, held_to, immutable, keyed_by
from shared.core.terms import Truth
from shared.reasons import Reason, say
from shared.vocabulary import GROUP_VERSION, KIND_CLAIM

_IMMUTABLE: Final = immutable("delete the claim and order another one")


class GPUClaimSpec(Model):
    """What is ordered. Each field is immutable."""

    class_name: Annotated[
        str,
        Field(max_length=LABEL_LENGTH, json_schema_extra=held_to(*CLASS_REFERENCE, _IMMUTABLE)),
    ]
    """Name of the GPUClass. Immutable."""

    # Taken away it comes back with its default, so that it need not be required to be immutable.
    count: Annotated[Units, Field(json_schema_extra=held_to(_IMMUTABLE))] = 1
    """How many units, all for one VM. Immutable."""


class AttachedTo(Model):
    """The VM that uses the claim."""

    kind: Literal["VirtualMachine", "VirtualMachineInstance"]
    """VirtualMachine, or VirtualMachineInstance where no VirtualMachine owns it."""

    name: Name
    """Its name."""

    uid: Uid
    """Its uid: another VM of the same name is not meant."""


class Waiting(Model):
    """Why the claim has no units yet."""

    reason: Reason
    """Why it waits: one of the reasons that are listed in docs/reasons.md."""

    message: Annotated[str, Field(max_length=MESSAGE_LENGTH)]
    """The same in a sentence with the figures; may be empty."""

    since_time: Time
    """Since when it waits for this reason."""


class GPUClaimStatus(Model):
    """What the claim holds, and who uses it. Written by the binder."""

    epoch: Epoch | None = None
    """Term of the binder that wrote the booking. One that is older than the GPUSystem's is
    refused."""

    resource_name: Annotated[str, Field(max_length=RESOURCE_LENGTH)] | None = None
    """Extended resource of the units that are held: that of the class when they were bound."""

    node_name: Name | None = None
    """Node on which the units are held. Absent while the claim is not bound."""

    bound_time: Time | None = None
    """Since when the units are held, wherever they have been."""

    attached_to: AttachedTo | None = None
    """The VM that uses the claim. Absent while none does."""

    waiting: Waiting | None = None
    """Why the claim is not bound. Absent while it is."""

    conditions: (
        Annotated[list[Condition], Field(max_length=16, json_schema_extra=keyed_by("type"))] | None
    ) = None
    """Ready: the units are held and can be used; Bound: the units are held; Attached: a VM that
    starts or runs uses them; Disrupted: the node cannot keep them."""


def _at_first(type_: ConditionType, status: Truth, reason: Reason) -> JsonValue:
    message = say(reason) if status is Truth.UNKNOWN else ""
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": "1970-01-01T00:00:00Z",
        "reason": reason,
        "message": message,
    }


_AT_FIRST: Final[JsonDict] = {
    "default": {
        "conditions": [
            _at_first(ConditionType.READY, Truth.UNKNOWN, Reason.UNEVALUATED),
            _at_first(ConditionType.BOUND, Truth.UNKNOWN, Reason.UNEVALUATED),
            _at_first(ConditionType.ATTACHED, Truth.FALSE, Reason.NOT_IN_USE),
            _at_first(ConditionType.DISRUPTED, Truth.FALSE, Reason.UNDISTURBED),
        ]
    }
}
"""What a claim says before the binder has looked at it (rule 3.5): the API server shows it."""


class GPUClaim(Model):
    """Units of one GPUClass, held for a tenant until the claim is deleted.

    A VM uses claims by naming them in its annotation gpu.cozystack.io/claims. The units stay held
    while the VM is stopped. To hold more or fewer, order another claim.
    """

    api_version: str = GROUP_VERSION
    """Version of this kind: gpu.cozystack.io/v1alpha1."""

    kind: str = KIND_CLAIM
    """GPUClaim."""

    metadata: ObjectMeta
    """Standard metadata."""

    spec: GPUClaimSpec
    """What is ordered. Immutable."""

    status: Annotated[GPUClaimStatus | None, Field(json_schema_extra=_AT_FIRST)] = None
    """What the claim holds, and who uses it."""


class GPUClaimList(Model):
    """GPU claims."""

    api_version: str = GROUP_VERSION
    """Version of this kind: gpu.cozystack.io/v1alpha1."""

    kind: str = f"{KIND_CLAIM}List"
    """GPUClaimList."""

    metadata: ListMeta
    """Standard list metadata."""

    items: list[GPUClaim]
    """The claims, by namespace and name."""


_BOUND: Final = '.status.conditions[?(@.type=="Bound")]'

COLUMNS: Final = (
    Column("Class", "string", "Name of the GPUClass.", json_path=".spec.className"),
    Column("Count", "integer", "How many units.", json_path=".spec.count"),
    Column("Bound", "string", "Whether the units are held.", json_path=f"{_BOUND}.status"),
    Column("Reason", "string", "Why not, or Placed.", json_path=f"{_BOUND}.reason"),
    Column("Attached-To", "string", "VM that uses it.", json_path=".status.attachedTo.name"),
    Column("Age", "date", "How old the claim is.", json_path=".metadata.creationTimestamp"),
    Column("Node", "string", "Where the units are.", priority=1, json_path=".status.nodeName"),
    Column(
        "Since",
        "date",
        "How long it has been bound, or not.",
        priority=1,
        json_path=f"{_BOUND}.lastTransitionTime",
    ),
)
