"""RFC 6902, the two operations that we use, applied as strictly as an API server does."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from tests.unit.scripted_api import Raw


def applied(document: Raw, operations: Iterable[Mapping[str, Any]]) -> Raw:
    """The document after these operations; an operation that does not fit is an error."""
    made: Any = copy.deepcopy(document)
    for operation in operations:
        assert operation.keys() == {"op", "path", "value"}, operation
        path = operation["path"]
        assert path.startswith("/"), operation
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")
        ]
        place = made
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        value = copy.deepcopy(operation["value"])
        match operation["op"], place:
            case "add", list() if last == "-":
                place.append(value)
            case "add", dict():
                place[last] = value
            case "replace", dict():
                assert last in place, operation
                place[last] = value
            case _:
                raise AssertionError(f"does not fit: {operation}")
    changed: Raw = made
    return changed
