"""What only placing needs, out of the API server's JSON, into values of `shared.core.placing`.

Pods of one template, and claims of one moment, share what is equal: there are many of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import orjson

from shared import vocabulary as v
from shared.core.placing import (
    ClaimWritten,
    ClassWritten,
    Condition,
    Moving,
    PodPlacing,
    Presence,
    VmiPlacing,
    VmiVolume,
    Waiting,
)
from shared.core.row import Row
from shared.core.scheduling import HostPort, NodeTerm, PodTerm
from shared.fields import Json, elements, mapping, mappings, name, text, whole
from shared.kube.affinity import (
    host_ports,
    names,
    required_node_terms,
    required_pod_terms,
    spread,
    tolerations,
)

_SCHEDULED: Final = "PodScheduled"
_LOST_STATUS: Final = "ContainerStatusUnknown"
"""What the kubelet says of a container of a pod that ended, where it knows of none."""


def presence(metadata: Json, spec: Json) -> Presence:
    """What a pod means for others near it."""
    labels = sorted(mapping(metadata.get("labels")).items())
    return _presence(
        tuple((name(key), name(value)) for key, value in labels),
        required_pod_terms(spec, "podAntiAffinity"),
        host_ports(spec),
        "deletionTimestamp" in metadata,
    )


def pod_placing(metadata: Json, spec: Json, status: Json) -> PodPlacing:
    """What it takes to place a VM's pod, and how it fared."""
    affinity = written(spec.get("affinity"))
    required_nodes, required_pods = _affinity(affinity)
    return PodPlacing(
        resource_version=text(metadata.get("resourceVersion")),
        created=text(metadata.get("creationTimestamp")),
        deleted=text(metadata.get("deletionTimestamp")),
        gates=tuple(name(gate.get("name")) for gate in mappings(spec.get("schedulingGates"))),
        affinity=affinity,
        node_selector=_labels(spec.get("nodeSelector")),
        node_terms=required_nodes,
        pod_affinity=required_pods,
        spread=spread(spec),
        tolerations=tolerations(spec.get("tolerations")),
        volume_claims=tuple(sorted(_claims_of(text(metadata.get("name")), spec))),
        phase=name(status.get("phase")),
        reason=name(status.get("reason")),
        message=text(status.get("message")),
        scheduled=next(
            (each for each in _conditions(status, texts=False) if each.type == _SCHEDULED), None
        ),
        is_started=_is_started(status),
        is_temporary=mapping(metadata.get("annotations")).get(v.ANNOTATION_EPHEMERAL) == "true",
        migration=text(mapping(metadata.get("labels")).get(v.LABEL_MIGRATION_JOB)),
    )


def vmi_placing(metadata: Json, spec: Json, status: Json) -> VmiPlacing:
    """What placing the pods of a VMI needs of it."""
    annotations = mapping(metadata.get("annotations"))
    return VmiPlacing(
        created=text(metadata.get("creationTimestamp")),
        deleted=text(metadata.get("deletionTimestamp")),
        labels=_labels(metadata.get("labels")),
        vm_name=next(
            (
                name(reference.get("name"))
                for reference in mappings(metadata.get("ownerReferences"))
                if reference.get("controller") is True and reference.get("kind") == v.KIND_VM
            ),
            "",
        ),
        pods={text(uid): name(node) for uid, node in mapping(status.get("activePods")).items()},
        classes=name(annotations.get(v.ANNOTATION_CLASSES)),
        claims=name(annotations.get(v.ANNOTATION_CLAIMS)),
        volumes=tuple(_vmi_volumes(spec)),
        moving=_moving(status.get("migrationState")),
        start_strategy=name(spec.get("startStrategy")),
    )


def claim_written(metadata: Json, status: Json) -> ClaimWritten:
    """What was last written to a claim."""
    waiting = mapping(status.get("waiting"))
    return ClaimWritten(
        resource_version=text(metadata.get("resourceVersion")),
        generation=whole(metadata.get("generation")) or 0,
        created=text(metadata.get("creationTimestamp")),
        deleted=text(metadata.get("deletionTimestamp")),
        labels=_labels(metadata.get("labels")),
        finalizers=names(metadata.get("finalizers")),
        epoch=whole(status.get("epoch")) or 0,
        bound=name(status.get("boundTime")),
        waiting=Waiting(
            name(waiting.get("reason")),
            name(waiting.get("message")),
            name(waiting.get("sinceTime")),
        )
        if waiting
        else None,
        # Before the first of our writes the API server shows what a claim says at first.
        conditions=_conditions(status) if "epoch" in status else (),
    )


