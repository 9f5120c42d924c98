"""What the manifests of step one make of a cluster, beyond rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from shared import vocabulary as words
from tests.cluster.api import Object
from tests.cluster.install import MANIFESTS, Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.usefixtures("installed")

Pods = Callable[[], Awaitable[list[Object]]]


async def deployment(cluster: Cluster) -> Object:
    return await cluster.admin.get("apps/v1/Deployment", words.SERVICE_APISERVER, words.NAMESPACE)


async def test_applying_again_changes_nothing(cluster: Cluster, installed: Catalog) -> None:
    """Else every `kubectl apply` and every delivery tool would report a drift."""
    folder = installed.plane.at.folder / "manifests" / "base"
    difference = await cluster.kubectl("diff", "-k", str(folder))
    assert difference.checked == ""


async def test_the_service_leads_to_this_machine(cluster: Cluster) -> None:
    service = await cluster.admin.get("v1/Service", words.SERVICE_APISERVER, words.NAMESPACE)
    assert service["spec"]["type"] == "ExternalName"
    assert service["spec"]["externalName"] == "127.0.0.1"
    assert "selector" not in service["spec"]
    assert "ports" not in service["spec"]


async def test_the_servers_pods_meet_the_restricted_standard_that_their_namespace_enforces(
    cluster: Cluster, unique: Callable[[str], str]
) -> None:
    template = (await deployment(cluster))["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": unique("pod"), "namespace": words.NAMESPACE},
        "spec": template["spec"],
    }
    await cluster.admin.create(pod, dryRun="All")

    container = template["spec"]["containers"][0]
    worse = container | {"securityContext": {"runAsUser": 0}}
    pod["spec"] = template["spec"] | {"containers": [worse]}
    with pytest.raises(Exception, match="violates PodSecurity"):
        await cluster.admin.create(pod, dryRun="All")


@pytest.fixture
async def replicas(cluster: Cluster) -> AsyncIterator[Pods]:
    """What lists the server's two pods, which are gone when the test ends."""

    async def pods() -> list[Object]:
        return await cluster.admin.list(
            "v1/Pod",
            words.NAMESPACE,
            labelSelector=f"app.kubernetes.io/name={words.SERVICE_APISERVER}",
        )

    async def scale(count: int) -> None:
        wanted = {"spec": {"replicas": count}}
        await cluster.admin.patch(
            "apps/v1/Deployment", words.SERVICE_APISERVER, wanted, words.NAMESPACE
        )

    async def gone() -> bool:
        return not await pods()

    assert await gone()
    await scale(2)
    yield pods
    await scale(0)
    await wait_until(gone, "the server's pods are gone")


async def test_two_replicas_are_placed_on_two_nodes(
    cluster: Cluster, unique: Callable[[str], str], replicas: Pods
) -> None:
    for name in (unique("node"), unique("node")):
        await cluster.admin.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            }
        )

    async def nodes() -> list[str] | None:
        pods = await replicas()
        found = [pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]]
        return found if len(found) == 2 else None

    one, other = await wait_until(nodes, "both replicas have a node")
    assert one != other


async def test_a_drain_takes_one_replica_at_most(cluster: Cluster) -> None:
    budget = await cluster.admin.get(
        "policy/v1/PodDisruptionBudget", words.SERVICE_APISERVER, words.NAMESPACE
    )
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == (await deployment(cluster))["spec"]["selector"]


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param("examples/cert-manager/1-server", id="the server with cert-manager"),
        pytest.param("examples/cert-manager/2-apiservice", id="the APIService with cert-manager"),
        pytest.param("examples/cert-manager/3-webhooks", id="the webhooks with cert-manager"),
        pytest.param("apiservice", id="the APIService alone"),
    ],
)
async def test_what_a_user_applies_is_what_the_api_server_knows(
    cluster: Cluster, folder: str
) -> None:
    """Each object but cert-manager's own kinds, which no control plane here serves."""
    rendered = (await cluster.kubectl("kustomize", str(MANIFESTS / folder))).checked
    ours = "---\n".join(
        document
        for document in rendered.split("---\n")
        if "apiVersion: cert-manager.io/v1" not in document
    )
    applied = await cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=ours
    )
    assert applied.checked
