"""Label and field selectors, as far as anybody here selects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.causes import Unsimulated

Raw = dict[str, Any]
Selects = Callable[[Raw], bool]

_SET: Final = re.compile(r"(?P<key>\S+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)")
_COMMA: Final = re.compile(r",(?![^(]*\))")


def selects(labels: str, fields: str) -> Selects:
    """Whether an object is selected.

    Raises:
        Unsimulated: a selector of a form that is not done here.
    """
    tests = [_label(part.strip()) for part in _COMMA.split(labels) if part.strip()]
    tests += [_field(part) for part in fields.split(",") if part]
    return lambda obj: all(test(obj) for test in tests)


def _label(part: str) -> Selects:
    if found := _SET.fullmatch(part):
        key, values = found["key"], {each.strip() for each in found["values"].split(",")}
        wanted = found["op"] == "in"
        return lambda obj: (_labels(obj).get(key) in values) is wanted
    for sign, wanted in (("!=", False), ("==", True), ("=", True)):
        key, found_sign, value = part.partition(sign)
        if found_sign:
            return lambda obj: (_labels(obj).get(key) == value) is wanted
    if part.startswith("!"):
        return lambda obj: part[1:] not in _labels(obj)
    return lambda obj: part in _labels(obj)


def _field(part: str) -> Selects:
    path, sign, value = part.partition("=")
    if not sign or path not in {"metadata.name", "metadata.namespace", "spec.nodeName"}:
        raise Unsimulated(f"the field selector {part} is not done here")
    first, second = path.split(".")
    return lambda obj: (obj.get(first) or {}).get(second, "") == value


def _labels(obj: Raw) -> Raw:
    found: Raw = obj["metadata"].get("labels") or {}
    return found
