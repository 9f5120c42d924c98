"""TLS whose certificate and client authorities change while the server runs.

Python's TLS verifies a client's certificate in the handshake or not at all, and authorities can
only be added to a context. So every change makes a new context, and the listening one hands
each new connection over to the newest (`sni_callback`, called without a server name too).
Connections that exist keep what they have: authentication judges their certificate anew for
each request. A client whose certificate nobody issued whom we trust fails in the handshake,
where kube-apiserver itself would answer 401.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

if TYPE_CHECKING:
    from apiserver.trust import Trust

log = structlog.get_logger(__name__)

RELOAD_SECONDS: Final = 10.0
"""How often the files are looked at."""


class CertificateError(Exception):
    """There is no serving certificate to begin with; the message names the files."""


class Tls:
    """The contexts of a listening socket.

    Args:
        certificate: file of the serving certificate and what stands above it, PEM.
        key: file of its key, PEM.

    Attributes:
        context: what to listen with; stays the same object.
        expires: end of the certificate in use, POSIX seconds; not a number where it tells none.
        failures: how often files that changed could not be loaded.

    Raises:
        CertificateError: they cannot be loaded; later on the last good ones stay in use.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._stamp: tuple[tuple[int, int, int], ...] | None = None
        self._trust: Trust | None = None
        self._trouble = ""
        # Files are looked at in a thread, authorities come on the loop: one context at a time.
        self._lock = threading.Lock()
        self.context = _bare()
        self.expires = math.nan
        self.failures = 0
        try:
            self.context.load_cert_chain(certificate, key)
            self._current = self._load()
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"certificate {certificate}, key {key}: {error}") from error
        self.context.sni_callback = self._hand_over

    def set_trust(self, trust: Trust) -> None:
        """Ask clients for certificates of these authorities from now on."""
        with self._lock:
            self._trust = trust
            self._renew()

    def reload(self) -> bool:
        """Take the files as they are now; whether they had changed and could be loaded."""
        with self._lock:
            return self._stamps() != self._stamp and self._renew()

    async def run(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Look at the files every few seconds. Runs until cancelled."""
        while True:
            await sleep(RELOAD_SECONDS)
            await asyncio.to_thread(self.reload)

    def _renew(self) -> bool:
        """Make the next context, if the files can be loaded.

        They are replaced one after the other: until they match, what there is goes on, and the
        next look tries again.
        """
        try:
            self._current = self._load()
        except (OSError, ssl.SSLError) as error:
            self._stamp = None
            self.failures += 1
            is_news, self._trouble = str(error) != self._trouble, str(error)
            log.log(
                logging.WARNING if is_news else logging.DEBUG,
                "certificate cannot be loaded, the last good one stays",
                certificate=str(self._certificate),
                key=str(self._key),
                error=self._trouble,
            )
            return False
        self._trouble = ""
        # Whether a certificate is asked for is settled before the hand-over.
        self.context.verify_mode = self._current.verify_mode
        log.info("TLS context renewed", file=str(self._certificate))
        return True

    def _load(self) -> ssl.SSLContext:
        stamp = self._stamps()
        context = _bare()
        context.load_cert_chain(self._certificate, self._key)
        authorities = self._trust.authorities if self._trust is not None else ()
        if authorities:
            context.load_verify_locations(
                cadata="".join(each.public_bytes(Encoding.PEM).decode() for each in authorities)
            )
            context.verify_mode = ssl.CERT_OPTIONAL
        self.expires = _end(self._certificate.read_bytes())
        self._stamp = stamp
        return context

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        """What tells one content of the files from another, without reading them.

        Secrets are mounted through links that are swapped: the file behind is another then.
        Empty while they cannot be looked at, whatever the reason: loading them tells it.
        """
        try:
            found = [path.stat() for path in (self._certificate, self._key)]
        except OSError:
            return ()
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)

    def _hand_over(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _of: ssl.SSLContext
    ) -> None:
        connection.context = self._current


def _end(pem: bytes) -> float:
    """When the first certificate ends, POSIX seconds; a figure only, so never an error."""
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError:
        return math.nan


def _bare() -> ssl.SSLContext:
    """Not `create_default_context`: its strict checks refuse ordinary front-proxy leaves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
