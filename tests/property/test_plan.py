"""Any sequence of events: what the plan does to a cluster keeps its invariants (rules 7.2 to 7.17).

After each event one pass is planned and written, sometimes with writes that fail. The numbers are
those of the invariants in docs/design.md, 7.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from binder.actions import Action, BookClaim, StartPod
from binder.agenda import Agenda
from binder.plan import View, plan
from binder.sets import attachment, is_lost, user_of
from shared.core.capacity import takes_new_pods
from shared.core.model import Claim, Key, Pod, Quota, Settings, Vmi
from shared.core.scheduling import Taint
from shared.core.templates import made_for
from shared.vocabulary import CLASS_KEY_SUFFIX, GATE
from tests.unit.binder.world import CLASSES, TENANT, World, node, order, vm

NODES = ("n1", "n2", "n3")
VMS = ("v1", "v2", "v3", "v4")
ORDERS = ("o1", "o2", "o3")

few = st.integers(0, 4)
some = st.integers(1, 3)


@dataclass(frozen=True)
class Event:
    """Something that happens; `what` is a method of `Cluster`."""

    what: str
    arguments: tuple[object, ...]


def events() -> st.SearchStrategy[Event]:
    """Any event; those that bring something about are more frequent."""
    node_events = st.tuples(st.sampled_from(NODES), few, few, st.booleans(), st.booleans())
    vm_events = st.tuples(
        st.sampled_from(VMS),
        st.dictionaries(st.sampled_from(sorted(CLASSES)), some, max_size=2),
        st.frozensets(st.sampled_from(ORDERS), max_size=2),
    )
    order_events = st.tuples(st.sampled_from(ORDERS), some, st.sampled_from(sorted(CLASSES)))
    one_vm = st.tuples(st.sampled_from(VMS))
    return st.one_of(
        node_events.map(lambda a: Event("node", a)),
        vm_events.map(lambda a: Event("vm", a)),
        vm_events.map(lambda a: Event("vm", a)),
        order_events.map(lambda a: Event("order", a)),
        one_vm.map(lambda a: Event("run", a)),
        one_vm.map(lambda a: Event("end", a)),
        one_vm.map(lambda a: Event("stop", a)),
        one_vm.map(lambda a: Event("vanish", a)),
        one_vm.map(lambda a: Event("leave", a)),
        st.just(Event("perish", ())),
        one_vm.map(lambda a: Event("migrate", a)),
        st.tuples(st.sampled_from(ORDERS)).map(lambda a: Event("delete", a)),
        st.tuples(st.sampled_from(sorted(CLASSES)), few).map(lambda a: Event("quota", a)),
        st.tuples(st.booleans()).map(lambda a: Event("enable", a)),
        st.tuples(st.sampled_from((1, 20, 60, -3600))).map(lambda a: Event("wait", a)),
    )


class Cluster(World):
    """A world in which events happen."""

    def __init__(self) -> None:
        super().__init__()
        self._uid = 0
        for name in NODES[:2]:
            self.put(node(name, a100=4, l40s=2))

    def happens(self, event: Event) -> None:
        getattr(self, event.what)(*event.arguments)

    def node(self, name: str, a100: int, l40s: int, well: bool, tainted: bool) -> None:
        taints = (Taint("gpu", "NoSchedule"),) if tainted else ()
        self.put(replace(node(name, a100=a100, l40s=l40s), ready=well, taints=taints))

    def vm(self, name: str, units: dict[str, int], claims: frozenset[str]) -> None:
        if not (units or claims) or self._vmi(name) is not None:
            return
        self._uid += 1
        named = {each: self._count(each) for each in sorted(claims)}
        vmi, pod = vm(name, units, named, age=-self._uid)
        record = tuple(
            replace(each, class_name=self._class(each.claim), resource_name=self._of(each.claim))
            if each.claim
            else each
            for each in vmi.record
        )
        asked = Counter[str]()
        for entry in record:
            asked[entry.resource_name] += entry.count
        uid = f"vmi-{name}-{self._uid}"
        pod_uid = f"pod-{name}-{self._uid}"
        self.put(
            replace(vmi, uid=uid, record=record, active_pods=(pod_uid,)),
            replace(
                pod, name=pod_uid, uid=pod_uid, owner=uid, launcher_mark=uid, requests=dict(asked)
            ),
        )

    def order(self, name: str, count: int, of: str) -> None:
        if (TENANT, name) not in self.state.holders.claims:
            self._uid += 1
            fresh = order(name, count, of=of, age=-self._uid)
            self.put(replace(fresh, uid=f"{name}-{self._uid}"))

    def run(self, name: str) -> None:
        for pod in self._pods(name):
            if pod.pinned_to and not pod.node_name and not _gated(pod):
                self.put(replace(pod, node_name=pod.pinned_to))
                vmi = self._vmi(name)
                assert vmi is not None
                self.put(replace(vmi, phase="Running", node_name=pod.pinned_to))

    def end(self, name: str) -> None:
        """The VM fails, and stays there."""
        vmi = self._vmi(name)
        if vmi is not None:
            for pod in self._pods(name):
                self.put(replace(pod, ended=True))
            self.put(replace(vmi, phase="Failed"))

    def stop(self, name: str) -> None:
        vmi = self._vmi(name)
        if vmi is not None:
            self.gone(*self._pods(name), vmi)

    def vanish(self, name: str) -> None:
        """The instance is gone, and its pods are not yet."""
        vmi = self._vmi(name)
        if vmi is not None:
            self.gone(vmi)

    def leave(self, name: str) -> None:
        """The same, and the collector took its pods and claims from it."""
        vmi = self._vmi(name)
        if vmi is not None:
            claims = self.state.holders.claims.values()
            its = [claim for claim in claims if claim.owner == vmi.uid]
            self.put(*(replace(each, owner="") for each in its))
            self.put(*(replace(pod, owner="", placing=None) for pod in self._pods(name)))
            self.gone(vmi)

    def perish(self) -> None:
        """The pods of instances that are gone end."""
        for pod in list(self.state.holders.pods.values()):
            if pod.owner not in self.state.holders.vmis:
                self.put(replace(pod, ended=True))

    def migrate(self, name: str) -> None:
        """The VM goes where there is room for it, by another's doing."""
        vmi = self._vmi(name)
        for pod in self._pods(name):
            target = next((each for each in self.state.nodes if each != pod.node_name), None)
            if vmi is not None and pod.node_name and target is not None:
                self.put(replace(pod, node_name=target), replace(vmi, node_name=target))

    def delete(self, name: str) -> None:
        claim = self.state.holders.claims.get((TENANT, name))
        if claim is not None and claim.written is not None:
            if claim.written.finalizers:
                self.put(replace(claim, deleting=True))
            else:
                self.gone(claim)

    def quota(self, of: str, units: int) -> None:
        self.put(Quota(TENANT, of, {f"{of}{CLASS_KEY_SUFFIX}": units}))

    def enable(self, enabled: bool) -> None:
        self.put(Settings(enabled=enabled))

    def wait(self, seconds: int) -> None:
        """Time goes by, or the clock is set back."""
        self.now += timedelta(seconds=seconds)

    # What is so.

    def vmis(self) -> list[Vmi]:
        return list(self.state.holders.vmis.values())

    def launchers(self, vmi: Vmi) -> list[Pod]:
        pods = self.state.holders.pods.values()
        return [pod for pod in pods if pod.owner == vmi.uid and not pod.ended]

    def set_of(self, vmi: Vmi) -> list[Claim]:
        holders = self.state.holders
        users = ((claim, user_of(claim, holders)) for claim in holders.claims.values())
        return [claim for claim, user in users if user is not None and user.uid == vmi.uid]

    def overbooked(self) -> Counter[tuple[str, str]]:
        """Units by node and device that are booked or held beyond what is there."""
        found = Counter[tuple[str, str]]()
        for each in self.state.nodes.values():
            for resource, has in self.state.stock(each.name).items():
                found[each.name, resource] = max(0, has.bound + has.outside - has.total)
        return found

    def held(self) -> Counter[str]:
        """Units by class that claims hold, or have lost."""
        found = Counter[str]()
        for claim in self.state.holders.claims.values():
            if claim.node_name or is_lost(claim):
                found[claim.class_name] += claim.count
        return found

    def kept(self) -> set[Key]:
        """Claims that were made for VMs of which a pod is somewhere."""
        pods = self.state.holders.pods.values()
        marks = {p.launcher_mark for p in pods if not p.ended and (p.node_name or p.pinned_to)}
        claims = self.state.holders.claims.values()
        return {claim.key for claim in claims if claim.is_template and made_for(claim) in marks}

    def running(self) -> Counter[str]:
        """Units by class of VMs that are somewhere: they are booked whatever the budget says."""
        found = Counter[str]()
        for vmi in self.vmis():
            if any(pod.node_name or pod.pinned_to for pod in self.launchers(vmi)):
                for entry in vmi.record:
                    found[entry.class_name] += entry.count
        return found

    def _vmi(self, name: str) -> Vmi | None:
        return next((vmi for vmi in self.vmis() if vmi.name == name), None)

    def _pods(self, name: str) -> list[Pod]:
        vmi = self._vmi(name)
        return [] if vmi is None else self.launchers(vmi)

    def _count(self, claim: str) -> int:
        found = self.state.holders.claims.get((TENANT, claim))
        return found.count if found is not None else 1

    def _class(self, claim: str) -> str:
        found = self.state.holders.claims.get((TENANT, claim))
        return found.class_name if found is not None else "a100"

    def _of(self, claim: str) -> str:
        return CLASSES[self._class(claim)]


