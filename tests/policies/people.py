"""Who tries: with rights enough, so that nothing but a policy decides."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.catalog.tenants import RBAC
from tests.cluster.access import ADMIN, GPU_BINDER, User, service_account
from tests.cluster.api import Api, Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kubevirt import account

TENANT: Final = User("guarded-tenant")
"""A person with Kubernetes' own role `edit` in the tenant's namespace, KubeVirt's part included."""

MIGHTY: Final = User("mighty")
"""May do everything by rights, and is in no group that anybody trusts."""

HELM: Final = service_account("cozy-fluxcd", "helm-controller")
"""Of a trusted group; may do everything by rights."""

COLLECTOR: Final = service_account("kube-system", "generic-garbage-collector")
NAMESPACES: Final = service_account("kube-system", "namespace-controller")
MANAGER: Final = User("system:kube-controller-manager")
"""What both are where they have no accounts of their own."""

REPLICAS: Final = service_account("kube-system", "replicaset-controller")
"""Makes pods from templates that tenants write; of a trusted group."""


def virt_controller(namespace: str = words.KUBEVIRT_NAMESPACE) -> User:
    """KubeVirt's controller, which makes all pods of VMs."""
    return service_account(namespace, "kubevirt-controller")


KUBEVIRT: Final = virt_controller()

ALMIGHTY: Final = (MIGHTY, HELM, COLLECTOR, NAMESPACES, MANAGER)
BINDER: Final = GPU_BINDER
MASTER: Final = ADMIN

UPSTREAM: Final = "kubevirt"
"""Where KubeVirt's own manifests install it."""

_EDIT: Final = "policies-tests:kubevirt-edit"
_TO_COME: Final = "policies-tests:binder"


async def introduce(cluster: Cluster, namespace: str) -> None:
    """Give everybody their rights, and wait until they have them."""
    for place in (words.KUBEVIRT_NAMESPACE, UPSTREAM):
        await account.install(cluster, place)
    label = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
    rules = [{"apiGroups": [words.KUBEVIRT_GROUP], "resources": ["*"], "verbs": ["*"]}]
    await cluster.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": _EDIT, "labels": label},
            "rules": rules,
        }
    )
    await let_edit(cluster, namespace)
    await _let_binder_keep_records(cluster)
    await _bind(cluster, "policies-tests:almighty", "cluster-admin", ALMIGHTY)
    for user, kind, verb in (
        *((user, "namespaces", "patch") for user in ALMIGHTY),
        (KUBEVIRT, "pods", "create"),
        (virt_controller(UPSTREAM), "pods", "create"),
        (BINDER, "pods", "patch"),
        (BINDER, "secrets", "create"),
    ):
        await _until_may(cluster.api(user), user, kind, verb, namespace)


async def let_edit(cluster: Cluster, namespace: str) -> None:
    """Give the tenant the role `edit` in a namespace, and wait until it holds."""
    await _bind(cluster, "guarded", "edit", (TENANT,), namespace)
    for resource in ("pods", "virtualmachineinstances"):
        await _until_may(cluster.api(TENANT), TENANT, resource, "patch", namespace)


async def _let_binder_keep_records(cluster: Cluster) -> None:
    """Give the binder what its manifests do not, as long as no code of it writes these.

    The policies about usage records and Secrets are in force before.
    """
    verbs = ["create", "patch"]
    rules: list[Object] = [
        {"apiGroups": ["cozystack.io"], "resources": ["workloads"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": verbs},
    ]
    await cluster.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": _TO_COME},
            "rules": rules,
        }
    )
    await _bind(cluster, _TO_COME, _TO_COME, (BINDER,))


async def _bind(
    cluster: Cluster, name: str, role: str, users: tuple[User, ...], namespace: str = ""
) -> None:
    place = {"namespace": namespace} if namespace else {}
    await cluster.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": {"name": name, **place},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user.name} for user in users],
        }
    )


async def _until_may(api: Api, user: User, resource: str, verb: str, namespace: str) -> None:
    group = words.KUBEVIRT_GROUP if resource.startswith("virtual") else ""
    asked = {"group": group, "resource": resource, "verb": verb, "namespace": namespace}
    review: Object = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {"name": ""},
        "spec": {"resourceAttributes": asked},
    }

    async def may() -> bool:
        return bool((await api.create(review))["status"]["allowed"])

    await wait_until(may, f"{user.name} may {verb} {resource}")
