"""Certificate authorities of a control plane, and the certificates that they give out.

Three authorities, as a real installation has them: one signs what servers show, one what users
show, and one what the aggregation layer shows to our API server. All keys lie in one folder that
only its owner can enter, so that a later process can make another user.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=365)
SKEW = datetime.timedelta(hours=1)
"""Certificates are valid from so long ago: a clock may be set back a little."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key as PEM files."""

    certificate: Path
    key: Path

    @classmethod
    def at(cls, folder: Path, name: str) -> Pair:
        """The files that a pair of this name has in a folder."""
        return cls(folder / f"{name}.crt", folder / f"{name}.key")

    def write(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        """Write both; whoever reads the new certificate finds the new key."""
        _write(self.key, _key_pem(key))
        _write(self.certificate, certificate.public_bytes(serialization.Encoding.PEM))


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority; `files.certificate` is what verifiers trust."""

    files: Pair
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path, name: str, now: datetime.datetime) -> Authority:
        """Make one of the given name in a folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        certificate = (
            _certificate(subject, subject, key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        files = Pair.at(folder, name)
        files.write(certificate, key)
        return cls(files, certificate, key)

    @classmethod
    def ensure(cls, folder: Path, name: str, now: datetime.datetime) -> Authority:
        """Read the one that is there, or make it."""
        if Pair.at(folder, name).certificate.exists():
            return cls.load(folder, name)
        return cls.create(folder, name, now)

    @classmethod
    def load(cls, folder: Path, name: str) -> Authority:
        """Read one that was made before."""
        files = Pair.at(folder, name)
        key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{files.key}: expected an elliptic curve key, got {type(key)}")
        return cls(files, x509.load_pem_x509_certificate(files.certificate.read_bytes()), key)

    def server(self, files: Pair, hosts: Sequence[str], now: datetime.datetime) -> Pair:
        """Write a certificate for a server reached under these names and addresses."""
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        return self._issue(files, _subject(hosts[0]), ExtendedKeyUsageOID.SERVER_AUTH, now, names)

    def client(self, files: Pair, user: str, groups: Sequence[str], now: datetime.datetime) -> Pair:
        """Write a certificate that says who a caller is: common name and organizations."""
        subject = _subject(user, groups)
        return self._issue(files, subject, ExtendedKeyUsageOID.CLIENT_AUTH, now)

    def _issue(
        self,
        files: Pair,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        now: datetime.datetime,
        names: x509.SubjectAlternativeName | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _certificate(subject, self.certificate.subject, key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        files.write(builder.sign(self.key, hashes.SHA256()), key)
        return files


def write_service_account_key(path: Path) -> None:
    """Write the key that signs the tokens of service accounts."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write(path, _key_pem(key))


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str, groups: Sequence[str] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    """Replace a file at once, readable by its owner only."""
    beside = path.with_name(path.name + ".new")
    beside.touch(mode=0o600)
    beside.write_bytes(content)
    beside.replace(path)
