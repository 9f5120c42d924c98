"""The garbage collector and the namespace controller: what goes when something else went."""

from __future__ import annotations

from typing import Any, Final

from tests.kubevirt.objects import is_going
from tests.simulation.fake_api import FakeApi
from tests.simulation.kinds import NAMESPACE, Kind, served
from tests.simulation.store import Key

Raw = dict[str, Any]

WHO: Final = "system:serviceaccount:kube-system:generic-garbage-collector"


def uids(api: FakeApi) -> set[str]:
    """Of everything that exists."""
    return {
        obj["metadata"]["uid"]
        for kind in api.store.kinds()
        for obj in api.store.each(kind).values()
    }


def is_orphan(obj: Raw, alive: set[str]) -> bool:
    """Whether an object had owners and none of them exists."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return bool(owners) and not any(each["uid"] in alive for each in owners)


def orphans(api: FakeApi) -> list[tuple[Kind, Key]]:
    """What the garbage collector has to delete now."""
    alive = uids(api)
    return [
        (kind, key)
        for kind in [*api.store.kinds()]
        for key, obj in [*api.store.each(kind).items()]
        if not is_going(obj) and is_orphan(obj, alive)
    ]


def collect(api: FakeApi) -> int:
    """One sweep of both; returns how many objects were touched."""
    touched = 0
    for kind, key in orphans(api):
        obj = api.get(kind, key)
        api.delete(kind, key, WHO, uid=obj["metadata"]["uid"])
        touched += 1
    for namespace in api.store.all(NAMESPACE):
        if is_going(namespace):
            touched += _empty(api, namespace["metadata"]["name"])
    return touched


def _empty(api: FakeApi, namespace: str) -> int:
    """Delete what is in a namespace that goes; the namespace itself once nothing is left."""
    inside = [
        (kind, key)
        for kind in served().values()
        if kind.namespaced
        for key in [*api.store.each(kind)]
        if key[0] == namespace
    ]
    touched = 0
    for kind, key in inside:
        if not is_going(api.get(kind, key)):
            api.delete(kind, key, WHO)
            touched += 1
    if not inside:
        key = ("", namespace)
        api.store.remove(NAMESPACE, key, api.get(NAMESPACE, key), WHO)
        touched += 1
    return touched
