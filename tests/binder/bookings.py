"""What was booked when, as the API server's audit log tells it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared import vocabulary as v
from shared.kube.podspec import pinned_to
from tests.binder.judged import Key, count_of, node_of
from tests.cluster.access import GPU_BINDER
from tests.cluster.api import Object
from tests.kubevirt.objects import annotations_of, finalizers_of, is_going, status_of, uid_of

READS = frozenset({"get", "list", "watch"})


@dataclass(slots=True)
class Ledger:
    """Follows the audit log.

    Attributes:
        room: units of a resource on a node, by both.
        wrong: every unit that was booked twice, and every pod that was started without its set.
        bookings: how often units were booked.
        starts: how many pods were pinned and let go, by uid of the instance.
    """

    room: Mapping[Key, int]
    wrong: list[str] = field(default_factory=list)
    bookings: int = 0
    starts: Counter[str] = field(default_factory=Counter)
    _booked: dict[Key, tuple[str, str, int]] = field(default_factory=dict)
    _units: Counter[Key] = field(default_factory=Counter)
    _records: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def follow(self, events: Iterable[Object]) -> None:
        """Take in what was written, in order."""
        for event in events:
            found = event.get("responseObject") or {}
            is_accepted = event["stage"] == "ResponseComplete" and (
                event["responseStatus"]["code"] < 300
            )
            if event["verb"] in READS or not is_accepted:
                continue
            what = f"{event['auditID']} {event['verb']} {event['requestURI']}"
            match event.get("objectRef", {}).get("resource"), found.get("kind"):
                case v.RESOURCE_CLAIMS, v.KIND_CLAIM:
                    self._claim(found, what)
                case _, v.KIND_VMI if event["verb"] == "create":
                    self._admitted(found)
                case "pods", "Pod" if event["verb"] == "patch":
                    is_ours = event["user"]["username"] == GPU_BINDER.name
                    if is_ours and not event["objectRef"].get("subresource"):
                        self._start(found, what)

    def _claim(self, claim: Object, what: str) -> None:
        metadata, node = claim["metadata"], node_of(claim)
        key = metadata["namespace"], metadata["name"]
        before = self._booked.pop(key, None)
        if before is not None:
            self._units[before[:2]] -= before[2]
        if not node or (is_going(claim) and not finalizers_of(claim)):
            return
        now = (node, str(status_of(claim)["resourceName"]), count_of(claim))
        self._booked[key] = now
        self._units[now[:2]] += now[2]
        if before != now:
            self.bookings += 1
            if self._units[now[:2]] > self.room.get(now[:2], 0):
                self.wrong.append(f"{self._units[now[:2]]} units of {now[:2]} booked: {what}")

    def _admitted(self, vmi: Object) -> None:
        uid = uid_of(vmi)
        self._records[uid] = [
            (each.get("claim") or f"{uid}-{each['entry']}", each["count"])
            for each in json.loads(annotations_of(vmi).get(v.ANNOTATION_ATTACHMENTS, "[]"))
        ]

    def _start(self, pod: Object, what: str) -> None:
        namespace, uid = pod["metadata"]["namespace"], annotations_of(pod)[v.ANNOTATION_LAUNCHER]
        self.starts[uid] += 1
        node = pinned_to(pod["spec"])
        for name, count in self._records[uid]:
            on, _, units = self._booked.get((namespace, name), ("", "", 0))
            if (on, units) != (node, count):
                self.wrong.append(f"started on {node}, {name} has {units} on {on!r}: {what}")
