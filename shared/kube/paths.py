"""Paths of the Kubernetes API, safe for names that came from somebody else."""

from __future__ import annotations

from urllib.parse import quote

from shared.errors import BadRequest


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
    """Quote a name; refuse what would lead elsewhere (Kubernetes: IsValidPathSegmentName)."""
    if not name or name in {".", ".."} or "/" in name or "%" in name:
        raise BadRequest(
            f"{name!r} cannot be the name of an object: expected text that is not empty, . or .. "
            "and has no / or %"
        )
    return quote(name, safe="")
