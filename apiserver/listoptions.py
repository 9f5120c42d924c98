"""The query of a list or a watch, and the rules it has to keep.

The rules are those of kube-apiserver, so that clients fall back where they would there: 400 for
what cannot be read, 422 for what contradicts itself ("Resource versions" in the API concepts).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.requestinfo import RequestInfo, is_true
from apiserver.selectors import EVERYTHING, FIELD_NAME, Selector, selector
from apiserver.versions import parse_version
from shared.errors import BadRequest, Cause, Expired, Invalid, Subject

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"

_SUBJECT: Final = Subject("meta.k8s.io", "ListOptions")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What of the collection is asked for, and how new it has to be.

    Attributes:
        version: None for the newest, 0 for any, else the one that the client knows.
        seconds: how long a watch may last; None leaves it to the server.
    """

    selector: Selector = EVERYTHING
    version: int | None = None
    exact: bool = False
    bookmarks: bool = False
    seconds: int | None = None


def list_options(info: RequestInfo, query: Mapping[str, str]) -> ListOptions:
    """Read and check the query of a list or a watch.

    Raises:
        BadRequest: something cannot be read.
        Invalid: what it says contradicts itself, or is not served.
        Expired: a token to continue with; none is ever given out.
    """
    _integer(query, "limit")
    seconds = _integer(query, "timeoutSeconds")
    if is_true(query.get("export")):
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    causes = _watch_causes(query) if info.verb == "watch" else _list_causes(query)
    if causes:
        raise Invalid.of(_SUBJECT, causes)
    chosen = selector(info.field_selector, info.label_selector)
    if query.get("continue"):
        raise Expired("The provided continue parameter is too old or not from this server")
    return ListOptions(
        selector=chosen,
        version=parse_version(query.get("resourceVersion", "")),
        exact=query.get("resourceVersionMatch") == EXACT,
        bookmarks=is_true(query.get("allowWatchBookmarks")),
        seconds=seconds if seconds is not None and seconds > 0 else None,
    )


def check_name(info: RequestInfo, field_selector: str) -> None:
    """A request for one object may select its name, and no other.

    Raises:
        BadRequest: it selects another.
    """
    for requirement in selector(field_selector, "").fields:
        if requirement.key == FIELD_NAME and not requirement.holds({FIELD_NAME: info.path_name}):
            raise BadRequest("fieldSelector metadata.name doesn't match the name in the path")


def _integer(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f"{name}={text!r} is no whole number")
    return int(text)


def _list_causes(query: Mapping[str, str]) -> list[Cause]:
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    causes = []
    if match:
        name = "resourceVersionMatch"
        if not version:
            causes.append(
                _forbidden(name, f"{name} is forbidden unless resourceVersion is provided")
            )
        if query.get("continue"):
            causes.append(_forbidden(name, f"{name} is forbidden when continue is provided"))
        if match not in {EXACT, NOT_OLDER_THAN}:
            causes.append(_unsupported(name, match, f'"{EXACT}", "{NOT_OLDER_THAN}", ""'))
        if match == EXACT and version == "0":
            causes.append(_forbidden(name, f'{name} "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_causes(query: Mapping[str, str]) -> list[Cause]:
    match, sends = query.get("resourceVersionMatch", ""), "sendInitialEvents" in query
    name = "resourceVersionMatch"
    causes = []
    if sends:
        if match != NOT_OLDER_THAN:
            causes.append(
                _forbidden(name, f"sendInitialEvents requires setting {name} to {NOT_OLDER_THAN}")
            )
        # Refused, not ignored: a client that waits for the end of the initial events which
        # never comes hangs for ever; refused it falls back to list and watch.
        causes.append(
            _forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate "
                "is enabled",
            )
        )
    if match:
        if not sends:
            causes.append(
                _forbidden(
                    name, f"{name} is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if match != NOT_OLDER_THAN:
            causes.append(_unsupported(name, match, f'"{NOT_OLDER_THAN}"'))
        if query.get("continue"):
            causes.append(_forbidden(name, f"{name} is forbidden when continue is provided"))
    return causes


def _forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def _unsupported(field: str, value: str, known: str) -> Cause:
    return Cause(
        "FieldValueNotSupported",
        f'Unsupported value: "{value}": supported values: {known}',
        field,
    )
