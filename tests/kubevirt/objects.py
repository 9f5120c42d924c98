"""Reading and making parts of Kubernetes objects, as dictionaries."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence

from tests.cluster.api import Object
from tests.kubevirt import words as w


def name_of(obj: Object) -> str:
    """`metadata.name`."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Object) -> str:
    """`metadata.namespace`, empty for what has none."""
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: Object) -> str:
    """`metadata.uid`."""
    return str(obj["metadata"]["uid"])


def labels_of(obj: Object) -> Mapping[str, str]:
    """Labels, none for an object without."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> Mapping[str, str]:
    """Annotations, none for an object without."""
    return obj["metadata"].get("annotations") or {}


def finalizers_of(obj: Object) -> list[str]:
    """Finalizers, none for an object without."""
    return list(obj["metadata"].get("finalizers") or ())


def status_of(obj: Object) -> Object:
    """`status`, empty for an object without."""
    status: Object = obj.get("status") or {}
    return status


def phase_of(obj: Object) -> str:
    """`status.phase`, empty where there is none yet."""
    return str(status_of(obj).get("phase", ""))


def is_going(obj: Object) -> bool:
    """Whether its deletion has begun."""
    return "deletionTimestamp" in obj["metadata"]


def is_final(obj: Object) -> bool:
    """Whether an instance, a pod or a migration has ended, whichever way."""
    return phase_of(obj) in w.FINAL


def controller_of(obj: Object) -> Object:
    """The one owner reference that controls it; empty when there is none."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return {}


def is_controlled_by(obj: Object, owner: Object) -> bool:
    """Whether `owner` is its controller, by uid."""
    return controller_of(obj).get("uid") == uid_of(owner)


def owner_reference(owner: Object) -> Object:
    """The reference that names `owner` as the one that controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(obj: Object, kind: str) -> Object:
    """A condition of the status by its type; empty when there is none."""
    for found in status_of(obj).get("conditions") or ():
        if found["type"] == kind:
            known: Object = found
            return known
    return {}


def has_condition(obj: Object, kind: str, status: str) -> bool:
    """Whether a condition is there with this status."""
    return condition(obj, kind).get("status") == status


def made(kind: str, status: str, reason: str, message: str, now: str | None) -> Object:
    """A condition as KubeVirt writes them: times are always there, null when not known."""
    new = {
        "type": kind,
        "status": status,
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }
    return new | {k: v for k, v in (("reason", reason), ("message", message)) if v}


def with_condition(conditions: Iterable[Object], new: Object) -> list[Object]:
    """Conditions with one put in its place; one that says the same stays, times included."""
    known = list(conditions)
    for place, old in enumerate(known):
        if old["type"] == new["type"]:
            same = all(old.get(key) == new.get(key) for key in ("status", "reason"))
            known[place] = old if same else new
            return known
    return [*known, new]


def without_condition(conditions: Iterable[Object], kind: str) -> list[Object]:
    """Conditions but the one of this type."""
    return [each for each in conditions if each["type"] != kind]


def stamp(moment: datetime.datetime) -> str:
    """A time as Kubernetes writes it: whole seconds."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exact_stamp(moment: datetime.datetime) -> str:
    """A time with its thousandths, which Kubernetes' readers take too."""
    text = moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def moment_of(text: str) -> datetime.datetime:
    """The time that `stamp` or the API server wrote."""
    return datetime.datetime.fromisoformat(text)


def items(obj: Object, *path: str) -> Sequence[Object]:
    """The list at a path of nested fields; empty where a part is missing or null."""
    *way, last = path
    for key in way:
        obj = obj.get(key) or {}
    return obj.get(last) or ()
