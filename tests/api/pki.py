"""Certificates of every sort that a peer can present, good and bad ones."""

from __future__ import annotations

import datetime
import ipaddress
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
"""The instant at which pure tests take place."""


def now() -> datetime.datetime:
    """The present, for certificates that a socket looks at."""
    return datetime.datetime.fromtimestamp(time.time_ns() / 1e9, datetime.UTC)


CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)

_Usages = Sequence[x509.ObjectIdentifier]


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        """The certificate as DER."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write certificate and key as PEM files, the key first."""
        key = folder / f"{name}.key"
        key.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        certificate = folder / f"{name}.crt"
        certificate.write_text(self.pem)
        return certificate, key

    def issue(
        self,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        usages: _Usages = CLIENT,
        names: Sequence[str] = (),
        days: tuple[int, int] = (-1, 365),
        now: datetime.datetime = NOW,
        authority: bool = False,
    ) -> Issued:
        """A certificate under this one, valid between the two days counted from now."""
        return _issue(
            common_name,
            self,
            organizations=organizations,
            usages=usages,
            names=names,
            days=days,
            now=now,
            authority=authority,
        )


def authority(
    name: str, *, days: tuple[int, int] = (-1, 3650), now: datetime.datetime = NOW
) -> Issued:
    """A self-signed authority."""
    return _issue(name, None, days=days, now=now, authority=True)


def _issue(
    common_name: str,
    issuer: Issued | None,
    *,
    organizations: Sequence[str] = (),
    usages: _Usages = (),
    names: Sequence[str] = (),
    days: tuple[int, int],
    now: datetime.datetime,
    authority: bool,
) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)
        for organization in organizations
    ]
    if common_name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    subject = x509.Name(attributes)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if usages and not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_name(name) for name in names]), critical=False
        )
    signer = issuer.key if issuer else key
    return Issued(builder.sign(signer, hashes.SHA256()), key)


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
