"""The pods that KubeVirt makes for an instance."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.objects import (
    annotations_of,
    items,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from tests.kubevirt.resources import compute, overhead_bytes

IMAGE: Final = "registry.example/kubevirt/virt-launcher:v1.9.0"

_LABEL_VALUE_MAX: Final = 63
_ID_STEM: Final = 54
_NOT_COPIED: Final = (
    "kubectl.kubernetes.io",
    w.ANNOTATION_API_VERSION,
    w.ANNOTATION_STORED_VERSION,
)
_SCRATCH: Final = (
    "private",
    "public",
    "sockets",
    "virt-bin-share-dir",
    "libvirt-runtime",
    "ephemeral-disks",
)
_NODE_CONDITION_TAINTS: Final = (
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
)
_UNPRIVILEGED: Final[Object] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 107,
}


def not_permitted(spec: Object, permitted: frozenset[str] | None) -> str:
    """Why an instance's pod is not rendered; empty when it is.

    Only `gpus` and `hostDevices` are looked up, each entry on its own (KubeVirt observed 9).

    Args:
        spec: of the instance.
        permitted: names in the KubeVirt object's table; None where there is no table, which
            permits everything.
    """
    if permitted is None:
        return ""
    return " ".join(
        f"{what} {entry['deviceName']} is not permitted in permittedHostDevices configuration"
        for listed, what in (("gpus", "GPU"), ("hostDevices", "HostDevice"))
        for entry in items(spec, "domain", "devices", listed)
        if entry.get("deviceName") and entry["deviceName"] not in permitted
    )


def launcher(vmi: Object) -> Object:
    """The pod that runs an instance (KubeVirt observed 1 to 6).

    It has no name, no uid and no node; all labels and annotations of the instance are copied now
    and never again (KubeVirt observed 5).
    """
    spec = vmi["spec"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"virt-launcher-{name_of(vmi)}-",
            "namespace": namespace_of(vmi),
            "labels": {
                **labels_of(vmi),
                w.LABEL_APP: w.LAUNCHER,
                w.LABEL_CREATED_BY: uid_of(vmi),
                w.LABEL_VM_NAME: hostname(vmi),
                w.LABEL_VMI_ID: label_id(name_of(vmi)),
            },
            "annotations": _annotations(vmi),
            "ownerReferences": [owner_reference(vmi)],
        },
        "spec": {
            "affinity": _affinity(spec),
            "automountServiceAccountToken": False,
            "containers": [_compute_container(vmi)],
            "enableServiceLinks": False,
            "hostname": hostname(vmi),
            "initContainers": [_console_log(), *_disk_images(spec)],
            "nodeSelector": _node_selector(spec),
            "readinessGates": [{"conditionType": w.CONDITION_UNPAUSED}],
            "restartPolicy": "Never",
            "securityContext": {
                "fsGroup": 107,
                "runAsGroup": 107,
                "runAsNonRoot": True,
                "runAsUser": 107,
            },
            "terminationGracePeriodSeconds": _grace_seconds(spec) + 30,
            "volumes": _volumes(spec),
            **_copied(
                spec,
                "tolerations",
                "schedulerName",
                "priorityClassName",
                "topologySpreadConstraints",
                "resourceClaims",
            ),
        },
    }


def temporary(vmi: Object) -> Object:
    """The pod that makes late-binding volumes bind, and asks for the same GPUs.

    It is the launcher's twin but for its command and one annotation (KubeVirt observed 38).
    """
    pod = launcher(vmi)
    pod["metadata"]["annotations"][w.ANNOTATION_EPHEMERAL] = "true"
    pod["spec"]["containers"][0]["command"] = ["/bin/bash", "-c", "echo", "bound PVCs"]
    return pod


def target(vmi: Object, migration: Object, source_node: Object | None) -> Object:
    """The pod that an instance moves into (KubeVirt observed 43).

    It keeps off the nodes of the instance's other pods and, where the source's node tells its CPU,
    asks for one alike. Its label for the node is a copy of the instance's: the source's node.
    """
    pod = launcher(vmi)
    metadata, spec = pod["metadata"], pod["spec"]
    # The images of its disks are known by now: nothing looks them up again.
    spec["initContainers"] = [_console_log()]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] != "launcher-volume"]
    metadata["labels"][w.LABEL_MIGRATION_JOB] = uid_of(migration)
    metadata["annotations"] |= {
        w.ANNOTATION_MIGRATION_NAME: name_of(migration),
        w.ANNOTATION_NONROOT: "true",
    }
    apart = {
        "labelSelector": {"matchLabels": {w.LABEL_CREATED_BY: uid_of(vmi)}},
        "topologyKey": w.LABEL_HOSTNAME,
    }
    anti = spec["affinity"].setdefault("podAntiAffinity", {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    anti[required] = [*anti.get(required, ()), apart]
    spec["nodeSelector"] |= _like(labels_of(source_node) if source_node else {})
    spec["nodeSelector"] |= migration["spec"].get("addedNodeSelector") or {}
    return pod


def attachment(running: Object, volumes: Sequence[Object]) -> Object:
    """The pod that carries hotplugged volumes to a launcher's node (KubeVirt observed 46).

    It belongs to the launcher pod, takes no GPU, and tolerates what the launcher pod tolerates by
    now, whoever added that.

    Args:
        running: the launcher, on its node.
        volumes: of the instance, those hotplugged.
    """
    tolerations = running["spec"].get("tolerations") or ()
    builtin = [
        {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in _NODE_CONDITION_TAINTS
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "hp-volume-",
            "namespace": namespace_of(running),
            "labels": {w.LABEL_APP: w.ATTACHMENT},
            "ownerReferences": [
                owner_reference(
                    {"apiVersion": "v1", "kind": "Pod", "metadata": running["metadata"]}
                )
            ],
        },
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {
                                        "key": w.LABEL_HOSTNAME,
                                        "operator": "In",
                                        "values": [running["spec"]["nodeName"]],
                                    }
                                ]
                            }
                        ]
                    }
                }
            },
            "containers": [
                {
                    "name": "hotplug-disk",
                    "image": IMAGE,
                    "command": ["/bin/sh", "-c", "/usr/bin/container-disk --copy-path /path/hp"],
                    "resources": {
                        "limits": {"cpu": "100m", "memory": "80M"},
                        "requests": {"cpu": "10m", "memory": "2M"},
                    },
                    "securityContext": {**_UNPRIVILEGED},
                }
            ],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [
                *tolerations,
                *(each for each in builtin if each not in tolerations),
            ],
            "volumes": [
                {"name": "hotplug-disks", "emptyDir": {}},
                *(
                    {
                        "name": volume["name"],
                        "persistentVolumeClaim": {"claimName": claim_of(volume)},
                    }
                    for volume in volumes
                ),
            ],
        },
    }


def hostname(vmi: Object) -> str:
    """The guest's host name, which the pod carries as a label too: it is not unique.

    The part of the name before the first dot, unless the spec says another (KubeVirt observed 6).
    """
    given = vmi["spec"].get("hostname") or name_of(vmi).partition(".")[0]
    return str(given)[:_LABEL_VALUE_MAX]


def label_id(name: str) -> str:
    """An instance's name as a label value: a long one is cut and hashed (KubeVirt observed 6)."""
    if len(name) <= _LABEL_VALUE_MAX:
        return name
    return f"{name[:_ID_STEM]}-{hashlib.sha1(name.encode()).hexdigest()[:8]}"


