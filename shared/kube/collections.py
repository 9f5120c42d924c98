"""The collections that a process can follow: where each is, and what its objects become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
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
        metadata_only: objects come without anything but their metadata.
    """

    name: str
    path: str
    decode: Callable[[Json, decode.Note], T_co]
    params: Mapping[str, str] = field(default_factory=dict)
    page_size: int = 200
    metadata_only: bool = False


Read = Callable[[Json, decode.Note], Object]


def _built_in(resource: str, read: Read, page_size: int = 200) -> Collection[Object]:
    return Collection(resource, collection("v1", resource), read, page_size=page_size)


def _ours(resource: str, read: Read) -> Collection[Object]:
    return Collection(resource, collection(v.GROUP_VERSION, resource), read)


def _kubevirts(resource: str, read: Read) -> Collection[Object]:
    return Collection(resource, collection(v.KUBEVIRT_GROUP_VERSION, resource), read)


CLUSTER: Final[tuple[Collection[Object], ...]] = (
    _built_in("nodes", decode.node),
    _built_in("pods", decode.pod, page_size=100),
    _built_in("namespaces", decode.namespace),
    _built_in(v.RESOURCE_QUOTAS, decode.quota),
    _ours(v.RESOURCE_CLASSES, decode.gpu_class),
    _ours(v.RESOURCE_CLAIMS, decode.claim),
    _kubevirts("kubevirts", decode.kubevirt),
    _kubevirts("virtualmachineinstances", decode.vmi),
)
"""All that figures are made of, except the settings (`shared.kube.followed`)."""

PLACING: Final[tuple[Collection[Object], ...]] = (
    _built_in("nodes", decode.node),
    _built_in("pods", partial(decode.pod, placing=True), page_size=100),
    _built_in("namespaces", partial(decode.namespace, placing=True)),
    _built_in(v.RESOURCE_QUOTAS, decode.quota),
    _ours(v.RESOURCE_CLASSES, partial(decode.gpu_class, placing=True)),
    _ours(v.RESOURCE_CLAIMS, partial(decode.claim, placing=True)),
    _ours(v.RESOURCE_SYSTEMS, decode.system),
    _kubevirts("kubevirts", decode.kubevirt),
    _kubevirts("virtualmachineinstances", partial(decode.vmi, placing=True)),
    _built_in("persistentvolumeclaims", decode.volume_claim),
    _built_in("persistentvolumes", decode.volume),
    Collection(
        "secrets",
        collection("v1", "secrets"),
        decode.secret,
        {"labelSelector": f"{v.LABEL_MANAGED_BY}={v.MANAGED_BY}"},
        metadata_only=True,
    ),
)
"""The same, and all that placing needs. Of Secrets only the names of those that we manage: one
of somebody else's that is in our way shows when ours is made."""


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
