"""The search by kinds of nodes decides what a look at every node decides (rules 7.5 and 7.6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from shared.core.capacity import Stock, is_open, takes_new_pods
from shared.core.cluster import ClusterState
from shared.core.demand import Demand, Part
from shared.core.eligibility import CHAIN, Case, Misfit, hindrance
from shared.core.model import Change, Gone, Node, Pod, Put
from shared.core.placement import Placed, place
from shared.core.placing import PodPlacing, Presence
from shared.core.scheduling import Taint, Toleration
from shared.core.sites import Sites
from shared.reasons import Reason
from tests.property.changes import RESOURCES, START, changes
from tests.property.test_state import figures, objects_of

DEVICES = ("x/A", "x/B", "x/C")
TOLERANT = (Toleration("gpu", "Exists"),)
GPU = Taint("gpu", "NoSchedule")

nodes = st.builds(
    Node,
    name=st.sampled_from([f"n{number}" for number in range(12)]),
    allocatable=st.integers(0, 4).map(lambda cpu: {"cpu": cpu, "pods": 10}),
    labels=st.sampled_from(
        [{"kubevirt.io/schedulable": "true", "disk": disk} for disk in ("fast", "slow", "fast")]
        + [{}]
    ),
    taints=st.sampled_from(((), (), (GPU,), (replace(GPU, since="2026"),))),
    unschedulable=st.sampled_from((False, False, False, True)),
    ready=st.sampled_from((True, True, True, False)),
)
few = st.integers(0, 4)
stocks = st.dictionaries(
    st.sampled_from(DEVICES), st.builds(Stock, total=few, bound=st.integers(0, 1)), min_size=1
)
parts = st.builds(
    Part,
    class_name=st.just("c"),
    resource=st.sampled_from(DEVICES),
    units=st.integers(1, 3),
    tolerations=st.sampled_from(((), TOLERANT)),
)
pods = st.none() | st.builds(
    Pod,
    namespace=st.just("t"),
    name=st.just("p"),
    requests=st.just({"cpu": 2}),
    presence=st.just(Presence()),
    placing=st.builds(
        PodPlacing,
        node_selector=st.sampled_from(({}, {"disk": "fast"})),
        tolerations=st.just(TOLERANT),
    ),
)
some_names = st.frozensets(st.sampled_from(["n0", "n1", "n2", "n3"]), max_size=3)
demands = st.builds(
    Demand,
    parts=st.lists(parts, min_size=1, max_size=3).map(tuple),
    pod=pods,
    stays_on=st.sampled_from(("", "", "", "n1", "n9")),
    skipped=some_names,
    reserved=some_names,
)
there = st.lists(
    st.builds(
        Pod,
        namespace=st.just("t"),
        name=st.sampled_from(("q1", "q2", "q3", "q4")),
        node_name=st.sampled_from([f"n{number}" for number in range(12)]),
        requests=st.sampled_from(({"cpu": 1}, {"cpu": 3}, {})),
    ),
    max_size=6,
)
World = dict[str, tuple[Node, dict[str, Stock]]]
worlds = st.lists(st.tuples(nodes, stocks), max_size=14).map(
    lambda found: {node.name: (node, stock) for node, stock in found}
)


def sites_of(world: World, there: Iterable[Pod], order: Iterable[str]) -> Sites:
    found = Sites()
    for name in order:
        found.put_node(name, *world[name])
    for pod in there:
        found.apply(Put(pod))
    return found


def by_looking_at_all(demand: Demand, sites: Sites) -> str | Reason:
    """The same decision: judge every node, sort those that fit."""
    found = {name: hindrance(Case(demand, sites), site) for name, site in sites.by_name.items()}
    fitting = [name for name, hindered in found.items() if hindered is None]
    if demand.stays_on in fitting:
        return demand.stays_on
    if fitting:
        return min(fitting, key=lambda name: (*fullness(demand, sites, name), name))
    for resource, units in demand.units.items():
        if free(sites, resource, [p for p in demand.parts if p.resource == resource]) < units:
            return Reason.NO_CAPACITY
    furthest = max(hindered.rank for hindered in found.values() if hindered is not None)
    return max(CHAIN[furthest][0], Reason.SET_DOES_NOT_FIT_ONE_NODE, key=list(Reason).index)


def fullness(demand: Demand, sites: Sites, name: str) -> tuple[int, int, int]:
    """Units of the set's devices there, the shares of others in millionths, and the CPU left."""
    here, node = sites.by_name[name].free, sites.by_name[name].node
    cpu = node.allocatable["cpu"] - sites.rooms.used(name).get("cpu", 0)
    left = sum(here[resource] for resource in demand.units)
    shares = [
        max(0, units) * 1_000_000 // max(1, free(sites, resource))
        for resource, units in here.items()
        if resource not in demand.units
    ]
    return left, sum(shares), cpu


def free(sites: Sites, resource: str, parts: Iterable[Part] | None = None) -> int:
    """Free units on open nodes, of those alone that some classes tolerate."""
    return sum(
        max(0, site.free.get(resource, 0))
        for site in sites.by_name.values()
        if is_open(site.node)
        and all(takes_new_pods(site.node, part.tolerations) for part in parts or ())
    )


@given(worlds, there, demands, st.integers())
def test_a_search_by_kinds_decides_as_a_look_at_every_node_does(
    world: World, held: list[Pod], demand: Demand, seed: int
) -> None:
    order = sorted(world)
    Random(seed).shuffle(order)
    got = place(demand, sites_of(world, held, order))
    want = by_looking_at_all(demand, sites_of(world, held, sorted(world)))
    event(want if isinstance(want, Reason) else "placed")
    match got:
        case Placed(name):
            assert name == want
        case Misfit(reason):
            assert reason is want


def answers(sites: Sites) -> object:
    """All that a search looks at."""
    return (
        {name: (site.node, dict(site.free)) for name, site in sites.by_name.items()},
        {
            resource: {
                units: sorted(
                    (kind.nodes, kind.taints, sorted(kind.free.items())) for kind in kinds
                )
                for units, kinds in sites.kinds(resource).items()
            }
            for resource in RESOURCES
        },
        {resource: sites.free(resource) for resource in RESOURCES},
        {name: dict(sites.labels_of(name)) for name in sorted(sites.namespaces())},
        {name: dict(sites.rooms.used(name)) for name in sites.by_name},
    )


@given(st.lists(changes, max_size=25), st.integers())
def test_sites_changed_step_by_step_are_those_of_a_state_made_anew(
    steps: list[Change], seed: int
) -> None:
    state = ClusterState(Sites())
    for step in (*START, *steps):
        state.apply(step)
    assert state.sites is not None
    afresh = ClusterState(Sites())
    found = objects_of(state)
    Random(seed).shuffle(found)
    for each in found:
        afresh.apply(Put(each))
    assert afresh.sites is not None
    assert answers(state.sites) == answers(afresh.sites)
    for each in found:
        state.apply(Gone(each))
    assert answers(state.sites) == answers(Sites())
    assert not state.sites._kinds


@given(st.lists(changes, max_size=25))
def test_changes_taken_in_at_once_come_to_the_same_as_one_by_one(steps: list[Change]) -> None:
    one_by_one, at_once = ClusterState(Sites()), ClusterState(Sites())
    at_once.apply_all(START)
    at_once.apply_all(steps)
    for step in (*START, *steps):
        one_by_one.apply(step)
    assert figures(at_once) == figures(one_by_one)
    assert one_by_one.sites is not None
    assert at_once.sites is not None
    assert answers(at_once.sites) == answers(one_by_one.sites)
