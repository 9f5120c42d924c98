"""Who a caller is, as the sources of identity tell it. Pure: headers and certificates in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from apiserver.trust import FrontProxy, PeerCertificate
from shared.errors import BadRequest
from shared.vocabulary import (
    EXTRA_CREDENTIAL_ID,
    GROUP_AUTHENTICATED,
    GROUP_UNAUTHENTICATED,
    USER_ANONYMOUS,
)

Extra = tuple[tuple[str, tuple[str, ...]], ...]
"""Further facts of a user: keys in order, each with its values."""


@dataclass(frozen=True, slots=True)
class User:
    """A caller, in the words of a SubjectAccessReview. Hashable: answers are kept by it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = ()

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody vouched for the caller."""
        return self.name == USER_ANONYMOUS


ANONYMOUS: Final = User(USER_ANONYMOUS, groups=(GROUP_UNAUTHENTICATED,))


class Headers(Protocol):
    """Headers as a multidict: names in any case, several values for one name."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """Every value of a name, in the order received."""
        ...

    def __iter__(self) -> Iterator[str]:
        """The name of every header line."""
        ...

    def items(self) -> Iterable[tuple[str, str]]:
        """Every header line, in the order received."""
        ...


def named_by_proxy(headers: Headers, proxy: FrontProxy) -> User | None:
    """The user that a front proxy names in its headers; None where it names nobody.

    The first non-empty value counts for name and uid; every non-empty value is a group, and
    commas belong to the name. Keys of extras are the rest of the header's name in lower case,
    percent-decoded ("Authenticating proxy", Kubernetes documentation).

    Raises:
        BadRequest: a value is not UTF-8.
    """
    name = _first(headers, proxy.username_headers)
    if not name:
        return None
    extra: dict[str, list[str]] = {}
    for prefix in proxy.extra_prefixes:
        lowered = prefix.lower()
        for header, value in headers.items():
            if len(header) >= len(prefix) and header[: len(prefix)].lower() == lowered:
                key = _decoded_key(header[len(prefix) :].lower())
                extra.setdefault(key, []).append(_text(value))
    return User(
        name,
        uid=_first(headers, proxy.uid_headers),
        groups=tuple(
            _text(value)
            for header in proxy.group_headers
            for value in headers.getall(header, [])
            if value
        ),
        extra=tuple((key, tuple(values)) for key, values in sorted(extra.items())),
    )


def named_by_certificate(certificate: PeerCertificate, fingerprint: str) -> User | None:
    """The holder of a client certificate: name from CN, groups from O; None without CN.

    `fingerprint` is the SHA-256 of the certificate in lower-case hexadecimal.
    """
    if not certificate.common_name:
        return None
    return User(
        certificate.common_name,
        groups=certificate.organizations,
        extra=((EXTRA_CREDENTIAL_ID, (f"X509SHA256={fingerprint}",)),),
    )


def named_by_review(user: Mapping[str, object]) -> User | None:
    """The user of a TokenReview's status; None where it names nobody."""
    name = user.get("username")
    uid = user.get("uid")
    groups = user.get("groups")
    extra = user.get("extra")
    if not isinstance(name, str) or not name:
        return None
    return User(
        name,
        uid=uid if isinstance(uid, str) else "",
        groups=_strings(groups),
        extra=tuple(
            (key, _strings(values))
            for key, values in sorted((extra if isinstance(extra, dict) else {}).items())
        ),
    )


def with_standard_groups(user: User) -> User:
    """Add system:authenticated, once, to whoever is somebody."""
    known = {GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED}
    if user.is_anonymous or not known.isdisjoint(user.groups):
        return user
    return replace(user, groups=(*user.groups, GROUP_AUTHENTICATED))


def _first(headers: Headers, names: Iterable[str]) -> str:
    for name in names:
        values = headers.getall(name, [])
        if values and values[0]:
            return _text(values[0])
    return ""


def _text(value: str) -> str:
    """A header value; bytes that are no UTF-8 arrive as lone surrogates, which JSON cannot say."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadRequest("a header that names the user is not UTF-8") from None
    return value


def _decoded_key(key: str) -> str:
    """Percent-decoded; a key with a malformed escape is kept as it is."""
    escapes = key.split("%")[1:]
    if not escapes:
        return key
    hexadecimal = set("0123456789abcdef")
    if not all(len(escape) >= 2 and set(escape[:2]) <= hexadecimal for escape in escapes):
        return key
    try:
        return unquote_to_bytes(key).decode()
    except UnicodeDecodeError:
        raise BadRequest("a header that names the user is not UTF-8") from None


def _strings(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        return ()
    return tuple(value for value in values if isinstance(value, str))
