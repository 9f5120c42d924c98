"""Our arithmetic beside Kubernetes' own, asked on the real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.kube.podspec import requests
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

TABLE = json.loads((Path(__file__).parents[1] / "data/quantities.json").read_text())
KEY = "requests.a100.gpuclass.gpu.cozystack.io/units"


async def made_of(cluster: Cluster, namespace: str, text: str) -> str | None:
    """What the API server makes of a quantity: what it stores or names, None where refused."""
    path = await cluster.admin.path("v1/ResourceQuota", namespace)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {KEY: text}},
    }
    # In ASCII: blanks beyond it are trimmed where they stand in the body, but not where escaped.
    body = json.dumps(quota).encode()
    reply = await cluster.admin.request("POST", path, body, query={"dryRun": "All"})
    match reply.status:
        case 201:
            stored: str = reply.body["spec"]["hard"][KEY]
            return stored
        case 422:
            message: str = reply.body["message"]
            return message.partition('Invalid value: "')[2].partition('"')[0]
        case status:
            assert status == 400, reply.text
            return None


async def test_the_table_of_quantities_is_what_the_api_server_says(
    cluster: Cluster, namespace: str
) -> None:
    got = [[text, await made_of(cluster, namespace, text)] for text, _ in TABLE["answers"]]
    assert got == TABLE["answers"]


GPU = "example.com/gpu"


def container(name: str, gpus: int, restart: str = "") -> dict[str, Any]:
    amounts = {GPU: str(gpus)}
    made = {"name": name, "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {**made, "restartPolicy": restart} if restart else made


@pytest.mark.parametrize(
    ("inits", "containers"),
    [
        pytest.param([], [1, 2], id="containers"),
        pytest.param([3], [1, 1], id="a large init container"),
        pytest.param([1, 2], [2, 1], id="small init containers"),
        pytest.param(["2"], [1], id="a sidecar"),
        pytest.param(["2", 3], [1], id="an init container beside a sidecar"),
        pytest.param([3, "2"], [1], id="an init container before a sidecar"),
        pytest.param([4, "1", "1", 5, "1"], [1, 1], id="all of it"),
    ],
)
async def test_a_pods_request_is_what_kubernetes_own_quota_counts(
    cluster: Cluster, namespace: str, inits: list[int | str], containers: list[int]
) -> None:
    """Numbers are init containers, texts are sidecars."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": {f"requests.{GPU}": "100"}},
    }
    await cluster.admin.create(quota)

    async def used() -> str | None:
        got = await cluster.admin.get("v1/ResourceQuota", "q", namespace)
        found: str | None = got.get("status", {}).get("used", {}).get(f"requests.{GPU}")
        return found

    await wait_until(used, "the quota is counted")
    pod = await cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": namespace},
            "spec": {
                "nodeSelector": {"no-such-node": "at-all"},
                "initContainers": [
                    container(f"i{index}", int(each), "Always" if isinstance(each, str) else "")
                    for index, each in enumerate(inits)
                ],
                "containers": [
                    container(f"c{index}", each) for index, each in enumerate(containers)
                ],
            },
        }
    )
    problems: list[str] = []
    assert requests(pod["spec"], pod["status"], problems.append)[GPU] == int(await used() or 0)
    assert problems == []
