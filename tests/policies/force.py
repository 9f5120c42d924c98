"""Policies come into force, and lose it, some moments after they are written."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Iterable

from shared import vocabulary as words
from tests.catalog.objects import claim, gpu_class
from tests.cluster.api import Object
from tests.cluster.install import WEBHOOKS
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.policies.attempts import DRY, Attempt
from tests.policies.scene import NAMESPACE, ONE, Scene, vmi

POLICY = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"


async def until_refused(cluster: Cluster, scene: Scene, attempts: Iterable[Attempt]) -> None:
    """Wait until each of these is refused by its policy."""
    for attempt in attempts:

        async def refused(attempt: Attempt = attempt) -> bool:
            return attempt.policy in await attempt.refusal(cluster, scene)

        await wait_until(refused, f"{attempt.policy} refuses: {attempt.named}")


async def until_let_in(cluster: Cluster, scene: Scene, attempt: Attempt) -> None:
    """Wait until it is let in."""

    async def let_in() -> bool:
        return not await attempt.refusal(cluster, scene)

    await wait_until(let_in, f"{attempt.policy} lets in: {attempt.named}")


async def remove_webhooks(cluster: Cluster, scene: Scene) -> None:
    """Delete the webhooks, and wait until nobody is asked any more, by whom no policy stops."""
    admin = cluster.admin
    for kind in WEBHOOKS:
        await admin.delete(f"admissionregistration.k8s.io/v1/{kind}", words.GROUP)
    asked = (
        scene.launcher(),
        vmi("asked", {words.ANNOTATION_CLASSES: ONE}),
        claim(NAMESPACE, "asked", "guarded", 1),
        gpu_class("asked", "nvidia.com/ASKED"),
    )
    for made in asked:
        path = await admin.path(f"{made['apiVersion']}/{made['kind']}", NAMESPACE)

        async def let_in(path: str = path, made: Object = made) -> bool:
            return (await admin.request("POST", path, made, query=DRY)).status == 201

        await wait_until(let_in, f"no webhook is called for a {made['kind']}")


@contextlib.asynccontextmanager
async def changed(
    cluster: Cluster, policy: str, change: Callable[[Object], None]
) -> AsyncIterator[None]:
    """A policy is another one for as long as the block runs."""
    found = await cluster.admin.get(POLICY, policy)
    spec = copy.deepcopy(found["spec"])
    change(found["spec"])
    await cluster.admin.patch(POLICY, policy, [_spec(found["spec"])])
    try:
        yield
    finally:
        await cluster.admin.patch(POLICY, policy, [_spec(spec)])


def _spec(spec: Object) -> Object:
    return {"op": "replace", "path": "/spec", "value": spec}
