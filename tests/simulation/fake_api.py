"""The API server of a simulation: what it takes, refuses, and makes of what it takes.

Every rule here is held to the real kube-apiserver by `calls.yaml`. What the fake does not know it
refuses to guess: it raises Unsimulated.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tests.kubevirt.objects import is_going, stamp
from tests.simulation import metadata as meta
from tests.simulation import patches, pods, schemas
from tests.simulation.causes import Cause
from tests.simulation.kinds import EVENT, LEASE, NAMESPACE, NODE, POD, SECRET, Kind, served
from tests.simulation.refusals import (
    Refusal,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    precondition,
    rejected,
)
from tests.simulation.store import Key, Store

Json = Any
"""Any JSON value."""

Raw = dict[str, Json]

STATUS: Final = "status"
_KEPT: Final = (
    "uid",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_NOT_SET: Final = "Invalid value: 0: must be specified for an update"


class Policy(Protocol):
    """A ValidatingAdmissionPolicy of ours: why a write is refused, empty where it is not."""

    def __call__(
        self, store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw, /
    ) -> str:
        """Judge a creation (no old) or an update."""


@dataclass(slots=True)
class FakeApi:
    """Reads and writes as one account after the other asks for them; all of it at once.

    Attributes:
        store: what it stands on.
        now: the time of the API server.
        chance: for uids and generated names.
        policies: of admission, after everything else.
    """

    store: Store
    now: Callable[[], datetime.datetime]
    chance: random.Random
    policies: Sequence[Policy] = ()
    _examined: set[Kind] = field(default_factory=set)
    _unstored: set[str] = field(default_factory=set)
    """Uids of objects whose status is a default: the first update of any sort stores it."""

    def __post_init__(self) -> None:
        for kind in served().values():
            if kind.schema is not None and kind.group == "gpu.cozystack.io":
                schemas.examine(kind.schema)

    def get(self, kind: Kind, key: Key) -> Raw:
        """An object.

        Raises:
            Refusal: there is none.
        """
        found = self.store.get(kind, key)
        if found is None:
            raise not_found(kind, key[1])
        return found

    def create(
        self, kind: Kind, namespace: str, obj: Raw, who: str, *, dry_run: bool = False
    ) -> Raw:
        """Store a new object.

        Raises:
            Refusal: it may not be.
        """
        given = dict(obj.get("metadata") or {})
        if given.get("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )
        if given.get("generateName") and not given.get("name"):
            suffix = "".join(self.chance.choices(_SUFFIX, k=5))
            given["name"] = given["generateName"] + suffix
        name = str(given.get("name", ""))
        if given.get("resourceVersion"):
            raise Refusal(500, "resourceVersion should not be set on objects to be created")
        if kind.namespaced:
            self._open(kind, namespace, name)
            given["namespace"] = namespace
        for unwanted in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
            given.pop(unwanted, None)
        given["uid"] = self._uid()
        given["creationTimestamp"] = stamp(self.now())
        if kind.counts:
            given["generation"] = 1
        named = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": given}
        new = self._completed(kind, {**obj, **named})
        causes = [*meta.wrongs(given), *self._wrongs(kind, new, None)]
        if causes:
            raise invalid(kind, name, causes)
        self._admit(who, kind, "", None, new)
        before = self.store.get(kind, (namespace, name))
        if before is not None:
            raise already_exists(kind, name, is_going(before))
        if dry_run:
            return new
        if kind.is_custom and kind.has_status and STATUS in new:
            self._unstored.add(given["uid"])
        return self.store.put(kind, (namespace, name), new, who)

    def replace(self, kind: Kind, key: Key, obj: Raw, who: str, subresource: str = "") -> Raw:
        """Replace an object, or its status.

        Raises:
            Refusal: it may not be.
        """
        given = obj.get("metadata") or {}
        if given.get("name") != key[1]:
            raise bad_request(
                f"the name of the object ({given.get('name', '')}) does not match the name on the"
                f" URL ({key[1]})"
            )
        old = self.get(kind, key)
        version = given.get("resourceVersion", "")
        if version and not version.isdecimal():
            raise Refusal(500, f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if not version and not kind.unconditional:
            cause = Cause("Invalid", "metadata.resourceVersion", _NOT_SET)
            raise invalid(kind, key[1], [cause], resource=True)
        uid, stored = given.get("uid"), old["metadata"]["uid"]
        if uid and uid != stored:
            group = f"{kind.group}/" if kind.is_custom else ""
            at = f"/registry/{group}{kind.resource}/{key[0]}/{key[1]}"
            raise conflict(
                kind,
                key[1],
                f"StorageError: invalid object, Code: 4, Key: {at}, ResourceVersion: 0,"
                f" AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in"
                f" object meta: {stored}",
            )
        return self._update(kind, key, old, obj, who, subresource)

    def merge(self, kind: Kind, key: Key, patch: Json, who: str, subresource: str = "") -> Raw:
        """Apply a merge patch to an object, or to its status.

        Raises:
            Refusal: the result may not be, or the object is not there.
        """
        if not isinstance(patch, dict):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal array into Go value of type"
                " map[string]interface {}"
            )
        old = self.get(kind, key)
        return self._patched(kind, key, old, patches.merged(old, patch), who, subresource)

    def json_patch(
        self, kind: Kind, key: Key, operations: Json, who: str, subresource: str = ""
    ) -> Raw:
        """Apply a JSON Patch to an object, or to its status.

        Raises:
            Refusal: it cannot be applied, the result may not be, or the object is not there.
        """
        if not isinstance(operations, list):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal object into Go value of type"
                " []handlers.jsonPatchOp"
            )
        old = self.get(kind, key)
        try:
            new = patches.patched(old, operations)
        except patches.Inapplicable:
            raise rejected() from None
        return self._patched(kind, key, old, new, who, subresource)

    def delete(
        self,
        kind: Kind,
        key: Key,
        who: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
    ) -> tuple[Raw, bool]:
        """Delete an object: its last or present state, and whether it is gone.

        Raises:
            Refusal: there is none, or a precondition does not hold.
        """
        old = self.get(kind, key)
        metadata = old["metadata"]
        if uid and uid != metadata["uid"]:
            raise precondition(
                kind,
                key[1],
                f"the UID in the precondition ({uid}) does not match the UID in record"
                f" ({metadata['uid']}). The object might have been deleted and then recreated",
            )
        if version and version != metadata["resourceVersion"]:
            raise precondition(
                kind,
                key[1],
                f"the ResourceVersion in the precondition ({version}) does not match the"
                f" ResourceVersion in record ({metadata['resourceVersion']}). The object might"
                " have been modified",
            )
        seconds = pods.grace_seconds(old, grace) if kind is POD else 0
        if not seconds and not metadata.get("finalizers") and kind is not NAMESPACE:
            last = self._marked(old, 0) if kind is POD else old
            return self.store.remove(kind, key, last, who), True
        known = metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in metadata and (known is None or seconds >= known):
            return old, False
        marked = self._marked(old, seconds)
        if kind is NAMESPACE:
            marked["status"] = {**marked.get("status", {}), "phase": "Terminating"}
            marked["metadata"].pop("deletionGracePeriodSeconds")
        return self.store.put(kind, key, marked, who), False

    def bind(self, key: Key, node: str, who: str) -> None:
        """Put a pod on a node, as the scheduler does.

        Raises:
            Refusal: it has gates, a node, or is being deleted.
        """
        old = self.get(POD, key)
        spec, why = old["spec"], ""
        if is_going(old):
            why = f"pod {key[1]} is being deleted, cannot be assigned to a host"
        elif spec.get("nodeName"):
            why = f"pod {key[1]} is already assigned to node {spec['nodeName']!r}"
        elif spec.get("schedulingGates"):
            why = f"pod {key[1]} has non-empty .spec.schedulingGates"
        if why:
            told = f'Operation cannot be fulfilled on pods/binding "{key[1]}": {why}'
            raise Refusal(409, told, "Conflict", {"name": key[1], "kind": "pods/binding"})
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": stamp(self.now()),
        }
        status = {**old["status"], "conditions": [scheduled]}
        new = {**old, "spec": {**spec, "nodeName": node}, "status": status}
        self.store.put(POD, key, new, who)

    def _patched(self, kind: Kind, key: Key, old: Raw, new: Raw, who: str, subresource: str) -> Raw:
        given = new.get("metadata") or {}
        if given.get("name") != key[1]:
            raise bad_request(
                f"the name of the object ({given.get('name', '')}) does not match the name on the"
                f" URL ({key[1]})"
            )
        return self._update(kind, key, old, new, who, subresource)

    def _update(self, kind: Kind, key: Key, old: Raw, obj: Raw, who: str, subresource: str) -> Raw:
        was, given = old["metadata"], dict(obj.get("metadata") or {})
        version = given.pop("resourceVersion", "")
        uid = given.get("uid") or was["uid"]
        given = {**given, **{k: was[k] for k in _KEPT if k in was}, "uid": uid}
        for each in _KEPT:
            if each not in was and each != "uid":
                given.pop(each, None)
        for each in ("labels", "annotations", "finalizers", "ownerReferences"):
            if not given.get(each):
                given.pop(each, None)
        if subresource and kind.is_custom:
            new = {**old, STATUS: obj.get(STATUS)}
            if new[STATUS] is None:
                del new[STATUS]
            given = {k: v for k, v in was.items() if k != "resourceVersion"}
        elif subresource:
            new = {**old, STATUS: obj.get(STATUS, {})}
        else:
            new = {key: each for key, each in obj.items() if key != STATUS or not kind.has_status}
            if kind.has_status and STATUS in old:
                new[STATUS] = old[STATUS]
        if subresource and not kind.is_custom:
            given["ownerReferences"] = was.get("ownerReferences")
            if given["ownerReferences"] is None:
                del given["ownerReferences"]
        named = {"apiVersion": kind.group_version, "kind": kind.kind}
        new = self._shaped(kind, {**new, **named, "metadata": given})
        if version and version != was["resourceVersion"]:
            raise conflict(kind, key[1])
        bare = {k: v for k, v in was.items() if k != "resourceVersion"}
        if new == {**old, "metadata": bare} and was["uid"] not in self._unstored:
            return old
        if kind.counts and _wanted(kind, new) != _wanted(kind, old):
            given["generation"] = was["generation"] + 1
        causes = [
            *meta.wrong_changes(given, bare)
            * 2,  # all kinds are held to it once more by themselves
            *self._wrongs(kind, new, old, subresource),
        ]
        if causes:
            raise invalid(kind, key[1], causes)
        self._admit(who, kind, subresource, old, new)
        if is_going(old) and not _is_kept(kind, given):
            self.store.remove(kind, key, new, who)
            return {**new, "metadata": {**given, "resourceVersion": was["resourceVersion"]}}
        self._unstored.discard(was["uid"])
        return self.store.put(kind, key, new, who)

    def _open(self, kind: Kind, namespace: str, name: str) -> None:
        """Make sure that a namespace takes something new.

        Raises:
            Refusal: it is not there, or is going.
        """
        found = self.get(NAMESPACE, ("", namespace))
        if is_going(found):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            why = (
                f"unable to create new content in namespace {namespace} because it is being"
                " terminated"
            )
            raise forbidden(kind, name, why, [cause])

    def _admit(self, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw) -> None:
        for policy in self.policies:
            if why := policy(self.store, who, kind, subresource, old, new):
                raise forbidden(kind, new["metadata"]["name"], why)

    def _completed(self, kind: Kind, obj: Raw) -> Raw:
        """A new object with what the API server adds, and without what it drops."""
        if kind is POD:
            return pods.completed(obj, stamp(self.now()))
        if kind is NAMESPACE:
            name = obj["metadata"].get("name")
            labels = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
            metadata = {**obj["metadata"], "labels": labels}
            own = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
            return {**obj, "metadata": metadata, **own}
        if kind is EVENT:
            usual = dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime"))
            words = {"reportingComponent": "", "reportingInstance": "", "source": {}}
            return {**usual, **words, **obj}
        if kind is SECRET:
            obj = {"type": "Opaque", **obj}
        if kind.has_status and kind is not NODE:
            obj = {key: value for key, value in obj.items() if key != STATUS}
        return self._shaped(kind, obj)

    def _shaped(self, kind: Kind, obj: Raw) -> Raw:
        if kind is POD:
            return {**obj, "spec": pods.tidied(obj["spec"])}
        if kind.schema is None:
            return obj
        shaped: Raw = schemas.shaped(obj, kind.schema)
        return {**shaped, **{key: obj[key] for key in ("apiVersion", "kind", "metadata")}}

    def _wrongs(self, kind: Kind, new: Raw, old: Raw | None, subresource: str = "") -> list[Cause]:
        if kind.schema is not None:
            ruled = kind.is_ruled
            if subresource == STATUS:
                of = kind.schema["properties"][STATUS]
                was = (old or {}).get(STATUS)
                return schemas.wrongs(new.get(STATUS, {}), was, of, STATUS, ruled=ruled)
            return schemas.wrongs(new, old, kind.schema, ruled=ruled)
        if kind is POD:
            changes = [] if old is None or subresource else pods.wrong_changes(new, old)
            return [*pods.wrongs(new), *changes]
        if kind is LEASE and new["spec"].get("leaseDurationSeconds", 1) <= 0:
            told = "Invalid value: 0: must be greater than 0"
            return [Cause("Invalid", "spec.leaseDurationSeconds", told)]
        if kind is SECRET and old is not None and new.get("type") != old["type"]:
            told = f'Invalid value: "{new.get("type")}": field is immutable'
            return [Cause("Invalid", "type", told)]
        if kind is EVENT:
            place = new["involvedObject"].get("namespace", "")
            if place and place != new["metadata"]["namespace"]:
                told = f'Invalid value: "{place}": does not match event.namespace'
                return [Cause("Invalid", "involvedObject.namespace", told)]
        return []

    def _marked(self, obj: Raw, seconds: int) -> Raw:
        """An object whose deletion has begun."""
        when = self.now() + datetime.timedelta(seconds=seconds)
        metadata = {
            **obj["metadata"],
            "deletionTimestamp": stamp(when),
            "deletionGracePeriodSeconds": seconds,
        }
        if "generation" in metadata:
            metadata["generation"] += 1
        return {**obj, "metadata": metadata}

    def _uid(self) -> str:
        digits = f"{self.chance.getrandbits(128):032x}"
        cuts = (0, 8, 12, 16, 20, 32)
        return "-".join(digits[a:b] for a, b in itertools.pairwise(cuts))


def _is_kept(kind: Kind, metadata: Raw) -> bool:
    """Whether an object that is being deleted stays for now."""
    waits = kind is POD and bool(metadata.get("deletionGracePeriodSeconds"))
    return kind is NAMESPACE or waits or bool(metadata.get("finalizers"))


def _wanted(kind: Kind, obj: Raw) -> Raw:
    """What of an object says what is wanted: all but metadata, and the status where it is apart."""
    if kind is POD:
        spec: Raw = obj["spec"]
        return spec
    return {
        k: v for k, v in obj.items() if k != "metadata" and (k != STATUS or not kind.has_status)
    }
