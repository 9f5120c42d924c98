"""The state of the cluster as far as we read it, changed one object at a time.

`ClusterState.apply` updates the tables, then recomputes what the change touched: the stock of a
node, the sum of a class, what a claim or a VM uses of a budget. So a change costs what it
touches, and nothing is computed twice. It knows nothing of where changes come from, and the
result does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.core.budgets import Budgets, Remaining, class_key, declared, smaller
from shared.core.capacity import Capacity, Stock, Sum, on_node, takes_new_pods
from shared.core.entitlement import grant
from shared.core.gpunames import is_permitted, kubevirt_in_force
from shared.core.holders import NO_PART, Holders, Part, Reach, Source, named, store
from shared.core.index import Index
from shared.core.model import (
    Change,
    Claim,
    Gone,
    GpuClass,
    Key,
    KubeVirt,
    Namespace,
    Node,
    Placement,
    Pod,
    Quota,
    Secret,
    Settings,
    System,
    Vmi,
    Volume,
    VolumeClaim,
)
from shared.core.options import Facts, Option, option
from shared.core.sites import Sites
from shared.core.tenants import Tenants
from shared.core.terms import Grant
from shared.vocabulary import CLASS_KEY_SUFFIX

_ANSWERS_MAX = 512


@dataclass(frozen=True, slots=True)
class Touched:
    """Whose options a change may have changed.

    Attributes:
        classes: options of these classes in every namespace (stock, class added or removed).
        budgets: (class, namespace): options of that class in that namespace and below.
        namespaces: every option in these namespaces and below.
        everything: every option.
        vmis: of no matter for options: the VMIs, by uid, whose pods or claims changed, those
            that they were of before among them.
    """

    classes: frozenset[str] = frozenset()
    budgets: frozenset[tuple[str, str]] = frozenset()
    namespaces: frozenset[str] = frozenset()
    everything: bool = False
    vmis: frozenset[str] = field(default=frozenset(), compare=False)

    def __bool__(self) -> bool:
        return bool(self.everything or self.classes or self.budgets or self.namespaces)


@dataclass(slots=True)
class _Dirty:
    """What one change makes out of date, and whom it touches, collected on the way."""

    reach: Reach = field(default_factory=Reach)
    nodes: set[str] = field(default_factory=set)
    """Nodes whose stock is made anew."""
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    """By namespace and budget key, the units that are used more than before, or fewer."""
    summed: set[str] = field(default_factory=set)
    """Classes whose sum is made anew."""
    classes: set[str] = field(default_factory=set)
    budgets: set[tuple[str, str]] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    everything: bool = False

    def touched(self) -> Touched:
        return Touched(
            frozenset(self.classes),
            frozenset(self.budgets),
            frozenset(self.namespaces),
            self.everything,
            frozenset(self.reach.vmis),
        )


class ClusterState:
    """Tables, and what follows from them. Read the tables; change them by `apply`.

    `sites` is what placing looks at; it is kept where it is given.
    """

    def __init__(self, sites: Sites | None = None) -> None:
        self.sites = sites
        self.nodes: dict[str, Node] = {}
        self.classes: dict[str, GpuClass] = {}
        self.quotas: dict[Key, Quota] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.kubevirts: dict[Key, KubeVirt] = {}
        self.volume_claims: dict[Key, VolumeClaim] = {}
        self.volumes: dict[str, Volume] = {}
        self.secrets: dict[Key, Secret] = {}
        self.systems: dict[str, System] = {}
        self.holders = Holders(self.classes)
        self.settings = Settings()
        self.kubevirt: KubeVirt | None = None
        """The KubeVirt object in force."""
        self.unreadable: frozenset[str] = frozenset()
        """Collections that cannot be read now: what depends on them is unknown."""

        self._tenants = Tenants()
        self._budgets = Budgets(self._tenants)
        self._sums: dict[str, Sum] = {}
        self._stock: dict[str, dict[str, Stock]] = {}
        self._parts: dict[Source, Part] = {}
        self._gone: set[Key] = set()
        """Namespace and uid of VMIs that are gone, and of which something counts."""
        self._held: dict[str, dict[str, tuple[int, int]]] = {}
        """By node and resource, the units booked there and held outside claims; no zeros."""
        self._classes_by_resource: Index[str, str] = Index()
        self._nodes_by_resource: Index[str, str] = Index()
        self._quotas_by_namespace: Index[str, Key] = Index()
        self._answers: dict[str, dict[tuple[Remaining | None, Grant], Option]] = {}
        """By class, what it answers to whom so much remains, while the class stays as it is:
        many tenants share an answer, and its texts."""

    # What is asked.

    def capacity(self, class_name: str) -> Capacity:
        """The capacity of a class; zeros for one that does not exist."""
        summed = self._sums.get(class_name)
        return summed.capacity() if summed is not None else Capacity()

    def remaining(self, namespace: str, class_name: str) -> Remaining | None:
        """What budgets leave of a class in a namespace, over both keys; None is unlimited."""
        gpu_class = self.classes[class_name]
        return smaller(
            self._budgets.remaining(namespace, class_key(class_name)),
            self._budgets.remaining(namespace, gpu_class.resource_name),
        )

    def stock(self, node_name: str) -> Mapping[str, Stock]:
        """The stock of each named resource that a node has or that is held there."""
        return self._stock.get(node_name, {})

    def has_conflict(self, class_name: str) -> bool:
        """Whether another class names the same resource."""
        return len(self._classes_by_resource[self.classes[class_name].resource_name]) > 1

    def option(self, namespace: str, class_name: str) -> Option | None:
        """The option of a class in a namespace; None where either does not exist."""
        gpu_class = self.classes.get(class_name)
        if gpu_class is None or namespace not in self.namespaces:
            return None
        remaining = self.remaining(namespace, class_name)
        entitlement = grant(gpu_class, self._tenants.line(namespace), self.namespaces)
        answers = self._answers.setdefault(class_name, {})
        found = answers.get((remaining, entitlement))
        if found is None:
            if len(answers) >= _ANSWERS_MAX:
                answers.clear()
            facts = Facts(
                namespace=namespace,
                gpu_class=gpu_class,
                capacity=self.capacity(class_name),
                remaining=remaining,
                entitlement=entitlement,
                conflict=self.has_conflict(class_name),
                permitted=is_permitted(gpu_class.resource_name, self.kubevirt),
                enabled=self.settings.enabled,
                offered=self.settings.placement is Placement.BINDER,
                unreadable=self.unreadable,
            )
            found = answers[remaining, entitlement] = option(facts)
        return found if found.namespace == namespace else found.elsewhere(namespace)

    # What changes.

    def apply(self, change: Change) -> Touched:
        """Take in one change; a repeated one changes nothing."""
        return self.apply_all((change,))

    def apply_all(self, changes: Iterable[Change]) -> Touched:
        """Take in changes at once, and what follows from all of them but once."""
        dirty = _Dirty()
        for change in changes:
            self._take(change, dirty)
        self._recompute(dirty)
        return self._touch(dirty.touched())

    def set_unreadable(self, collections: Iterable[str]) -> Touched:
        """These collections cannot be read now, and no others."""
        unreadable = frozenset(collections)
        changed = unreadable != self.unreadable
        self.unreadable = unreadable
        return self._touch(Touched(everything=changed))

    def _take(self, change: Change, dirty: _Dirty) -> None:
        gone = isinstance(change, Gone)
        if self.sites is not None:
            self.sites.apply(change)
        match change.object:
            case Node() as node:
                if store(self.nodes, node.name, None if gone else node) != node or gone:
                    dirty.nodes.add(node.name)
            case Pod() as pod:
                self.holders.put_pod(pod.key, None if gone else pod, dirty.reach)
            case Claim() as claim:
                self.holders.put_claim(claim.key, None if gone else claim, dirty.reach)
            case Vmi() as vmi:
                self.holders.put_vmi(vmi.uid, None if gone else vmi, dirty.reach)
            case GpuClass() as gpu_class:
                self._class(gpu_class.name, None if gone else gpu_class, dirty)
            case Quota() as quota:
                self._quota(quota.key, None if gone else quota, dirty)
            case Namespace() as namespace:
                self._namespace(namespace.name, None if gone else namespace, dirty)
            case KubeVirt() as kubevirt:
                store(self.kubevirts, kubevirt.key, None if gone else kubevirt)
                self._judge_kubevirt(dirty)
            case Settings() as settings:
                self._settings(Settings() if gone else settings, dirty)
            # No figure rests on these.
            case VolumeClaim() as volume_claim:
                store(self.volume_claims, volume_claim.key, None if gone else volume_claim)
            case Volume() as volume:
                store(self.volumes, volume.name, None if gone else volume)
            case Secret() as secret:
                store(self.secrets, secret.key, None if gone else secret)
            case System() as system:
                store(self.systems, system.name, None if gone else system)

    def _touch(self, touched: Touched) -> Touched:
        """Forget the answers that rest on what a class was."""
        if touched.everything:
            self._answers.clear()
        for name in touched.classes:
            self._answers.pop(name, None)
        return touched

    def _class(self, name: str, gpu_class: GpuClass | None, dirty: _Dirty) -> None:
        before = store(self.classes, name, gpu_class)
        if before == gpu_class:
            return
        old = set(named(before, _resource_name))
        new = set(named(gpu_class, _resource_name))
        self._classes_by_resource.move(name, old, new)
        if before is None or gpu_class is None or _summed_by(before) != _summed_by(gpu_class):
            dirty.summed.add(name)
        dirty.classes.add(name)
        if old != new:
            for resource in old | new:
                # Who shares a resource is in conflict, or no longer.
                dirty.classes.update(self._classes_by_resource[resource])
                dirty.reach.resources.add(resource)
            dirty.reach.gone.update(self._gone)
            self.holders.name_resources(old, new, dirty.reach)
            self.holders.rename_class(name, dirty.reach)

    def _quota(self, key: Key, quota: Quota | None, dirty: _Dirty) -> None:
        before = store(self.quotas, key, quota)
        if before == quota:
            return
        namespace = key[0]
        self._quotas_by_namespace.move(
            key, () if before is None else (namespace,), () if quota is None else (namespace,)
        )
        hard = declared(self.quotas[k] for k in self._quotas_by_namespace[namespace])
        for budget_key in self._budgets.changes(namespace, hard):
            tops = {self._budgets.top(namespace, budget_key)}
            self._budgets.declare(namespace, budget_key, hard.get(budget_key))
            tops.add(self._budgets.top(namespace, budget_key))
            for top in tops:
                if top is not None:
                    self._touch_budget(budget_key, top, dirty)

    def _namespace(self, name: str, namespace: Namespace | None, dirty: _Dirty) -> None:
        before = store(self.namespaces, name, namespace)
        if before == namespace:
            return
        dirty.namespaces.add(name)
        if before is not None and namespace is not None:
            return
        if namespace is None:
            self._tenants.remove(name)
        else:
            self._tenants.add(name)
        self._budgets.moved(name)
        for key in self._budgets.keys_within(name):
            top = self._budgets.top(name, key)
            if top is not None:
                self._touch_budget(key, top, dirty)

    def _judge_kubevirt(self, dirty: _Dirty) -> None:
        found = kubevirt_in_force(self.kubevirts.values(), self.settings.kubevirt_namespace)
        if found != self.kubevirt:
            self.kubevirt = found
            dirty.everything = True

    def _settings(self, settings: Settings, dirty: _Dirty) -> None:
        if settings == self.settings:
            return
        if settings.placement is not self.settings.placement:
            # The mode decides under which keys the launchers of a VM with a record count.
            recorded = (uid for uid, vmi in self.holders.vmis.items() if vmi.record)
            dirty.reach.vmis.update(recorded)
            dirty.reach.gone.update(self._gone)
        self.settings = settings
        dirty.everything = True
        self._judge_kubevirt(dirty)

    # What follows.

    def _recompute(self, dirty: _Dirty) -> None:
        reach = dirty.reach
        for resource in reach.resources:
            # A node's stock is of what classes and records of VMs name.
            having = (key for key, node in self.nodes.items() if resource in node.allocatable)
            dirty.nodes.update(having)
            dirty.nodes.update(self._nodes_by_resource[resource])
        for key in reach.claims:
            self._count(("claim", *key), self.holders.claim_part(key), dirty)
        for key in reach.pods:
            self._count(("pod", *key), self.holders.pod_part(key), dirty)
        for uid in reach.vmis:
            part = self.holders.vmi_part(uid, self.settings.placement)
            self._count(("vmi", uid, ""), part, dirty)
        for namespace, uid in reach.gone:
            part = self.holders.gone_part(namespace, uid, self.settings.placement)
            self._count(("gone", namespace, uid), part, dirty)
            (self._gone.add if part.use else self._gone.discard)((namespace, uid))
        for (namespace, budget_key), units in dirty.used.items():
            if units:  # else a claim took over what its VM's launchers used
                top = self._budgets.use(namespace, budget_key, units)
                if top is not None:
                    self._touch_budget(budget_key, top, dirty)
        for name in dirty.nodes:
            self._sum_node(name, dirty)
        for name in dirty.summed:
            self._sum_class(name)

    def _count(self, source: Source, part: Part, dirty: _Dirty) -> None:
        """A source counts for exactly this now."""
        before = self._parts.pop(source, NO_PART)
        if part.use or part.held:
            self._parts[source] = part
        if before == part:
            return
        for sign, each in ((-1, before), (1, part)):
            for key, units in each.use.items():
                used = (each.namespace, key)
                dirty.used[used] = dirty.used.get(used, 0) + sign * units
            for node, resource, bound, outside in each.held:
                self._hold(node, resource, sign * bound, sign * outside)
                dirty.nodes.add(node)

    def _hold(self, node: str, resource: str, bound: int, outside: int) -> None:
        """So many more units are held on a node (or fewer, where negative)."""
        held = self._held.setdefault(node, {})
        before = held.pop(resource, (0, 0))
        now = (before[0] + bound, before[1] + outside)
        if now != (0, 0):
            held[resource] = now
        elif not held:
            del self._held[node]

    def _touch_budget(self, key: str, top: str, dirty: _Dirty) -> None:
        dirty.budgets.update((name, top) for name in self._classes_by_resource[key])
        name = key.removesuffix(CLASS_KEY_SUFFIX)
        if name != key and name in self.classes:
            dirty.budgets.add((name, top))

    def _sum_node(self, name: str, dirty: _Dirty) -> None:
        before = self._stock.pop(name, {})
        node = self.nodes.get(name)
        stock = {} if node is None else self._stock_of(node)
        if self.sites is not None:
            self.sites.put_node(name, node, stock)
        if stock:
            self._stock[name] = stock
        self._nodes_by_resource.move(name, before, stock)
        for resource in before.keys() | stock.keys():
            for class_name in self._classes_by_resource[resource]:
                if self._put(class_name, name):
                    dirty.classes.add(class_name)

    def _stock_of(self, node: Node) -> dict[str, Stock]:
        units, held = self.holders.units_of(node), self._held.get(node.name, {})
        return {
            name: Stock(units.get(name, 0), *held.get(name, (0, 0)))
            for name in units.keys() | held.keys()
        }

    def _sum_class(self, name: str) -> None:
        self._sums.pop(name, None)
        gpu_class = self.classes.get(name)
        if gpu_class is not None:
            for node_name in self._nodes_by_resource[gpu_class.resource_name]:
                self._put(name, node_name)

    def _put(self, class_name: str, node_name: str) -> bool:
        """Bring a class's sum up to date with one node."""
        gpu_class = self.classes[class_name]
        stock = self._stock.get(node_name, {}).get(gpu_class.resource_name)
        capacity = None
        if stock is not None:
            takes_pods = takes_new_pods(self.nodes[node_name], gpu_class.tolerations)
            capacity = on_node(stock, takes_pods=takes_pods)
        return self._sums.setdefault(class_name, Sum()).put(node_name, capacity)


def _summed_by(gpu_class: GpuClass) -> tuple[object, ...]:
    """What decides which nodes' units are a class's, and which of them are free."""
    return (gpu_class.resource_name, gpu_class.tolerations)


def _resource_name(gpu_class: GpuClass) -> str:
    return gpu_class.resource_name
