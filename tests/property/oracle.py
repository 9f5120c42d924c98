"""A second calculation of every figure, written to be obviously right and never fast.

It works on plain lists, follows the rules' own sentences, keeps nothing, and shares no function
with the code that ships: only the values it reads and the enums it answers with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.core.model import (
    Claim,
    Entitlement,
    GpuClass,
    KubeVirt,
    Lifecycle,
    Namespace,
    Node,
    Object,
    Placement,
    Pod,
    Quota,
    Settings,
    Vmi,
)


@dataclass
class World:
    """Everything that exists, as lists."""

    nodes: list[Node]
    pods: list[Pod]
    claims: list[Claim]
    classes: list[GpuClass]
    quotas: list[Quota]
    namespaces: list[Namespace]
    vmis: list[Vmi]
    kubevirts: list[KubeVirt]
    settings: Settings


def world(objects: Iterable[Object]) -> World:
    """Sort objects into lists."""
    found = World([], [], [], [], [], [], [], [], Settings())
    for value in objects:
        match value:
            case Node():
                found.nodes.append(value)
            case Pod():
                found.pods.append(value)
            case Claim():
                found.claims.append(value)
            case GpuClass():
                found.classes.append(value)
            case Quota():
                found.quotas.append(value)
            case Namespace():
                found.namespaces.append(value)
            case Vmi():
                found.vmis.append(value)
            case KubeVirt():
                found.kubevirts.append(value)
            case Settings():
                found.settings = value
            case _:
                pass
    return found


# Tenants (4.3).


def tenant(name: str) -> bool:
    return name.startswith("tenant-") and name != "tenant-"


def ancestors(w: World, name: str) -> list[str]:
    """The namespace itself, then upwards."""
    line = [name]
    while tenant(line[-1]) and line[-1] != "tenant-root":
        parts = line[-1].split("-")
        existing = {n.name for n in w.namespaces}
        shorter = ["-".join(parts[:k]) for k in range(len(parts) - 1, 0, -1)]
        above = [s for s in shorter if tenant(s) and s in existing]
        if above:
            line.append(above[0])
        elif "tenant-root" in existing:
            line.append("tenant-root")
        else:
            break
    return line


# Sets (4.5, 4.6, 7.13).


def resource(w: World, claim: Claim) -> str:
    if claim.resource_name:
        return claim.resource_name
    return next((c.resource_name for c in w.classes if c.name == claim.class_name), "")


def vmi_of_launcher(w: World, pod: Pod) -> Vmi | None:
    for vmi in w.vmis:
        if (
            vmi.uid == pod.owner == pod.launcher_mark
            and pod.uid in vmi.active_pods
            and pod.namespace == vmi.namespace
        ):
            return vmi
    return None


def made_for(claim: Claim) -> str:
    """A template claim is its owner's; without one its name says whose it was: `<uid>-<entry>`."""
    if claim.is_template and not claim.owner:
        return "-".join(claim.name.split("-")[:-1])
    return claim.owner


def of_gone_vmi(w: World, pod: Pod) -> bool:
    return pod.launcher_mark != "" and pod.launcher_mark not in [vmi.uid for vmi in w.vmis]


def left_by(w: World) -> list[tuple[list[Pod], list[Claim]]]:
    """Of each VMI that is gone the pods that have not ended, with the claims made for it."""
    left = [p for p in w.pods if not p.ended and of_gone_vmi(w, p)]
    return [
        (
            [p for p in left if (p.namespace, p.launcher_mark) == (namespace, uid)],
            [c for c in w.claims if (c.namespace, made_for(c)) == (namespace, uid)],
        )
        for namespace, uid in {(p.namespace, p.launcher_mark) for p in left}
    ]


def claims_of(w: World, vmi: Vmi) -> list[Claim]:
    found = []
    for claim in w.claims:
        if claim.namespace != vmi.namespace:
            continue
        if claim.attached_to is not None:
            mine = claim.attached_to.uid in [u for u in (vmi.uid, vmi.vm) if u]
        elif made_for(claim):
            mine = made_for(claim) == vmi.uid
        else:
            mine = claim.name in [entry.claim for entry in vmi.record]
        if mine:
            found.append(claim)
    return found


def where(pod: Pod) -> str:
    if pod.ended:
        return ""
    return pod.node_name or (pod.pinned_to if pod.launcher_mark else "")


