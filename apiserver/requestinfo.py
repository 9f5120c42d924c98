"""What a request is about, read from its method, path and query alone.

The answer decides authorization and is what the handlers act on, so that both see the same
namespace and name. Verbs and path forms: "Request Verbs" and "API access control" in the
Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apiserver import selectors

_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}

_PARTS_MAX: Final = 8
"""apis, group, version, namespaces, one of them, resource, name, subresource; the rest is not
looked at."""

_READS: Final = frozenset({"list", "watch", "deletecollection"})


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request as authorization sees it.

    With `resource` empty it is about the path, and `verb` is the method in lower case. `name`
    may come from a field selector on `metadata.name`; `path_name` is the one in the path.
    """

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path_name: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether it is about a resource, not about a mere path."""
        return bool(self.resource)


def request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read a request.

    Args:
        method: in upper case.
        path: decoded.
        query: the first value of each parameter.
    """
    parts = path.strip("/").split("/", _PARTS_MAX)
    if len(parts) < 4 or parts[0] != "apis":
        return RequestInfo(verb=method.lower(), path=path)
    _, group, version, *rest = parts
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        rest = rest[2:] or rest[:1]
    resource, name, subresource = (*rest, "", "", "")[:3]
    verb = _VERBS.get(method, "")
    path_name = name
    if verb == "get" and not name:
        verb = "watch" if is_true(query.get("watch")) else "list"
        name = selectors.exact_name(query.get("fieldSelector", ""))
    elif verb == "delete" and not name:
        verb = "deletecollection"
    selects = verb in _READS
    return RequestInfo(
        verb=verb,
        path=path,
        group=group,
        version=version,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
        path_name=path_name,
        field_selector=query.get("fieldSelector", "") if selects else "",
        label_selector=query.get("labelSelector", "") if selects else "",
    )


def is_true(text: str | None) -> bool:
    """A flag in a query: absent, `false` and `0` are no, everything else is yes."""
    return text is not None and text.lower() not in {"false", "0"}