failing = st.frozensets(st.integers(0, 5), max_size=2)
"""By number of the write in its pass: which fail."""
histories = st.lists(st.tuples(events(), failing), min_size=1, max_size=14)


LEFT: list[tuple[Event, frozenset[int]]] = [
    (Event("vm", ("v1", {"a100": 1}, frozenset())), frozenset()),
    (Event("leave", ("v1",)), frozenset()),
    (Event("perish", ()), frozenset()),
]
"""Few histories by chance have a VM that started and is left at once."""


@given(histories)
@example(LEFT)
@settings(max_examples=120, deadline=None)
def test_the_invariants_hold_after_every_pass(history: list[tuple[Event, frozenset[int]]]) -> None:
    cluster = Cluster()
    for event, cut in history:
        cluster.happens(event)
        _fresh_agenda_agrees(cluster)
        _pass(cluster, cut)
        _fresh_agenda_agrees(cluster)
    cluster.settle()
    _sets_are_whole(cluster)
    _what_fits_is_placed(cluster)
    _fresh_agenda_agrees(cluster)
    cluster.now += timedelta(seconds=30)
    cluster.step()
    _every_word_is_of_now(cluster)


@given(histories)
@settings(max_examples=40, deadline=None)
def test_what_is_planned_follows_from_the_state_and_from_which_words_are_out_of_date(
    history: list[tuple[Event, frozenset[int]]],
) -> None:
    cluster = Cluster()
    for event, cut in history:
        cluster.happens(event)
        again = World()
        again.now, again.memory = cluster.now, deepcopy(cluster.memory)
        holders, state = cluster.state.holders, cluster.state
        again.put(
            state.settings,
            *reversed(holders.claims.values()),
            *reversed(holders.pods.values()),
            *reversed(holders.vmis.values()),
            *reversed(state.classes.values()),
            *reversed(state.nodes.values()),
            *reversed(state.quotas.values()),
        )
        remembered = cluster.applier.agenda.rewordings
        for world in (again, cluster):
            world.applier.agenda.rewordings = deepcopy(remembered)
        assert again.plan() == cluster.plan()
        cluster.applier.agenda.rewordings = remembered
        _pass(cluster, cut)


