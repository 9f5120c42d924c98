"""What the objects of a history say, read plainly and with nothing of the code under judgement."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import orjson

from tests.kubevirt.objects import (
    annotations_of,
    condition,
    controller_of,
    items,
    name_of,
    namespace_of,
    phase_of,
    status_of,
    uid_of,
)

Raw = dict[str, Any]

GATE = "gpu.cozystack.io/claims"
LAUNCHER = "gpu.cozystack.io/launcher"
RECORD = "gpu.cozystack.io/attachments"
TEMPLATE = "gpu.cozystack.io/template"
FINALIZER = "gpu.cozystack.io/claim"

REFUSALS = ("OutOf", "UnexpectedAdmissionError", "TopologyAffinityError")
"""How the reasons begin by which a kubelet says that it lacks something (rule 7.10)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a VMI's record: an order by name, or units of a class."""

    claim: str = ""
    class_name: str = ""
    count: int = 0


def allocatable(node: Raw) -> dict[str, int]:
    """Devices that a node offers."""
    amounts = status_of(node).get("allocatable") or {}
    return {name: int(amount) for name, amount in amounts.items() if "/" in name}


def requested(pod: Raw) -> Counter[str]:
    """Devices that a pod asks for; here nobody asks in init containers."""
    found = Counter[str]()
    for container in pod["spec"]["containers"]:
        asked = (container.get("resources") or {}).get("requests") or {}
        found.update({name: int(amount) for name, amount in asked.items() if "/" in name})
    return found


def is_ready(node: Raw) -> bool:
    """Whether its kubelet says so."""
    return bool(condition(node, "Ready").get("status") == "True")


def gates(pod: Raw) -> list[str]:
    """All its gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def terms(pod: Raw) -> list[Raw]:
    """The alternatives of its required node affinity."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def pins(term: Raw) -> list[str]:
    """The nodes that one alternative names."""
    return [
        value
        for field in term.get("matchFields") or ()
        if field["key"] == "metadata.name" and field["operator"] == "In"
        for value in field["values"]
    ]


def pinned_to(pod: Raw) -> str:
    """The node that every alternative names and nothing else; empty where one does not."""
    named = [pins(term) for term in terms(pod) if term]  # an empty one matches nothing
    if not named or any(len(each) != 1 for each in named):
        return ""
    nodes = {each[0] for each in named}
    return nodes.pop() if len(nodes) == 1 else ""


def mark_of(pod: Raw) -> str:
    """The uid of the VMI whose launcher it was admitted as, else empty."""
    return str(annotations_of(pod).get(LAUNCHER, ""))


def place_of(pod: Raw) -> str:
    """The node where it takes room: where it is, or where a launcher is pinned; empty for none."""
    if phase_of(pod) in {"Succeeded", "Failed"}:
        return ""
    node = pod["spec"].get("nodeName", "")
    return str(node or (pinned_to(pod) if mark_of(pod) else ""))


def was_refused(pod: Raw) -> bool:
    """Whether its node refused it for lack of something."""
    status = status_of(pod)
    return phase_of(pod) == "Failed" and str(status.get("reason", "")).startswith(REFUSALS)


def record_of(vmi: Raw) -> list[Entry]:
    """What a VMI was admitted with."""
    return [
        Entry(each.get("claim", ""), each.get("className", ""), int(each.get("count", 0)))
        for each in orjson.loads(annotations_of(vmi).get(RECORD, "[]"))
    ]


def machine_of(vmi: Raw) -> str:
    """The uid by which its claims are attached: that of its VM, or its own."""
    owner = controller_of(vmi)
    return str(owner["uid"]) if owner.get("kind") == "VirtualMachine" else uid_of(vmi)


def attached_to(claim: Raw) -> str:
    """The uid of the VM or VMI that uses a claim; empty while none does."""
    return str((status_of(claim).get("attachedTo") or {}).get("uid", ""))


def node_of(claim: Raw) -> str:
    """Where its units are; empty while it is not bound."""
    return str(status_of(claim).get("nodeName", ""))


def resource_of(claim: Raw) -> str:
    """Of which device its units are."""
    return str(status_of(claim).get("resourceName", ""))


def count_of(claim: Raw) -> int:
    """How many units."""
    return int(claim["spec"].get("count", 1))


def is_lost(claim: Raw) -> bool:
    """Whether it was bound and its node could not keep it (rule 3.2)."""
    bound = condition(claim, "Bound")
    return not node_of(claim) and bound.get("reason") == "NodeLost"


def said_by(claim: Raw) -> str:
    """The reason for which a claim, or the VM that names it, waits; empty where it says none."""
    waiting = (status_of(claim).get("waiting") or {}).get("reason", "")
    attached = condition(claim, "Attached")
    return str(waiting or (attached["reason"] if attached.get("status") == "False" else ""))


def is_template(claim: Raw) -> bool:
    """Whether it was made for a VMI's class entry."""
    return (claim["metadata"].get("labels") or {}).get(TEMPLATE) == "true"


def owners_of(obj: Raw) -> set[str]:
    """Uids of its owners."""
    return {each["uid"] for each in items(obj, "metadata", "ownerReferences")}


def made_for(claim: Raw) -> set[str]:
    """Uids of VMIs for whose class entry a claim was made: its owners, else by its name."""
    by_name = {name_of(claim).rpartition("-")[0]} if is_template(claim) else set[str]()
    return owners_of(claim) or by_name


def is_left(pod: Raw) -> bool:
    """Whether a launcher's pod has no owner any more."""
    return bool(mark_of(pod)) and not owners_of(pod)


def fingerprint(node: Raw) -> str:
    """What has to change before a node that refused is asked again early (rule 7.10)."""
    spec = node.get("spec") or {}
    parts = [allocatable(node), spec.get("taints") or [], is_ready(node)]
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS).decode()


def shown(obj: Raw) -> str:
    """An object's place, for people."""
    return f"{namespace_of(obj)}/{name_of(obj)}".removeprefix("/")
