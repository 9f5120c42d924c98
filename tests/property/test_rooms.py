"""What stands on nodes, kept up to date by changes, equals what a look at all pods finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.index import Index
from shared.core.model import Change, Gone, Node, Pod, Put
from shared.core.placing import Presence
from shared.core.rooms import Rooms
from shared.core.scheduling import PodTerm, Selector

NODES = ("n1", "n2", "n3")
NAMESPACES = ("a", "b", "c")

terms = st.builds(
    PodTerm,
    topology_key=st.just("zone"),
    namespaces=st.lists(st.sampled_from(NAMESPACES), max_size=2, unique=True).map(tuple),
    namespace_selector=st.sampled_from((None, None, Selector())),
)
pods = st.builds(
    Pod,
    namespace=st.sampled_from(NAMESPACES),
    name=st.sampled_from(("p1", "p2", "p3")),
    node_name=st.sampled_from(("", "", *NODES)),
    requests=st.dictionaries(
        st.sampled_from(("cpu", "memory", "example.com/gpu")), st.integers(0, 3)
    ),
    ended=st.sampled_from((False, False, False, True)),
    launcher_mark=st.sampled_from(("", "vmi")),
    pinned_to=st.sampled_from(("", *NODES)),
    presence=st.none() | st.builds(Presence, anti_affinity=st.lists(terms, max_size=2).map(tuple)),
)
changes = st.one_of(st.builds(Put, pods), st.builds(Put, pods), st.builds(Gone, pods))

Found = tuple[dict[str, dict[str, int]], dict[str, set[str]], dict[str, set[str]]]
"""Sums by node, pods by node or namespace, pods on guard by namespace."""


def answers(rooms: Rooms) -> Found:
    def label(pods: Iterable[Pod]) -> set[str]:
        return {f"{pod.namespace}/{pod.name} {pod!r}" for pod in pods}

    return (
        {node: dict(rooms.used(node)) for node in NODES},
        {node: label(rooms.on(node)) for node in NODES}
        | {each: label(rooms.within(each)) for each in NAMESPACES},
        {each: label(rooms.guarding(each)) for each in NAMESPACES},
    )


def where(pod: Pod) -> str:
    if pod.ended:
        return ""
    if pod.node_name == "" and pod.launcher_mark:
        return pod.pinned_to
    return pod.node_name


def looked_up(held: Iterable[Pod]) -> Found:
    """The same by looking at every pod, each time."""
    standing = [pod for pod in held if where(pod)]
    used: dict[str, Counter[str]] = {node: Counter() for node in NODES}
    for pod in standing:
        used[where(pod)].update(pod.requests)
        used[where(pod)]["pods"] += 1

    def label(pods: Iterable[Pod]) -> set[str]:
        return {f"{pod.namespace}/{pod.name} {pod!r}" for pod in pods}

    def guards(pod: Pod, namespace: str) -> bool:
        return any(
            term.namespace_selector is not None
            or namespace in term.namespaces
            or (not term.namespaces and pod.namespace == namespace)
            for term in (pod.presence.anti_affinity if pod.presence is not None else ())
        )

    return (
        {node: {name: n for name, n in each.items() if n} for node, each in used.items()},
        {node: label(p for p in standing if where(p) == node) for node in NODES}
        | {each: label(p for p in standing if p.namespace == each) for each in NAMESPACES},
        {each: label(p for p in standing if guards(p, each)) for each in NAMESPACES},
    )


def held_after(steps: Iterable[Change]) -> dict[tuple[str, str], Pod]:
    held: dict[tuple[str, str], Pod] = {}
    for step in steps:
        assert isinstance(step.object, Pod)
        held.pop(step.object.key, None)
        if isinstance(step, Put):
            held[step.object.key] = step.object
    return held


@given(st.lists(changes, max_size=25), st.integers())
def test_rooms_changed_step_by_step_are_what_a_look_at_all_pods_finds(
    steps: list[Change], seed: int
) -> None:
    rooms = Rooms()
    for step in steps:
        before = answers(rooms)
        touched = rooms.apply(step)
        after = answers(rooms)
        changed = {
            node
            for node in NODES
            if before[0][node] != after[0][node] or before[1][node] != after[1][node]
        }
        assert changed == touched
    held = held_after(steps)
    assert answers(rooms) == looked_up(held.values())
    afresh = Rooms()
    shuffled = list(held.values())
    Random(seed).shuffle(shuffled)
    for pod in shuffled:
        afresh.apply(Put(pod))
    assert answers(afresh) == answers(rooms)


@given(st.lists(changes, max_size=25))
def test_what_is_no_pod_takes_no_room(steps: list[Change]) -> None:
    rooms = Rooms()
    for step in steps:
        rooms.apply(step)
    before = answers(rooms)
    assert rooms.apply(Put(Node("n1", {"cpu": 1}))) == frozenset()
    assert answers(rooms) == before


@given(st.lists(changes, max_size=25))
def test_taking_every_pod_away_leaves_nothing_behind(steps: list[Change]) -> None:
    rooms = Rooms()
    for step in steps:
        rooms.apply(step)
    for pod in held_after(steps).values():
        rooms.apply(Gone(pod))
    for name, kept in vars(rooms).items():
        assert not (kept._one or kept._several if isinstance(kept, Index) else kept), name