def class_written(metadata: Json, status: Json) -> ClassWritten:
    """What was last written to a class."""
    capacity = status.get("capacity")
    figures = {key: whole(units) for key, units in mapping(capacity).items()}
    return ClassWritten(
        resource_version=text(metadata.get("resourceVersion")),
        generation=whole(metadata.get("generation")) or 0,
        deleted=text(metadata.get("deletionTimestamp")),
        finalizers=names(metadata.get("finalizers")),
        conditions=_conditions(status),
        capacity={name(key): units for key, units in figures.items() if units is not None}
        if isinstance(capacity, dict)
        else None,
        observed=text(mapping(capacity).get("observedTime")),
    )


def conditions(status: Json) -> tuple[Condition, ...]:
    """The conditions of a status, in order."""
    return _conditions(status)


def written(value: object) -> str:
    """A part of an object as it stands there, as JSON; empty where it is absent."""
    return sys.intern(orjson.dumps(value).decode()) if value is not None else ""


@lru_cache(maxsize=8192)
def _presence(
    labels: tuple[tuple[str, str], ...],
    anti_affinity: tuple[PodTerm, ...],
    ports: tuple[HostPort, ...],
    is_leaving: bool,
) -> Presence:
    return Presence(Row(dict(labels)), anti_affinity, ports, is_leaving)


@lru_cache(maxsize=4096)
def _affinity(affinity: str) -> tuple[tuple[NodeTerm, ...] | None, tuple[PodTerm, ...]]:
    """The required node terms and pod terms of an affinity as it is written."""
    spec = {"affinity": orjson.loads(affinity) if affinity else None}
    return required_node_terms(spec), required_pod_terms(spec, "podAffinity")


def _labels(value: object) -> Mapping[str, str]:
    pairs = sorted(mapping(value).items())
    return _shared_labels(tuple((name(key), name(each)) for key, each in pairs))


@lru_cache(maxsize=4096)
def _shared_labels(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return Row(dict(pairs))


def _claims_of(pod_name: str, spec: Json) -> Iterable[str]:
    """The PersistentVolumeClaims of a pod; one that is made with it has a name of both."""
    for volume in mappings(spec.get("volumes")):
        claim = text(mapping(volume.get("persistentVolumeClaim")).get("claimName"))
        if claim:
            yield claim
        elif isinstance(volume.get("ephemeral"), dict):
            yield f"{pod_name}-{text(volume.get('name'))}"


def _vmi_volumes(spec: Json) -> Iterable[VmiVolume]:
    """A DataVolume's claim has the DataVolume's name."""
    for volume in mappings(spec.get("volumes")):
        direct = mapping(volume.get("persistentVolumeClaim") or volume.get("memoryDump"))
        below = mapping(mapping(volume.get("ephemeral")).get("persistentVolumeClaim"))
        data = mapping(volume.get("dataVolume"))
        claim = text(direct.get("claimName")) or text(below.get("claimName"))
        claim = claim or text(data.get("name"))
        if claim:
            yield VmiVolume(claim, (direct or data).get("hotpluggable") is True)


def _moving(value: object) -> Moving | None:
    if not isinstance(value, dict):
        return None
    return Moving(
        uid=text(value.get("migrationUid")),
        source_node=name(value.get("sourceNode")),
        target_node=name(value.get("targetNode")),
        target_pod=text(value.get("targetPod")),
        is_completed=value.get("completed") is True,
        is_failed=value.get("failed") is True,
    )


def _is_started(status: Json) -> bool:
    """Whether any container ever ran: the kubelet tells of it, running or terminated."""
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in mappings(status.get(kind)):
            state = mapping(container.get("state"))
            ended = mapping(state.get("terminated") or {"reason": _LOST_STATUS})
            if (
                text(container.get("containerID"))
                or isinstance(state.get("running"), dict)
                or ended.get("reason") != _LOST_STATUS
                or elements(list(mapping(container.get("lastState")).values()))
            ):
                return True
    return False


def _conditions(status: Json, *, texts: bool = True) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=name(condition.get("type")),
            status=name(condition.get("status")),
            reason=name(condition.get("reason")),
            message=name(condition.get("message")) if texts else "",
            since=name(condition.get("lastTransitionTime")),
            generation=whole(condition.get("observedGeneration")),
        )
        for condition in mappings(status.get("conditions"))
    )
