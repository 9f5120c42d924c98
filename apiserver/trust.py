"""Whom we believe: the ConfigMap by which kube-apiserver says who may speak for others.

Pure: text and certificates in, values out; the only state is `TrustSource`, a holder that is
updated from outside. Keys of the ConfigMap and their meaning: "Configure the aggregation layer"
(Kubernetes documentation).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

GRACE_SECONDS: Final = 600.0
"""How long the last good trust holds after the ConfigMap went missing, before we trust nobody."""

_CHAIN_LENGTH_MAX: Final = 5


class TrustError(ValueError):
    """The ConfigMap says something that cannot be, or must not be, believed."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """Who may name users in headers, and in which headers.

    `allowed_names` empty means any name under these authorities.
    """

    authorities: tuple[x509.Certificate, ...]
    allowed_names: frozenset[str] = frozenset()
    username_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trust:
    """Front proxies, and the authorities of users with certificates of their own."""

    front_proxy: FrontProxy | None = None
    client_authorities: tuple[x509.Certificate, ...] = ()

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """Every authority under which a connection may present a certificate."""
        front = self.front_proxy.authorities if self.front_proxy is not None else ()
        return front + self.client_authorities


NOBODY: Final = Trust()
"""The trust before anything is known: no certificate and no header counts."""


def parse(data: Mapping[str, str]) -> Trust:
    """Read the ConfigMap's data. A missing key is an empty list or no authority.

    Raises:
        TrustError: a list is no JSON list of strings, a bundle is no PEM, or the two
            authorities are the same while any name is allowed: then every user with a
            certificate could pose as a front proxy ("CA reusage and conflicts").
    """
    clients = _bundle(data, "client-ca-file")
    authorities = _bundle(data, "requestheader-client-ca-file")
    if not authorities:
        return Trust(None, clients)
    allowed = frozenset(_names(data, "requestheader-allowed-names"))
    if not allowed and set(authorities) & set(clients):
        raise TrustError(
            "requestheader-client-ca-file shares an authority with client-ca-file and "
            "requestheader-allowed-names is empty: any client certificate could name any user; "
            "give kube-apiserver --requestheader-allowed-names"
        )
    return Trust(
        FrontProxy(
            authorities,
            allowed,
            username_headers=_names(data, "requestheader-username-headers"),
            uid_headers=_names(data, "requestheader-uid-headers"),
            group_headers=_names(data, "requestheader-group-headers"),
            extra_prefixes=_names(data, "requestheader-extra-headers-prefix"),
        ),
        clients,
    )


def _bundle(data: Mapping[str, str], key: str) -> tuple[x509.Certificate, ...]:
    text = data.get(key, "")
    if not text.strip():
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(text.encode()))
    except ValueError as error:
        raise TrustError(f"{key} is no bundle of PEM certificates: {error}") from error


def _names(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = data.get(key, "")
    if not text.strip():
        return ()
    try:
        names = json.loads(text)
    except ValueError as error:
        raise TrustError(f"{key} is no JSON: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TrustError(f"{key} is {text!r}, not a JSON list of strings")
    return tuple(names)


class TrustSource:
    """The trust in force. Bad data keeps the last good one; missing data does so for a while.

    Args:
        monotonic: seconds that never go back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._trust = NOBODY
        self._missing_since: float | None = None
        self.problem = "not read yet"
        """What is wrong with the newest data, empty where nothing is."""

    @property
    def current(self) -> Trust:
        """Whom to believe now."""
        missing = self._missing_since
        if missing is not None and self._monotonic() - missing > GRACE_SECONDS:
            return NOBODY
        return self._trust

    def update(self, data: Mapping[str, str] | None) -> bool:
        """Take in the ConfigMap's data, None where it does not exist.

        Returns:
            Whether the trust changed.
        """
        try:
            trust = parse(data or {})
        except TrustError as error:
            self.problem = str(error)
            return False
        if trust.front_proxy is None:
            self.problem = "requestheader-client-ca-file is missing or empty"
            if self._trust.front_proxy is not None:
                if self._missing_since is None:
                    self._missing_since = self._monotonic()
                return False
        else:
            self.problem = ""
            self._missing_since = None
        if trust == self._trust:
            return False  # the same object stays: verdicts are kept by it
        self._trust = trust
        return True


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """What a certificate says of its holder, and whether it may be used by clients."""

    common_name: str
    organizations: tuple[str, ...]
    for_clients: bool


def describe(certificate: x509.Certificate) -> PeerCertificate:
    """Read the fields that identify the holder.

    An absent extended key usage allows every use (RFC 5280, 4.2.1.12).
    """
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return PeerCertificate(
        common_name=str(names[-1].value) if names else "",
        organizations=tuple(
            str(attribute.value)
            for attribute in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        ),
        for_clients=_is_for_clients(certificate),
    )


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return (
        ExtendedKeyUsageOID.CLIENT_AUTH in usage
        or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage
    )


def trusted_until(
    certificate: x509.Certificate,
    authorities: Iterable[x509.Certificate],
    now: float,
    intermediates: Sequence[x509.Certificate] = (),
) -> float | None:
    """Until when a chain from this certificate to one of the authorities holds.

    The TLS layer has proven that the peer owns the key; this decides under which of several
    bundles it stands, and again after a bundle changed.

    Returns:
        POSIX seconds, the first end of a validity on the chain; None where there is no chain
        that is valid at `now` (POSIX seconds).
    """
    roots = tuple(authorities)
    return _chain(certificate, roots, tuple(intermediates), now, _CHAIN_LENGTH_MAX)


def _chain(
    certificate: x509.Certificate,
    roots: tuple[x509.Certificate, ...],
    intermediates: tuple[x509.Certificate, ...],
    now: float,
    depth: int,
) -> float | None:
    until = _valid_until(certificate, now)
    if until is None or depth == 0:
        return None
    for root in roots:
        root_until = _valid_until(root, now)
        if root_until is not None and _is_issued_by(certificate, root):
            return min(until, root_until)
    for above in intermediates:
        if above != certificate and _is_authority(above) and _is_issued_by(certificate, above):
            rest = _chain(above, roots, intermediates, now, depth - 1)
            if rest is not None:
                return min(until, rest)
    return None


def _valid_until(certificate: x509.Certificate, now: float) -> float | None:
    until = certificate.not_valid_after_utc.timestamp()
    return until if certificate.not_valid_before_utc.timestamp() <= now <= until else None


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    if certificate.issuer != issuer.subject:
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
