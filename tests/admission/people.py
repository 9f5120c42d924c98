"""Tenants who may make VMs and pods, as in Cozystack, and order GPUs."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.catalog.tenants import RBAC, Tenant, bind
from tests.cluster.access import User
from tests.cluster.api import Refused
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

VMI: Final = f"{words.KUBEVIRT_GROUP_VERSION}/{words.KIND_VMI}"
VM: Final = f"{words.KUBEVIRT_GROUP_VERSION}/{words.KIND_VM}"

MACHINES: Final = "admission-tests:machines"


async def make_person(cluster: Cluster, namespace: str) -> Tenant:
    """Somebody who may do in a namespace what the tenant role allows, and make VMs and pods."""
    rules = [
        {"apiGroups": [words.KUBEVIRT_GROUP], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
    ]
    label = {"rbac.cozystack.io/aggregate-to-tenant": "true"}
    await cluster.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": MACHINES, "labels": label},
            "rules": rules,
        }
    )
    tenant = Tenant(cluster, namespace, User(namespace))
    await bind(cluster, tenant.user, namespace)

    async def may_see_machines() -> bool:
        try:
            await tenant.api.list(VMI, namespace)
        except Refused as refused:
            if refused.code != 403:
                raise
            return False
        return True

    await wait_until(may_see_machines, f"{namespace} may see VMs")
    return tenant