def claim_of(volume: Object) -> str:
    """The PersistentVolumeClaim behind a volume; a data volume's has its name. Empty for none."""
    if "dataVolume" in volume:
        return str(volume["dataVolume"]["name"])
    for source in (volume, volume.get("ephemeral") or {}):
        if "persistentVolumeClaim" in source:
            return str(source["persistentVolumeClaim"]["claimName"])
    return ""


def is_hotpluggable(volume: Object) -> bool:
    """Whether a volume comes by a pod of its own and is not the launcher's."""
    if "memoryDump" in volume:
        return True
    return any(
        (volume.get(kind) or {}).get("hotpluggable")
        for kind in ("persistentVolumeClaim", "dataVolume")
    )


def _annotations(vmi: Object) -> dict[str, str]:
    copied = {
        key: value for key, value in annotations_of(vmi).items() if not key.startswith(_NOT_COPIED)
    }
    return copied | {
        w.ANNOTATION_DOMAIN: name_of(vmi),
        w.ANNOTATION_CONTAINER: "compute",
        w.ANNOTATION_TRANSPORT: "true",
        w.ANNOTATION_EVICT_ONLY: "",
        w.ANNOTATION_OVERHEAD: str(overhead_bytes(vmi["spec"])),
    }


def _affinity(spec: Object) -> Object:
    """The instance's own, with one expression more in each alternative (KubeVirt observed 4).

    It keeps off nodes whose CPU model was withdrawn; a guest with a model of its own does without.
    """
    affinity: Object = copy.deepcopy(spec.get("affinity") or {})
    model = (spec["domain"].get("cpu") or {}).get("model", "")
    if model not in {"", "host-model"}:
        return affinity
    required = affinity.setdefault("nodeAffinity", {}).setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []}
    )
    terms = required["nodeSelectorTerms"] or [{}]
    keeps_off = {"key": w.LABEL_OBSOLETE_HOST_MODEL, "operator": "DoesNotExist"}
    for term in terms:
        term["matchExpressions"] = [*term.get("matchExpressions", ()), keeps_off]
    required["nodeSelectorTerms"] = terms
    return affinity


