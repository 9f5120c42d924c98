"""Our API server hangs, and the binder goes on (rule 6.3)."""

from __future__ import annotations

from collections.abc import Callable

from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import replicas
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane
from tests.cluster.processes import suspended
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w


async def test_a_vm_that_was_admitted_starts_while_our_server_hangs(
    server: Catalog, whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]
) -> None:
    """Its claim is made past the webhook: with it, no try would ever be answered."""
    life = await Life.begin(whole, recorder, unique)
    node = await life.node(1)
    await life.machine("train", 1)

    async def waits() -> bool:
        return bool(await life.api.list(w.POD, life.namespace))

    await wait_until(waits, "its pod was made")
    async with replicas(whole, unique) as start:
        with suspended(server.component.process):
            leader = await start()
            await leader.until_in_office()
            assert await life.until_running("train") == node
