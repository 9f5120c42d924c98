"""Where the API server does not know the kind of a parameter, pods are made all the same (6.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import vocabulary as words
from tests.catalog.objects import CLAIM, claim
from tests.cluster.api import Object
from tests.cluster.build import Binaries
from tests.cluster.install import MANIFESTS, Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.waiting import wait_until
from tests.kubevirt import kinds
from tests.policies import raw_names
from tests.policies.attempts import creates, patches, policy_name
from tests.policies.changes import booking
from tests.policies.force import changed, until_refused
from tests.policies.people import TENANT, introduce
from tests.policies.raw_names import by
from tests.policies.scene import EPOCH, GPU, NAMESPACE, Scene, pod
from tests.policies.system import make_system

CRD = "apiextensions.k8s.io/v1/CustomResourceDefinition"
UNKNOWN = "failed to configure policy: failed to find resource referenced by paramKind"
RAW_PODS = [each for each in raw_names.ATTACKS if each.named == "a pod with a GPU"]
A_POD = by(TENANT, "a pod that asks for nothing", creates(lambda _: pod("p")))


@pytest.fixture
async def withdrawn(binaries: Binaries, run: Path) -> AsyncIterator[ControlPlane]:
    """One of its own with the optional policy in force, since its CRDs and API server go."""
    async with control_plane(run / "withdrawn", binaries) as plane:
        cluster, catalog = plane.cluster, Catalog(plane)
        await kinds.install(cluster, kinds.KUBEVIRT, kinds.COZYSTACK)
        await catalog.apply_base()
        await cluster.create_namespace(NAMESPACE)
        await introduce(cluster, NAMESPACE)
        await make_system(cluster, {"epoch": EPOCH, "resourceNames": [GPU]})
        await cluster.admin.create(claim(NAMESPACE, "order", "guarded", 1))
        await catalog.apply_policies(["raw-names"])
        await until_refused(cluster, Scene(), RAW_PODS)
        yield plane
        plane.check()


async def test_without_the_kind_of_the_parameter_pods_are_made_and_with_it_judged_again(
    withdrawn: ControlPlane,
) -> None:
    cluster, server = withdrawn.cluster, withdrawn.components["kube-apiserver"]
    definition = f"{words.RESOURCE_SYSTEMS}.{words.GROUP}"
    await cluster.admin.delete(CRD, definition)

    async def is_gone() -> bool:
        return await cluster.admin.find(CRD, definition) is None

    await wait_until(is_gone, "the kind is gone")
    await server.kill()  # asked to end it would wait a minute for those who watch
    await server.start()
    books = patches(CLAIM, "order", booking(EPOCH), "status")

    async def is_unknown() -> bool:
        reply = await books(cluster, Scene(), cluster.admin)
        return UNKNOWN in str(reply.body.get("message"))

    # The other policy with that parameter is closed then, and guards the status of claims alone.
    await wait_until(is_unknown, "the API server looked for the kind and found none")
    assert await A_POD.refusal(cluster, Scene()) == ""
    for attempt in RAW_PODS:
        assert await attempt.refusal(cluster, Scene()) == ""

    def close(spec: Object) -> None:
        spec["failurePolicy"] = "Fail"

    async def is_stopped() -> bool:
        reply = await A_POD.answer(cluster, Scene())
        return UNKNOWN in str(reply.body.get("message"))

    async with changed(cluster, policy_name("raw-name"), close):
        await wait_until(is_stopped, "a policy that fails closed stops every pod")

    async def is_made() -> bool:
        return (await A_POD.answer(cluster, Scene())).status == 201

    await wait_until(is_made, "pods are made again")

    applied = await cluster.kubectl("apply", "-k", str(MANIFESTS / "crds"))
    assert applied.checked
    await make_system(cluster, {"epoch": EPOCH, "resourceNames": [GPU]})
    await until_refused(cluster, Scene(), RAW_PODS)
    assert await A_POD.refusal(cluster, Scene()) == ""
