"""What is read for placing suffices for it: pins, refusals and volumes of real pods."""

from __future__ import annotations

import json
from typing import Any

from shared.core.model import Gone, Node, Pod, Vmi, Volume, VolumeClaim
from shared.core.placing import PodPlacing, VmiPlacing, VmiVolume
from shared.core.rooms import Rooms
from shared.core.scheduling import NodeTerm, PodTerm, Requirement, Selector
from shared.kube.collections import PLACING
from tests.cluster.api import JSON_PATCH, Object
from tests.cluster.waiting import wait_until
from tests.kube.following import Following, credentials, following
from tests.kubevirt import nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import name_of
from tests.kubevirt_live.test_volumes_and_moves import data_volume, local_volume
from tests.kubevirt_live.world import GATE, World

TERMS = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
OBSOLETE = Requirement("node-labeller.kubevirt.io/obsolete-host-model", "DoesNotExist")


def read(got: Following, kind: type, namespace: str, name: str) -> Any:  # noqa: ANN401 - of a kind
    """An object as it was read last."""
    return got.held.get((kind.__name__, (namespace, name)))


async def until_read(got: Following, kind: type, namespace: str, name: str) -> Any:  # noqa: ANN401 - of a kind
    """An object, once it was read."""
    await got.until(lambda: read(got, kind, namespace, name), f"{name} is read")
    return read(got, kind, namespace, name)


async def pod_of(got: Following, pod: Object, namespace: str) -> tuple[Pod, PodPlacing]:
    """A pod once it was read, with what placing needs."""
    found = await until_read(got, Pod, namespace, name_of(pod))
    assert found.placing is not None
    return found, found.placing


def pin(pod: Pod, placing: PodPlacing, node: str) -> list[Object]:
    """The one patch of rule 7.8, of nothing but what was read."""
    only: Object = {"key": "metadata.name", "operator": "In", "values": [node]}
    gate = placing.gates.index(GATE)
    patch: list[Object] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": placing.resource_version},
        {"op": "test", "path": f"/spec/schedulingGates/{gate}/name", "value": GATE},
        {"op": "test", "path": "/spec/affinity", "value": json.loads(placing.affinity)},
    ]
    for index, term in enumerate(placing.node_terms or ()):
        place = f"{TERMS}/nodeSelectorTerms/{index}/matchFields"
        if term.fields:
            patch.append({"op": "add", "path": f"{place}/-", "value": only})
        else:
            patch.append({"op": "add", "path": place, "value": [only]})
    return [*patch, {"op": "remove", "path": f"/spec/schedulingGates/{gate}"}]


