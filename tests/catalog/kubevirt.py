"""KubeVirt as far as figures depend on it: its kinds, and its object with the permitted devices."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shared import vocabulary as words
from tests.catalog.tenants import wait_until_served
from tests.cluster.api import Object
from tests.cluster.build import REPOSITORY
from tests.cluster.session import Cluster

KUBEVIRT: Final = f"{words.KUBEVIRT_GROUP_VERSION}/KubeVirt"
NAME: Final = "kubevirt"
HOME: Final = words.KUBEVIRT_NAMESPACE
KINDS: Final = REPOSITORY / "tests" / "kubevirt_crds"


def kubevirt(permitted: list[str] | None) -> Object:
    """KubeVirt's object; None has no table of permitted devices."""
    table = [{"pciVendorSelector": "10DE:2330", "resourceName": each} for each in permitted or ()]
    configuration = {} if permitted is None else {"permittedHostDevices": {"pciHostDevices": table}}
    return {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": "KubeVirt",
        "metadata": {"name": NAME, "namespace": HOME},
        "spec": {"configuration": configuration},
    }


async def apply_kinds(cluster: Cluster, folder: Path = KINDS, kind: str = KUBEVIRT) -> None:
    """Apply CRDs, and wait until they are served and discovery names the kind, one of theirs."""
    how = "-k" if (folder / "kustomization.yaml").exists() else "-f"
    assert (await cluster.kubectl("apply", how, str(folder))).checked
    wait = ("wait", "--for=condition=Established", "crd", "--all", "--timeout=90s")
    assert (await cluster.kubectl(*wait)).checked
    await wait_until_served(cluster, kind)


async def deploy(cluster: Cluster, permitted: list[str] | None) -> None:
    """Make KubeVirt's object; only once its operator gives it a phase does its table count."""
    if await cluster.admin.find("v1/Namespace", HOME) is None:
        await cluster.create_namespace(HOME)
    await cluster.admin.create(kubevirt(permitted))
    deployed = {"status": {"phase": "Deployed"}}
    await cluster.admin.patch(KUBEVIRT, NAME, deployed, HOME, subresource="status")


async def remove(cluster: Cluster) -> None:
    """Delete KubeVirt's object, if there is one."""
    if await cluster.admin.find(KUBEVIRT, NAME, HOME):
        await cluster.admin.delete(KUBEVIRT, NAME, HOME)
