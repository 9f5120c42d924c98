"""Objects of our kinds, and trying whether the API server takes one."""

from __future__ import annotations

from typing import Any, Final

from tests.cluster.api import Object, Refused
from tests.cluster.session import Cluster

CLASS: Final = "gpu.cozystack.io/v1alpha1/GPUClass"
CLAIM: Final = "gpu.cozystack.io/v1alpha1/GPUClaim"
SYSTEM: Final = "gpu.cozystack.io/v1alpha1/GPUSystem"

NOON: Final = "2026-11-29T12:00:00Z"


def gpu_class(name: str = "a100", /, **spec: object) -> Object:
    """A class; a field given as `...` is left out."""
    default = {"vendor": "NVIDIA", "mode": "Passthrough", "resourceName": f"nvidia.com/{name}"}
    return {
        "apiVersion": "gpu.cozystack.io/v1alpha1",
        "kind": "GPUClass",
        "metadata": {"name": name},
        "spec": {k: v for k, v in {**default, **spec}.items() if v is not ...},
    }


def gpu_claim(namespace: str, name: str = "train", /, **spec: object) -> Object:
    """A claim for one class; a field given as `...` is left out."""
    return {
        "apiVersion": "gpu.cozystack.io/v1alpha1",
        "kind": "GPUClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {k: v for k, v in {"className": "a100", **spec}.items() if v is not ...},
    }


def condition(kind: str, status: str, reason: str, **more: object) -> dict[str, Any]:
    """A condition of generation 1, since noon."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": NOON,
        **more,
    }


async def refusal(cluster: Cluster, obj: Object) -> str:
    """What the API server says against creating an object; empty when it would take it."""
    try:
        await cluster.admin.create(obj, dryRun="All", fieldValidation="Strict")
    except Refused as refused:
        if refused.code not in {400, 422}:
            raise  # refused, but not for what it is
        return refused.message
    return ""
