"""What decisions take besides the object: values, and the ports by which they are read.

Classes, settings, namespaces, KubeVirt's table, claims and owners are read fresh for a decision;
stock and budgets come from the state that the catalog shows (rule 5.5), with its age. What could
not be read is listed in `unread`; its field then holds nothing, and no decision relies on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from shared.core.budgets import Remaining
from shared.core.capacity import Capacity
from shared.core.cluster import ClusterState
from shared.core.entitlement import grant
from shared.core.gpunames import gpu_names, is_permitted
from shared.core.model import Claim, GpuClass, KubeVirt, Migration, Namespace, Placement, Vm, Vmi
from shared.core.options import Facts
from shared.settings import GpuSettings

VIEW_AGE_MAX: Final = 10.0
"""Seconds after which the state of the cluster is too old to promise units on it (rule 6.3), where
the process is not told otherwise."""

_NONE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read: `what` as a tenant may read it, `why` in short."""

    what: str
    why: str


class Classes(dict[str, GpuClass]):
    """The classes of one list, by name, which do not change.

    What all of them together say is worked out once, and kept for as long as the list is.
    """

    @cached_property
    def by_resource(self) -> Mapping[str, frozenset[str]]:
        """Names of the classes that name a resource, of each resource."""
        found: dict[str, set[str]] = {}
        for each in self.values():
            found.setdefault(each.resource_name, set()).add(each.name)
        return {resource: frozenset(names) for resource, names in found.items()}


@dataclass(frozen=True, slots=True)
class Hoster:
    """What the hoster has set, as read for one decision about a namespace.

    `line` is the namespace itself, then its ancestors, nearest first; `namespaces` are those of
    them that exist, by name.
    """

    settings: GpuSettings = field(default_factory=GpuSettings)
    classes: Classes = field(default_factory=Classes)
    kubevirt: KubeVirt | None = None
    line: tuple[str, ...] = ()
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)

    @property
    def by_scheduler(self) -> bool:
        """Whether Kubernetes' own scheduler places VMs, so that nobody checks a budget later."""
        return self.settings.reading.placement is Placement.SCHEDULER

    def in_conflict(self, gpu_class: GpuClass) -> bool:
        """Whether another class names the same resource: asked of the classes themselves."""
        named_by = self.classes.by_resource.get(gpu_class.resource_name, frozenset())
        return bool(named_by - {gpu_class.name})

    def gpu_names(self) -> frozenset[str]:
        """What counts as a GPU (rule 4.2)."""
        return gpu_names(self.classes.values(), self.kubevirt, self.settings.reading.resource_names)


@dataclass(frozen=True, slots=True)
class View:
    """One class in the state that the catalog shows, for one namespace.

    `age` is in seconds, that of the oldest collection, infinite until all are known; beyond
    `age_max` nothing is promised;
    `unreadable` are the collections that we may not read, with the verb that was refused.
    `resource_name` is the class's as the state knows it, empty where it does not know the class
    yet.
    """

    age: float
    resource_name: str = ""
    capacity: Capacity = field(default_factory=Capacity)
    remaining: Remaining | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    age_max: float = VIEW_AGE_MAX

    @classmethod
    def of(
        cls,
        state: ClusterState,
        namespace: str,
        class_name: str,
        age: float,
        age_max: float = VIEW_AGE_MAX,
        refused: Mapping[str, str] = _NONE,
    ) -> View:
        """What a state shows of a class at this moment; `refused` are verbs by collection."""
        unreadable = {name: refused.get(name, "read") for name in state.unreadable}
        gpu_class = state.classes.get(class_name)
        if gpu_class is None:
            return cls(age, unreadable=unreadable, age_max=age_max)
        return cls(
            age,
            gpu_class.resource_name,
            state.capacity(class_name),
            state.remaining(namespace, class_name),
            unreadable,
            age_max,
        )

    def trouble(self, gpu_class: GpuClass) -> Unread | None:
        """Why no figure of this view can be relied on for a class as it is now, if none can."""
        what = "the state of the cluster"
        if self.unreadable:
            return Unread(what, self._refused())
        if self.age == math.inf:
            return Unread(what, "it is not known yet")
        if self.age > self.age_max:
            return Unread(what, f"it was last known {self.age:.0f} seconds ago")
        if self.resource_name != gpu_class.resource_name:
            return Unread(what, "the class has just been changed")
        return None

    def _refused(self) -> str:
        """What we may not do, and how old is what we know; neither names an account."""
        collections: dict[str, list[str]] = {}
        for name, verb in sorted(self.unreadable.items()):
            collections.setdefault(verb, []).append(name)
        told = [
            f"we may not {verb} {', '.join(names)}" for verb, names in sorted(collections.items())
        ]
        if self.age < math.inf:
            told.append(f"it was last known {self.age:.0f} seconds ago")
        return "; ".join(told)


