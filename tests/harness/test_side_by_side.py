"""A test may have a control plane of its own, beside that of the run."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.build import Binaries
from tests.cluster.components import Options
from tests.cluster.plane import control_plane
from tests.cluster.processes import is_alive
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.harness.test_control_plane import condition, gpu_node, gpu_pod


async def test_a_control_plane_of_its_own_can_lose_a_node_and_tells_what_was_done(
    cluster: Cluster, binaries: Binaries, run: Path
) -> None:
    options = Options(
        audit=True, node_lease_seconds=8, node_grace_seconds=8, kwok_selector="kubelet=alive"
    )
    async with control_plane(run / "own", binaries, options) as own:
        admin = own.cluster.admin
        node = gpu_node("only-here", gpus=1)
        node["metadata"]["labels"]["kubelet"] = "alive"
        await admin.create(node)
        assert await cluster.admin.find("v1/Node", "only-here") is None

        async def ready(wanted: str) -> bool:
            seen = condition(await admin.get("v1/Node", "only-here"), "Ready")
            return seen.get("status") == wanted

        await wait_until(lambda: ready("True"), "the node is ready")
        await own.cluster.create_namespace("audited")
        await admin.create(gpu_pod("seen", "audited", "only-here", gpus=1))

        async def runs() -> bool:
            pod = await admin.get("v1/Pod", "seen", "audited")
            return bool(pod["status"]["phase"] == "Running")

        await wait_until(runs, "the pod runs")
        bound = [
            event["user"]["username"]
            for event in own.audit_events()
            if event["objectRef"].get("subresource") == "binding"
        ]
        assert bound == ["system:kube-scheduler"]

        patch = {"metadata": {"labels": {"kubelet": None}}}
        await admin.patch("v1/Node", "only-here", patch)
        await wait_until(lambda: ready("Unknown"), "the node without its kubelet is lost")
        own.check()
        processes = [part.process.pid for part in own.components.values() if part.process]
        assert len(processes) == 5
    assert [pid for pid in processes if is_alive(pid)] == []


async def test_a_component_can_be_stopped_and_started_where_it_was(
    binaries: Binaries, run: Path
) -> None:
    async with control_plane(run / "drill", binaries) as plane:
        await plane.cluster.create_namespace("drill")
        await plane.cluster.admin.create(gpu_node("node", gpus=1))

        async def ready() -> bool:
            # Ready is kwok's to say; the taint goes once kube-controller-manager has seen it.
            node = await plane.cluster.admin.get("v1/Node", "node")
            is_ready = condition(node, "Ready").get("status") == "True"
            return is_ready and not node["spec"].get("taints")

        await wait_until(ready, "kwok took the node")
        await plane.components["kube-scheduler"].stop()
        await plane.components["kube-apiserver"].kill()
        await plane.components["kube-apiserver"].start()
        await plane.cluster.admin.create(gpu_pod("waits", "drill", "node", gpus=1))
        await plane.components["kube-scheduler"].start()

        async def runs() -> bool:
            pod = await plane.cluster.admin.get("v1/Pod", "waits", "drill")
            return bool(pod["status"]["phase"] == "Running")

        await wait_until(runs, "the pod runs once there is a scheduler again")
