"""May a node take a whole set for its pod, and why not (rule 7.5).

Each condition is a rule of its own in one chain, which has the order of precedence of the reasons
(rule 3.4). The first that finds something in the way decides for a node. For a set that fits
nowhere the node that got furthest decides: what is in the way there is all that is in the way.

What the scheduler demands is decided as kube-scheduler decides it, since a pod that is pinned to
a node that it does not accept waits for ever. Not looked at, since KubeVirt's pods do not come with
them: limits on volumes per node, volumes that one pod alone may use, and dynamic resources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared.core.capacity import barring, tolerates_all
from shared.core.demand import Demand
from shared.core.model import Node, Volume
from shared.core.neighbours import Nearness, may_run, nearness
from shared.core.rooms import PODS
from shared.core.scheduling import HostPort
from shared.core.selecting import accepts
from shared.core.sites import Site, Sites
from shared.reasons import SHUT_OUT, Figures, Reason, Words, listed, say
from shared.vocabulary import LABEL_KUBEVIRT_SCHEDULABLE

_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old names of node labels, and the new ones that stand for them."""
_NOT_SELECTED: Final = (
    "the node selector or node affinity of the VM, or what KubeVirt adds to them for its CPU,"
    " architecture or machine type"
)
_ZONE_LABELS: Final = frozenset(_ZONES) | frozenset(_ZONES.values())


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a set is not taken, for tenants: units are counted, nodes are neither named nor counted.

    `figures` are those of each class that is in the way, at least one, with its name; without a
    name where the set has one device only. They leave out what a class keeps to itself. Units of
    several classes are not added up: that would tell nothing. `is_shut_out` is whether the set
    holds units where no VM can start: the others tell of what is elsewhere then.
    """

    reason: Reason
    figures: tuple[tuple[str, Figures], ...]
    words: Words = field(default_factory=Words)
    is_shut_out: bool = False

    @property
    def text(self) -> str:
        """The one line for conditions and events."""
        asked = [f"{own.asked} of {name}" if name else f"{own.asked}" for name, own in self.figures]
        told = say(self.reason, self.figures[0][1], self.words)
        free = [
            f"{own.free} of {name}" if len(self.figures) > 1 else f"{own.free}"
            for name, own in self.figures
            if own.free is not None
        ]
        if free and self.reason is not Reason.NO_CAPACITY:
            told += f", {listed(free)} free"
        own = f"; {SHUT_OUT}" if self.is_shut_out else ""
        return f"asked {listed(asked)}: {told}{own}"


class Case:
    """One set that looks for a node, and what follows from it and from all pods there are.

    Attributes:
        placing: what the pod demands; None where there is no pod.
        requests: what the pod requests, one pod among it.
        ports: the host ports that the pod takes.
    """

    def __init__(self, demand: Demand, sites: Sites) -> None:
        pod = demand.pod
        asked = () if pod is None else (*pod.requests.items(), (PODS, 1))
        self.demand = demand
        self.sites = sites
        self.placing = None if pod is None else pod.placing
        self.requests = [each for each in asked if each[1] > 0]
        self.ports = () if pod is None or pod.presence is None else pod.presence.host_ports
        self._nearness: Nearness | None = None

    @property
    def nearness(self) -> Nearness:
        """Where other pods let this one go: looked up for a node that has room."""
        if self._nearness is None:
            pod = self.demand.pod
            self._nearness = Nearness() if pod is None else nearness(pod, self.sites)
        return self._nearness


Rule = Callable[[Case, Site], str]
"""What is in the way of a set on a node in one respect, in words for tenants; empty if nothing."""


def cordoned(_: Case, site: Site) -> str:
    """The node is cordoned."""
    return "cordoned" if site.node.unschedulable else ""


def not_ready(_: Case, site: Site) -> str:
    """The node is not ready."""
    return "" if site.node.ready else "not ready"


def not_schedulable(_: Case, site: Site) -> str:
    """KubeVirt starts no VMs there."""
    schedulable = site.node.labels.get(LABEL_KUBEVIRT_SCHEDULABLE) == "true"
    return "" if schedulable else "not schedulable for VMs"


def tainted(case: Case, site: Site) -> str:
    """A class does not tolerate a taint. Cordon and readiness are judged by themselves (7.11)."""
    taints = barring(site.node.taints)
    tolerated = not taints or all(
        tolerates_all(part.tolerations, taints) for part in case.demand.parts
    )
    return "" if tolerated else "not tolerated by the class"


def no_room(case: Case, site: Site) -> str:
    """There are too few free units, for one class or for all at once."""
    lacking = any(site.free.get(each, 0) < units for each, units in case.demand.units.items())
    return "too few units" if lacking else ""


def not_tolerated(case: Case, site: Site) -> str:
    """The pod as it was stored does not tolerate a taint."""
    taints = barring(site.node.taints)
    tolerated = case.placing is None or tolerates_all(case.placing.tolerations, taints)
    return "" if tolerated else "the VM does not tolerate what is reserved there"


def not_selected(case: Case, site: Site) -> str:
    """The pod's node selector or required node affinity does not accept the node."""
    accepted = case.placing is None or may_run(case.placing, site.node)
    return "" if accepted else _NOT_SELECTED


def not_near(case: Case, site: Site) -> str:
    """The pod has to be near other pods, which are not there."""
    near, labels = case.nearness.near, site.node.labels
    # Also the first of its kind can only go where there is such a domain.
    if case.nearness.is_first:
        met = all(key in labels for key, _ in near)
    else:
        met = all(labels.get(key) in values for key, values in near)
    return "" if met else "the pod affinity of the VM"


