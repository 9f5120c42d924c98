"""What the client accepts: which form, JSON or YAML, indented or not.

Clauses of Accept are tried by weight, then in order; one that asks for what cannot be served is
skipped (RFC 9110, 12.5.1; "Alternate representations of resources", Kubernetes API concepts).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from apiserver.forms import META_GROUP, Form, Include, Shape
from shared.errors import BadRequest, NotAcceptable


class Media(StrEnum):
    """Content types that we write."""

    JSON = "application/json"
    YAML = "application/yaml"


class Endpoint(StrEnum):
    """What the answer is, which decides what can be made of it."""

    OBJECT = "object"
    LIST = "list"
    WATCH = "watch"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The form of the answer."""

    form: Form
    media: Media
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header with its parameters, without the weight."""

    type: str
    parameters: Mapping[str, str]


_HUMAN: Final = ("curl", "Wget", "Mozilla/5.0")
_PARTIAL_LIST: Final = "PartialObjectMetadataList"
_HEADER_MAX: Final = 4096
_KEPT_LENGTH_MAX: Final = 256
"""Longer headers are read anew each time, so that nobody fills our memory with what they hold."""

_KEPT_MAX: Final = 256


def clauses(header: str) -> tuple[Clause, ...]:
    """The clauses of an Accept header, the preferred first; a weight of 0 refuses.

    A quoted value may not contain a comma or a semicolon; none that exists does. What comes
    after the first 4 KiB is not read.
    """
    if len(header) > _KEPT_LENGTH_MAX:
        return _clauses(header[:_HEADER_MAX])
    return _clauses_kept(header)


def _clauses(header: str) -> tuple[Clause, ...]:
    weighed = []
    for text in header.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        if not media:
            continue
        pairs = (part.partition("=") for part in rest)
        parameters = {
            name.strip().lower(): value.strip().strip('"') for name, _, value in pairs if name
        }
        weight = _weight(parameters.pop("q", "1"))
        if weight > 0:
            weighed.append((weight, Clause(media.lower(), parameters)))
    return tuple(clause for _, clause in sorted(weighed, key=lambda pair: -pair[0]))


_clauses_kept = lru_cache(maxsize=_KEPT_MAX)(_clauses)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def negotiate(header: str, endpoint: Endpoint) -> Accepted:
    """The first form that the client accepts and the endpoint has.

    Raises:
        NotAcceptable: there is none.
    """
    if len(header) > _KEPT_LENGTH_MAX:
        return _negotiate(header, endpoint)
    return _negotiate_kept(header, endpoint)


def _negotiate(header: str, endpoint: Endpoint) -> Accepted:
    for clause in clauses(header or "*/*"):
        media = _media(clause.type, endpoint)
        if media is None or clause.parameters.get("sv"):
            continue
        stream = clause.parameters.get("stream", "")
        if stream and not (stream == "watch" and endpoint is Endpoint.WATCH):
            continue
        form = _form(clause.parameters, endpoint)
        if form is not None:
            return Accepted(form, media, clause.parameters.get("pretty") == "1")
    streams = endpoint is Endpoint.WATCH
    offered = [Media.JSON.value] if streams else [media.value for media in Media]
    told = ", ".join(offered)
    raise NotAcceptable(f"only the following media types are accepted: {told}")


_negotiate_kept = lru_cache(maxsize=_KEPT_MAX)(_negotiate)


def _media(media_range: str, endpoint: Endpoint) -> Media | None:
    if media_range in {"*/*", "application/*", Media.JSON.value}:
        return Media.JSON
    if media_range == Media.YAML.value and endpoint is not Endpoint.WATCH:
        return Media.YAML
    return None


def _form(parameters: Mapping[str, str], endpoint: Endpoint) -> Form | None:
    """What a clause wants made of the object; None where that cannot be done here."""
    kind, group, version = (parameters.get(name, "") for name in ("as", "g", "v"))
    if not (kind or group or version):
        return Form()
    if group != META_GROUP or version not in {"v1", "v1beta1"} or endpoint is Endpoint.OTHER:
        return None
    if kind == Shape.TABLE:
        return Form(Shape.TABLE, version)
    partial = _PARTIAL_LIST if endpoint is Endpoint.LIST else Shape.PARTIAL.value
    return Form(Shape.PARTIAL, version) if kind == partial else None


def accepted(
    header: str, endpoint: Endpoint, query: Mapping[str, str], user_agent: str
) -> Accepted:
    """As `negotiate`, with what the query and the client's name add.

    Raises:
        NotAcceptable: as above.
        BadRequest: an unknown `includeObject`.
    """
    found = negotiate(header, endpoint)
    asked = query.get("includeObject")
    if asked and found.form.shape is Shape.TABLE:
        try:
            include = Include(asked)
        except ValueError:
            raise BadRequest(
                f"includeObject={asked!r} is not known; use None, Metadata or Object"
            ) from None
        found = replace(found, form=replace(found.form, include=include))
    if _is_pretty(query, user_agent):
        found = replace(found, pretty=True)
    return found


def _is_pretty(query: Mapping[str, str], user_agent: str) -> bool:
    """Indented when asked for, and for clients behind which a human sits."""
    if wanted := query.get("pretty"):
        return wanted in {"1", "t", "T", "true", "True", "TRUE"}
    return user_agent.startswith(_HUMAN)


def accepts_gzip(header: str) -> bool:
    """Whether the client takes gzip (RFC 9110, 12.5.3)."""
    return any(clause.type == "gzip" for clause in clauses(header))
