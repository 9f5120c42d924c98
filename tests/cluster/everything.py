"""All that `make up` keeps: a control plane, ours on it as installed, and KubeVirt's stand-in."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from tests.cluster.access import ADMIN, tenant_user
from tests.cluster.binder import Binder
from tests.cluster.build import Binaries
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.processes import Process
from tests.cluster.waiting import wait_until
from tests.kubevirt import kinds

TENANT = "tenant-acme"
"""The tenant of `.run/tenant.kubeconfig`; the demo gives it budgets and VMs."""

KUBEVIRT = "tests.kubevirt"
"""The stand-in, as a module that is run."""

Tell = Callable[[str], Awaitable[None]]


class Everything:
    """What runs on a control plane; `refresh` takes up manifests and code as they are now."""

    def __init__(self, plane: ControlPlane, flags: Sequence[str] = ()) -> None:
        self.plane = plane
        self.catalog = Catalog(plane)
        self._binder = Binder(plane, flags=flags)
        self._kubevirt: Process | None = None

    async def install(self) -> None:
        """Install and start all of it, and wait until admission is in force."""
        await kinds.install(self.plane.cluster)
        await self.catalog.install()
        await self.catalog.enforce()
        await self._binder.start()
        await self._start_kubevirt()

    async def refresh(self) -> None:
        """Apply the manifests again, and start our processes anew."""
        await self._stop_kubevirt()
        await kinds.install(self.plane.cluster)
        await self.catalog.apply_base()
        await self.catalog.restart()
        await self.catalog.apply_service()
        await self.catalog.enforce()
        await self._binder.restart()
        await self._start_kubevirt()

    async def stop(self) -> None:
        """Stop our processes."""
        await self._stop_kubevirt()
        await self._binder.stop()
        await self.catalog.stop()

    async def _start_kubevirt(self) -> None:
        at = self.plane.at
        command: list[str | Path] = [sys.executable, "-m", KUBEVIRT, "--run", at.folder]
        process = await Process.start(KUBEVIRT, command, at.logs / "kubevirt.log")
        self._kubevirt = process

        async def runs() -> bool:
            process.check()
            return "stand-in runs" in process.words()

        await wait_until(runs, f"KubeVirt's stand-in runs; see {process.log}")

    async def _stop_kubevirt(self) -> None:
        if self._kubevirt is not None:
            await self._kubevirt.stop()


@contextlib.asynccontextmanager
async def everything(
    folder: Path, binaries: Binaries, tell: Tell, flags: Sequence[str] = ()
) -> AsyncIterator[Everything]:
    """All of it in a folder for as long as the block runs.

    Args:
        folder: where all that it writes is.
        binaries: the control plane's programs.
        tell: hears of progress.
        flags: added to the binder's command line.
    """
    await tell("starting etcd, kube-apiserver, controller-manager, scheduler, kwok")
    async with control_plane(folder, binaries) as plane:
        await write_tools(folder, plane)
        running = Everything(plane, flags)
        try:
            await tell("installing manifests/ and starting ours, and KubeVirt's stand-in")
            await running.install()
            yield running
        finally:
            await running.stop()


async def write_tools(folder: Path, plane: ControlPlane) -> None:
    """Write kubectl and the kubeconfigs of the administrator and of a tenant's user."""
    access = plane.cluster.access
    kubeconfig = folder / "kubeconfig"
    kubectl = folder / "bin" / "kubectl"
    kubectl.parent.mkdir(exist_ok=True)
    kubectl.write_text(
        "#!/bin/sh\n"
        "# The real kubectl; unless KUBECONFIG says otherwise, as the administrator.\n"
        f'[ -n "${{KUBECONFIG-}}" ] || KUBECONFIG={shlex.quote(str(kubeconfig))}\n'
        f"KUBECACHEDIR={shlex.quote(str(folder / 'users' / 'cache'))}\n"
        "export KUBECONFIG KUBECACHEDIR\n"
        f'exec {shlex.quote(str(plane.cluster.controlplane))} kubectl "$@"\n'
    )
    kubectl.chmod(0o755)
    user = tenant_user(TENANT)
    await plane.cluster.create_namespace(TENANT)
    await plane.cluster.admin.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": user.groups[0], "namespace": TENANT},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": user.groups[0],
                }
            ],
        }
    )
    shutil.copy2(access.kubeconfig(user, TENANT), folder / "tenant.kubeconfig")
    shutil.copy2(access.kubeconfig(ADMIN), kubeconfig)
