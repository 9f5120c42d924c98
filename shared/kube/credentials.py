"""How to reach the API server and as whom: from a pod's mounted service account or a kubeconfig.

kubernetes_asyncio reads both; this module turns what it read into one value that can be compared
with the next reading. Nothing here caches: tokens, certificates and CAs are replaced on disk
while a process runs, and `shared.kube.connect` reads again.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from typing_extensions import override

# What kubernetes_asyncio raises for a kubeconfig that lacks something or holds something odd.
_MALFORMED = (
    ConfigException,
    OSError,
    ValueError,
    yaml.YAMLError,
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
)


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

    token_file: Path = Path(SERVICE_TOKEN_FILENAME)
    authority_file: Path = Path(SERVICE_CERT_FILENAME)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    async def read(self) -> Credentials:
        """Read token and CA from their files, the address from the environment.

        Raises:
            CredentialsError: not in a cluster, or a file is missing or empty.
        """
        return await asyncio.to_thread(self._read)

    def _read(self) -> Credentials:
        configuration = Configuration()
        try:
            InClusterConfigLoader(
                token_filename=str(self.token_file),
                cert_filename=str(self.authority_file),
                try_refresh_token=False,
                environ=dict(self.environment),
            ).load_and_set(configuration)
            return _credentials(configuration)
        except (ConfigException, OSError) as error:
            raise CredentialsError(
                f"no credentials of a service account: {error} Expected the environment variables "
                f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT and the files "
                f"{self.token_file} and {self.authority_file}; outside a cluster name a kubeconfig"
            ) from error

    @override
    def __str__(self) -> str:
        return "service account"


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A kubeconfig file; `context` is the current one unless named."""

    path: Path
    context: str | None = None

    async def read(self) -> Credentials:
        """Read the file and the files that it names.

        Raises:
            CredentialsError: the file or what it names is missing or wrong.
        """
        configuration = Configuration()
        try:
            await load_kube_config(
                config_file=str(self.path),
                context=self.context,
                client_configuration=configuration,
                persist_config=False,
            )
            return await asyncio.to_thread(_credentials, configuration)
        except _MALFORMED as error:
            raise CredentialsError(f"kubeconfig {self.path}: {error}") from error

    @override
    def __str__(self) -> str:
        return f"kubeconfig {self.path}"


def _credentials(configuration: Configuration) -> Credentials:
    """Turn the library's configuration into a value, with the files' content in it."""
    token = str(configuration.api_key.get("BearerToken") or "")
    scheme, _, secret = token.partition(" ")
    if token and not secret.strip():
        raise CredentialsError("the token is empty")
    certificate, key = configuration.cert_file, configuration.key_file
    return Credentials(
        server=str(configuration.host).rstrip("/"),
        authority=_content(configuration.ssl_ca_cert),
        certificate=_content(certificate),
        key=_content(key),
        certificate_files=(certificate, key) if certificate and key else None,
        authorization=f"{scheme} {secret.strip()}" if token else "",
        server_name=configuration.tls_server_name,
        verify=bool(configuration.verify_ssl),
        proxy=configuration.proxy,
    )


def _content(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""
