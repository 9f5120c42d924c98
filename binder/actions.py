"""What a pass decides to do, as values. A plan makes them, `binder.apply` turns them into writes.

An action names its object as the decision saw it; one that was changed since then is left alone,
and decided about anew. Times are RFC 3339. The term of office is not part of an action: every
write to a claim's status carries the present one (rule 7.1).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.api.conditions import ConditionType
from shared.core.model import Attachment, Claim, Pod
from shared.core.terms import Truth
from shared.fields import Json
from shared.kube.outcomes import Outcome
from shared.reasons import Reason
from shared.vocabulary import FINALIZER_CLAIM

_NAME_MAX: Final = 253


class Kind(StrEnum):
    """The kinds of objects that actions are about; the value is the resource's plural name."""

    CLAIM = "gpuclaims"
    CLASS = "gpuclasses"
    SYSTEM = "gpusystems"
    POD = "pods"
    EVENT = "events"


@dataclass(frozen=True, slots=True)
class Ref:
    """An object as it was seen: each field that is not empty must still hold when it is written.

    One that an earlier step of the same work writes has no version: that step's answer tells it.
    """

    namespace: str
    name: str
    uid: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it is to stand there; `since` is when its status last changed."""

    type: ConditionType
    status: Truth
    reason: Reason
    since: str
    message: str = ""
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a claim has no units yet; `since` is when this reason began."""

    reason: Reason
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class BookClaim:
    """Hold a claim's units on a node, under a resource name."""

    claim: Ref
    node_name: str
    resource_name: str
    bound_time: str
    attached_to: Attachment | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleaseClaim:
    """Hold nothing for a claim any more: it is unbound or Lost, as its conditions say.

    `resource_name` stays where a launcher still runs under it.
    """

    claim: Ref
    resource_name: str = ""
    attached_to: Attachment | None = None
    waiting: Waiting | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportClaim:
    """Say how a claim stands; what is held for it stays as it is."""

    claim: Ref
    attached_to: Attachment | None = None
    waiting: Waiting | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Make a template claim, owned by its VM instance (rule 3.2). Its name tells which it is."""

    claim: Ref
    class_name: str
    count: int
    owner_name: str
    owner_uid: str
    finalizers: tuple[str, ...] = (FINALIZER_CLAIM,)


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete a claim; it lives on until its finalizers are gone."""

    claim: Ref


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add a finalizer of ours; `present` are those that the object has."""

    kind: Kind
    object: Ref
    finalizer: str
    present: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove a finalizer of ours; `present` are those that the object has."""

    kind: Kind
    object: Ref
    finalizer: str
    present: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartPod:
    """Pin a pod to a node and take our gate off, in one write (rule 7.8).

    Comes after the step that books its claims, or alone when all are booked. `affinity` is the
    pod's `spec.affinity` as it is, empty where it has none; `gates` are the names of its gates
    in their order. Without `node_name` the pod is released unpinned (rule 7.15).
    """

    pod: Ref
    node_name: str
    gates: tuple[str, ...]
    affinity: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FencePod:
    """See to it that no start of a pod is accepted that an earlier leader may still send.

    A start names the pod's version, so a change of the pod does. Comes before what frees units
    with which a pod at our gate could have been started (rule 7.1).
    """

    pod: Ref


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete this pod, and no other of its name."""

    pod: Ref


@dataclass(frozen=True, slots=True)
class TellVmi:
    """An event on a VM instance, told once whoever tells it.

    `occasion` sets it apart from others with its reason: what was known before it was told.
    """

    namespace: str
    name: str
    uid: str
    reason: Reason
    message: str
    at: str
    occasion: str = ""
    is_warning: bool = True

    @property
    def event_name(self) -> str:
        """Made of the occasion and of no time, so that an event that is there was told."""
        return _event_name(self.name, self.uid, self.reason, self.occasion)


@dataclass(frozen=True, slots=True)
class TellQuota:
    """An event on a ResourceQuota about one budget key in it, told once whoever tells it."""

    namespace: str
    name: str
    uid: str
    key: str
    reason: Reason
    message: str
    at: str
    is_warning: bool = True

    @property
    def event_name(self) -> str:
        """Made of the quota and the key."""
        return _event_name(self.name, self.uid, self.reason, self.key)


Tell = TellVmi | TellQuota


def _event_name(name: str, *told: str) -> str:
    mark = hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]
    return f"{name[: _NAME_MAX - len(mark) - 1].rstrip('-.')}.{mark}"


@dataclass(frozen=True, slots=True)
class ReportClass:
    """A class's status, whole: None takes away what is not in it."""

    gpu_class: Ref
    status: Json


@dataclass(frozen=True, slots=True)
class ReportSystem:
    """The GPUSystem's status, whole but for its epoch, which a pass never changes."""

    system: Ref
    status: Json


Action = (
    BookClaim
    | ReleaseClaim
    | ReportClaim
    | CreateClaim
    | DeleteClaim
    | AddFinalizer
    | RemoveFinalizer
    | StartPod
    | FencePod
    | DeletePod
    | TellVmi
    | TellQuota
    | ReportClass
    | ReportSystem
)


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done for one set, claim, class, budget key or the system.

    A step begins once every write of the one before it is done; its own writes run side by
    side. The first one that fails ends the work, and backs it off under its `key` without
    holding up any other.

    `laid` are claims and pods as they will be at most once it is done: booked, pinned or there at
    all. So they count while it is under way. What it takes away counts until it is known to be
    gone.
    """

    key: str
    steps: tuple[tuple[Action, ...], ...]
    laid: tuple[Claim | Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a work: done, or the write that ended it."""

    key: str
    failed: Action | None = None
    outcome: Outcome | None = None

    @property
    def done(self) -> bool:
        """Whether every step was carried out."""
        return self.failed is None


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a decision.

    Attributes:
        works: in order of precedence; they are begun in it.
        wake_in: seconds until the clock alone makes another decision due; None where it never
            does.
    """

    works: tuple[Work, ...] = ()
    wake_in: float | None = None
