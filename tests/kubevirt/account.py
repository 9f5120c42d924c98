"""KubeVirt's accounts: they call with tokens, as its pods do, and may do what its roles allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp

from tests.cluster.api import Api, Object, Refused
from tests.cluster.session import Cluster
from tests.kubevirt import words as w

TOKEN_SECONDS: Final = 24 * 3600
RBAC: Final = "rbac.authorization.k8s.io"

_ALL: Final = ["get", "list", "watch", "create", "update", "patch", "delete"]
_READ: Final = ["get", "list", "watch"]

RULES: Final[Mapping[str, Sequence[Object]]] = {
    w.ACCOUNT_CONTROLLER: (
        {"apiGroups": [w.GROUP], "resources": ["*"], "verbs": _ALL},
        {"apiGroups": [""], "resources": ["pods"], "verbs": _ALL},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
        # For owner references that block the owner's deletion.
        {"apiGroups": [""], "resources": ["pods/finalizers"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["nodes", "persistentvolumeclaims"], "verbs": _READ},
        {"apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes"], "verbs": _READ},
        {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": _ALL},
    ),
    w.ACCOUNT_HANDLER: (
        {"apiGroups": [w.GROUP], "resources": ["virtualmachineinstances"], "verbs": _ALL},
    ),
}
"""What each account may do, as far as the stand-in does it."""

_MACHINES: Final = [
    "virtualmachines",
    "virtualmachineinstances",
    "virtualmachineinstancereplicasets",
]
_MOVES: Final[Object] = {
    "apiGroups": [w.GROUP],
    "resources": ["virtualmachineinstancemigrations"],
    "verbs": _READ,
}

PEOPLE: Final[Mapping[str, Sequence[Object]]] = {
    "view": ({"apiGroups": [w.GROUP], "resources": _MACHINES, "verbs": _READ}, _MOVES),
    "edit": ({"apiGroups": [w.GROUP], "resources": _MACHINES, "verbs": _ALL}, _MOVES),
    "admin": ({"apiGroups": [w.GROUP], "resources": _MACHINES, "verbs": _ALL}, _MOVES),
}
"""What KubeVirt adds to Kubernetes' own roles for people: a migration is not theirs to start."""


async def install(cluster: Cluster, namespace: str) -> None:
    """Create KubeVirt's namespace, its accounts and all roles; again changes nothing."""
    admin = cluster.admin
    if await admin.find("v1/Namespace", namespace) is None:
        try:
            await cluster.create_namespace(namespace)
        except Refused as refused:
            if refused.code != 409:
                raise
    for account, rules in RULES.items():
        who = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": account}
        for obj in (
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": namespace},
            },
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": account},
                "rules": list(rules),
            },
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{account}-{namespace}"},
                "roleRef": role,
                "subjects": [who],
            },
        ):
            await admin.apply(obj, manager="kubevirt")
    await extend_roles(cluster)


async def extend_roles(cluster: Cluster) -> None:
    """Let Kubernetes' roles for people hold KubeVirt's kinds, as KubeVirt does."""
    for name, rules in PEOPLE.items():
        labels = {f"{RBAC}/aggregate-to-{name}": "true"}
        await cluster.admin.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": f"{w.GROUP}:{name}", "labels": labels},
                "rules": list(rules),
            },
            manager="kubevirt",
        )


async def connect(cluster: Cluster, namespace: str, account: str) -> Api:
    """The API as one of the accounts, with a token that the API server gave out.

    Close it in the end. The roles may take a moment to be in force.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    wanted = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    token = (await cluster.admin.call("POST", path, wanted))["status"]["token"]
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=cluster.access.tls(None), limit=0),
        headers={"Authorization": f"Bearer {token}", "User-Agent": account},
    )
    return Api(cluster.access.server, session)
