"""What pods take of a node, beside what the real kube-scheduler makes of the same pods.

A node that has exactly the sum takes all of them; one with a thousandth of a CPU, a byte, a device
or a place less takes all but one, and says what there is too little of.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from shared.core.model import Put
from shared.core.rooms import PODS, Rooms
from shared.kube import decode
from tests.cluster.api import Object
from tests.cluster.components import BY_HAND
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

Unique = Callable[[str], str]
GPU = "example.com/gpu"
GI = 2**30
MI = 2**20


def container(restart: str = "", **amounts: str) -> dict[str, Any]:
    """A container that requests this, and no more of what cannot be overcommitted."""
    names = {"gpu": GPU, "storage": "ephemeral-storage", "huge": "hugepages-2Mi"}
    asked = {names.get(key, key): amount for key, amount in amounts.items()}
    firm = {key: amount for key, amount in asked.items() if "/" in key or "hugepages" in key}
    made: dict[str, Any] = {"image": "none", "resources": {"requests": asked, "limits": firm}}
    return made | ({"restartPolicy": restart} if restart else {})


def spec(
    *containers: dict[str, Any], inits: Sequence[dict[str, Any]] = (), **more: object
) -> dict[str, Any]:
    """A pod's spec; containers get their names here."""
    return {
        "containers": [{"name": f"c{n}", **each} for n, each in enumerate(containers)],
        "initContainers": [{"name": f"i{n}", **each} for n, each in enumerate(inits)],
        **more,
    }


TABLE: dict[str, tuple[list[dict[str, Any]], dict[str, int]]] = {
    "containers add up": (
        [spec(container(cpu="100m", memory="1Gi", gpu="2"), container(cpu="1", memory="1M"))],
        {"cpu": 1100, "memory": GI + 10**6, GPU: 2, PODS: 1},
    ),
    "parts of a byte are rounded up after adding, for each pod": (
        [
            spec(container(memory="100m"), container(memory="800m")),
            spec(container(memory="100m"), container(memory="1")),
        ],
        {"memory": 1 + 2, PODS: 2},
    ),
    "an init container counts where it asks more": (
        [
            spec(
                container(cpu="500m", gpu="1"),
                container(cpu="500m", gpu="1"),
                inits=[container(cpu="3", gpu="1"), container(cpu="2", gpu="3")],
            )
        ],
        {"cpu": 3000, GPU: 3, PODS: 1},
    ),
    "a sidecar adds, also to the init containers after it": (
        [
            spec(
                container(cpu="1", memory="64Mi"),
                inits=[
                    container(cpu="1500m", memory="1Mi"),
                    container("Always", cpu="250m", memory="16Mi"),
                    container(cpu="1200m", memory="8Mi"),
                ],
            )
        ],
        {"cpu": 1500, "memory": 80 * MI, PODS: 1},
    ),
    "huge pages and storage": (
        [spec(container(cpu="1", huge="4Mi", storage="1G"), container(cpu="1", storage="50M"))],
        {"cpu": 2000, "hugepages-2Mi": 4 * MI, "ephemeral-storage": 1_050_000_000, PODS: 1},
    ),
    "a pod's own request stands for those of its containers": (
        [
            spec(
                container(cpu="100m", memory="1Gi", gpu="1"),
                container(cpu="100m"),
                resources={"requests": {"cpu": "2", "memory": "3Gi"}},
            )
        ],
        {"cpu": 2000, "memory": 3 * GI, GPU: 1, PODS: 1},
    ),
    "pods that ask for nothing take a place each": (
        [spec(container()), spec(container())],
        {PODS: 2},
    ),
    "what it takes to run a pod comes on top": (
        [spec(container(cpu="1", memory="1Gi"), runtimeClassName="sandbox")],
        {"cpu": 1250, "memory": GI + 64 * MI, PODS: 1},
    ),
}

LACKING = re.compile(r"Insufficient [\w./-]*\w|Too many pods")
AMPLE = {
    "cpu": 64_000,
    "memory": 2**40,
    "ephemeral-storage": 2**40,
    "hugepages-2Mi": 2**30,
    GPU: 100,
    PODS: 110,
}


