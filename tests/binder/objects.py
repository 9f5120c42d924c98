"""Objects as small as what judges the rush needs them: a node of four units, and a namespace."""

from __future__ import annotations

from collections.abc import Mapping

from shared import vocabulary as v
from tests.binder.truth import Moment, World, by_key
from tests.cluster.api import Object

DEVICE = "example.com/a"
NOON = "2026-11-29T12:00:00Z"


def node(name: str = "node", units: int = 4, labels: Mapping[str, str] | None = None) -> Object:
    """A node with so many units."""
    metadata = {"name": name, "labels": dict(labels or {})}
    return {"metadata": metadata, "status": {"allocatable": {DEVICE: str(units)}}}


def machine(name: str) -> Object:
    """A VM that shall run."""
    return {"metadata": {"namespace": "t", "name": name}, "spec": {"runStrategy": "Always"}}


def instance(name: str, phase: str = "Scheduling", count: int = 2) -> Object:
    """Its instance, of the same uid as its name, admitted with so many units of class `a`."""
    record = f'[{{"entry":0,"className":"a","resourceName":"{DEVICE}","count":{count}}}]'
    metadata = {
        "namespace": "t",
        "name": name,
        "uid": name,
        "annotations": {v.ANNOTATION_ATTACHMENTS: record},
    }
    status = {"phase": phase, "nodeName": "node"} if phase == "Running" else {"phase": phase}
    return {"kind": v.KIND_VMI, "metadata": metadata, "status": status}


def pod(name: str, *, gated: bool = False, on: str = "", pin: str = "", count: int = 2) -> Object:
    """Its launcher, which asks for so many units."""
    metadata = {
        "namespace": "t",
        "name": name,
        "uid": f"pod-{name}",
        "creationTimestamp": NOON,
        "annotations": {v.ANNOTATION_LAUNCHER: name},
    }
    requests = {"resources": {"requests": {DEVICE: str(count)}}}
    spec: Object = {"containers": [{"name": "compute", **requests}]}
    if gated:
        spec["schedulingGates"] = [{"name": v.GATE}]
    if on:
        spec["nodeName"] = on
    if pin:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pin]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def claim(name: str, count: int = 2, on: str = "", reason: str = "") -> Object:
    """The claim for its class entry, booked somewhere or waiting for a reason."""
    status: Object = {"nodeName": on, "resourceName": DEVICE} if on else {}
    if reason:
        bound = {"type": "Bound", "status": "False", "reason": reason}
        status = {"waiting": {"reason": reason, "message": ""}, "conditions": [bound]}
    return {
        "kind": v.KIND_CLAIM,
        "metadata": {
            "namespace": "t",
            "name": f"{name}-0",
            "uid": f"claim-{name}",
            "creationTimestamp": NOON,
            "labels": {v.LABEL_TEMPLATE: "true"},
        },
        "spec": {"className": "a", "count": count},
        "status": status,
    }


def world(
    *nodes: Object, budget: int | None = None, disks: Mapping[str, str] | None = None
) -> World:
    """A world of these nodes, or of one; `disks` are where claims for disks are bound."""
    return World(
        nodes=nodes or (node(),),
        resources={"a": DEVICE},
        budgets={} if budget is None else {("t", "a"): budget},
        disks={("t", name): on for name, on in (disks or {}).items()},
    )


def moment(*objects: Object) -> Moment:
    """These claims, pods and instances."""
    of = {kind: [o for o in objects if o["kind"] == kind] for kind in ("Pod", v.KIND_VMI)}
    return Moment(
        by_key(each for each in objects if each["kind"] == v.KIND_CLAIM),
        {each["metadata"]["uid"]: each for each in of["Pod"]},
        {each["metadata"]["uid"]: each for each in of[v.KIND_VMI]},
    )