UNSEEN: Final = View(math.inf)
"""The view of somebody who has not seen the cluster yet."""


def rivals(state: ClusterState, namespace: str, claim: str) -> frozenset[str]:
    """Names of the VMIs, not final, whose record of admission names a claim."""
    found = state.holders.naming((namespace, claim))
    return frozenset(vmi.name for vmi in found if not vmi.final)


@dataclass(frozen=True, slots=True)
class VmiInputs:
    """What a decision about a VMI takes (rule 6.1).

    Attributes:
        hoster: as read.
        claims: those that the VMI names and that exist in its namespace, by name.
        present: of the VMs and VMIs that these claims are attached to, the uids of those that
            exist and are not final.
        rivals: by claim, names of the VMIs, not final, whose record names it, as the state
            knows them; one of the same name is the same VM's.
        owner: the VirtualMachine that the VMI names as its controller; None where it names
            none or that does not exist.
        views: by class; read only where Kubernetes' scheduler places.
        unread: what could not be read.
    """

    hoster: Hoster = field(default_factory=Hoster)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    rivals: Mapping[str, frozenset[str]] = field(default_factory=dict)
    owner: Vm | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalInputs:
    """What the last look at a VMI takes: names that count as GPUs, as the state knows them."""

    gpu_names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, state: ClusterState) -> FinalInputs:
        """What a state knows at this moment."""
        listed = state.settings.resource_names
        return cls(gpu_names(state.classes.values(), state.kubevirt, listed))


@dataclass(frozen=True, slots=True)
class PodInputs:
    """What a decision about a pod takes (rule 6.2).

    Attributes:
        hoster: as read.
        vmi: the VMI of the name that the pod's controller reference says, None where there is
            none.
        migration: the migration of the name that the pod says, None where there is none.
        unread: what could not be read.
    """

    hoster: Hoster = field(default_factory=Hoster)
    vmi: Vmi | None = None
    migration: Migration | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderInputs:
    """What a decision about an order takes (rule 6.3)."""

    hoster: Hoster = field(default_factory=Hoster)
    view: View = UNSEEN
    unread: tuple[Unread, ...] = ()

    def facts(self, namespace: str, class_name: str) -> Facts | None:
        """What the option of the class follows from; None where there is no such class."""
        gpu_class = self.hoster.classes.get(class_name)
        if gpu_class is None:
            return None
        hoster = self.hoster
        return Facts(
            namespace=namespace,
            gpu_class=gpu_class,
            capacity=self.view.capacity,
            remaining=self.view.remaining,
            entitlement=grant(gpu_class, hoster.line, hoster.namespaces),
            conflict=hoster.in_conflict(gpu_class),
            permitted=is_permitted(gpu_class.resource_name, hoster.kubevirt),
            enabled=hoster.settings.reading.enabled,
            offered=not hoster.by_scheduler,
        )


@dataclass(frozen=True, slots=True)
class ClassInputs:
    """What a decision about a GPUClass takes (rule 6.5).

    `claims` is how many claims of the class exist, as the state knows them. KubeVirt's table
    only leads to a warning: where it cannot be read it reads as absent, and is not in `unread`.
    """

    hoster: Hoster = field(default_factory=Hoster)
    claims: int = 0
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class VmiNeeds:
    """What to read for a VMI: `owner` is the name of its VirtualMachine, empty for none."""

    claims: tuple[str, ...]
    classes: frozenset[str]
    owner: str


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What to read for a pod: names in its namespace, `migration` empty for none."""

    namespace: str
    vmi: str
    migration: str


@dataclass(frozen=True, slots=True)
class OrderNeeds:
    """What to read for an order."""

    namespace: str
    class_name: str


@dataclass(frozen=True, slots=True)
class ClassNeeds:
    """What to read for a GPUClass."""

    class_name: str


class Reader(Protocol):
    """How inputs are read: in one concurrent round, with a deadline.

    A read that fails is listed in `unread`; nothing is raised but at cancellation.
    """

    async def for_vmi(self, namespace: str, needs: Callable[[], VmiNeeds]) -> VmiInputs:
        """Everything that a decision about a VMI takes.

        `needs` is called once reading has begun: most of it is the same for all of a namespace.
        """

    async def for_final(self) -> FinalInputs:
        """What the last look at a VMI takes; from memory."""

    async def for_pod(self, needs: PodNeeds) -> PodInputs:
        """Everything that a decision about a pod takes."""

    async def for_order(self, needs: OrderNeeds) -> OrderInputs:
        """Everything that a decision about an order takes."""

    async def for_class(self, needs: ClassNeeds) -> ClassInputs:
        """Everything that a decision about a class takes."""