def node(name: str, allocatable: Mapping[str, int]) -> Object:
    amounts = {
        resource: f"{amount}m" if resource == "cpu" else str(amount)
        for resource, amount in allocatable.items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


class Scheduled:
    """Some pods, each told to go to one node, and what the scheduler made of that."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name

    async def begin(self, allocatable: Mapping[str, int], specs: Sequence[dict[str, Any]]) -> None:
        """Make the node and the pods, one after the other."""
        await self.cluster.admin.create(node(self.name, AMPLE | dict(allocatable)))
        for number, each in enumerate(specs):
            await self.add(f"{self.name}-{number}", each)

    async def add(self, name: str, spec: dict[str, Any], **metadata: object) -> None:
        """Make one more pod."""
        await self.cluster.admin.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": self.namespace, **metadata},
                "spec": {
                    **spec,
                    "nodeSelector": {"kubernetes.io/hostname": self.name},
                    "tolerations": [{"operator": "Exists"}],  # a new node is not ready yet
                },
            }
        )

    async def pods(self) -> list[Object]:
        """Those of this node, as they are now."""
        found = await self.cluster.admin.list("v1/Pod", self.namespace)
        wanted = {"kubernetes.io/hostname": self.name}
        return [pod for pod in found if pod["spec"]["nodeSelector"] == wanted]

    async def outcome(self) -> tuple[int, list[str]]:
        """How many were placed, and what the others lacked, once that is said of every one."""

        async def judged() -> tuple[int, list[str]] | None:
            pods = await self.pods()
            placed = sum("nodeName" in pod["spec"] for pod in pods)
            said = (
                condition.get("message", "")
                for pod in pods
                for condition in pod["status"].get("conditions", ())
                if condition["type"] == "PodScheduled" and condition["status"] == "False"
            )
            refused = [each for each in said if LACKING.search(each)]
            return (placed, refused) if placed + len(refused) == len(pods) else None

        return await wait_until(judged, f"the scheduler has judged every pod of {self.name}")


def sums(pods: Sequence[Object], name: str) -> Mapping[str, int]:
    """What we make of the pods on a node."""
    rooms, problems = Rooms(), list[str]()
    for pod in pods:
        rooms.apply(Put(decode.pod(pod, problems.append)))
    assert not problems
    return rooms.used(name)


@pytest.fixture(scope="module")
async def sandbox(cluster: Cluster) -> str:
    """A runtime whose pods cost more than their containers."""
    made = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "handler": "sandbox",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
    }
    await cluster.admin.apply(made)
    return "sandbox"


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("case", TABLE)
async def test_a_node_with_exactly_the_sum_takes_all_pods_and_with_one_less_all_but_one(
    cluster: Cluster, namespace: str, unique: Unique, case: str
) -> None:
    specs, total = TABLE[case]
    exact = Scheduled(cluster, namespace, unique("node"))
    short = {resource: Scheduled(cluster, namespace, unique("node")) for resource in total}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(exact.begin(total, specs))
        for resource, each in short.items():
            tasks.create_task(each.begin(total | {resource: total[resource] - 1}, specs))
    assert await exact.outcome() == (len(specs), [])
    assert sums(await exact.pods(), exact.name) == total
    for resource, each in short.items():
        placed, refused = await each.outcome()
        assert placed == len(specs) - 1
        why = "Too many pods" if resource == PODS else f"Insufficient {resource}"
        assert [LACKING.findall(each) for each in refused] == [[why]]


@pytest.mark.parametrize(
    ("said", "conditions", "left"),
    [
        pytest.param({"cpu": "3"}, [], 1000, id="not yet made smaller"),
        pytest.param({"cpu": "500m"}, [], 2000, id="not yet made larger"),
        pytest.param(
            {"cpu": "500m"},
            [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            3500,
            id="never to be made larger",
        ),
    ],
)
async def test_a_pod_that_is_resized_takes_what_the_scheduler_says(
    cluster: Cluster,
    namespace: str,
    unique: Unique,
    said: dict[str, str],
    conditions: list[dict[str, str]],
    left: int,
) -> None:
    """A pod of 2 CPUs on a node of 4, of which its node says something else."""
    at = Scheduled(cluster, namespace, unique("node"))
    await at.begin({"cpu": 4000}, [])
    await at.add(f"{at.name}-resized", spec(container(cpu="2")), annotations=BY_HAND)
    assert await at.outcome() == (1, [])
    reported = {
        "name": "c0",
        "image": "none",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "resources": {"requests": said},
        "allocatedResources": said,
    }
    (resized,) = await at.pods()
    kept = resized["status"]["conditions"]
    status = {"conditions": [*kept, *conditions], "containerStatuses": [reported]}
    name = f"{at.name}-resized"
    await cluster.admin.patch("v1/Pod", name, {"status": status}, namespace, subresource="status")
    (resized,) = await at.pods()
    assert sums([resized], at.name) == {"cpu": 4000 - left, PODS: 1}
    await at.add(f"{at.name}-over", spec(container(cpu=f"{left + 1}m")))
    placed, refused = await at.outcome()
    assert (placed, [LACKING.findall(each) for each in refused]) == (1, [["Insufficient cpu"]])
    await at.add(f"{at.name}-fits", spec(container(cpu=f"{left}m")))
    placed, refused = await at.outcome()
    assert (placed, len(refused)) == (2, 1)
