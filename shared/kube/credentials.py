"""How to reach the API server and as whom: from a pod's mounted service account or a kubeconfig.

Both become one value that can be compared with the next reading. Nothing here caches: tokens,
certificates and CAs are replaced on disk while a process runs, and `shared.kube.connect` reads
again.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from typing_extensions import override

_MOUNTED: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet puts them (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/)."""


class CredentialsError(Exception):
    """Credentials cannot be read; the message says which, and never what they are."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the API server is, how it proves itself, and how we do.

    Attributes:
        server: base URL without a trailing slash.
        authority: PEM of the certificates that the server's is checked against; empty means the
            system's.
        certificate: PEM of the client certificate, empty where there is none; `key` likewise.
        authorization: the header of that name, empty where there is none.
        server_name: what the server's certificate is checked for, where that is not its host.
        verify: False only where a kubeconfig says `insecure-skip-tls-verify`.
        proxy: a kubeconfig's `proxy-url`. The environment's proxies are never used: they are
            about the outside, and none of them knows the cluster's addresses.
    """

    server: str
    authority: bytes = b""
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    certificate_files: tuple[str, str] | None = field(default=None, compare=False)
    authorization: str = field(default="", repr=False)
    server_name: str | None = None
    verify: bool = True
    proxy: str | None = field(default=None, repr=False)

    def same_tls(self, other: Credentials) -> bool:
        """Whether connections made with the one serve for the other."""
        return (self.authority, self.certificate, self.key, self.verify, self.server_name) == (
            other.authority,
            other.certificate,
            other.key,
            other.verify,
            other.server_name,
        )

    def context(self) -> ssl.SSLContext:
        """Settings for TLS. Reads the client certificate's files; call it off the loop.

        Raises:
            CredentialsError: certificate, key or authority do not fit or are no PEM.
        """
        try:
            context = ssl.create_default_context(
                cadata=self.authority.decode("ascii") if self.authority else None
            )
            # Clusters' own authorities often lack extensions that strict checks of newer Pythons
            # ask for. Go, which all other Kubernetes clients are written in, does not ask.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.certificate_files is not None:
                context.load_cert_chain(*self.certificate_files)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise CredentialsError(f"the TLS credentials do not fit: {error}") from error
        return context


class Source(Protocol):
    """Where credentials are read from, as often as asked."""

    async def read(self) -> Credentials:
        """Read them now.

        Raises:
            CredentialsError: missing, empty or not understood.
        """
        ...


@dataclass(frozen=True, slots=True)
class InCluster:
    """A pod's service account. Never falls back to a kubeconfig of the machine.

    Attributes:
        environment: where KUBERNETES_SERVICE_HOST and _PORT are looked up.
    """

    token_file: Path = _MOUNTED / "token"
    authority_file: Path = _MOUNTED / "ca.crt"
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    async def read(self) -> Credentials:
        """Read token and CA from their files, the address from the environment.

        Raises:
            CredentialsError: not in a cluster, or a file is missing or empty.
        """
        return await asyncio.to_thread(self._read)

    def _read(self) -> Credentials:
        host = self.environment.get("KUBERNETES_SERVICE_HOST", "")
        port = self.environment.get("KUBERNETES_SERVICE_PORT", "")
        try:
            token = self.token_file.read_text().strip()
            authority = self.authority_file.read_bytes()
        except OSError as error:
            raise CredentialsError(self._told(str(error))) from error
        if not (host and port and token and authority):
            raise CredentialsError(self._told("one of them is empty."))
        address = f"[{host}]" if ":" in host else host
        return Credentials(
            server=f"https://{address}:{port}",
            authority=authority,
            authorization=f"Bearer {token}",
        )

    def _told(self, problem: str) -> str:
        return (
            f"no credentials of a service account: {problem} Expected the environment variables "
            f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT and the files "
            f"{self.token_file} and {self.authority_file}; outside a cluster name a kubeconfig"
        )

    @override
    def __str__(self) -> str:
        return "service account"
