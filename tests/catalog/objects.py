"""Objects of Kubernetes that figures are computed from, as small as the API server takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared import vocabulary as words
from tests.cluster.api import Object

OPTION: Final = f"{words.CATALOG_GROUP_VERSION}/{words.KIND_OPTION}"
CLASS: Final = f"{words.GROUP_VERSION}/{words.KIND_CLASS}"
CLAIM: Final = f"{words.GROUP_VERSION}/{words.KIND_CLAIM}"
CRD: Final = "apiextensions.k8s.io/v1/CustomResourceDefinition"

NOON: Final = "2026-11-29T12:00:00Z"


@dataclass(frozen=True, slots=True)
class Gpus:
    """A class, the resource that it names, and a node with 8 units of it."""

    name: str
    resource: str
    node: str


def class_key(name: str) -> str:
    """The budget key of a class."""
    return f"requests.{name}{words.CLASS_KEY_SUFFIX}"


def gpu_class(name: str, resource: str, **spec: object) -> Object:
    """A class of whole devices, unless `spec` says otherwise."""
    return {
        "apiVersion": words.GROUP_VERSION,
        "kind": words.KIND_CLASS,
        "metadata": {"name": name},
        "spec": {"vendor": "NVIDIA", "mode": "Passthrough", "resourceName": resource, **spec},
    }


def claim(namespace: str, name: str, class_name: str, count: int) -> Object:
    """An order."""
    return {
        "apiVersion": words.GROUP_VERSION,
        "kind": words.KIND_CLAIM,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"className": class_name, "count": count},
    }


def bound(resource: str, node: str) -> Object:
    """A patch of a claim's status as the binder writes it when it books the units."""
    conditions = (
        ("Ready", "True", "Placed"),
        ("Bound", "True", "Placed"),
        ("Attached", "False", "NotInUse"),
        ("Disrupted", "False", "Undisturbed"),
    )
    return {
        "status": {
            "epoch": 1,
            "resourceName": resource,
            "nodeName": node,
            "boundTime": NOON,
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": "",
                    "observedGeneration": 1,
                    "lastTransitionTime": NOON,
                }
                for kind, status, reason in conditions
            ],
        }
    }


def node(name: str, resource: str, units: int | str) -> Object:
    """A node that takes GPU pods as soon as somebody says that it is ready."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", resource: str(units)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {words.LABEL_KUBEVIRT_SCHEDULABLE: "true"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(namespace: str, name: str, resource: str, units: int, on: str) -> Object:
    """A pod outside of claims that is on a node already: nobody has to schedule it."""
    amounts = {resource: str(units)}
    resources = {"requests": amounts, "limits": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    }


def quota(namespace: str, hard: dict[str, str], name: str = "gpus") -> Object:
    """A budget."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": hard},
    }


def settings_object(data: dict[str, str]) -> Object:
    """Our settings."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": words.SETTINGS_NAME, "namespace": words.NAMESPACE},
        "data": data,
    }


def namespace(name: str, labels: dict[str, str] | None = None) -> Object:
    """A namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels or {}},
    }
