"""Paths of the Kubernetes API, safe for names that came from somebody else."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from shared.errors import BadRequest

_NAME_MAX: Final = 253
"""The longest name of an object (DNS subdomain)."""


def collection(group_version: str, resource: str, namespace: str = "") -> str:
    """The path of a collection, across namespaces unless one is given.

    Args:
        group_version: `v1` for the core group, else `<group>/<version>`.
        resource: the plural name.
        namespace: empty for a cluster-wide resource, or for all namespaces.

    Raises:
        BadRequest: a part cannot be one segment of a path.
    """
    root = "/apis" if "/" in group_version else "/api"
    within = f"/namespaces/{_segment(namespace)}" if namespace else ""
    return f"{root}/{group_version}{within}/{resource}"


@lru_cache(maxsize=4096)  # admission reads the same few objects of a tenant again and again
def item(
    group_version: str, resource: str, name: str, namespace: str = "", subresource: str = ""
) -> str:
    """The path of one object, or of a subresource of it such as `status`.

    Raises:
        BadRequest: a part cannot be one segment of a path.
    """
    tail = f"/{subresource}" if subresource else ""
    return f"{collection(group_version, resource, namespace)}/{_segment(name)}{tail}"


def _segment(name: str) -> str:
    """Quote a name; refuse what would lead elsewhere (Kubernetes: IsValidPathSegmentName).

    And what is no Unicode, or is longer than the name of anything that we ask for.
    """
    if name and len(name) <= _NAME_MAX and name not in {".", ".."} and not {"/", "%"} & set(name):
        with suppress(UnicodeEncodeError):
            return quote(name, safe="")
    raise BadRequest(
        f"{name[:_NAME_MAX]!r} cannot be the name of an object: expected text of 1 to {_NAME_MAX} "
        "characters that is not . or .. and has no / or %"
    )
