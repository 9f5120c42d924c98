"""The state of the cluster as far as we read it, changed one object at a time.

`ClusterState.apply` updates the tables, then recomputes what the change touched: the stock of a
node, the sum of a class, what a claim or a VM uses of a budget. So a change costs what it
touches, and nothing is computed twice. It knows nothing of where changes come from, and the
result does not depend on their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from shared.core.budgets import Budgets, Remaining, class_key, declared, smaller
from shared.core.capacity import Capacity, Stock, Sum, on_node, takes_new_pods
from shared.core.coverage import (
    claim_use,
    devices,
    held_outside,
    is_launcher,
    place,
    recorded_use,
    resource_of,
    used_beyond,
)
from shared.core.entitlement import grant
from shared.core.gpunames import is_permitted, kubevirt_in_force
from shared.core.index import Index
from shared.core.model import (
    Change,
    Claim,
    Gone,
    GpuClass,
    Key,
    KubeVirt,
    Migration,
    Namespace,
    Node,
    Placement,
    Pod,
    Quota,
    Settings,
    Vmi,
)
from shared.core.options import Facts, Option, option
from shared.core.tenants import Tenants
from shared.vocabulary import CLASS_KEY_SUFFIX

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Touched:
    """Whose options a change may have changed.

    Attributes:
        classes: options of these classes in every namespace (stock, class added or removed).
        budgets: (class, namespace): options of that class in that namespace and below.
        namespaces: every option in these namespaces and below.
        everything: every option.
    """

    classes: frozenset[str] = frozenset()
    budgets: frozenset[tuple[str, str]] = frozenset()
    namespaces: frozenset[str] = frozenset()
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.everything or self.classes or self.budgets or self.namespaces)


@dataclass(slots=True)
class _Dirty:
    """What one change makes out of date, collected before anything is recomputed."""

    nodes: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    claims: set[Key] = field(default_factory=set)
    pods: set[Key] = field(default_factory=set)
    vmis: set[str] = field(default_factory=set)
    touched_classes: set[str] = field(default_factory=set)
    touched_budgets: set[tuple[str, str]] = field(default_factory=set)
    touched_namespaces: set[str] = field(default_factory=set)
    everything: bool = False


_Source = tuple[str, str, str]
"""What uses a budget: ("claim", namespace, name), ("pod", namespace, name) or ("vmi", uid, "")."""


class ClusterState:
    """Tables, indexes, and what follows from them. Read the tables; change them by `apply`."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Key, Pod] = {}
        self.claims: dict[Key, Claim] = {}
        self.classes: dict[str, GpuClass] = {}
        self.quotas: dict[Key, Quota] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.vmis: dict[str, Vmi] = {}
        self.migrations: dict[Key, Migration] = {}
        self.kubevirts: dict[Key, KubeVirt] = {}
        self.settings = Settings()
        self.kubevirt: KubeVirt | None = None
        """The KubeVirt object in force."""
        self.unreadable: frozenset[str] = frozenset()
        """Collections that cannot be read now: what depends on them is unknown."""

        self._tenants = Tenants()
        self._budgets = Budgets(self._tenants)
        self._sums: dict[str, Sum] = {}
        self._stock: dict[str, dict[str, Stock]] = {}
        self._uses: dict[_Source, tuple[str, Mapping[str, int]]] = {}

        self._pods_by_node: Index[str, Key] = Index()
        self._pods_by_owner: Index[str, Key] = Index()
        self._claims_by_node: Index[str, Key] = Index()
        self._claims_by_class: Index[str, Key] = Index()
        self._claims_by_user: Index[str, Key] = Index()
        """By uid of the VM or VMI that a claim is attached to, or whose template claim it is."""
        self._classes_by_resource: Index[str, str] = Index()
        self._nodes_by_resource: Index[str, str] = Index()
        self._quotas_by_namespace: Index[str, Key] = Index()
        self._vmis_by_user: Index[str, str] = Index()
        """VMIs by their own uid and by their VM's."""
        self._vmis_by_recorded: Index[Key, str] = Index()
        """VMIs by the claims that their record names."""

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

    def has_conflict(self, class_name: str) -> bool:
        """Whether another class names the same resource."""
        return len(self._classes_by_resource[self.classes[class_name].resource_name]) > 1

    def option(self, namespace: str, class_name: str) -> Option | None:
        """The option of a class in a namespace; None where either does not exist."""
        gpu_class = self.classes.get(class_name)
        if gpu_class is None or namespace not in self.namespaces:
            return None
        return option(
            Facts(
                namespace=namespace,
                gpu_class=gpu_class,
                capacity=self.capacity(class_name),
                remaining=self.remaining(namespace, class_name),
                entitlement=grant(gpu_class, self._tenants.line(namespace), self.namespaces),
                conflict=self.has_conflict(class_name),
                permitted=is_permitted(gpu_class.resource_name, self.kubevirt),
                enabled=self.settings.enabled,
                offered=self.settings.placement is Placement.BINDER,
                unreadable=self.unreadable,
            )
        )

    # What changes.

    def apply(self, change: Change) -> Touched:
        """Take in one change; a repeated or a stale one changes nothing."""
        dirty = _Dirty()
        gone = isinstance(change, Gone)
        match change.object:
            case Node() as node:
                self._node(node.name, None if gone else node, dirty)
            case Pod() as pod:
                self._pod(pod.key, None if gone else pod, dirty)
            case Claim() as claim:
                self._claim(claim.key, None if gone else claim, dirty)
            case GpuClass() as gpu_class:
                self._class(gpu_class.name, None if gone else gpu_class, dirty)
            case Quota() as quota:
                self._quota(quota.key, None if gone else quota, dirty)
            case Namespace() as namespace:
                self._namespace(namespace.name, None if gone else namespace, dirty)
            case Vmi() as vmi:
                self._vmi(vmi.uid, None if gone else vmi, dirty)
            case Migration() as migration:
                _store(self.migrations, migration.key, None if gone else migration)
            case KubeVirt() as kubevirt:
                _store(self.kubevirts, kubevirt.key, None if gone else kubevirt)
                self._judge_kubevirt(dirty)
            case Settings() as settings:
                self._settings(Settings() if gone else settings, dirty)
        self._recompute(dirty)
        return Touched(
            frozenset(dirty.touched_classes),
            frozenset(dirty.touched_budgets),
            frozenset(dirty.touched_namespaces),
            dirty.everything,
        )

    def set_unreadable(self, collections: Iterable[str]) -> Touched:
        """These collections cannot be read now, and no others."""
        unreadable = frozenset(collections)
        changed = unreadable != self.unreadable
        self.unreadable = unreadable
        return Touched(everything=changed)

    def _node(self, name: str, node: Node | None, dirty: _Dirty) -> None:
        if _store(self.nodes, name, node) != node:
            dirty.nodes.add(name)

    def _pod(self, key: Key, pod: Pod | None, dirty: _Dirty) -> None:
        before = _store(self.pods, key, pod)
        if before == pod:
            return
        for index, field_of in ((self._pods_by_node, place), (self._pods_by_owner, _owner)):
            index.move(key, _named(before, field_of), _named(pod, field_of))
        dirty.nodes.update(_named(before, place), _named(pod, place))
        dirty.pods.add(key)
        dirty.vmis.update(_named(before, _owner), _named(pod, _owner))

    def _claim(self, key: Key, claim: Claim | None, dirty: _Dirty) -> None:
        before = _store(self.claims, key, claim)
        if before == claim:
            return
        for index, field_of in (
            (self._claims_by_node, _booked_on),
            (self._claims_by_class, _class_name),
        ):
            index.move(key, _named(before, field_of), _named(claim, field_of))
        users_before, users = _users(before), _users(claim)
        self._claims_by_user.move(key, users_before, users)
        dirty.nodes.update(_named(before, _booked_on), _named(claim, _booked_on))
        dirty.claims.add(key)
        for user in users_before | users:
            self._mark_vmis(self._vmis_by_user[user], dirty)
        self._mark_vmis(self._vmis_by_recorded[key], dirty)

    def _class(self, name: str, gpu_class: GpuClass | None, dirty: _Dirty) -> None:
        before = _store(self.classes, name, gpu_class)
        if before == gpu_class:
            return
        old, new = _named(before, _resource_name), _named(gpu_class, _resource_name)
        self._classes_by_resource.move(name, old, new)
        dirty.classes.add(name)
        dirty.touched_classes.add(name)
        if old == new:
            return
        for resource in old | new:
            # Who shares a resource is in conflict, or no longer.
            dirty.touched_classes.update(self._classes_by_resource[resource])
        for key in self._claims_by_class[name]:
            claim = self.claims[key]
            if claim.resource_name:
                continue
            dirty.claims.add(key)
            dirty.nodes.update(_named(claim, _booked_on))
            for user in _users(claim):
                self._mark_vmis(self._vmis_by_user[user], dirty)
            self._mark_vmis(self._vmis_by_recorded[key], dirty)

    def _quota(self, key: Key, quota: Quota | None, dirty: _Dirty) -> None:
        before = _store(self.quotas, key, quota)
        if before == quota:
            return
        namespace = key[0]
        self._quotas_by_namespace.move(
            key, () if before is None else (namespace,), () if quota is None else (namespace,)
        )
        hard = declared(self.quotas[k] for k in self._quotas_by_namespace[namespace])
        keys = self._budgets.keys_of(namespace) | hard.keys()
        felt = {(k, self._budgets.top(namespace, k)) for k in keys}
        changed = self._budgets.declare(namespace, hard)
        felt |= {(k, self._budgets.top(namespace, k)) for k in keys}
        for budget_key, top in felt:
            if budget_key in changed and top is not None:
                self._touch_budget(budget_key, top, dirty)

    def _namespace(self, name: str, namespace: Namespace | None, dirty: _Dirty) -> None:
        before = _store(self.namespaces, name, namespace)
        if before == namespace:
            return
        dirty.touched_namespaces.add(name)
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

    def _vmi(self, uid: str, vmi: Vmi | None, dirty: _Dirty) -> None:
        before = _store(self.vmis, uid, vmi)
        if before == vmi:
            return
        self._vmis_by_user.move(uid, _vmi_users(before), _vmi_users(vmi))
        self._vmis_by_recorded.move(uid, _recorded(before), _recorded(vmi))
        self._mark_vmis((uid,), dirty)

    def _judge_kubevirt(self, dirty: _Dirty) -> None:
        found = kubevirt_in_force(self.kubevirts.values(), self.settings.kubevirt_namespace)
        if found != self.kubevirt:
            self.kubevirt = found
            dirty.everything = True

    def _settings(self, settings: Settings, dirty: _Dirty) -> None:
        if settings == self.settings:
            return
        self.settings = settings
        dirty.everything = True
        dirty.vmis.update(self.vmis)  # the mode decides under which keys launchers count
        self._judge_kubevirt(dirty)

    def _mark_vmis(self, uids: Iterable[str], dirty: _Dirty) -> None:
        """What a VM's set covers is out of date, and with it the nodes and pods it covers."""
        for uid in uids:
            dirty.vmis.add(uid)
            for key in self._pods_by_owner[uid]:
                dirty.pods.add(key)
                dirty.nodes.update(_named(self.pods[key], place))

    # What follows.

    def _recompute(self, dirty: _Dirty) -> None:
        for key in dirty.claims:
            self._count_claim(key, dirty)
        for key in dirty.pods:
            self._count_pod(key, dirty)
        for uid in dirty.vmis:
            self._count_vmi(uid, dirty)
        for name in dirty.nodes:
            self._sum_node(name, dirty)
        for name in dirty.classes:
            self._sum_class(name, dirty)

    def _count_claim(self, key: Key, dirty: _Dirty) -> None:
        claim = self.claims.get(key)
        use = {} if claim is None else claim_use(claim, self.classes)
        self._use(("claim", *key), key[0], use, dirty)

    def _count_pod(self, key: Key, dirty: _Dirty) -> None:
        """A pod that is no VM's launcher counts by itself, under the device's key."""
        pod = self.pods.get(key)
        alone = pod is not None and not pod.ended and self._launcher_of(pod) is None
        use = dict(devices(pod)) if pod is not None and alone else {}
        self._use(("pod", *key), key[0], use, dirty)

    def _count_vmi(self, uid: str, dirty: _Dirty) -> None:
        """A VM's launchers count together, by what they use beyond their claims."""
        vmi = self.vmis.get(uid)
        if vmi is None:
            before = self._uses.get(("vmi", uid, ""))
            if before is not None:
                self._use(("vmi", uid, ""), before[0], {}, dirty)
            return
        pods = [pod for pod in self._launchers(vmi) if not pod.ended]
        used = used_beyond(pods, self._claims_of(vmi), self.classes)
        use = dict(used)
        if self.settings.placement is Placement.SCHEDULER:
            use |= recorded_use(used, vmi)
        self._use(("vmi", uid, ""), vmi.namespace, use, dirty)

    def _use(self, source: _Source, namespace: str, use: Mapping[str, int], dirty: _Dirty) -> None:
        """A source uses exactly this now."""
        was_in, before = self._uses.get(source, (namespace, {}))
        if was_in == namespace and before == use:
            return
        if use:
            self._uses[source] = (namespace, use)
        else:
            self._uses.pop(source, None)
        difference = Counter[tuple[str, str]]()
        for key, units in before.items():
            difference[was_in, key] -= units
        for key, units in use.items():
            difference[namespace, key] += units
        for (name, key), units in difference.items():
            if units:
                self._budgets.use(name, key, units)
                top = self._budgets.top(name, key)
                if top is not None:
                    self._touch_budget(key, top, dirty)

    def _touch_budget(self, key: str, top: str, dirty: _Dirty) -> None:
        names = set(self._classes_by_resource[key])
        if key.endswith(CLASS_KEY_SUFFIX):
            names.add(key.removesuffix(CLASS_KEY_SUFFIX))
        dirty.touched_budgets.update((name, top) for name in names if name in self.classes)

    def _sum_node(self, name: str, dirty: _Dirty) -> None:
        before = self._stock.pop(name, {})
        node = self.nodes.get(name)
        stock = {} if node is None else self._stock_of(node)
        if stock:
            self._stock[name] = stock
        self._nodes_by_resource.move(name, before, stock)
        for resource in before.keys() | stock.keys():
            for class_name in self._classes_by_resource[resource]:
                if self._put(class_name, name):
                    dirty.touched_classes.add(class_name)

    def _sum_class(self, name: str, dirty: _Dirty) -> None:
        self._sums.pop(name, None)
        gpu_class = self.classes.get(name)
        if gpu_class is None:
            return
        for node_name in self._nodes_by_resource[gpu_class.resource_name]:
            self._put(name, node_name)
        dirty.touched_classes.add(name)

    def _put(self, class_name: str, node_name: str) -> bool:
        """Bring a class's sum up to date with one node."""
        gpu_class = self.classes[class_name]
        stock = self._stock.get(node_name, {}).get(gpu_class.resource_name)
        capacity = None
        if stock is not None:
            takes_pods = takes_new_pods(self.nodes[node_name], gpu_class.tolerations)
            capacity = on_node(stock, takes_pods=takes_pods)
        return self._sums.setdefault(class_name, Sum()).put(node_name, capacity)

    def _stock_of(self, node: Node) -> dict[str, Stock]:
        """The stock of each extended resource that a node has or that is held there."""
        bound = Counter[str]()
        booked: dict[str, list[Claim]] = {}
        for key in self._claims_by_node[node.name]:
            claim = self.claims[key]
            bound[resource_of(claim, self.classes)] += claim.count
            for uid in self._vmis_of(claim):
                booked.setdefault(uid, []).append(claim)
        outside = Counter[str]()
        launchers: dict[str, list[Pod]] = {}
        for key in self._pods_by_node[node.name]:
            pod = self.pods[key]
            vmi = self._launcher_of(pod)
            if vmi is None:
                outside.update(dict(devices(pod)))
            else:
                launchers.setdefault(vmi.uid, []).append(pod)
        for uid, pods in launchers.items():
            outside.update(held_outside(pods, booked.get(uid, ()), self.classes))
        total = {name: units for name, units in node.allocatable.items() if "/" in name}
        return {
            name: Stock(total.get(name, 0), bound[name], outside[name])
            for name in total.keys() | bound.keys() | outside.keys()
            if name
        }

    def _launcher_of(self, pod: Pod) -> Vmi | None:
        """The VMI whose launcher a pod is, if it is one."""
        vmi = self.vmis.get(pod.owner) if pod.owner else None
        return vmi if vmi is not None and is_launcher(pod, vmi) else None

    def _launchers(self, vmi: Vmi) -> list[Pod]:
        pods = (self.pods[key] for key in self._pods_by_owner[vmi.uid])
        return [pod for pod in pods if is_launcher(pod, vmi)]

    def _claims_of(self, vmi: Vmi) -> list[Claim]:
        """The set of a VM: claims attached to it, its template claims, and those of its record."""
        keys = {key for user in _vmi_users(vmi) for key in self._claims_by_user[user]}
        keys |= _recorded(vmi)
        claims = (self.claims[key] for key in keys if key in self.claims)
        return [claim for claim in claims if _is_of(claim, vmi)]

    def _vmis_of(self, claim: Claim) -> list[str]:
        """The VMIs in whose set a claim is: at most one, but while two races are sorted out."""
        uids = {uid for user in _users(claim) for uid in self._vmis_by_user[user]}
        uids |= self._vmis_by_recorded[claim.key]
        return [uid for uid in uids if _is_of(claim, self.vmis[uid])]


