"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396), as kube-apiserver applies them.

The object that is patched is left as it was; what did not change is shared with the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = Any
"""Any JSON value."""


class Inapplicable(Exception):
    """A test failed, or a path leads nowhere."""


def merged(target: Json, patch: Json) -> Json:
    """A merge patch applied: null takes away, objects are merged, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def patched(target: Json, operations: Sequence[Json]) -> Json:
    """A JSON Patch applied.

    Raises:
        Inapplicable: it cannot be, as a whole.
    """
    for operation in operations:
        target = _applied(target, operation)
    return target


def _applied(target: Json, operation: Json) -> Json:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise Inapplicable("an operation is an object with a path")
    path = _parts(operation["path"])
    value = operation.get("value")
    match operation.get("op"):
        case "test":
            found, there = _found(target, path)
            if (not there and value is not None) or (there and not _equal(found, value)):
                raise Inapplicable(f"test of {operation['path']} failed")
            return target
        case "add":
            return _changed(target, path, value, "add")
        case "replace":
            return _changed(target, path, value, "replace")
        case "remove":
            return _changed(target, path, None, "remove")
        case other:
            raise Inapplicable(f"operation {other!r}")


def _changed(target: Json, path: list[str], value: Json, what: str) -> Json:
    if not path:
        return value
    head, *rest = path
    if isinstance(target, dict):
        if rest:
            if head not in target:
                raise Inapplicable(f"{head} is not there")
            return {**target, head: _changed(target[head], rest, value, what)}
        if what == "remove":
            if head not in target:
                raise Inapplicable(f"{head} is not there")
            return {key: each for key, each in target.items() if key != head}
        return {**target, head: value}  # the API server's library adds where it should replace
    if isinstance(target, list):
        place = _place(target, head, what == "add" and not rest)
        if rest:
            changed = _changed(target[place], rest, value, what)
            return [*target[:place], changed, *target[place + 1 :]]
        kept = [] if what == "remove" else [value]
        after = place if what == "add" else place + 1
        return [*target[:place], *kept, *target[after:]]
    raise Inapplicable(f"{head} is below what has no members")


def _found(target: Json, path: list[str]) -> tuple[Json, bool]:
    """What is at a path; whether something is.

    Raises:
        Inapplicable: not even what it would be in is there.
    """
    for index, part in enumerate(path):
        last = index == len(path) - 1
        if isinstance(target, dict):
            if part not in target:
                if last:
                    return None, False
                raise Inapplicable(f"{part} is not there")
            target = target[part]
        elif isinstance(target, list):
            target = target[_place(target, part, False)]
        else:
            raise Inapplicable(f"{part} is below what has no members")
    return target, True


def _place(target: list[Json], part: str, adding: bool) -> int:
    if part == "-" and adding:
        return len(target)
    if not part.isdecimal() or int(part) >= len(target) + adding:
        raise Inapplicable(f"there is no item {part}")
    return int(part)


def _parts(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise Inapplicable(f"{path} is no path")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _equal(one: Json, other: Json) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(v, other[k]) for k, v in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