def _pass(cluster: Cluster, cut: frozenset[int]) -> None:
    """One pass, of which some writes fail; what it did is checked."""
    before, held, running = cluster.overbooked(), cluster.held(), cluster.running()
    pins, kept = cluster.starts(), cluster.kept()
    enabled = cluster.state.settings.enabled
    written = 0

    def fails(_: Action) -> bool:
        nonlocal written
        written += 1
        return written - 1 in cut

    planned = cluster.plan()
    cluster.applier.do(planned, fails)
    cluster.remember()
    after = cluster.overbooked()
    assert all(after[key] <= before[key] for key in after), "1: a unit is booked twice"
    for pod in cluster.state.holders.pods.values():
        if pod.name in pins:
            assert pod.pinned_to == pins[pod.name], "6: a pod was pinned twice"
        elif pod.pinned_to:
            vmi = cluster.state.holders.vmis[pod.launcher_mark]
            on = {claim.node_name for claim in cluster.set_of(vmi)}
            assert on == {pod.pinned_to}, "4: a pod starts elsewhere than its claims are"
    left = cluster.state.holders.claims
    assert kept <= left.keys(), "5: a claim went before the pod that holds its units"
    hard = {
        each.name: each.hard[f"{each.name}{CLASS_KEY_SUFFIX}"]
        for each in cluster.state.quotas.values()
    }
    for class_name, units in cluster.held().items():
        allowed = hard.get(class_name, units)
        assert units <= max(allowed, held[class_name] + running[class_name]), "7: over budget"
    if not enabled:
        acts = [a for work in planned.works for step in work.steps for a in step]
        placed = (a for a in acts if isinstance(a, BookClaim | StartPod) and a.node_name)
        assert not any(placed), "10: placed"


