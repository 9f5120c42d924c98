"""The binder as a real process on a control plane, as its least privileged user."""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from shared import vocabulary
from tests.cluster.access import GPU_BINDER
from tests.cluster.api import Object
from tests.cluster.components import HOST
from tests.cluster.plane import Component, ControlPlane
from tests.cluster.waiting import wait_until

NAME = "gpu-binder"
PROGRAM = Path(sysconfig.get_path("scripts")) / NAME
SYSTEM = f"{vocabulary.GROUP_VERSION}/{vocabulary.KIND_SYSTEM}"

BRISK = ("--lease-duration=4", "--renew-deadline=2.4", "--retry-period=0.6", "--request-timeout=1")
"""Flags of a binder in a hurry, so that a change of leaders takes seconds."""


class Binder:
    """One replica. The manifests are applied: `tests.cluster.install`.

    Args:
        plane: where it works.
        name: of the replica, which its log has too.
        flags: added to its command line.
        kubeconfig: another than that of the binder's account.
        program: what to start with the binder's flags instead of it.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str = NAME,
        flags: Sequence[str] = (),
        kubeconfig: Path | None = None,
        program: Sequence[str | Path] = (PROGRAM,),
    ) -> None:
        self.plane = plane
        config = kubeconfig or plane.cluster.access.kubeconfig(GPU_BINDER)
        self.component = Component(
            name,
            plane.at.logs / f"{name}.log",
            1,
            lambda port: [*program, *_flags(config, port), *flags],
            lambda port: f"http://{HOST}:{port}/readyz",
            None,
            random.Random(),
        )

    async def start(self) -> None:
        """Start it, and wait until it is ready to lead."""
        await self.component.start()

    async def stop(self) -> None:
        """End it in its own way."""
        await self.component.stop()

    async def restart(self) -> None:
        """Stop it and start it again, with the code as it is now."""
        await self.stop()
        await self.start()


async def system(plane: ControlPlane) -> Object:
    """The GPUSystem, once a term has begun and its state was reported."""

    async def reported() -> Object | None:
        found = await plane.cluster.admin.find(SYSTEM, vocabulary.SYSTEM_NAME)
        return found if "conditions" in (found or {}).get("status", {}) else None

    return await wait_until(reported, f"the binder reported; see {plane.at.logs}")


def _flags(kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={HOST}",
        f"--health-port={port}",
    ]
