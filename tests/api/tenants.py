"""A tenant with a class and a node of its own on the run's control plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared import vocabulary
from tests.api.kinds import gpu_class
from tests.cluster.access import User, tenant_user
from tests.cluster.api import Object
from tests.cluster.session import Cluster, Output

OPTION = f"{vocabulary.CATALOG_GROUP_VERSION}/GPUClassOption"
NODE_LABELS = {vocabulary.LABEL_KUBEVIRT_SCHEDULABLE: "true", "kubernetes.io/os": "linux"}


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace, somebody who may look at it, one class, and the node that has its devices."""

    cluster: Cluster
    namespace: str
    user: User
    class_name: str
    resource: str
    node: str

    async def kubectl(self, *arguments: str) -> Output:
        """Kubectl as the tenant's user, in the tenant's namespace."""
        return await self.cluster.kubectl(*arguments, user=self.user, namespace=self.namespace)

    async def option(self) -> Object:
        """The option of the tenant's class."""
        return await self.cluster.admin.get(OPTION, self.class_name, self.namespace)

    async def orderable(self) -> int | None:
        """How many units the tenant may order of its class."""
        units: int | None = (await self.option())["status"].get("orderableUnits")
        return units

    async def set_devices(self, units: str) -> None:
        """Change what the node offers."""
        await self.cluster.admin.patch(
            "v1/Node",
            self.node,
            {"status": {"allocatable": {self.resource: units}, "capacity": {self.resource: units}}},
            subresource="status",
        )

    async def set_budget(self, **hard: str) -> None:
        """Create or change the tenant's quota; `units` and `devices` are its two keys."""
        keys = {
            "units": f"requests.{self.class_name}{vocabulary.CLASS_KEY_SUFFIX}",
            "devices": f"requests.{self.resource}",
        }
        await self.cluster.admin.apply(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "budget", "namespace": self.namespace},
                "spec": {"hard": {keys[key]: value for key, value in hard.items()}},
            }
        )


async def create_tenant(cluster: Cluster, unique: Callable[[str], str], units: int = 4) -> Tenant:
    """Make a tenant whose node offers so many units of its class."""
    class_name, node = unique("class"), unique("node")
    namespace = unique("tenant-t").replace("-t-", "-t")
    resource = f"example.org/{class_name}"
    user = tenant_user(namespace)
    await cluster.create_namespace(namespace)
    await cluster.admin.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [
                {"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}
                for group in user.groups
            ],
        }
    )
    await cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "labels": NODE_LABELS | {"kubernetes.io/hostname": node}},
        }
    )
    tenant = Tenant(cluster, namespace, user, class_name, resource, node)
    made = gpu_class(class_name, resourceName=resource, displayName="Big", memory="80Gi")
    made["metadata"]["labels"] = {"tier": class_name}
    await cluster.admin.create(made)
    await tenant.set_devices(str(units))
    return tenant
