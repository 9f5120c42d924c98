"""Installs the kinds that the stand-in works with."""

from __future__ import annotations

import yaml

from tests.cluster.api import Object
from tests.cluster.build import REPOSITORY
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kubevirt.objects import has_condition, name_of

FOLDER = REPOSITORY / "tests" / "kubevirt_crds"
_KIND = "apiextensions.k8s.io/v1/CustomResourceDefinition"


def definitions(*folders: str) -> list[Object]:
    """The definitions of KubeVirt's kinds and, by folder, those of others."""
    places = [FOLDER, *(FOLDER / folder for folder in folders)]
    return [
        yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        for place in places
        for path in sorted(place.glob("*.yaml"))
    ]


async def install(cluster: Cluster, *folders: str) -> None:
    """Apply them and wait until they are served; again changes nothing."""
    for definition in definitions(*folders):
        await cluster.admin.apply(definition, manager="kubevirt")
        await _established(cluster, name_of(definition))


async def _established(cluster: Cluster, name: str) -> None:
    async def established() -> bool:
        found = await cluster.admin.get(_KIND, name)
        return has_condition(found, "Established", "True")

    await wait_until(established, f"{name} is served")
