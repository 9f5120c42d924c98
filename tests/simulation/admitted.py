"""What our webhooks make of VMIs and pods before they are stored (rules 6.1 and 6.2), for actors.

As little of it as a binder depends on. It is written by hand and not by `admission`, so that both
can be wrong apart.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from shared import vocabulary as v
from tests.kubevirt import words as w
from tests.kubevirt.objects import annotations_of, labels_of, namespace_of
from tests.simulation import facts, things
from tests.simulation.kinds import kind_named
from tests.simulation.store import Store

Raw = dict[str, Any]


FOREIGN_GATE: Final = "somebody.io/gate"
"""Annotation of a VM whose pods get this gate too; whose it is takes it away later."""


class NotAdmitted(Exception):
    """A VMI is refused; the message says why."""


def vmi(store: Store, wanted: Raw) -> Raw:
    """A VMI with its record and its devices.

    Raises:
        NotAdmitted: a class or a claim cannot be had.
    """
    annotations = dict(annotations_of(wanted))
    annotations.pop(v.ANNOTATION_ATTACHMENTS, None)
    entries = orjson.loads(annotations.get(v.ANNOTATION_CLASSES, "[]"))
    names = orjson.loads(annotations.get(v.ANNOTATION_CLAIMS, "[]"))
    if not entries and not names:
        return wanted
    settings = store.get(kind_named("configmaps"), (v.NAMESPACE, v.SETTINGS_NAME))
    if ((settings or {}).get("data") or {}).get("enabled") == "false":
        raise NotAdmitted("Disabled")
    for entry in entries:
        found = store.get(kind_named(v.RESOURCE_CLASSES), ("", entry["className"]))
        if found is None or found["spec"].get("lifecycle") == "Closed":
            raise NotAdmitted(f"class {entry['className']}")
    claims = [_claim(store, wanted, name) for name in names]
    recorded = things.record(entries, claims)
    annotations[v.ANNOTATION_ATTACHMENTS] = orjson.dumps(recorded).decode()
    gpus = [
        {"name": f"gpu-{place}-{unit}", "deviceName": item["resourceName"]}
        for place, item in enumerate(recorded)
        for unit in range(item["count"])
    ]
    domain = wanted["spec"]["domain"]
    domain = {**domain, "devices": {**domain["devices"], "gpus": gpus}}
    return {
        **wanted,
        "metadata": {**wanted["metadata"], "annotations": annotations},
        "spec": {**wanted["spec"], "domain": domain},
    }


def pod(store: Store, of: Raw, wanted: Raw) -> Raw:
    """A pod of a VMI with the mark, and, where it is placed by us, with the gate."""
    if v.ANNOTATION_ATTACHMENTS not in annotations_of(of):
        return wanted
    annotations = {**annotations_of(wanted), v.ANNOTATION_LAUNCHER: of["metadata"]["uid"]}
    made = {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}
    settings = store.get(kind_named("configmaps"), (v.NAMESPACE, v.SETTINGS_NAME))
    is_off = ((settings or {}).get("data") or {}).get("enabled") == "false"
    if w.LABEL_MIGRATION_JOB in labels_of(wanted) or is_off:
        return made
    gates = [{"name": v.GATE}]
    if FOREIGN_GATE in annotations:
        gates.append({"name": FOREIGN_GATE})
    return {**made, "spec": {**made["spec"], "schedulingGates": gates}}


def _claim(store: Store, wanted: Raw, name: str) -> Raw:
    found = store.get(kind_named(v.RESOURCE_CLAIMS), (namespace_of(wanted), name))
    if found is None or "deletionTimestamp" in found["metadata"] or facts.is_template(found):
        raise NotAdmitted(f"claim {name}")
    attached = facts.attached_to(found)
    if attached and attached not in {o["uid"] for o in wanted["metadata"]["ownerReferences"]}:
        users = [
            *store.each(kind_named("virtualmachines")).values(),
            *store.each(kind_named("virtualmachineinstances")).values(),
        ]
        if any(each["metadata"]["uid"] == attached for each in users):
            raise NotAdmitted(f"claim {name} is in use")
    return found