# Capacity (3.1, 4.6).


def takes(node: Node, gpu_class: GpuClass) -> bool:
    if node.unschedulable or not node.ready:
        return False
    if node.labels.get("kubevirt.io/schedulable") != "true":
        return False
    for taint in node.taints:
        if taint.key.startswith("node.kubernetes.io/") or taint.effect == "PreferNoSchedule":
            continue
        if not any(t.operator == "Exists" and t.key == taint.key for t in gpu_class.tolerations):
            return False
    return True


def on_node(w: World, node: Node, name: str) -> tuple[int, int, int]:
    """Total, bound, outside of one resource."""
    bound = sum(c.count for c in w.claims if c.node_name == node.name and resource(w, c) == name)
    outside = 0
    here = [p for p in w.pods if where(p) == node.name]
    for pod in here:
        if vmi_of_launcher(w, pod) is None and not of_gone_vmi(w, pod):
            outside += pod.requests.get(name, 0)
    for vmi in w.vmis:
        held = sum(p.requests.get(name, 0) for p in here if vmi_of_launcher(w, p) is vmi)
        booked = sum(
            c.count
            for c in claims_of(w, vmi)
            if c.node_name == node.name and resource(w, c) == name
        )
        outside += max(0, held - booked)
    for pods, claims in left_by(w):
        held = sum(p.requests.get(name, 0) for p in pods if p in here)
        booked = sum(c.count for c in claims if c.node_name == node.name and resource(w, c) == name)
        outside += max(0, held - booked)
    return node.allocatable.get(name, 0), bound, outside


def capacity(w: World, gpu_class: GpuClass) -> dict[str, int]:
    sums = dict.fromkeys(
        ("total", "bound", "outside", "unavailable", "free", "overbooked", "largest_set"), 0
    )
    for node in w.nodes:
        total, bound, outside = on_node(w, node, gpu_class.resource_name)
        left = total - bound - outside
        free = max(0, left) if takes(node, gpu_class) else 0
        sums["total"] += total
        sums["bound"] += bound
        sums["outside"] += outside
        sums["free"] += free
        sums["unavailable"] += max(0, left) - free
        sums["overbooked"] += max(0, -left)
        sums["largest_set"] = max(sums["largest_set"], free)
    return sums


# Budgets (4.4, 4.5).


def hard(w: World, namespace: str, key: str) -> int | None:
    limits = [
        units
        for quota in w.quotas
        if quota.namespace == namespace
        and not quota.scoped
        and quota.name != "tenant-quota-allocated"
        for name, units in quota.hard.items()
        if name in (key, f"requests.{key}", f"limits.{key}")
    ]
    return min(limits, default=None)


def use(w: World, namespace: str, key: str) -> int:
    """Units of a key that are used in one namespace."""
    used = 0
    for claim in w.claims:
        if claim.namespace == namespace:
            own = f"{claim.class_name}.gpuclass.gpu.cozystack.io/units"
            used += claim.count * (key in (own, resource(w, claim)))
    for pod in w.pods:
        counts = not pod.ended and vmi_of_launcher(w, pod) is None and not of_gone_vmi(w, pod)
        if pod.namespace == namespace and counts:
            used += pod.requests.get(key, 0)
    for vmi in w.vmis:
        if vmi.namespace == namespace:
            used += beyond_claims(w, vmi, key)
            if w.settings.placement is Placement.SCHEDULER:
                used += beyond_by_record(w, vmi, key)
    for pods, claims in left_by(w):
        if pods[0].namespace == namespace:
            used += left_beyond(w, pods, claims, key)
            if w.settings.placement is Placement.SCHEDULER:
                used += sum(
                    left_beyond(w, pods, claims, c.resource_name)
                    for c in w.classes
                    if key == f"{c.name}.gpuclass.gpu.cozystack.io/units"
                )
    return used


def left_beyond(w: World, pods: list[Pod], claims: list[Claim], name: str) -> int:
    most = max(p.requests.get(name, 0) for p in pods)
    return max(0, most - sum(c.count for c in claims if resource(w, c) == name))


def beyond_claims(w: World, vmi: Vmi, name: str) -> int:
    launchers = [p for p in w.pods if not p.ended and vmi_of_launcher(w, p) is vmi]
    requested = max((p.requests.get(name, 0) for p in launchers), default=0)
    covered = sum(c.count for c in claims_of(w, vmi) if resource(w, c) == name)
    return max(0, requested - covered)


