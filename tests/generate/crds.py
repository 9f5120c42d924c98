"""CustomResourceDefinitions of the stored kinds, from their models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from shared.api import gpuclaim, gpuclass, gpusystem
from shared.api.schema import kind_schema
from shared.vocabulary import (
    CATEGORY,
    GROUP,
    KIND_CLAIM,
    KIND_CLASS,
    KIND_SYSTEM,
    RESOURCE_CLAIMS,
    RESOURCE_CLASSES,
    RESOURCE_SYSTEMS,
    SHORT_CLAIMS,
    SHORT_CLASSES,
    SHORT_SYSTEMS,
    VERSION,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.api.base import Model
    from shared.api.columns import Column

HEADER: Final = "# Generated from shared/api by `make generate`. Do not edit.\n"


@dataclass(frozen=True, slots=True)
class StoredKind:
    """What a CRD says beside the schema."""

    model: type[Model]
    columns: tuple[Column, ...]
    kind: str
    plural: str
    short: str
    namespaced: bool = False
    selectable: tuple[str, ...] = ()


STORED: Final = (
    StoredKind(gpuclass.GPUClass, gpuclass.COLUMNS, KIND_CLASS, RESOURCE_CLASSES, SHORT_CLASSES),
    StoredKind(
        gpuclaim.GPUClaim,
        gpuclaim.COLUMNS,
        KIND_CLAIM,
        RESOURCE_CLAIMS,
        SHORT_CLAIMS,
        namespaced=True,
        selectable=(".spec.className",),
    ),
    StoredKind(
        gpusystem.GPUSystem, gpusystem.COLUMNS, KIND_SYSTEM, RESOURCE_SYSTEMS, SHORT_SYSTEMS
    ),
)


def crd(kind: StoredKind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind (apiextensions.k8s.io/v1)."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(_columns(kind.columns)),
        "schema": {"openAPIV3Schema": kind_schema(kind.model, metadata={"type": "object"})},
    }
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [kind.short],
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def _columns(columns: Iterable[Column]) -> Iterable[dict[str, Any]]:
    for column in columns:
        shown = {"name": column.name, "type": column.type, "description": column.description}
        if column.format:
            shown["format"] = column.format
        yield (
            shown
            | {"jsonPath": column.json_path}
            | ({"priority": column.priority} if column.priority else {})
        )


def documents() -> dict[str, str]:
    """The text of each file under manifests/crds, by file name."""
    files = {f"{kind.plural}.yaml": HEADER + _yaml(crd(kind)) for kind in STORED}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
    }
    return files | {"kustomization.yaml": HEADER + _yaml(kustomization)}


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
