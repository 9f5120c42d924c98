"""The collections that a process can follow: where each is, and what its objects become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from shared import vocabulary as v
from shared.core.model import Object
from shared.fields import Json
from shared.kube import decode
from shared.kube.paths import collection

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Collection(Generic[T_co]):
    """One list-and-watch path.

    Attributes:
        name: the plural resource name; reports and figures use it.
        path: absolute.
        decode: one object into a value; raises `decode.Undecodable`, notes what is odd.
        params: added to every query, such as a field selector.
        page_size: objects per page of a list. A page is parsed in one go, and while that lasts
            nothing else runs: keep it at a few megabytes.
    """

    name: str
    path: str
    decode: Callable[[Json, decode.Note], T_co]
    params: Mapping[str, str] = field(default_factory=dict)
    page_size: int = 200


def _built_in(resource: str, read: Callable[[Json, decode.Note], Object]) -> Collection[Object]:
    return Collection(resource, collection("v1", resource), read)


def _ours(resource: str, read: Callable[[Json, decode.Note], Object]) -> Collection[Object]:
    return Collection(resource, collection(v.GROUP_VERSION, resource), read)


def _kubevirts(resource: str, read: Callable[[Json, decode.Note], Object]) -> Collection[Object]:
    return Collection(resource, collection(v.KUBEVIRT_GROUP_VERSION, resource), read)


CLUSTER: Final[tuple[Collection[Object], ...]] = (
    _built_in("nodes", decode.node),
    Collection("pods", collection("v1", "pods"), decode.pod, page_size=100),
    _built_in("namespaces", decode.namespace),
    _built_in(v.RESOURCE_QUOTAS, decode.quota),
    _ours(v.RESOURCE_CLASSES, decode.gpu_class),
    _ours(v.RESOURCE_CLAIMS, decode.claim),
    _kubevirts("kubevirts", decode.kubevirt),
    _kubevirts("virtualmachineinstances", decode.vmi),
    _kubevirts("virtualmachineinstancemigrations", decode.migration),
)
"""All that a state of the cluster is made of, except the settings (`shared.kube.followed`)."""


def config_map(namespace: str, name: str) -> Collection[Json]:
    """One ConfigMap, undecoded; a role that is restricted to its name suffices."""
    return Collection(
        f"configmaps/{namespace}/{name}",
        collection("v1", "configmaps", namespace),
        _as_it_is,
        {"fieldSelector": f"metadata.name={name}"},
    )


def _as_it_is(raw: Json, note: decode.Note) -> Json:
    del note
    return raw
