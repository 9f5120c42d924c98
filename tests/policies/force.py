"""Policies come into force, and lose it, some moments after they are written."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Iterable

from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.policies.attempts import Attempt
from tests.policies.scene import Scene

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
