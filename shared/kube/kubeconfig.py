"""A kubeconfig as credentials, read by kubernetes_asyncio.

Imported only by who has one: the library weighs 38 MiB, and in a cluster nobody needs it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config
from typing_extensions import override

from shared.kube.credentials import Credentials, CredentialsError

# What kubernetes_asyncio raises for a kubeconfig that lacks something or holds something odd.
_MALFORMED: Final = (
    ConfigException,
    OSError,
    ValueError,
    yaml.YAMLError,
    AssertionError,
    AttributeError,
    KeyError,
    TypeError,
)


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
            raise CredentialsError(f"{self}: {error}") from error

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
