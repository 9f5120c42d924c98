"""A running control plane as its users see it: what a test holds."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.access import ADMIN, Access, User
from tests.cluster.api import Api, Object
from tests.cluster.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Output:
    """What a kubectl command ended with."""

    command: str
    code: int
    stdout: str
    stderr: str

    @property
    def checked(self) -> str:
        """What it printed, when it succeeded.

        Raises:
            AssertionError: when it did not, with what it said.
        """
        assert self.code == 0, f"{self.command} ended with {self.code}: {self.stderr.strip()}"
        return self.stdout


@dataclass(slots=True)
class Cluster:
    """Clients of one control plane, for any user."""

    access: Access
    controlplane: Path
    """The binary that contains kubectl."""

    _apis: dict[User | None, Api] = field(default_factory=dict)

    @property
    def admin(self) -> Api:
        """The API as the user who may do anything."""
        return self.api(ADMIN)

    def api(self, user: User | None) -> Api:
        """The API as a user, made at the first call; None shows no certificate."""
        if user not in self._apis:
            self._apis[user] = Api.connect(self.access.server, self.access.tls(user))
        return self._apis[user]

    async def close(self) -> None:
        """Close all clients."""
        for api in self._apis.values():
            await api.close()
        self._apis.clear()

    async def kubectl(
        self,
        *arguments: str,
        user: User = ADMIN,
        namespace: str | None = None,
        stdin: str | None = None,
        cache: Path | None = None,
    ) -> Output:
        """Run the real kubectl to its end.

        Args:
            arguments: as on its command line.
            user: whose kubeconfig it gets.
            namespace: the default of that kubeconfig's context.
            stdin: for `-f -`.
            cache: where kubectl remembers for hours what was served; nowhere by default, so
                that each call sees what is served now.
        """
        with tempfile.TemporaryDirectory(prefix="kubectl-") as forgotten:
            process = await asyncio.create_subprocess_exec(
                self.controlplane,
                "kubectl",
                *arguments,
                env=kubectl_environ(
                    self.access.kubeconfig(user, namespace), cache or Path(forgotten)
                ),
                stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                out, err = await process.communicate(stdin.encode() if stdin is not None else None)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        command = " ".join(("kubectl", *arguments))
        return Output(command, process.returncode or 0, out.decode(), err.decode())

    async def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Object:
        """Create a namespace and wait until pods can be created in it."""
        namespace = await self.admin.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": dict(labels or {})},
            }
        )
        await wait_until(
            lambda: self.admin.find("v1/ServiceAccount", "default", name),
            f"namespace {name} got its default service account",
        )
        return namespace


def kubectl_environ(kubeconfig: Path, cache: Path) -> dict[str, str]:
    """The environment of a kubectl that heeds no other settings of this user."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "TERM") if name in os.environ}
    return {**kept, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache), "KUBERC": "off"}
