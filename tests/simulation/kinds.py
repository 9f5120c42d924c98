"""The kinds that the fake API server serves: those that the binder reads or writes.

Ours, KubeVirt's and Cozystack's come from the same definitions that the real one is given.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.install import MANIFESTS
from tests.kubevirt import kinds as definitions
from tests.simulation.schemas import has_rules

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind in one version.

    Attributes:
        group_version: `v1` for the core group.
        has_status: whether its status is written by a subresource, and by nothing else.
        unconditional: whether a replacement may do without a resource version.
        counts: whether a change of what is wanted raises `metadata.generation`.
        schema: of a custom kind; None for a built-in one.
        is_ruled: whether that has rules in CEL, too.
    """

    group_version: str
    kind: str
    resource: str
    namespaced: bool = True
    has_status: bool = False
    unconditional: bool = True
    counts: bool = False
    schema: Mapping[str, Any] | None = None
    is_ruled: bool = False

    @property
    def group(self) -> str:
        """Empty for the core group."""
        return self.group_version.rpartition("/")[0]

    @property
    def qualified(self) -> str:
        """The resource as errors name it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def qualified_kind(self) -> str:
        """The kind as errors name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def is_custom(self) -> bool:
        """Whether a definition made it."""
        return self.schema is not None


NAMESPACE: Final = Kind("v1", "Namespace", "namespaces", namespaced=False, has_status=True)
NODE: Final = Kind("v1", "Node", "nodes", namespaced=False, has_status=True)
POD: Final = Kind("v1", "Pod", "pods", has_status=True, counts=True)
CONFIG_MAP: Final = Kind("v1", "ConfigMap", "configmaps")
SECRET: Final = Kind("v1", "Secret", "secrets")
EVENT: Final = Kind("v1", "Event", "events")
LEASE: Final = Kind("coordination.k8s.io/v1", "Lease", "leases", unconditional=False)

_BUILT_IN: Final = (
    NAMESPACE,
    NODE,
    POD,
    CONFIG_MAP,
    SECRET,
    EVENT,
    LEASE,
    Kind("v1", "ResourceQuota", "resourcequotas", has_status=True),
    Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False, has_status=True),
    Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", has_status=True),
)


def _custom() -> Iterator[Kind]:
    folders = (MANIFESTS / "crds", definitions.KUBEVIRT, definitions.COZYSTACK)
    for definition in definitions.definitions(*folders):
        if definition["kind"] != "CustomResourceDefinition":
            continue
        spec = definition["spec"]
        for version in spec["versions"]:
            if version["storage"]:
                schema = version["schema"]["openAPIV3Schema"]
                yield Kind(
                    group_version=f"{spec['group']}/{version['name']}",
                    kind=spec["names"]["kind"],
                    resource=spec["names"]["plural"],
                    namespaced=spec["scope"] == "Namespaced",
                    has_status="status" in version.get("subresources", {}),
                    unconditional=False,
                    counts=True,
                    schema=schema,
                    is_ruled=has_rules(schema),
                )


@functools.cache
def served() -> Mapping[str, Kind]:
    """All kinds by `<group>/<version>/<resource>`."""
    kinds = (*_BUILT_IN, *_custom())
    return {f"{kind.group_version}/{kind.resource}": kind for kind in kinds}


def kind_named(resource: str) -> Kind:
    """The kind of a resource; no two of those here share a plural."""
    (found,) = (kind for kind in served().values() if kind.resource == resource)
    return found
