"""The fake API server's HTTP: from method, path, query and body to code and body, and watches."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tests.simulation import schemas
from tests.simulation.causes import Unsimulated
from tests.simulation.fake_api import STATUS, FakeApi
from tests.simulation.kinds import POD, Kind, served
from tests.simulation.refusals import Refusal, bad_request
from tests.simulation.selectors import Selects, selects
from tests.simulation.store import ADDED, DELETED, MODIFIED, Change, Key

Raw = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
BOOKMARK_SECONDS: Final = 60.0
_META: Final = "meta.k8s.io/v1"
_NOWHERE: Final = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class Place:
    """What a path leads to."""

    kind: Kind
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        """Of the object."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Told:
    """An event of a watch, and when what it tells of happened."""

    at: float
    line: bytes


@dataclass(slots=True)
class Http:
    """Answers requests of one account after the other."""

    api: FakeApi
    _pages: dict[str, tuple[int, list[Raw]]] = field(default_factory=dict)

    def answer(
        self, who: str, method: str, path: str, query: Mapping[str, str], body: bytes, form: str
    ) -> tuple[int, bytes]:
        """Code and body; never raises for what a client did."""
        try:
            place = place_of(path)
            if place is None:
                return 404, b"404 page not found"
            return self._answered(who, method, place, query, body, form)
        except Refusal as refusal:
            return refusal.code, orjson.dumps(refusal.status)

    def _answered(
        self, who: str, method: str, place: Place, query: Mapping[str, str], body: bytes, form: str
    ) -> tuple[int, bytes]:
        api, kind = self.api, place.kind
        match method:
            case "GET" if place.name:
                return 200, orjson.dumps(api.get(kind, place.key))
            case "GET":
                return 200, orjson.dumps(self._listed(place, query))
            case "POST" if place.subresource == "binding":
                api.bind(place.key, orjson.loads(body)["target"]["name"], who)
                return 201, orjson.dumps(_success())
            case "POST":
                obj = _object(body, kind)
                if query.get("fieldValidation") == "Strict":
                    _strict(obj, kind)
                dry = query.get("dryRun") == "All"
                return 201, orjson.dumps(api.create(kind, place.namespace, obj, who, dry_run=dry))
            case "PUT":
                obj = _object(body, kind)
                made = api.replace(kind, place.key, obj, who, place.subresource)
                return 200, orjson.dumps(made)
            case "PATCH":
                if form not in {MERGE, JSON_PATCH}:
                    told = "415: Unsupported Media Type"
                    raise Refusal(415, told, "UnsupportedMediaType", {})
                change = api.merge if form == MERGE else api.json_patch
                patch = orjson.loads(body)
                return 200, orjson.dumps(change(kind, place.key, patch, who, place.subresource))
            case "DELETE" if place.name:
                return 200, orjson.dumps(self._deleted(who, place, query, body))
            case "DELETE":
                listed = self._listed(place, query)
                for each in self._selected(place, query):
                    api.delete(kind, (place.namespace, each["metadata"]["name"]), who)
                return 200, orjson.dumps(listed)
            case _:
                raise Unsimulated(f"{method} is not done here")

    def _deleted(self, who: str, place: Place, query: Mapping[str, str], body: bytes) -> Raw:
        options: Raw = orjson.loads(body) if body else {}
        given = options.get("preconditions") or {}
        policy = options.get("propagationPolicy") or query.get("propagationPolicy", "Background")
        if policy != "Background":
            raise Unsimulated(f"deletion in the {policy} is not done here")
        grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        last, gone = self.api.delete(
            place.kind,
            place.key,
            who,
            uid=given.get("uid", ""),
            version=given.get("resourceVersion", ""),
            grace=None if grace is None else int(grace),
        )
        if not gone or place.kind is POD:
            return last
        details = {"name": place.name, "group": place.kind.group, "kind": place.kind.resource}
        named = {key: value for key, value in details.items() if value}
        return {**_success(), "details": {**named, "uid": last["metadata"]["uid"]}}

    def _selected(self, place: Place, query: Mapping[str, str]) -> list[Raw]:
        found = self.api.store.all(place.kind, place.namespace)
        if not (query.get("labelSelector") or query.get("fieldSelector")):
            return found
        is_selected = _selector(query)
        return [each for each in found if is_selected(each)]

    def _listed(self, place: Place, query: Mapping[str, str]) -> Raw:
        store, kind = self.api.store, place.kind
        asked = query.get("resourceVersion", "")
        if asked.isdecimal() and int(asked) > store.version:
            cause = {
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }
            told = f"Timeout: Too large resource version: {asked}, current: {store.version}"
            raise Refusal(504, told, "Timeout", {"causes": [cause], "retryAfterSeconds": 1})
        token = query.get("continue", "")
        version, items = (
            self._resumed(token) if token else (store.version, self._selected(place, query))
        )
        metadata: Raw = {"resourceVersion": str(version)}
        limit = int(query.get("limit") or 0)
        if limit and len(items) > limit:
            rest = items[limit:]
            items = items[:limit]
            start = {"v": "meta.k8s.io/v1", "rv": version, "start": str(len(self._pages))}
            metadata["continue"] = base64.b64encode(orjson.dumps(start)).decode()
            self._pages[metadata["continue"]] = (version, rest)
            if not (query.get("labelSelector") or query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(rest)
        if not kind.is_custom:
            items = [{k: v for k, v in e.items() if k not in {"apiVersion", "kind"}} for e in items]
        named = {"apiVersion": kind.group_version, "kind": f"{kind.kind}List"}
        return {**named, "metadata": metadata, "items": items}

    def _resumed(self, token: str) -> tuple[int, list[Raw]]:
        if token in self._pages:
            return self._pages.pop(token)
        if b'"v":"meta.k8s.io/v1"' not in base64.b64decode(token + "=="):
            told = "server does not recognize this encoded version "
            raise bad_request(f"invalid continue token: continue key is not valid: {told}")
        told = (
            "The provided continue parameter is too old to display a consistent list result. You"
            " can start a new list without the continue parameter."
        )
        raise Refusal(410, told, "Expired")

    def past(self, place: Place, seconds: float) -> Raw:
        """A list of some time ago, as far back as changes are remembered."""
        store = self.api.store
        until = store.clock() - seconds
        known = [change for change in store.since(place.kind, 0) if change.at >= until]
        found = dict(store.each(place.kind))
        for change in reversed(known):
            if change.before is None:
                found.pop(change.key, None)
            else:
                found[change.key] = change.before
        version = known[0].version - 1 if known else store.version
        items = [found[key] for key in sorted(found)]
        named = {"apiVersion": place.kind.group_version, "kind": f"{place.kind.kind}List"}
        return {**named, "metadata": {"resourceVersion": str(version)}, "items": items}

    def expire_pages(self) -> None:
        """Forget all lists that are under way."""
        self._pages.clear()

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Told, None]:
        """The events of a collection, until `timeoutSeconds` are over.

        Raises:
            Refusal: the watch is refused; one that starts too far back is told in an event.
        """
        place = place_of(path)
        if place is None:
            raise Refusal(404, _NOWHERE, "NotFound", {})
        store, kind, clock = self.api.store, place.kind, self.api.store.clock
        is_selected = _selector(query)
        asked = query.get("resourceVersion", "")
        if asked and not asked.isdecimal():
            parse = f'strconv.ParseUint: parsing "{asked}": invalid syntax'
            raise Refusal(500, f'resourceVersion: Invalid value: "{asked}": {parse}')
        until = clock() + float(query.get("timeoutSeconds") or 1800)
        marked_at, marks = clock(), query.get("allowWatchBookmarks") in {"1", "true"}
        seen = int(asked or 0)
        if not seen:
            seen = store.version
            for each in self._selected(place, query):
                yield Told(clock(), _event(ADDED, each))
        while True:
            changed = store.changed(kind)
            if not store.remembers(kind, seen):
                status = Refusal(
                    410, f"too old resource version: {seen} ({store.version})", "Expired"
                ).status
                yield Told(clock(), _event("ERROR", status))
                return
            for change in store.since(kind, seen):
                seen = change.version
                is_here = not place.namespace or change.key[0] == place.namespace
                if is_here and (line := _line(change, is_selected)):
                    yield Told(change.at, line)
            if changed.done():
                continue
            left = until - clock()
            if left <= 0:
                return
            pause = min(left, marked_at + BOOKMARK_SECONDS - clock()) if marks else left
            await asyncio.wait([changed], timeout=max(pause, 0))
            if marks and not changed.done() and clock() >= marked_at + BOOKMARK_SECONDS:
                marked_at = clock()
                bare = {"metadata": {"resourceVersion": str(store.version)}}
                named = {"kind": kind.kind, "apiVersion": kind.group_version}
                yield Told(clock(), _event("BOOKMARK", {**named, **bare}))


def place_of(path: str) -> Place | None:
    """Where a path leads; None where no group is.

    Raises:
        Refusal: there is no such resource.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        version, rest = parts[1], parts[2:]
    else:
        version, rest = "/".join(parts[1:3]), parts[3:]
    known = served()
    if not any(each.startswith(f"{version}/") for each in known):
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = known.get(f"{version}/{rest[0]}")
    subresource = rest[2] if len(rest) > 2 else ""
    if kind is None:
        raise Refusal(404, _NOWHERE, "NotFound", {})
    place = Place(kind, namespace, rest[1] if len(rest) > 1 else "", subresource)
    if subresource and not _has(kind, subresource):
        named = {"name": place.name, "group": kind.group, "kind": kind.resource}
        details = {key: value for key, value in named.items() if value}
        told = f'{kind.qualified} "{place.name}" not found'
        raise Refusal(404, told, "NotFound", details)
    return place


def _has(kind: Kind, subresource: str) -> bool:
    return kind.has_status if subresource == STATUS else (kind is POD and subresource == "binding")


def _object(body: bytes, kind: Kind) -> Raw:
    try:
        obj: Raw = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get"
            f" version/kind; json parse error: unexpected end of JSON input ({body.decode()})"
        ) from None
    if obj.get("kind") != kind.kind:
        raise bad_request(
            f'{obj["kind"]} in version "{obj["apiVersion"]}" cannot be handled as a {kind.kind}:'
            f" converting (v1.{obj['kind']}) to (core.{kind.kind}): unknown conversion"
        )
    return obj


def _strict(obj: Raw, kind: Kind) -> None:
    bare = {key: value for key, value in obj.items() if key != "metadata"}
    for path in schemas.unknown_fields(bare, kind.schema or {}):
        version = kind.group_version.rpartition("/")[2]
        raise bad_request(
            f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: strict'
            f' decoding error: unknown field "{path}"'
        )


def _success() -> Raw:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _selector(query: Mapping[str, str]) -> Selects:
    return selects(query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _line(change: Change, is_selected: Selects) -> bytes:
    """A change as a watch tells it; what leaves the selector is told as deleted."""
    was = change.before is not None and is_selected(change.before)
    now = change.what != DELETED and is_selected(change.after)
    if was and now:
        return _event(MODIFIED, change.after)
    if now:
        return _event(ADDED, change.after)
    if was:
        assert change.before is not None
        version = change.after["metadata"]["resourceVersion"]
        last = change.after if change.what == DELETED else change.before
        return _event(
            DELETED, {**last, "metadata": {**last["metadata"], "resourceVersion": version}}
        )
    return b""


def _event(what: str, obj: Raw) -> bytes:
    return orjson.dumps({"type": what, "object": obj})


def bare_list(answer: bytes) -> bytes:
    """A list as who wants nothing but metadata gets it."""
    found = orjson.loads(answer)
    named = {"apiVersion": _META, "kind": "PartialObjectMetadataList"}
    return orjson.dumps({**found, **named, "items": [_bare(each) for each in found["items"]]})


def bare_event(line: bytes) -> bytes:
    """The same of an event."""
    event = orjson.loads(line)
    if event["type"] == "ERROR":
        return line
    return orjson.dumps({**event, "object": _bare(event["object"])})


def _bare(obj: Raw) -> Raw:
    return {"apiVersion": _META, "kind": "PartialObjectMetadata", "metadata": obj["metadata"]}
