"""The informer while its own token or certificate is replaced, on the real API server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared.kube.credentials import InCluster
from shared.kube.kubeconfig import Kubeconfig
from tests.cluster.keys import Authority, Pair
from tests.cluster.session import Cluster
from tests.kube.following import Following, following
from tests.kube.test_credentials import kubeconfig, project
from tests.kube.test_informer import QUOTAS, Unique, quota

ACCOUNT = "v1/ServiceAccount"
RBAC = "rbac.authorization.k8s.io"


async def account(cluster: Cluster, namespace: str, name: str, binding: str) -> str:
    """Make an account that may follow quotas; its token."""
    await cluster.admin.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _in(namespace, name)}
    )
    await cluster.admin.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": binding},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
    )
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = (await cluster.admin.call("POST", path, body))["status"]["token"]
    return token


def _in(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": name}


async def sees(got: Following, cluster: Cluster, namespace: str, name: str) -> None:
    """Make a quota, and wait until it is seen and all is well."""
    await cluster.admin.create(quota(namespace, name, 1))
    await got.until(lambda: name in got.of(namespace), f"{name} is seen")
    await got.until(lambda: not got.report("resourcequotas").trouble, "no trouble is left")


async def refused(got: Following) -> str:
    """Wait until the API server does not know us any more; what is told of it."""
    await got.until(
        lambda: "Unauthorized" in got.report("resourcequotas").trouble, "we are not known"
    )
    return got.report("resourcequotas").trouble


async def test_a_token_that_is_replaced_on_disk_is_used_once_the_old_one_is_refused(
    cluster: Cluster, namespace: str, unique: Unique, tmp_path: Path
) -> None:
    """Trouble 11: projected tokens live an hour, and are replaced under a running process."""
    first = await account(cluster, namespace, "first", unique("binding"))
    second = await account(cluster, namespace, "second", unique("binding"))
    authority = cluster.access.serving_ca.read_text()
    project(tmp_path, "1", first, authority)
    at = urlsplit(cluster.access.server)
    source = InCluster(
        tmp_path / "..data" / "token",
        tmp_path / "..data" / "ca.crt",
        {"KUBERNETES_SERVICE_HOST": str(at.hostname), "KUBERNETES_SERVICE_PORT": str(at.port)},
    )
    async with following(source, [QUOTAS]) as got:
        await got.informer.wait_until_synced()
        await sees(got, cluster, namespace, "a")
        await cluster.admin.delete(ACCOUNT, "first", namespace)
        assert first not in await refused(got)
        assert "a" in got.of(namespace)

        project(tmp_path, "2", second + "\n", authority)
        await sees(got, cluster, namespace, "b")
        assert got.gone(namespace) == []


async def test_a_client_certificate_that_is_replaced_on_disk_is_shown(
    cluster: Cluster, namespace: str, unique: Unique, tmp_path: Path
) -> None:
    """Also one that nobody knows, until the right one is there."""
    now, users = cluster.access.clock(), cluster.access.client_ca
    mine = Pair.at(tmp_path, "client")
    users.client(mine, unique("first"), ("system:masters",), now)
    source = kubeconfig(
        tmp_path / "config",
        cluster={
            "server": cluster.access.server,
            "certificate-authority": str(cluster.access.serving_ca),
        },
        user={"client-certificate": "client.crt", "client-key": "client.key"},
    )
    assert isinstance(source, Kubeconfig)
    # Credentials age twenty times as fast, so that half a minute is a second and a half.
    async with following(source, [QUOTAS], credentials_clock=lambda: 20 * time.monotonic()) as got:
        await got.informer.wait_until_synced()
        await sees(got, cluster, namespace, "a")
        Authority.create(tmp_path, "strangers", now).client(mine, "stranger", (), now)
        await refused(got)

        users.client(mine, unique("second"), ("system:masters",), now)
        await sees(got, cluster, namespace, "b")
        assert got.gone(namespace) == []
        assert got.informer.synced
