"""What KubeVirt permits (rule 4.1), and what counts as a GPU (rule 4.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from shared.core.model import GpuClass, KubeVirt

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN_LENGTH_MAX: Final = 253


def kubevirt_in_force(kubevirts: Iterable[KubeVirt], namespace: str) -> KubeVirt | None:
    """The KubeVirt object that counts: in KubeVirt's namespace, with a phase.

    KubeVirt's operator marks only the one that it acts on; of several the first by name.
    """
    found = [k for k in kubevirts if k.namespace == namespace and k.phase]
    return min(found, key=lambda kubevirt: kubevirt.name, default=None)


def is_permitted(resource_name: str, kubevirt: KubeVirt | None) -> bool:
    """Whether KubeVirt lets a VM have a device: no object and no table permit all."""
    if kubevirt is None or kubevirt.permitted is None:
        return True
    return resource_name in kubevirt.permitted


def gpu_names(
    classes: Iterable[GpuClass], kubevirt: KubeVirt | None, listed: Iterable[str]
) -> frozenset[str]:
    """Resource names that are GPUs: the classes', the table's mediated devices, the hoster's.

    A PCI device that only the table names is none: NICs, audio functions and NVSwitches stand
    there too, under the same vendor's prefix.
    """
    mediated = kubevirt.mediated if kubevirt is not None else frozenset[str]()
    return frozenset({c.resource_name for c in classes} | mediated | set(listed))


def is_extended_resource(resource: str) -> bool:
    """Whether this can name a device: a domain that is not Kubernetes' own, a slash, a name.

    As Kubernetes has it (`IsExtendedResourceName`): `cpu`, `kubernetes.io/x` and names under
    `requests.` are its own.
    """
    domain, slash, rest = resource.partition("/")
    return (
        bool(slash)
        and not domain.startswith("requests.")
        and "kubernetes.io/" not in f"{domain}/"
        and len(f"requests.{domain}") <= _SUBDOMAIN_LENGTH_MAX
        and _SUBDOMAIN.fullmatch(domain) is not None
        and _NAME.fullmatch(rest) is not None
    )
