"""Installs the kinds that the stand-in works with."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.cluster.api import Object
from tests.cluster.build import REPOSITORY
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kubevirt.objects import has_condition, name_of

KUBEVIRT = REPOSITORY / "tests" / "kubevirt_crds"
COZYSTACK = REPOSITORY / "tests" / "cozystack_crds"
"""Applications and records of use; in a cluster of Cozystack its own servers have them."""

_KIND = "apiextensions.k8s.io/v1/CustomResourceDefinition"


def definitions(*folders: Path) -> list[Object]:
    """The definitions in some folders."""
    return [
        yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        for folder in folders
        for path in sorted(folder.glob("*.yaml"))
    ]


async def install(cluster: Cluster, *folders: Path) -> None:
    """Apply definitions and wait until they are served; again changes nothing.

    Args:
        cluster: where.
        folders: KubeVirt's unless given.
    """
    for definition in definitions(*(folders or (KUBEVIRT,))):
        await cluster.admin.apply(definition, manager="kubevirt")
        await _established(cluster, name_of(definition))


async def _established(cluster: Cluster, name: str) -> None:
    async def established() -> bool:
        found = await cluster.admin.get(_KIND, name)
        return has_condition(found, "Established", "True")

    await wait_until(established, f"{name} is served")
