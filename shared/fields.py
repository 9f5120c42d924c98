"""Reading JSON that may hold anything: each function returns the type that it is named after.

What is absent or of another type reads as empty, which is how Kubernetes' own clients see a field
that was left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

Json: TypeAlias = Mapping[str, object]
"""A JSON object as it was parsed."""

NOTHING: Final[Json] = {}


def mapping(value: object) -> Json:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else NOTHING


def elements(value: object) -> list[object]:
    """The array's elements, or none."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> Iterator[Json]:
    """Those elements of an array that are objects."""
    return (element for element in elements(value) if isinstance(element, dict))


def text(value: object) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""


def name(value: object) -> str:
    """As `text`, for strings that many objects share: each is held once."""
    return sys.intern(value) if isinstance(value, str) else ""


def whole(value: object) -> int | None:
    """The integer, or None: a boolean is none, nor is 2.0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def version_of(raw: Json) -> str:
    """The resource version that an object, a bookmark or a list carries; empty for none."""
    return text(mapping(raw.get("metadata")).get("resourceVersion"))
