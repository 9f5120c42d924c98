"""Tenants with Kubernetes' own role `edit`, as KubeVirt and our manifests extend it."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.catalog.tenants import RBAC, Tenant
from tests.cluster.access import User
from tests.cluster.api import Refused
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kubevirt import account

VMI: Final = f"{words.KUBEVIRT_GROUP_VERSION}/{words.KIND_VMI}"
VM: Final = f"{words.KUBEVIRT_GROUP_VERSION}/{words.KIND_VM}"
CLAIM: Final = f"{words.GROUP_VERSION}/{words.KIND_CLAIM}"
OPTION: Final = f"{words.CATALOG_GROUP_VERSION}/{words.KIND_OPTION}"

ROLE: Final = "edit"


async def make_person(cluster: Cluster, namespace: str) -> Tenant:
    """Somebody who may do in a namespace what `edit` allows, who is called as it is."""
    await account.extend_roles(cluster)
    tenant = Tenant(cluster, namespace, User(namespace))
    await cluster.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "edit", "namespace": namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": tenant.user.name}],
        }
    )

    async def may() -> bool:
        try:
            for kind in ("v1/Pod", VMI, CLAIM, OPTION):
                await tenant.api.list(kind, namespace)
        except Refused as refused:
            if refused.code != 403:
                raise
            return False
        return True

    await wait_until(may, f"{namespace} may do what {ROLE} allows")
    return tenant
