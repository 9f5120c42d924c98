"""Authentication: front proxy, client certificate, bearer token, nobody; in this order.

The first source that names the caller wins. A source that is tried and fails (a certificate
that nobody we trust issued, a refused token) does not make the caller anonymous: if no other
source succeeds the answer is 401 (kube-apiserver's own chain, and rule 5.1).
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from aiohttp import web
from cryptography import x509

from apiserver.identity import (
    ANONYMOUS,
    Headers,
    User,
    named_by_certificate,
    named_by_proxy,
    with_standard_groups,
)
from apiserver.lookups import Lookups
from apiserver.trust import PeerCertificate, Trust, TrustSource, describe, trusted_until
from shared.errors import ApiError, Forbidden, Unauthorized

if TYPE_CHECKING:
    import ssl

log = structlog.get_logger(__name__)

USER: Final = web.RequestKey("user", User)
"""The caller, for whatever comes after authentication."""

TOKEN_SECONDS: Final = 10.0
"""How long a TokenReview's answer is believed, as in kube-apiserver's delegating servers."""

_TOKENS_MAX: Final = 4096
_PEERS_MAX: Final = 1024
_JUDGED_SECONDS: Final = 60.0


class TokenReviews(Protocol):
    """The cluster's word on a bearer token."""

    async def review_token(self, token: str) -> User | None:
        """The token's user, None where it is nobody's.

        Raises:
            ApiError: the review could not be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class Peer:
    """What the other end of a connection proved about itself: its certificate, in DER."""

    certificate: bytes
    intermediates: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class _Standing:
    """Under which bundles of a trust a certificate stood when judged, and until when it may.

    All in POSIX seconds; None is never.
    """

    trust: Trust
    judged: float
    proxy_until: float | None
    client_until: float | None


class Authenticator:
    """Names the caller of a request.

    Args:
        trust: whom to believe; asked anew for every request, since connections outlive trust.
        reviews: where tokens are reviewed.
        monotonic: seconds that never go back, for what is kept.
        wall: POSIX seconds, for validities.
        token_key: secret of this process; kept tokens are hashed with it.
        anonymous: whether a caller without credentials is let through as nobody.
    """

    def __init__(
        self,
        trust: TrustSource,
        reviews: TokenReviews,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        token_key: bytes,
        anonymous: bool = True,
    ) -> None:
        self._trust = trust
        self._reviews = reviews
        self._wall = wall
        self._token_key = token_key
        self._anonymous = anonymous
        self._tokens: Lookups[bytes, tuple[User | None]] = Lookups(
            seconds=TOKEN_SECONDS, size=_TOKENS_MAX, monotonic=monotonic
        )
        self._standings: OrderedDict[Peer, _Standing] = OrderedDict()

    async def authenticate(self, peer: Peer | None, headers: Headers) -> User:
        """Who asks.

        Raises:
            Unauthorized: a credential was given and is not believed (or cannot be reviewed
                now), or none was given and anonymous callers are not let through.
            BadRequest: a header that names the user is not UTF-8.
        """
        doubts: list[str] = []
        if peer is not None and (user := self._by_certificate(peer, headers, doubts)):
            return with_standard_groups(user)
        if token := bearer_token(headers):
            try:
                user = await self._by_token(token)
            except ApiError as error:
                doubts.append(f"the token cannot be reviewed: {error}")
            else:
                if user is not None:
                    return with_standard_groups(user)
                doubts.append("the token is nobody's")
        if doubts or not self._anonymous:
            log.info("caller is not believed", doubts=doubts)
            raise Unauthorized
        return ANONYMOUS

    def proven_name(self, peer: Peer | None) -> str:
        """The common name of a certificate that an authority of the cluster stands for, else ""."""
        if peer is None:
            return ""
        now = self._wall()
        standing = self._standing(peer, self._trust.current, now)
        if _holds(standing.client_until, now) or _holds(standing.proxy_until, now):
            return _read(peer.certificate)[0].common_name
        return ""

    def _by_certificate(self, peer: Peer, headers: Headers, doubts: list[str]) -> User | None:
        trust = self._trust.current
        now = self._wall()
        standing = self._standing(peer, trust, now)
        certificate, fingerprint = _read(peer.certificate)
        proxy = trust.front_proxy
        if proxy is not None:
            if not _holds(standing.proxy_until, now):
                doubts.append("the certificate is no front proxy's")
            elif proxy.allowed_names and certificate.common_name not in proxy.allowed_names:
                doubts.append(f"{certificate.common_name!r} may not be a front proxy")
            elif user := named_by_proxy(headers, proxy):
                return user
        if trust.client_authorities:
            if not _holds(standing.client_until, now):
                doubts.append("the certificate is no user's")
            elif user := named_by_certificate(certificate, fingerprint):
                return user
        return None

    def _standing(self, peer: Peer, trust: Trust, now: float) -> _Standing:
        """As judged a moment ago under the same trust, else judged now."""
        kept = self._standings.get(peer)
        if kept is not None and kept.trust is trust and now - kept.judged < _JUDGED_SECONDS:
            return kept
        standing = judge(peer, trust, now)
        self._standings[peer] = standing
        while len(self._standings) > _PEERS_MAX:
            self._standings.popitem(last=False)
        return standing

    async def _by_token(self, token: str) -> User | None:
        key = hashlib.blake2b(token.encode(errors="surrogateescape"), key=self._token_key).digest()

        async def ask() -> tuple[User | None]:
            return (await self._reviews.review_token(token),)

        return (await self._tokens.get(key, ask))[0]


def judge(peer: Peer, trust: Trust, now: float) -> _Standing:
    """Under which of the two bundles a certificate stands, if it may be used by clients."""
    leaf = x509.load_der_x509_certificate(peer.certificate)
    if not describe(leaf).for_clients:
        return _Standing(trust, now, None, None)
    between = [x509.load_der_x509_certificate(der) for der in peer.intermediates]
    front = trust.front_proxy.authorities if trust.front_proxy is not None else ()
    return _Standing(
        trust,
        now,
        trusted_until(leaf, front, now, between),
        trusted_until(leaf, trust.client_authorities, now, between),
    )


def bearer_token(headers: Headers) -> str:
    """The token of the Authorization header, empty where there is none (RFC 6750)."""
    for value in headers.getall("Authorization", [])[:1]:
        scheme, _, token = value.strip().partition(" ")
        if scheme.lower() == "bearer":
            return token.strip().split(" ")[0]
    return ""


def refuse_impersonation(headers: Headers) -> None:
    """Nobody may act as somebody else here: kube-apiserver settles that before it forwards.

    Raises:
        Forbidden: a header of impersonation is present.
    """
    for name in headers:
        if name[:12].lower() == "impersonate-":
            raise Forbidden("impersonation is not possible here; ask kube-apiserver")


def peer_of(request: web.BaseRequest) -> Peer | None:
    """The certificate that the connection's other end presented, if it did."""
    tls: ssl.SSLObject | None = request.get_extra_info("ssl_object")
    if tls is None or not (certificate := tls.getpeercert(binary_form=True)):
        return None
    if sys.version_info >= (3, 13):
        return Peer(certificate, _rest(tls.get_unverified_chain()))
    # Before Python 3.13 the intermediates of a peer cannot be had: a bundle has to hold the
    # direct issuer of the front proxy's certificate, as it does in every cluster we know of.
    return Peer(certificate)


def _rest(chain: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(chain[1:])


@lru_cache(maxsize=_PEERS_MAX)
def _read(der: bytes) -> tuple[PeerCertificate, str]:
    certificate = x509.load_der_x509_certificate(der)
    return describe(certificate), hashlib.sha256(der).hexdigest()


def _holds(until: float | None, now: float) -> bool:
    return until is not None and now <= until


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def authentication(authenticator: Authenticator) -> Callable[..., Awaitable[web.StreamResponse]]:
    """The middleware: sets `USER`, or answers 401."""

    @web.middleware
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[USER] = await authenticator.authenticate(peer_of(request), request.headers)
        refuse_impersonation(request.headers)
        return await handler(request)

    return authenticate