def beyond_by_record(w: World, vmi: Vmi, key: str) -> int:
    used = 0
    seen: dict[str, int] = {}
    for entry in vmi.record:
        if not entry.class_name:
            continue
        beyond = beyond_claims(w, vmi, entry.resource_name)
        units = min(entry.count, beyond - seen.get(entry.resource_name, 0))
        seen[entry.resource_name] = seen.get(entry.resource_name, 0) + units
        used += units * (key == f"{entry.class_name}.gpuclass.gpu.cozystack.io/units")
    return used


def remaining(w: World, namespace: str, key: str) -> tuple[int, str] | None:
    """What is left, and at which level the limit lies."""
    everybody = {n.name for n in w.namespaces}
    everybody |= {q.namespace for q in w.quotas} | {c.namespace for c in w.claims}
    everybody |= {p.namespace for p in w.pods} | {v.namespace for v in w.vmis}
    line = ancestors(w, namespace)
    declaring = [name for name in line if hard(w, name, key) is not None]
    if not declaring:
        return None
    figures: list[tuple[int, str]] = []
    for ancestor in declaring:
        limit = hard(w, ancestor, key)
        assert limit is not None
        below = [n for n in everybody if ancestor in ancestors(w, n)]
        level = "Self" if ancestor == namespace else "Ancestor"
        figures.append((limit - sum(use(w, n, key) for n in below), level))
        if ancestor == declaring[0]:
            carved, members = 0, 0
            for name in below:
                nearest = [n for n in ancestors(w, name) if hard(w, n, key) is not None]
                if nearest[0] == ancestor:
                    members += use(w, name, key)
                elif nearest[0] == name and nearest[1] == ancestor:
                    carved += hard(w, name, key) or 0
            figures.append((limit - carved - members, level))
    least = min(units for units, _ in figures)
    levels = {level for units, level in figures if units == least}
    return least, "Self" if "Self" in levels else "Ancestor"


def budget(w: World, namespace: str, gpu_class: GpuClass) -> tuple[int, str] | None:
    """The smaller over both keys, as shown: never negative."""
    found = [
        left
        for key in (
            f"{gpu_class.name}.gpuclass.gpu.cozystack.io/units",
            gpu_class.resource_name,
        )
        if (left := remaining(w, namespace, key)) is not None
    ]
    if not found:
        return None
    least = min(units for units, _ in found)
    levels = {level for units, level in found if units == least}
    return max(0, least), "Self" if "Self" in levels else "Ancestor"


# The option (3.3).


def entitled(w: World, namespace: str, gpu_class: GpuClass) -> str:
    if gpu_class.entitlement is Entitlement.OPEN:
        return "NotRequired"
    labels = {n.name: n.entitlement for n in w.namespaces}
    for name in ancestors(w, namespace):
        if labels.get(name) is not None:
            return "Granted" if labels[name] == "entitled" else "Missing"
    return "Missing"


def permitted(w: World, gpu_class: GpuClass) -> bool:
    own = [k for k in w.kubevirts if k.namespace == w.settings.kubevirt_namespace and k.phase]
    own.sort(key=lambda k: k.name)
    table = own[0].permitted if own else None
    return table is None or gpu_class.resource_name in table


def orderable(w: World, namespace: str, gpu_class: GpuClass) -> int:
    """The smallest of all limits, before anything is hidden."""
    stock = capacity(w, gpu_class)
    exact = gpu_class.disclosure == "Exact"
    limits = [1024]
    if exact or stock["free"] == 0:
        limits.append(stock["free"])
    if exact:
        limits.append(stock["largest_set"])
    if gpu_class.max_count is not None:
        limits.append(gpu_class.max_count)
    left = budget(w, namespace, gpu_class)
    if left is not None:
        limits.append(left[0])
    shared = [c for c in w.classes if c.resource_name == gpu_class.resource_name]
    if (
        not w.settings.enabled
        or w.settings.placement is Placement.SCHEDULER
        or gpu_class.lifecycle is Lifecycle.CLOSED
        or len(shared) > 1
        or not permitted(w, gpu_class)
        or entitled(w, namespace, gpu_class) == "Missing"
    ):
        limits.append(0)
    return min(limits)
