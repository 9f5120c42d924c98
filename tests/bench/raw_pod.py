"""Pods: launchers as KubeVirt builds them, and those of Deployments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared import vocabulary as v
from shared.core.model import Pod, Vmi
from tests.bench.raw_machine import annotations_of
from tests.bench.raw_metadata import Field, metadata, owner, written_by
from tests.bench.shapes import Shape

_PRIVATE = "/var/run/kubevirt-private"
_LAUNCHER = "registry.example/kubevirt/virt-launcher:v1.9.0"
_LAUNCHER_FIELDS = [
    *written_by("virt-controller", "metadata", "annotations", "labels", "ownerReferences"),
    *written_by("virt-controller", "spec", "containers", "initContainers", "volumes", rows=20),
    *written_by("kubelet", "status", "conditions", "containerStatuses", "podIPs", rows=8),
]
_ORDINARY_FIELDS = [
    *written_by("kube-controller-manager", "spec", "containers", "volumes", rows=12),
    *written_by("kubelet", "status", "conditions", "containerStatuses", rows=6),
]
_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{state}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for state in ("not-ready", "unreachable")
]
_VOLUMES = ("private", "public", "sockets", "virt-bin-share-dir", "libvirt-runtime", "disks")


def launcher(value: Pod, shape: Shape, machine: Vmi) -> Field:
    """A launcher of 15 to 20 KB; with devices gated, marked, pinned and then released by us."""
    annotations = {
        **annotations_of(machine),
        "descheduler.alpha.kubernetes.io/request-evict-only": "",
        "kubectl.kubernetes.io/default-container": "compute",
        "kubevirt.io/domain": machine.name,
        "kubevirt.io/memory-overhead-bytes": "1363148800",
        "kubevirt.io/migrationTransportUnix": "true",
        "kubevirt.io/vm-generation": "1",
        **_hooks(machine),
    }
    if value.launcher_mark:
        annotations[v.ANNOTATION_LAUNCHER] = value.launcher_mark
    compute = _compute(shape, machine)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            value.name,
            value.namespace,
            uid=value.uid,
            labels={
                "app.kubernetes.io/instance": machine.name,
                "kubevirt.io": "virt-launcher",
                "kubevirt.io/created-by": machine.uid,
                "kubevirt.io/nodeName": value.node_name,
                "vm.kubevirt.io/name": machine.name,
                "vmi.kubevirt.io/id": machine.name,
            },
            annotations=annotations,
            owners=[
                owner(v.KUBEVIRT_GROUP_VERSION, "VirtualMachineInstance", machine.name, machine.uid)
            ],
            fields=_LAUNCHER_FIELDS,
        ),
        "spec": {
            "affinity": {"nodeAffinity": _affinity(value.pinned_to)},
            "automountServiceAccountToken": False,
            "containers": [compute],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": False,
            "hostname": machine.name,
            "initContainers": [_console(shape, machine)],
            "nodeName": value.node_name,
            "nodeSelector": {
                "kubernetes.io/arch": "amd64",
                v.LABEL_KUBEVIRT_SCHEDULABLE: "true",
                "machine-type.node.kubevirt.io/q35": "true",
            },
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "readinessGates": [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}],
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "securityContext": {"fsGroup": 107, "runAsGroup": 107, "runAsUser": 107},
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 60,
            "tolerations": [*_TOLERATIONS, {"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": [
                *({"name": name, "emptyDir": {}} for name in _VOLUMES),
                {
                    "name": "system",
                    "persistentVolumeClaim": {"claimName": f"{machine.name}-system"},
                },
            ],
        },
        "status": _status(value, [compute]),
    }


def ordinary(value: Pod, shape: Shape) -> Field:
    """A pod of a Deployment, 6 to 10 KB."""
    containers = [
        _service(f"container-{number}", number, shape) for number in range(len(shape.cpus))
    ]
    workload = value.name.rpartition("-")[0]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            value.name,
            value.namespace,
            uid=value.uid,
            labels={"app": workload, "pod-template-hash": "6d4b75cb6d"},
            annotations={"ovn.kubernetes.io/ip_address": "10.244.0.7"},
            owners=[
                owner("apps/v1", "ReplicaSet", workload, "7e0f7a51-0000-4000-8000-000000000000")
            ],
            fields=_ORDINARY_FIELDS,
        ),
        "spec": {
            **({"affinity": _apart(workload)} if value.uid.startswith("0") else {}),
            "containers": containers,
            "dnsPolicy": "ClusterFirst",
            "nodeName": value.node_name,
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "tolerations": _TOLERATIONS,
            "volumes": [
                {"name": "configuration", "configMap": {"name": workload, "defaultMode": 420}},
                {
                    "name": "kube-api-access",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt"}},
                        ]
                    },
                },
            ],
        },
        "status": _status(value, containers),
    }


def _apart(workload: str) -> Field:
    """One on each node."""
    selector = {"matchLabels": {"app": workload}}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _affinity(node: str) -> Field:
    term: Field = {
        "matchExpressions": [
            {"key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist"}
        ]
    }
    if node:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _hooks(machine: Vmi) -> dict[str, str]:
    """What KubeVirt asks a backup to call."""
    hooks = {}
    for when, option in (("pre", "--freeze"), ("post", "--unfreeze")):
        call = f'["/usr/bin/virt-freezer", "{option}", "--name", "{machine.name}"]'
        hooks[f"{when}.hook.backup.velero.io/command"] = call
        hooks[f"{when}.hook.backup.velero.io/container"] = "compute"
    return hooks


def _compute(shape: Shape, machine: Vmi) -> Field:
    devices = {name: str(units) for name, units in shape.devices.items()}
    return {
        "name": "compute",
        "image": _LAUNCHER,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "/usr/bin/virt-launcher-monitor",
            *("--qemu-timeout", "349s", "--name", machine.name, "--uid", machine.uid),
            *("--namespace", machine.namespace, "--kubevirt-share-dir", "/var/run/kubevirt"),
            *("--ephemeral-disk-dir", "/var/run/kubevirt-ephemeral-disks"),
            *("--container-disk-dir", "/var/run/kubevirt/container-disks"),
            *("--grace-period-seconds", "45", "--hook-sidecars", "0"),
            *("--ovmf-path", "/usr/share/edk2/ovmf", "--hypervisor", "kvm", "--run-as-nonroot"),
        ],
        "env": [
            *(
                {"name": name, "value": _PRIVATE}
                for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
            ),
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": {
            "limits": devices,
            "requests": {
                "cpu": f"{shape.cpus[0]}m",
                "memory": f"{shape.memory[0] // 2**20}Mi",
                "ephemeral-storage": f"{shape.storage // 10**6}M",
                **devices,
            },
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "runAsNonRoot": True,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeDevices": [{"name": "system", "devicePath": "/dev/system"}],
        "volumeMounts": [
            {"name": name, "mountPath": f"/var/run/kubevirt-{name}"} for name in _VOLUMES
        ],
    }


def _console(shape: Shape, machine: Vmi) -> Field:
    """The sidecar that writes the guest's serial console to the log."""
    return {
        "name": "guest-console-log",
        "image": _LAUNCHER,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["/usr/bin/virt-tail"],
        "args": ["--logfile", f"{_PRIVATE}/{machine.uid}/virt-serial0-log"],
        "env": [{"name": "VIRT_LAUNCHER_LOG_VERBOSITY", "value": "2"}],
        "resources": {
            "limits": {"cpu": "15m", "memory": "60M"},
            "requests": {
                "cpu": f"{shape.cpus[1]}m",
                "memory": f"{shape.memory[1] // 10**6}M",
            },
        },
        "volumeMounts": [{"name": "private", "mountPath": _PRIVATE, "readOnly": True}],
    }