def _is_of(claim: Claim, vmi: Vmi) -> bool:
    """Whether a claim is in a VM's set; one attached elsewhere is not, whatever a record says."""
    if claim.namespace != vmi.namespace:
        return False
    if claim.attached_to is not None:
        return claim.attached_to.uid in _vmi_users(vmi)
    if claim.owner:
        return claim.owner == vmi.uid
    return claim.key in _recorded(vmi)


def _store(table: dict[K, V], key: K, value: V | None) -> V | None:
    """Put a value into a table, or take it out; returns what was there."""
    if value is None:
        return table.pop(key, None)
    before = table.get(key)
    table[key] = value
    return before


def _named(value: V | None, name: Callable[[V], str]) -> set[str]:
    """What a value names, as a set: empty where there is no value or it names nothing."""
    named = name(value) if value is not None else ""
    return {named} if named else set()


def _owner(pod: Pod) -> str:
    return pod.owner


def _booked_on(claim: Claim) -> str:
    return claim.node_name


def _class_name(claim: Claim) -> str:
    return claim.class_name


def _resource_name(gpu_class: GpuClass) -> str:
    return gpu_class.resource_name


def _users(claim: Claim | None) -> set[str]:
    """Uids of the VM or VMI that a claim says it is for."""
    if claim is None:
        return set()
    attached = claim.attached_to.uid if claim.attached_to is not None else ""
    return {uid for uid in (attached, claim.owner) if uid}


def _vmi_users(vmi: Vmi | None) -> set[str]:
    """Uids by which claims name a VMI: its own, and its VM's."""
    return set() if vmi is None else {uid for uid in (vmi.uid, vmi.vm) if uid}


def _recorded(vmi: Vmi | None) -> set[Key]:
    """The claims that a VMI's record of admission names."""
    if vmi is None:
        return set()
    return {(vmi.namespace, entry.claim) for entry in vmi.record if entry.claim}
