"""Actions as requests to the API server. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from binder.actions import (
    Action,
    AddFinalizer,
    BookClaim,
    Condition,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    FencePod,
    Kind,
    Ref,
    ReleaseClaim,
    RemoveFinalizer,
    ReportClaim,
    ReportClass,
    ReportSystem,
    StartPod,
    Tell,
    TellQuota,
    TellVmi,
    Waiting,
)
from binder.pinning import pinned
from shared import vocabulary as v
from shared.core.model import Attachment
from shared.fields import Json
from shared.kube.paths import collection, item

GROUP_VERSIONS: Final = {
    Kind.CLAIM: v.GROUP_VERSION,
    Kind.CLASS: v.GROUP_VERSION,
    Kind.SYSTEM: v.GROUP_VERSION,
    Kind.POD: "v1",
    Kind.EVENT: "v1",
}
COMPONENT: Final = "gpu-binder"
"""Who tells events."""


@dataclass(frozen=True, slots=True)
class Create:
    """A POST."""

    path: str
    body: Json


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge patch of an object of this version, or of its status."""

    path: str
    body: Json
    version: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON patch."""

    path: str
    operations: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """A DELETE of this object, of this version where one is named."""

    path: str
    uid: str
    version: str = ""


Request = Create | Merge | Patch | Delete


def target(action: Action) -> tuple[Kind, Ref]:
    """What an action is about."""
    match action:
        case BookClaim() | ReleaseClaim() | ReportClaim() | CreateClaim() | DeleteClaim():
            return Kind.CLAIM, action.claim
        case AddFinalizer() | RemoveFinalizer():
            return action.kind, action.object
        case StartPod() | FencePod() | DeletePod():
            return Kind.POD, action.pod
        case TellVmi() | TellQuota():
            return Kind.EVENT, Ref(action.namespace, action.event_name)
        case ReportClass():
            return Kind.CLASS, action.gpu_class
        case ReportSystem():
            return Kind.SYSTEM, action.system
        case _:
            assert_never(action)


def path_of(kind: Kind, ref: Ref, subresource: str = "") -> str:
    """The path of an object, or of a subresource of it."""
    return item(GROUP_VERSIONS[kind], kind, ref.name, ref.namespace, subresource)


def render(action: Action, epoch: int) -> Request:
    """The one request of an action.

    Args:
        action: what is to be done.
        epoch: the present term, which every status of a claim carries (rule 7.1).
    """
    kind, ref = target(action)
    path, status = path_of(kind, ref), path_of(kind, ref, "status")
    match action:
        case BookClaim():
            booking = {
                "nodeName": action.node_name,
                "resourceName": action.resource_name,
                "boundTime": action.bound_time,
                "waiting": None,
            }
            return Merge(status, _claim_status(action, epoch, booking), ref.version)
        case ReleaseClaim():
            nothing = {
                "nodeName": None,
                "resourceName": action.resource_name or None,
                "boundTime": None,
                "waiting": _waiting(action.waiting),
            }
            return Merge(status, _claim_status(action, epoch, nothing), ref.version)
        case ReportClaim():
            waiting = {"waiting": _waiting(action.waiting)}
            return Merge(status, _claim_status(action, epoch, waiting), ref.version)
        case CreateClaim():
            claims = collection(v.GROUP_VERSION, v.RESOURCE_CLAIMS, ref.namespace)
            return Create(claims, _template_claim(action))
        case DeleteClaim():
            return Delete(path, ref.uid, ref.version)
        case AddFinalizer():
            return Patch(path, (*_same(ref), *_added(action)))
        case RemoveFinalizer():
            at = action.present.index(action.finalizer)
            return Patch(
                path,
                (
                    *_same(ref),
                    _test("/metadata/finalizers", list(action.present)),
                    {"op": "remove", "path": f"/metadata/finalizers/{at}"},
                ),
            )
        case StartPod():
            return Patch(path, (*_same(ref), *_started(action)))
        case FencePod():
            fenced = {"metadata": {"annotations": {v.ANNOTATION_EPOCH: f"{epoch}"}}}
            return Merge(path, fenced, ref.version)
        case DeletePod():
            # Whatever changed of it since: it must not run, and it is still the same pod.
            return Delete(path, ref.uid)
        case TellVmi() | TellQuota():
            return Create(collection("v1", Kind.EVENT, action.namespace), _event(action))
        case ReportClass() | ReportSystem():
            return Merge(status, {"status": action.status}, ref.version)
        case _:
            assert_never(action)


def conditions(values: Iterable[Condition]) -> list[Json]:
    """Conditions as they are stored, in the order given."""
    return [
        {
            "type": value.type,
            "status": value.status,
            "lastTransitionTime": value.since,
            "reason": value.reason,
            "message": value.message,
            **({} if value.generation is None else {"observedGeneration": value.generation}),
        }
        for value in values
    ]


def _claim_status(action: BookClaim | ReleaseClaim | ReportClaim, epoch: int, more: Json) -> Json:
    return {
        "status": {
            "epoch": epoch,
            "attachedTo": _attached(action.attached_to),
            "conditions": conditions(action.conditions),
            **more,
        }
    }


def _attached(to: Attachment | None) -> Json | None:
    return None if to is None else {"kind": to.kind, "name": to.name, "uid": to.uid}


def _waiting(waiting: Waiting | None) -> Json | None:
    if waiting is None:
        return None
    return {"reason": waiting.reason, "message": waiting.message, "sinceTime": waiting.since}


def _template_claim(action: CreateClaim) -> Json:
    return {
        "apiVersion": v.GROUP_VERSION,
        "kind": v.KIND_CLAIM,
        "metadata": {
            "namespace": action.claim.namespace,
            "name": action.claim.name,
            "labels": {v.LABEL_TEMPLATE: "true"},
            "finalizers": list(action.finalizers),
            "ownerReferences": [
                {
                    "apiVersion": v.KUBEVIRT_GROUP_VERSION,
                    "kind": v.KIND_VMI,
                    "name": action.owner_name,
                    "uid": action.owner_uid,
                }
            ],
        },
        "spec": {"className": action.class_name, "count": action.count},
    }


def _added(action: AddFinalizer) -> tuple[Json, ...]:
    if not action.present:
        return ({"op": "add", "path": "/metadata/finalizers", "value": [action.finalizer]},)
    return (
        _test("/metadata/finalizers", list(action.present)),
        {"op": "add", "path": "/metadata/finalizers/-", "value": action.finalizer},
    )


def _started(action: StartPod) -> tuple[Json, ...]:
    at = action.gates.index(v.GATE)
    gate = f"/spec/schedulingGates/{at}"
    checks = [_test(f"{gate}/name", v.GATE)]
    changes: list[Json] = []
    if action.node_name:
        if action.affinity:
            checks.append(_test("/spec/affinity", action.affinity))
        value = pinned(action.affinity, action.node_name)
        changes.append({"op": "add", "path": "/spec/affinity", "value": value})
    return (*checks, *changes, {"op": "remove", "path": gate})


def _same(ref: Ref) -> tuple[Json, ...]:
    """The object is still the one that was seen, as it was seen."""
    known = {"uid": ref.uid, "resourceVersion": ref.version}
    return tuple(_test(f"/metadata/{key}", value) for key, value in known.items() if value)


def _test(path: str, value: object) -> Json:
    return {"op": "test", "path": path, "value": value}


def _event(action: Tell) -> Json:
    about = (v.KUBEVIRT_GROUP_VERSION, v.KIND_VMI)
    if isinstance(action, TellQuota):
        about = ("v1", v.KIND_QUOTA)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": action.namespace, "name": action.event_name},
        "involvedObject": {
            "apiVersion": about[0],
            "kind": about[1],
            "namespace": action.namespace,
            "name": action.name,
            "uid": action.uid,
        },
        "type": "Warning" if action.is_warning else "Normal",
        "reason": action.reason,
        "message": action.message,
        "count": 1,
        "firstTimestamp": action.at,
        "lastTimestamp": action.at,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }
