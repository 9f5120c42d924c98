"""What the API server holds `metadata` to, at creation and at every change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from tests.simulation.causes import Cause

Raw = dict[str, Any]

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_STANDARD: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})

_NO_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    r" for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NO_KEY: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_NO_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    " '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def wrongs(metadata: Raw) -> list[Cause]:
    """What is wrong with the metadata of any object."""
    name = str(metadata.get("name", ""))
    found = []
    if not name:
        told = "Required value: name or generateName is required"
        return [Cause("Required", "metadata.name", told)]
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        told = f'Invalid value: "{name}": {_NO_SUBDOMAIN}'
        found.append(Cause("Invalid", "metadata.name", told))
    return [*found, *_labels(metadata), *_owners(metadata), *_finalizers(metadata)]


def wrong_changes(metadata: Raw, old: Raw) -> list[Cause]:
    """What is wrong with a change of metadata."""
    found = []
    if metadata.get("uid") != old["uid"]:
        told = f'Invalid value: "{metadata.get("uid")}": field is immutable'
        found.append(Cause("Invalid", "metadata.uid", told))
    if "deletionTimestamp" in old:
        known = old.get("finalizers") or ()
        new = [each for each in metadata.get("finalizers") or () if each not in known]
        if new:
            quoted = ", ".join(f'"{each}"' for each in sorted(new))
            told = (
                "Forbidden: no new finalizers can be added if the object is being deleted, found"
                f" new finalizers []string{{{quoted}}}"
            )
            found.append(Cause("Forbidden", "metadata.finalizers", told))
    if any(
        metadata.get(key) != old.get(key) for key in ("labels", "ownerReferences", "finalizers")
    ):
        found += wrongs(metadata)
    return found


def _labels(metadata: Raw) -> Iterator[Cause]:
    for key, value in (metadata.get("labels") or {}).items():
        domain, slash, rest = key.rpartition("/")
        if len(rest) > 63 or not _QUALIFIED.fullmatch(rest) or (slash and not domain):
            told = f'Invalid value: "{key}": {_NO_KEY}'
            yield Cause("Invalid", "metadata.labels", told)
        if len(value) > 63 or not _VALUE.fullmatch(value):
            told = f'Invalid value: "{value}": {_NO_VALUE}'
            yield Cause("Invalid", "metadata.labels", told)


def _owners(metadata: Raw) -> Iterator[Cause]:
    owners = metadata.get("ownerReferences") or ()
    for field in ("apiVersion", "kind", "name", "uid"):
        for each in owners:
            if not each.get(field):
                told = 'Invalid value: "": must not be empty'
                yield Cause("Invalid", f"metadata.ownerReferences.{field}", told)
    controllers = [each for each in owners if each.get("controller")]
    if len(controllers) > 1:
        shown = [f"{each['kind']}/{each['name']}" for each in controllers]
        told = (
            f"Invalid value: {orjson.dumps(owners).decode()}: Only one reference can have"
            f' Controller set to true. Found "true" in references for {" and ".join(shown)}'
        )
        yield Cause("Invalid", "metadata.ownerReferences", told)


def _finalizers(metadata: Raw) -> Iterator[Cause]:
    for place, each in enumerate(metadata.get("finalizers") or ()):
        if "/" not in each and each not in _STANDARD:
            told = (
                f'Invalid value: "{each}": name is neither a standard finalizer name nor is it'
                " fully qualified"
            )
            yield Cause("Invalid", f"metadata.finalizers[{place}]", told)