def _service(name: str, index: int, shape: Shape) -> Field:
    devices = {key: str(units) for key, units in shape.devices.items()} if index == 0 else {}
    return {
        "name": name,
        "image": f"registry.example/services/{name}@sha256:{index:064x}",
        "imagePullPolicy": "IfNotPresent",
        "args": ["--listen=:8080", "--log-format=json", "--config=/etc/service/config.yaml"],
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(8)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "http"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "resources": {
            "limits": {"memory": f"{shape.memory[index] // 2**20}Mi", **devices},
            "requests": {
                "cpu": f"{shape.cpus[index]}m",
                "memory": f"{shape.memory[index] // 2**20}Mi",
                **devices,
            },
        },
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/service"}],
    }


def _status(value: Pod, containers: Sequence[Mapping[str, Any]]) -> Field:
    kinds = ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Succeeded" if value.ended else "Running",
        "qosClass": "Burstable",
        "hostIP": "10.0.7.7",
        "hostIPs": [{"ip": "10.0.7.7"}],
        "podIP": "10.244.0.7",
        "podIPs": [{"ip": "10.244.0.7"}],
        "startTime": "2026-03-01T10:00:00Z",
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-03-01T10:00:00Z",
            }
            for kind in kinds
        ],
        "containerStatuses": [
            {
                "name": each["name"],
                "image": f"registry.example/services/{each['name']}",
                "imageID": f"registry.example/services/{each['name']}@sha256:{7:064x}",
                "containerID": f"containerd://{7:064x}",
                "ready": not value.ended,
                "restartCount": 0,
                "started": not value.ended,
                "lastState": {},
                "state": {"running": {"startedAt": "2026-03-01T10:00:00Z"}},
                "resources": each["resources"],
                "allocatedResources": each["resources"]["requests"],
            }
            for each in containers
        ],
    }
