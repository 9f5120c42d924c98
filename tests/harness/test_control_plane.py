"""The control plane is a real one, as far as tests lean on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.access import User, tenant_user
from tests.cluster.api import Object, Refused
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

Unique = Callable[[str], str]
GPU = "nvidia.com/GH100_H100_PCIE"


def gpu_node(name: str, gpus: int) -> Object:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def gpu_pod(name: str, namespace: str, node: str, gpus: int) -> Object:
    amounts = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)}
    resources = {"requests": amounts, "limits": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    }


async def phase(cluster: Cluster, pod: str, namespace: str) -> str:
    found = await cluster.admin.get("v1/Pod", pod, namespace)
    return str(found["status"]["phase"])


def condition(obj: Object, kind: str) -> dict[str, Any]:
    return next((c for c in obj["status"].get("conditions", ()) if c["type"] == kind), {})


async def test_the_scheduler_counts_gpus_and_a_bound_pod_runs(
    cluster: Cluster, namespace: str, unique: Unique
) -> None:
    node = unique("node")
    await cluster.admin.create(gpu_node(node, gpus=4))
    await cluster.admin.create(gpu_pod("fits", namespace, node, gpus=3))

    async def runs() -> bool:
        return await phase(cluster, "fits", namespace) == "Running"

    await wait_until(runs, "a pod with 3 of 4 GPUs runs")
    await cluster.admin.create(gpu_pod("too-many", namespace, node, gpus=2))

    async def refused() -> str:
        pod = await cluster.admin.get("v1/Pod", "too-many", namespace)
        return str(condition(pod, "PodScheduled").get("message", ""))

    message = await wait_until(refused, "the scheduler says why it does not place the other")
    assert f"Insufficient {GPU}" in message
    fits = await cluster.admin.get("v1/Pod", "fits", namespace)
    assert fits["spec"]["nodeName"] == node
    assert condition(fits, "Ready")["status"] == "True"
    seen = await cluster.admin.get("v1/Node", node)
    assert seen["status"]["allocatable"][GPU] == "4"
    assert condition(seen, "Ready")["status"] == "True"


async def test_a_deleted_pod_goes_and_frees_its_gpus(
    cluster: Cluster, namespace: str, unique: Unique
) -> None:
    node = unique("node")
    await cluster.admin.create(gpu_node(node, gpus=1))
    for pod in ("first", "second"):
        await cluster.admin.create(gpu_pod(pod, namespace, node, gpus=1))

        async def runs(pod: str = pod) -> bool:
            return await phase(cluster, pod, namespace) == "Running"

        await wait_until(runs, f"pod {pod} runs")
        await cluster.admin.delete("v1/Pod", pod, namespace)


async def test_a_quota_is_kept_by_admission_and_counted_by_its_controller(
    cluster: Cluster, namespace: str
) -> None:
    key = f"requests.{GPU}"
    await cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": namespace},
            "spec": {"hard": {key: "2"}},
        }
    )

    async def used() -> str | None:
        quota = await cluster.admin.get("v1/ResourceQuota", "gpus", namespace)
        amount: str | None = quota.get("status", {}).get("used", {}).get(key)
        return amount

    await wait_until(used, "the quota controller saw the quota")
    await cluster.admin.create(gpu_pod("in", namespace, "nowhere", gpus=2))
    with pytest.raises(Refused) as refused:
        await cluster.admin.create(gpu_pod("over", namespace, "nowhere", gpus=1))
    assert refused.value.code == 403
    assert f"exceeded quota: gpus, requested: {key}=1" in refused.value.message
    assert await used() == "2"
    await cluster.admin.delete("v1/Pod", "in", namespace)

    async def free_again() -> bool:
        return await used() == "0"

    await wait_until(free_again, "the deleted pod's GPUs are counted out")


async def test_what_an_object_owned_goes_after_it(cluster: Cluster, namespace: str) -> None:
    owner = await cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "owner", "namespace": namespace},
        }
    )
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    await cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "owned",
                "namespace": namespace,
                "ownerReferences": [reference],
            },
        }
    )
    await cluster.admin.delete("v1/ConfigMap", "owner", namespace)

    async def gone() -> bool:
        return await cluster.admin.find("v1/Secret", "owned", namespace) is None

    await wait_until(gone, "the garbage collector removes the owned Secret")


async def test_a_deleted_namespace_goes_with_all_that_is_in_it(
    cluster: Cluster, namespace: str
) -> None:
    await cluster.admin.create(gpu_pod("left", namespace, "nowhere", gpus=1))
    await cluster.admin.delete("v1/Namespace", namespace)

    async def gone() -> bool:
        return await cluster.admin.find("v1/Namespace", namespace) is None

    await wait_until(gone, "the namespace is gone")


async def test_a_tenant_may_do_in_its_namespace_what_its_role_says_and_nothing_elsewhere(
    cluster: Cluster, namespace: str
) -> None:
    user = tenant_user(namespace, "view")
    await cluster.admin.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "view", "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "view",
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": f"{namespace}-view",
                }
            ],
        }
    )
    tenant = cluster.api(user)

    async def may_read() -> bool:
        answer = await tenant.request("GET", f"/api/v1/namespaces/{namespace}/pods")
        return answer.status == 200

    await wait_until(may_read, "the role binding is in force")
    with pytest.raises(Refused) as elsewhere:
        await tenant.list("v1/Pod", "default")
    assert elsewhere.value.code == 403
    with pytest.raises(Refused) as write:
        await tenant.create(gpu_pod("mine", namespace, "nowhere", gpus=1))
    assert write.value.code == 403
    listed = await cluster.kubectl("get", "pods", user=user, namespace=namespace)
    assert listed.code == 0
    assert listed.stderr == f"No resources found in {namespace} namespace.\n"


async def test_users_are_who_their_certificates_say(cluster: Cluster) -> None:
    user = User("some:body", ("group-a", "group-b"))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await cluster.api(user).call(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review
    )
    info = answer["status"]["userInfo"]
    assert info["username"] == "some:body"
    assert info["groups"] == ["group-a", "group-b", "system:authenticated"]


async def test_kubectl_is_the_real_one_of_the_same_version(cluster: Cluster) -> None:
    output = await cluster.kubectl("version", "-o", "json")
    versions = json.loads(output.checked)
    assert versions["clientVersion"]["gitVersion"] == "v1.36.3"
    assert versions["serverVersion"]["gitVersion"] == "v1.36.3"


async def test_a_watch_tells_every_change(cluster: Cluster, namespace: str) -> None:
    async with cluster.admin.watch("v1/ConfigMap", namespace, timeoutSeconds="30") as events:
        settings: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": namespace},
        }
        await cluster.admin.apply(settings)
        await cluster.admin.patch("v1/ConfigMap", "settings", {"data": {"a": "b"}}, namespace)
        await cluster.admin.delete("v1/ConfigMap", "settings", namespace)
        seen = []
        async for event in events:
            if event["object"]["metadata"]["name"] == "settings":
                seen.append((event["type"], event["object"].get("data")))
            if event["type"] == "DELETED":
                break
    assert seen == [("ADDED", None), ("MODIFIED", {"a": "b"}), ("DELETED", {"a": "b"})]
