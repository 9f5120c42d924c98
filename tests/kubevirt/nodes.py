"""Nodes that launchers fit on, and the kubelet's part for pods that a test runs by hand.

Those carry the annotation `tests.cluster.components.BY_HAND`: kwok neither runs them nor, once they
are deleted, lets them go. An instance's annotations are its pods' too, so a test puts it there.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from tests.cluster.api import MERGE, Api, Object
from tests.kubevirt import words as w
from tests.kubevirt.objects import items, name_of, namespace_of, stamp
from tests.kubevirt.resources import DEVICES


def node(name: str, devices: Mapping[str, int], labels: Mapping[str, str] | None = None) -> Object:
    """A node that KubeVirt runs machines on, with so many of each device."""
    amounts = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    amounts |= dict.fromkeys(DEVICES, "1k")
    amounts |= {resource: str(count) for resource, count in devices.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                w.LABEL_HOSTNAME: name,
                w.LABEL_ARCH: "amd64",
                "kubernetes.io/os": "linux",
                w.LABEL_SCHEDULABLE: "true",
                f"{w.LABEL_MACHINE_TYPE}q35": "true",
                f"{w.LABEL_HOST_MODEL}Haswell": "true",
                f"{w.LABEL_CPU_MODEL_MIGRATION}Haswell": "true",
                f"{w.LABEL_CPU_VENDOR}Intel": "true",
                **(labels or {}),
            },
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def run(api: Api, pod: Object, now: datetime.datetime) -> Object:
    """Say that all containers of a pod on a node run."""
    running = {"running": {"startedAt": stamp(now)}}
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": stamp(now)}
        for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    ]
    kept = items(pod, "status", "conditions")
    states = [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": running,
        }
        for each in pod["spec"]["containers"]
    ]
    status = {"phase": w.RUNNING, "conditions": [*kept, *ready], "containerStatuses": states}
    return await _write(api, pod, {"startTime": stamp(now), **status})


async def refuse(api: Api, pod: Object, resource: str) -> Object:
    """Say that a node does not take a pod for want of a resource, as a kubelet says it."""
    message = (
        f"Pod was rejected: Node didn't have enough resource: {resource}, "
        "requested: 1, used: 1, capacity: 1"
    )
    status = {"phase": w.FAILED, "reason": f"OutOf{resource}", "message": message}
    return await _write(api, pod, status)


async def remove(api: Api, pod: Object) -> None:
    """Let a pod go whose deletion has begun, as a kubelet does once its containers ended."""
    await api.delete(w.POD, name_of(pod), namespace_of(pod), gracePeriodSeconds="0")


async def _write(api: Api, pod: Object, status: Object) -> Object:
    return await api.patch(
        w.POD,
        name_of(pod),
        {"status": status},
        namespace_of(pod),
        subresource="status",
        content_type=MERGE,
    )
