"""Who calls the API server, and with which credentials."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shared import vocabulary
from tests.cluster.keys import Authority, Pair

Clock = Callable[[], datetime.datetime]


@dataclass(frozen=True, slots=True)
class User:
    """A user as the API server sees it; `system:authenticated` is added by the server."""

    name: str
    groups: tuple[str, ...] = ()


def service_account(namespace: str, name: str) -> User:
    """The user that a pod with this service account is: RBAC for the account applies."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def tenant_user(tenant: str, role: str = "admin") -> User:
    """A person of a tenant: Cozystack binds its roles to groups named after tenant and role."""
    return User(f"{tenant}-user", (f"{tenant}-{role}",))


ADMIN = User("admin", ("system:masters",))
CONTROLLER_MANAGER = User("system:kube-controller-manager")
SCHEDULER = User("system:kube-scheduler")
GPU_APISERVER = service_account(vocabulary.NAMESPACE, "gpu-apiserver")
GPU_BINDER = service_account(vocabulary.NAMESPACE, "gpu-binder")


@dataclass(frozen=True, slots=True)
class Access:
    """Makes credentials for any user of one control plane.

    `server` is the API server's address and port; `serving_ca` the file with what it is trusted
    by. Credentials are made once and kept in `folder`.
    """

    folder: Path
    server: str
    serving_ca: Path
    client_ca: Authority
    clock: Clock

    def kubeconfig(self, user: User, namespace: str | None = None) -> Path:
        """A file for `kubectl --kubeconfig` that stands alone, with the namespace as default."""
        path = self.folder / f"{_file_name(user)}@{namespace or 'default'}.kubeconfig"
        if not path.exists():
            pair = self._pair(user)
            content = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": "local",
                        "cluster": {
                            "server": self.server,
                            "certificate-authority-data": _encoded(self.serving_ca),
                        },
                    }
                ],
                "users": [
                    {
                        "name": user.name,
                        "user": {
                            "client-certificate-data": _encoded(pair.certificate),
                            "client-key-data": _encoded(pair.key),
                        },
                    }
                ],
                "contexts": [
                    {
                        "name": "local",
                        "context": {
                            "cluster": "local",
                            "user": user.name,
                            "namespace": namespace or "default",
                        },
                    }
                ],
                "current-context": "local",
            }
            path.touch(mode=0o600)
            path.write_text(json.dumps(content, indent=2))  # JSON is YAML
        return path

    def tls(self, user: User | None) -> ssl.SSLContext:
        """A client's TLS settings: trusts the API server and shows who the user is, if any."""
        context = ssl.create_default_context(cafile=self.serving_ca)
        if user is not None:
            pair = self._pair(user)
            context.load_cert_chain(pair.certificate, pair.key)
        return context

    def _pair(self, user: User) -> Pair:
        files = Pair.at(self.folder, _file_name(user))
        if not files.certificate.exists():
            self.client_ca.client(files, user.name, user.groups, self.clock())
        return files


def _file_name(user: User) -> str:
    """A file name for a user: readable, and different for other groups."""
    mark = hashlib.sha256(repr(user).encode()).hexdigest()[:8]
    return f"{re.sub('[^a-z0-9-]+', '-', user.name.lower())}-{mark}"


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
