"""The policies of rule 6.6 as far as they judge a binder, as the fake API server holds them.

The real ones are manifests; a binder is to be stopped by them here as it would be there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from shared import vocabulary as v
from tests.kubevirt.objects import (
    annotations_of,
    controller_of,
    finalizers_of,
    labels_of,
    status_of,
)
from tests.simulation.kinds import POD, Kind, kind_named
from tests.simulation.store import Store

Raw = dict[str, Any]

BINDER: Final = f"system:serviceaccount:{v.NAMESPACE}:gpu-binder"
KUBEVIRT: Final = f"system:serviceaccount:{v.KUBEVIRT_NAMESPACE}:kubevirt-controller"
ADMIN: Final = "admin"

BOOKING: Final = ("epoch", "nodeName", "resourceName", "boundTime")
"""The fields of a claim's status that are a booking."""

_TRUSTED: Final = frozenset({ADMIN, "system:serviceaccount:kube-system:generic-garbage-collector"})
_OURS: Final = frozenset({v.FINALIZER_CLAIM, v.FINALIZER_CLASS})


def account(who: str) -> str:
    """The account behind a process: what the API server sees of `<account>#<process>`."""
    return who.partition("#")[0]


def epoch(store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw) -> str:
    """A booking of an older term than the system's is refused (rule 7.1)."""
    if kind.resource != v.RESOURCE_CLAIMS or subresource != "status" or _is_trusted(who):
        return ""
    was, now = status_of(old or {}), status_of(new)
    if all(was.get(field) == now.get(field) for field in BOOKING):
        return ""
    system = store.get(kind_named(v.RESOURCE_SYSTEMS), ("", v.SYSTEM_NAME))
    present = status_of(system or {}).get("epoch", -1)
    booked = now.get("epoch", -1)
    if present < 0:
        return _denied("epoch", "status.epoch: no term has begun")
    if booked < present:
        return _denied("epoch", f"status.epoch: term {present} has begun, this is of {booked}")
    return ""


def status(store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw) -> str:
    """The status of claims and classes is the binder's."""
    del store
    if kind.resource not in {v.RESOURCE_CLAIMS, v.RESOURCE_CLASSES} or _is_ours(who):
        return ""
    if subresource and status_of(old or {}) != status_of(new):
        return _denied("status", "status: only the binder writes it")
    return ""


def finalizer(
    store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw
) -> str:
    """Our finalizers are the binder's; who is trusted may always take them away."""
    del store, subresource
    if _is_ours(who) or kind.resource not in {v.RESOURCE_CLAIMS, v.RESOURCE_CLASSES}:
        return ""
    was = _OURS.intersection(finalizers_of(old) if old else ())
    now = _OURS.intersection(finalizers_of(new))
    return "" if was == now else _denied("finalizer", "metadata.finalizers: the binder's")


def template(
    store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw
) -> str:
    """The mark of a template claim is the binder's."""
    del store, subresource
    if kind.resource != v.RESOURCE_CLAIMS or _is_ours(who):
        return ""
    was = labels_of(old).get(v.LABEL_TEMPLATE) if old else None
    if was == labels_of(new).get(v.LABEL_TEMPLATE):
        return ""
    return _denied("template-claim", "metadata.labels: only the binder marks a template claim")


def launcher(
    store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw
) -> str:
    """Our gate is taken away by the binder alone, and the mark of a launcher stays."""
    del store, subresource
    if kind is not POD or account(who) == ADMIN:
        return ""
    if old is None:
        ours = v.ANNOTATION_LAUNCHER in annotations_of(new) or _is_gated(new)
        if ours and account(who) != KUBEVIRT:
            return _denied("launcher", "metadata.annotations: only a launcher is marked")
        return ""
    was, now = (annotations_of(each).get(v.ANNOTATION_LAUNCHER) for each in (old, new))
    if was != now:
        return _denied("launcher", "metadata.annotations: the mark of a launcher stays")
    owners = [controller_of(each) for each in (old, new)]
    if was and owners[0] and owners[0] != owners[1] and not _is_trusted(who):
        return _denied("launcher", "metadata.ownerReferences: its VMI stays its controller")
    if _is_gated(old) and not _is_gated(new) and account(who) != BINDER:
        return _denied("launcher", "spec.schedulingGates: only the binder removes its gate")
    return ""


def usage_record(
    store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw
) -> str:
    """Usage records are the binder's."""
    del store, subresource, old, new
    if kind.resource != "workloads" or _is_ours(who):
        return ""
    return _denied("usage-record", "only the binder writes usage records")


ALL: Final = (epoch, status, finalizer, template, launcher, usage_record)


@dataclass(slots=True)
class Foreign:
    """A policy of the platform's own that refuses some launchers their start.

    `denies` is the chance of a write that opens our gate to be refused.
    """

    chance: random.Random
    denies: float

    def __call__(
        self, store: Store, who: str, kind: Kind, subresource: str, old: Raw | None, new: Raw
    ) -> str:
        """As the policies of ours."""
        del store, who, subresource
        if kind is not POD or old is None or not _is_gated(old) or _is_gated(new):
            return ""
        return "start: not now" if self.chance.random() < self.denies else ""


def _is_gated(pod: Raw) -> bool:
    return any(gate["name"] == v.GATE for gate in pod["spec"].get("schedulingGates") or ())


def _is_ours(who: str) -> bool:
    return account(who) == BINDER or _is_trusted(who)


def _is_trusted(who: str) -> bool:
    return account(who) in _TRUSTED


def _denied(name: str, why: str) -> str:
    policy = f"cozystack-gpu-{name}-policy"
    return f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}"