def _sets_are_whole(cluster: Cluster) -> None:
    if not cluster.state.settings.enabled:
        return
    for vmi in cluster.vmis():
        whole = {
            claim.node_name
            for claim in cluster.set_of(vmi)
            if claim.is_template or claim.attached_to == attachment(vmi)
        }
        assert len(whole) <= 1, "3: a set is split"


def _what_fits_is_placed(cluster: Cluster) -> None:
    """Nothing waits at the gate that a node has room for, if budget and claims let it."""
    if not cluster.state.settings.enabled:
        return
    for vmi in cluster.vmis():
        waiting = [pod for pod in cluster.launchers(vmi) if _gated(pod)]
        claims = cluster.set_of(vmi)
        if not waiting or len(claims) < len(vmi.record) or vmi.final:
            continue
        told = {c.written.waiting.reason for c in claims if c.written and c.written.waiting}
        last = cluster.memory.last(vmi.uid)
        if last is not None:
            told.add(last.reason)
        if told & {"BudgetExceeded", "ClaimInUse", "ClaimNotFound"}:
            continue
        asked = Counter[str]()
        for entry in vmi.record:
            asked[entry.resource_name] += entry.count
        for each in cluster.state.nodes.values():
            stock = cluster.state.stock(each.name)
            own = Counter[str]()
            for claim in claims:
                if claim.node_name == each.name:
                    own[claim.resource_name] += claim.count
            fits = takes_new_pods(each, ()) and all(
                resource in stock
                and stock[resource].total - stock[resource].bound - stock[resource].outside
                >= units - own[resource]
                for resource, units in asked.items()
            )
            assert not fits, f"9: {vmi.name} waits, though {each.name} has room"


def _fresh_agenda_agrees(cluster: Cluster) -> None:
    kept, fresh = cluster.applier.agenda, Agenda(cluster.state)
    assert kept.sets() == fresh.sets()
    assert kept.claims() == fresh.claims()


def _every_word_is_of_now(cluster: Cluster) -> None:
    """No text is out of date, neither for who went on nor for who begins and remembers nothing."""
    for agenda in (cluster.applier.agenda, Agenda(cluster.state)):
        found = plan(View(cluster.state, agenda, memory=cluster.memory), cluster.now)
        assert (found.works, found.wake_in, len(agenda.rewordings)) == ((), None, 0)


def _gated(pod: Pod) -> bool:
    return pod.placing is not None and GATE in pod.placing.gates


def test_an_empty_cluster_needs_nothing() -> None:
    cluster = Cluster()
    cluster.settle()
    view = View(cluster.state, cluster.applier.agenda)
    assert plan(view, cluster.now).works == ()