async def test_a_launcher_is_pinned_by_a_patch_made_of_what_was_read(world: World) -> None:
    node = await world.node()
    zones = [
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": [zone]}]}
        for zone in ("a", "b")
    ]
    apart = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": w.LABEL_HOSTNAME}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": zones}
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
    }
    async with (
        world.gated(),
        world.kubevirt(),
        following(credentials(world.cluster.access), PLACING) as got,
    ):
        await world.machine(affinity=affinity)
        launcher = await world.launcher()
        pod, placing = await pod_of(got, launcher, world.namespace)
        vmi: Vmi = await until_read(got, Vmi, world.namespace, "train")
        assert pod.owner == vmi.uid
        assert placing.gates == (GATE,)
        assert placing.node_terms == tuple(
            NodeTerm((Requirement("zone", "NotIn", (zone,)), OBSOLETE)) for zone in ("a", "b")
        )
        assert placing.node_selector[w.LABEL_SCHEDULABLE] == "true"
        assert pod.presence is not None
        assert pod.presence.labels["app"] == "train"
        other = Selector((Requirement("app", "In", ("other",)),))
        assert pod.presence.anti_affinity == (PodTerm(w.LABEL_HOSTNAME, other),)
        assert not placing.is_started

        def vm_is_read() -> bool:
            now: Vmi = read(got, Vmi, world.namespace, "train")
            return now.placing is not None and now.placing.pods == {pod.uid: ""}

        await got.until(vm_is_read, "the VM lists its pod, on no node yet")

        async def pinned() -> bool:
            """A patch of what has changed since is refused, and made anew of what is read then."""
            pod, placing = await pod_of(got, launcher, world.namespace)
            answer = await world.api.request(
                "PATCH",
                await world.api.path(w.POD, world.namespace, pod.name),
                pin(pod, placing, node),
                headers={"Content-Type": JSON_PATCH},
            )
            assert answer.status == 200 or "/metadata/resourceVersion" in answer.text
            return answer.status == 200

        await wait_until(pinned, "the pod is pinned")
        await world.bound(launcher)

        def placed() -> bool:
            now: Pod = read(got, Pod, world.namespace, pod.name)
            return now.node_name == node and now.placing is not None and now.placing.is_started

        await got.until(placed, "it is read that the pod runs there")
        now: Pod = read(got, Pod, world.namespace, pod.name)
        assert (now.pinned_to, now.placing is not None and now.placing.gates) == (node, ())
        rooms = Rooms()
        for change in got.changes:
            if isinstance(change.object, Pod) and change.object.namespace == world.namespace:
                rooms.apply(change)  # other pods of the control plane may come to any node
        assert {**now.requests, "pods": 1} == rooms.used(node)
        here: Node = read(got, Node, "", node)
        assert all(here.allocatable[name] >= taken for name, taken in rooms.used(node).items())


async def test_a_refusal_is_in_the_last_state_of_a_pod_that_is_gone(world: World) -> None:
    """Rule 7.10: after 60 milliseconds nothing of it can be asked for any more."""
    node = await world.node()
    async with (
        world.gated(),
        world.kubevirt(),
        following(credentials(world.cluster.access), PLACING) as got,
    ):
        await world.machine(by_hand=True)
        launcher = await world.launcher()
        await pod_of(got, launcher, world.namespace)
        await world.release(launcher, node)
        await nodes.refuse(world.api, await world.bound(launcher), world.gpu)
        await got.until(
            lambda: name_of(launcher) in got.gone(world.namespace), "the pod's end is told"
        )
    (last,) = (
        change.object
        for change in got.changes
        if isinstance(change, Gone)
        and isinstance(change.object, Pod)
        and change.object.name == name_of(launcher)
    )
    assert last.placing is not None
    told = (last.placing.phase, last.placing.reason, last.placing.is_started, last.pinned_to)
    assert told == ("Failed", f"OutOf{world.gpu}", False, node)


async def test_a_volume_on_one_node_is_found_by_the_vm_and_by_its_pod(world: World) -> None:
    node = await world.node()
    storage = await local_volume(world, node)
    await data_volume(world, storage)
    async with (
        world.gated(),
        world.kubevirt(),
        following(credentials(world.cluster.access), PLACING) as got,
    ):
        await world.machine(volumes=[{"name": "root", "dataVolume": {"name": "boot"}}])
        temporary = await world.launcher()
        pod, placing = await pod_of(got, temporary, world.namespace)
        assert (placing.is_temporary, placing.volume_claims) == (True, ("boot",))
        claim: VolumeClaim = await until_read(got, VolumeClaim, world.namespace, "boot")
        assert (claim.phase, claim.volume) == ("Pending", "")
        vmi: Vmi = await until_read(got, Vmi, world.namespace, "train")
        assert isinstance(vmi.placing, VmiPlacing)
        assert vmi.placing.volumes == (VmiVolume("boot"),)
        assert vmi.placing.vm_name == "train"
        await world.release(temporary, node)
        await got.until(
            lambda: read(got, VolumeClaim, world.namespace, "boot").phase == "Bound",
            "the volume is bound",
        )
        claim = read(got, VolumeClaim, world.namespace, "boot")
        here = NodeTerm((Requirement(w.LABEL_HOSTNAME, "In", (node,)),))
        assert (await until_read(got, Volume, "", claim.volume)).node_terms == (here,)
    assert pod.owner == vmi.uid