def not_far(case: Case, site: Site) -> str:
    """The pod has to be away from other pods, which are there."""
    labels = site.node.labels
    kept = any(labels.get(key) in values for key, values in case.nearness.far.items())
    return "the pod anti-affinity of the VM" if kept else ""


def barred(case: Case, site: Site) -> str:
    """Pods are there that have to be away from pods like this one."""
    labels = site.node.labels
    kept = any(labels.get(key) in values for key, values in case.nearness.barred.items())
    return "the anti-affinity of pods that are there" if kept else ""


def not_spread(case: Case, site: Site) -> str:
    """The pod's topology spread constraints do not allow another pod there."""
    allowed = all(tally.allows(site.node) for tally in case.nearness.tallies)
    return "" if allowed else "the topology spread constraints of the VM"


def too_little(case: Case, site: Site) -> str:
    """Something that the pod requests is not left there."""
    allocatable, used = site.node.allocatable, case.sites.rooms.used(site.node.name)
    for resource, amount in case.requests:
        if amount > allocatable.get(resource, 0) - used.get(resource, 0):
            return f"too little {resource} is left there"
    return ""


def port_taken(case: Case, site: Site) -> str:
    """A host port of the pod is taken, on its address or on all."""
    if not case.ports:
        return ""
    there = (
        other
        for pod in case.sites.rooms.on(site.node.name)
        if pod.presence is not None
        for other in pod.presence.host_ports
    )
    taken = any(_collide(port, other) for other in there for port in case.ports)
    return "a host port of the VM is taken there" if taken else ""


def out_of_reach(case: Case, site: Site) -> str:
    """A volume of the VM is elsewhere."""
    reachable = all(_reaches(site.node, volume) for volume in case.demand.volumes)
    return "" if reachable else "a volume of the VM is bound elsewhere"


def made_elsewhere(case: Case, site: Site) -> str:
    """A volume of the VM is being made elsewhere."""
    elsewhere = case.demand.selected_nodes - {site.node.name}
    return "a volume of the VM is being made elsewhere" if elsewhere else ""


def refused(case: Case, site: Site) -> str:
    """The node is skipped: it refused the set lately, for instance."""
    return "refused lately" if site.node.name in case.demand.skipped else ""


def reserved(case: Case, site: Site) -> str:
    """The node is kept for an older set."""
    return "kept for another VM" if site.node.name in case.demand.reserved else ""


CHAIN: Final[tuple[tuple[Reason, Rule], ...]] = (
    (Reason.NO_CAPACITY, cordoned),
    (Reason.NO_CAPACITY, not_ready),
    (Reason.NO_CAPACITY, not_schedulable),
    (Reason.NO_CAPACITY, tainted),
    (Reason.SET_DOES_NOT_FIT_ONE_NODE, no_room),
    (Reason.NO_ELIGIBLE_NODE, not_tolerated),
    (Reason.NO_ELIGIBLE_NODE, not_selected),
    (Reason.NO_ELIGIBLE_NODE, too_little),
    (Reason.NO_ELIGIBLE_NODE, port_taken),
    (Reason.NO_ELIGIBLE_NODE, not_near),
    (Reason.NO_ELIGIBLE_NODE, not_far),
    (Reason.NO_ELIGIBLE_NODE, barred),
    (Reason.NO_ELIGIBLE_NODE, not_spread),
    (Reason.VOLUME_OUT_OF_REACH, out_of_reach),
    (Reason.VOLUME_OUT_OF_REACH, made_elsewhere),
    (Reason.NODE_REFUSED, refused),
    (Reason.RESERVED, reserved),
)
"""Every rule, in the order of precedence (rule 3.4)."""

Chain = Sequence[tuple[Reason, Rule]]


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What is in the way on one node; `rank` is the place of the rule in the chain."""

    rank: int
    reason: Reason
    why: str


def hindrance(case: Case, site: Site, chain: Chain = CHAIN) -> Hindrance | None:
    """The first thing in the way of a set on a node; None where the node takes the whole set."""
    for rank, (reason, rule) in enumerate(chain):
        why = rule(case, site)
        if why:
            return Hindrance(rank, reason, why)
    return None


def fits(demand: Demand, node: str, sites: Sites, chain: Chain = CHAIN) -> bool:
    """Whether a node takes a whole set; one that does not exist takes none."""
    site = sites.by_name.get(node)
    return site is not None and hindrance(Case(demand, sites), site, chain) is None


def _collide(port: HostPort, other: HostPort) -> bool:
    """Whether two pods cannot have these ports on one node; no address means all of them."""
    return (
        port.port == other.port
        and port.protocol == other.protocol
        and (not port.address or not other.address or port.address == other.address)
    )


def _reaches(node: Node, volume: Volume) -> bool:
    """Whether a node reaches a volume, by its node affinity and by its zone.

    A node that says nothing of zones is taken to reach any.
    """
    # Without a name: kube-scheduler asks a volume about labels alone.
    if volume.node_terms is not None and not accepts(volume.node_terms, "", node.labels):
        return False
    if not volume.zones or not any(label in node.labels for label in _ZONE_LABELS):
        return True
    return all(
        node.labels.get(label, node.labels.get(_ZONES.get(label, label))) in values
        for label, values in volume.zones.items()
    )