def _node_selector(spec: Object) -> dict[str, str]:
    domain = spec["domain"]
    cpu = domain.get("cpu") or {}
    machine = (domain.get("machine") or {}).get("type", "q35")
    selector = {
        w.LABEL_ARCH: spec.get("architecture", "amd64"),
        w.LABEL_SCHEDULABLE: "true",
        f"{w.LABEL_MACHINE_TYPE}{machine}": "true",
    }
    if cpu.get("dedicatedCpuPlacement"):
        selector[w.LABEL_CPU_MANAGER] = "true"
    if cpu.get("model", "") not in {"", "host-model", "host-passthrough"}:
        selector[f"{w.LABEL_CPU_MODEL}{cpu['model']}"] = "true"
    return selector | (spec.get("nodeSelector") or {})


def _like(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels that a node must have whose CPU can take over from one with these."""
    found = {}
    for label in labels:
        if label.startswith(w.LABEL_CPU_VENDOR):
            found[label] = "true"
        elif label.startswith(w.LABEL_HOST_MODEL):
            model = label.removeprefix(w.LABEL_HOST_MODEL)
            found[f"{w.LABEL_CPU_MODEL_MIGRATION}{model}"] = "true"
    return found


def _compute_container(vmi: Object) -> Object:
    return {
        "name": "compute",
        "image": IMAGE,
        "command": [
            "/usr/bin/virt-launcher-monitor",
            "--name",
            name_of(vmi),
            "--uid",
            uid_of(vmi),
            "--namespace",
            namespace_of(vmi),
        ],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": compute(vmi["spec"]),
        "securityContext": {
            **_UNPRIVILEGED,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "runAsGroup": 107,
        },
    }


def _console_log() -> Object:
    """A sidecar: as an init container that goes on running it counts in the pod's requests."""
    return {
        "name": "guest-console-log",
        "image": IMAGE,
        "command": ["/usr/bin/virt-tail"],
        "restartPolicy": "Always",
        "resources": {
            "limits": {"cpu": "15m", "memory": "60M"},
            "requests": {"cpu": "5m", "memory": "35M"},
        },
        "securityContext": {**_UNPRIVILEGED},
    }


def _disk_images(spec: Object) -> list[Object]:
    return [
        {
            "name": f"volume{volume['name']}",
            "image": volume["containerDisk"]["image"],
            "command": ["/container-disk-binary/usr/bin/container-disk"],
            "args": ["--no-op"],
            "resources": {
                "limits": {"cpu": "10m", "memory": "40M"},
                "requests": {"cpu": "1m", "memory": "1M", "ephemeral-storage": "50M"},
            },
            "securityContext": {**_UNPRIVILEGED},
            "volumeMounts": [
                {"name": "launcher-volume", "mountPath": "/container-disk-binary", "readOnly": True}
            ],
        }
        for volume in items(spec, "volumes")
        if "containerDisk" in volume
    ]


def _volumes(spec: Object) -> list[Object]:
    """The pod's volumes: images of container disks (KubeVirt observed 8), claims, what is read.

    A hotpluggable volume is not among them, also when it was there at the start (KubeVirt observed
    46).
    """
    volumes: list[Object] = [{"name": name, "emptyDir": {}} for name in _SCRATCH]
    images = False
    for volume in items(spec, "volumes"):
        if is_hotpluggable(volume):
            continue
        if "containerDisk" in volume:
            images = True
            volumes.append(_image_volume(volume["name"], volume["containerDisk"]["image"]))
        elif claim := claim_of(volume):
            read_only = "ephemeral" in volume
            source = {"claimName": claim} | ({"readOnly": True} if read_only else {})
            volumes.append({"name": volume["name"], "persistentVolumeClaim": source})
        elif "secret" in volume:
            kept = _copied(volume["secret"], "secretName", "optional")
            volumes.append({"name": volume["name"], "secret": kept})
        elif "configMap" in volume:
            kept = _copied(volume["configMap"], "name", "optional")
            volumes.append({"name": volume["name"], "configMap": kept})
    if images:
        volumes.append(_image_volume("launcher-volume", IMAGE))
    return [*volumes, {"name": "hotplug-disks", "emptyDir": {}}]


def _image_volume(name: str, reference: str) -> Object:
    return {"name": name, "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}


def _grace_seconds(spec: Object) -> int:
    return int(spec.get("terminationGracePeriodSeconds", 30))


def _copied(source: Object, *fields: str) -> Object:
    return {field: copy.deepcopy(source[field]) for field in fields if field in source}
