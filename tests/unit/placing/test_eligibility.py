"""May a node take a whole set, and why not: each rule of the chain by itself (rule 7.5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from shared.core import eligibility as rules
from shared.core.cluster import ClusterState
from shared.core.demand import Demand
from shared.core.eligibility import CHAIN, Case, Rule, fits, hindrance
from shared.core.model import Gone, Namespace, Node, Object, Put, Volume
from shared.core.placing import PodPlacing, Presence
from shared.core.scheduling import (
    HostPort,
    NodeTerm,
    PodTerm,
    Requirement,
    Selector,
    Spread,
    Taint,
    Toleration,
)
from shared.core.sites import Sites
from shared.reasons import PRECEDENCE, Reason
from tests.unit.placing.building import (
    ALPHA,
    GPU,
    TOLERANT,
    A,
    B,
    ask,
    booked,
    node,
    pod,
    sites,
    units,
    waiting,
)

ZONE = "topology.kubernetes.io/zone"
WEB = Presence({"app": "web"})
IS_WEB = Selector((Requirement("app", "In", ("web",)),))
IN_Z1 = NodeTerm(expressions=(Requirement(ZONE, "In", ("z1",)),))
ELSEWHERE = node("other", 0, {ZONE: "z2"})


@dataclass(frozen=True)
class Wrong:
    """A node `n` on which one thing, and nothing else, is in the way of a set."""

    rule: Rule
    reason: Reason
    node: Node
    demand: Demand
    others: tuple[Object, ...] = ()


WRONG = [
    pytest.param(
        Wrong(
            rules.cordoned,
            Reason.NO_CAPACITY,
            replace(node("n"), unschedulable=True),
            ask(),
        ),
        id="cordoned",
    ),
    pytest.param(
        Wrong(rules.not_ready, Reason.NO_CAPACITY, replace(node("n"), ready=False), ask()),
        id="not ready",
    ),
    pytest.param(
        Wrong(
            rules.not_schedulable,
            Reason.NO_CAPACITY,
            node("n", labels={"kubevirt.io/schedulable": "false"}),
            ask(),
        ),
        id="KubeVirt starts nothing there",
    ),
    pytest.param(
        Wrong(
            rules.tainted,
            Reason.NO_CAPACITY,
            node("n", {A: 8, B: 8}, taints=(GPU,)),
            Demand(
                (units(1, tolerations=TOLERANT), units(1, B)),
                waiting(tolerations=TOLERANT),
            ),
        ),
        id="one of two classes does not tolerate a taint",
    ),
    pytest.param(
        Wrong(rules.no_room, Reason.SET_DOES_NOT_FIT_ONE_NODE, node("n", 3), ask(4)),
        id="too few units",
    ),
    pytest.param(
        Wrong(
            rules.no_room,
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            node("n", {A: 8, B: 1}),
            Demand((units(8), units(2, B))),
        ),
        id="room for one class, not for both at once",
    ),
    pytest.param(
        Wrong(
            rules.no_room,
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            node("n", 3),
            Demand((units(2), units(2))),
        ),
        id="room for one claim, not for two of one resource",
    ),
    pytest.param(
        Wrong(
            rules.no_room,
            Reason.SET_DOES_NOT_FIT_ONE_NODE,
            node("n", 4),
            ask(2),
            (booked("c", "n", 3),),
        ),
        id="another set's claims are booked there",
    ),
    pytest.param(
        Wrong(
            rules.not_tolerated,
            Reason.NO_ELIGIBLE_NODE,
            node("n", taints=(GPU,)),
            Demand((units(1, tolerations=TOLERANT),), waiting()),
        ),
        id="the class tolerates a taint, the pod as stored does not",
    ),
    pytest.param(
        Wrong(
            rules.not_selected,
            Reason.NO_ELIGIBLE_NODE,
            node("n", labels={"disk": "slow"}),
            ask(pod=waiting(node_selector={"disk": "fast"})),
        ),
        id="node selector",
    ),
    pytest.param(
        Wrong(
            rules.not_selected,
            Reason.NO_ELIGIBLE_NODE,
            node("n", labels={ZONE: "z2"}),
            ask(pod=waiting(node_terms=(IN_Z1,))),
        ),
        id="required node affinity",
    ),
    pytest.param(
        Wrong(
            rules.too_little,
            Reason.NO_ELIGIBLE_NODE,
            node("n", cpu=8000),
            ask(pod=replace(waiting(), requests={"cpu": 4000})),
            (pod("p", "n", requests={"cpu": 4001}),),
        ),
        id="too little of what it requests",
    ),
    pytest.param(
        Wrong(
            rules.too_little,
            Reason.NO_ELIGIBLE_NODE,
            node("n", pods=1),
            ask(pod=waiting()),
            (pod("p", "n"),),
        ),
        id="too many pods",
    ),
    pytest.param(
        Wrong(
            rules.port_taken,
            Reason.NO_ELIGIBLE_NODE,
            node("n"),
            ask(pod=waiting(Presence(host_ports=(HostPort(80),)))),
            (pod("p", "n", presence=Presence(host_ports=(HostPort(80, address="10.0.0.1"),))),),
        ),
        id="host port",
    ),
    pytest.param(
        Wrong(
            rules.not_near,
            Reason.NO_ELIGIBLE_NODE,
            node("n", labels={ZONE: "z1"}),
            ask(pod=waiting(pod_affinity=(PodTerm(ZONE, IS_WEB),))),
            (ELSEWHERE, pod("p", "other", presence=WEB)),
        ),
        id="pod affinity: the others are elsewhere",
    ),
    pytest.param(
        Wrong(
            rules.not_far,
            Reason.NO_ELIGIBLE_NODE,
            node("n", labels={ZONE: "z1"}),
            ask(pod=waiting(Presence(anti_affinity=(PodTerm(ZONE, IS_WEB),)))),
            (node("other", 0, {ZONE: "z1"}), pod("p", "other", presence=WEB)),
        ),
        id="pod anti-affinity",
    ),
    pytest.param(
        Wrong(
            rules.barred,
            Reason.NO_ELIGIBLE_NODE,
            node("n"),
            ask(pod=waiting(WEB)),
            (
                pod(
                    "p",
                    "n",
                    "tenant-b",
                    presence=Presence(
                        anti_affinity=(
                            PodTerm(
                                "kubernetes.io/hostname", IS_WEB, namespace_selector=Selector()
                            ),
                        )
                    ),
                ),
            ),
        ),
        id="anti-affinity of a pod that is there",
    ),
    pytest.param(
        Wrong(
            rules.not_spread,
            Reason.NO_ELIGIBLE_NODE,
            node("n", labels={ZONE: "z1"}),
            ask(pod=waiting(WEB, spread=(Spread(1, ZONE, IS_WEB),))),
            (ELSEWHERE, pod("p", "n", presence=WEB)),
        ),
        id="topology spread",
    ),
    pytest.param(
        Wrong(
            rules.out_of_reach,
            Reason.VOLUME_OUT_OF_REACH,
            node("n", labels={ZONE: "z2"}),
            ask(pod=waiting(), volumes=(Volume("pv", (IN_Z1,)),)),
        ),
        id="a volume elsewhere",
    ),
    pytest.param(
        Wrong(
            rules.out_of_reach,
            Reason.VOLUME_OUT_OF_REACH,
            node("n", labels={ZONE: "z2"}),
            ask(pod=waiting(), volumes=(Volume("pv", zones={ZONE: frozenset({"z1"})}),)),
        ),
        id="a volume in another zone",
    ),
    pytest.param(
        Wrong(
            rules.made_elsewhere,
            Reason.VOLUME_OUT_OF_REACH,
            node("n"),
            ask(pod=waiting(), selected_nodes=frozenset({"other"})),
        ),
        id="a volume is being made elsewhere",
    ),
    pytest.param(
        Wrong(rules.refused, Reason.NODE_REFUSED, node("n"), ask(skipped=frozenset({"n"}))),
        id="refused lately",
    ),
    pytest.param(
        Wrong(rules.reserved, Reason.RESERVED, node("n"), ask(reserved=frozenset({"n"}))),
        id="kept for another",
    ),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_one_thing_in_the_way_is_found_and_without_its_rule_the_node_fits(wrong: Wrong) -> None:
    found = sites(wrong.node, *wrong.others)
    got = hindrance(Case(wrong.demand, found), found.by_name["n"])
    assert got is not None
    assert got.reason is wrong.reason
    assert CHAIN[got.rank][1] is wrong.rule
    without = [each for each in CHAIN if each[1] is not wrong.rule]
    assert fits(wrong.demand, "n", found, without)


def test_every_rule_has_a_case() -> None:
    cases = [wrong for param in WRONG for wrong in param.values if isinstance(wrong, Wrong)]
    assert {wrong.rule for wrong in cases} == {rule for _, rule in CHAIN}


def test_the_chain_is_in_the_order_of_precedence() -> None:
    """Rule 3.4."""
    ranks = [PRECEDENCE[reason] for reason, _ in CHAIN]
    assert ranks == sorted(ranks)


def test_a_node_that_does_not_exist_takes_nothing() -> None:
    assert not fits(ask(), "gone", sites(node("n")))


STATES = tuple(
    Taint(f"node.kubernetes.io/{state}", effect)
    for state in ("unschedulable", "not-ready", "unreachable")
    for effect in ("NoSchedule", "NoExecute")
)


@pytest.mark.parametrize("taint", STATES, ids=lambda taint: f"{taint.key}:{taint.effect}")
def test_taints_that_only_say_a_state_keep_nobody_out(taint: Taint) -> None:
    """Rule 7.11: cordon and readiness say it, and say it first."""
    assert fits(ask(pod=waiting()), "n", sites(node("n", taints=(taint,))))


def test_a_pod_has_to_tolerate_what_its_classes_tolerate() -> None:
    demand = Demand((units(1, tolerations=TOLERANT),), waiting(tolerations=TOLERANT))
    assert fits(demand, "n", sites(node("n", taints=(GPU,))))


def test_a_toleration_for_a_time_is_one_for_a_start() -> None:
    """Kubernetes itself judges so: the pod starts, and is evicted when the time is over."""
    brief = (Toleration("gpu", "Exists", effect="NoExecute", seconds=60),)
    demand = Demand((units(1, tolerations=brief),), waiting(tolerations=brief))
    assert fits(demand, "n", sites(node("n", taints=(Taint("gpu", "NoExecute"),))))


def test_an_overbooked_node_still_takes_what_is_of_another_class() -> None:
    found = sites(node("n", {A: 2, B: 2}), booked("c", "n", 3))
    assert not fits(ask(), "n", found)
    assert fits(Demand((units(2, B),)), "n", found)


def test_a_pod_that_asks_for_nothing_of_it_starts_where_too_much_of_it_is_taken() -> None:
    """As kube-scheduler has it."""
    crowded = pod("p", "n", requests={"memory": 20})
    demand = ask(pod=replace(waiting(), requests={"cpu": 1, "memory": 0}))
    assert fits(demand, "n", sites(node("n", memory=10), crowded))


def near(**term: object) -> Demand:
    return ask(pod=waiting(WEB, pod_affinity=(PodTerm(ZONE, IS_WEB, **term),)))  # type: ignore[arg-type]


Z1 = node("n", labels={ZONE: "z1"})


@pytest.mark.parametrize(
    ("there", "want"),
    [
        pytest.param((), True, id="the first of its kind"),
        pytest.param((pod("p", "n", presence=WEB),), True, id="with another"),
        pytest.param((pod("p", "n", "tenant-b", presence=WEB),), True, id="first here"),
        pytest.param(
            (ELSEWHERE, pod("p", "other", presence=WEB)), False, id="another is elsewhere"
        ),
    ],
)
def test_the_first_of_pods_that_want_to_be_together_may_go_anywhere(
    there: tuple[Object, ...], want: bool
) -> None:
    assert fits(near(), "n", sites(Z1, *there)) is want


def test_the_first_of_its_kind_needs_the_topology_all_the_same() -> None:
    assert not fits(near(), "n", sites(node("n")))


TEAM = Selector((Requirement("team", "In", ("blue",)),))


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param({}, False, id="its own namespace"),
        pytest.param({"namespaces": ("tenant-b",)}, True, id="a namespace by name"),
        pytest.param({"namespace_selector": Selector()}, True, id="all namespaces"),
        pytest.param({"namespace_selector": TEAM}, True, id="namespaces by label"),
        pytest.param(
            {"namespaces": ("tenant-c",), "namespace_selector": TEAM}, True, id="one or the other"
        ),
        pytest.param({"namespaces": ("tenant-c",)}, False, id="a wrong name"),
    ],
)
def test_a_term_is_about_pods_of_the_namespaces_it_names(
    term: dict[str, object], want: bool
) -> None:
    alone = PodTerm(ZONE, IS_WEB, **term)  # type: ignore[arg-type]
    demand = ask(pod=waiting(Presence({"app": "db"}), pod_affinity=(alone,)))
    blue = Namespace("tenant-b", labels={"team": "blue"})
    assert fits(demand, "n", sites(Z1, blue, pod("p", "n", "tenant-b", presence=WEB))) is want


def spread(**constraint: object) -> Demand:
    constraint = {"max_skew": 1, "topology_key": ZONE, "selector": IS_WEB, **constraint}
    return ask(pod=waiting(WEB, spread=(Spread(**constraint),)))  # type: ignore[arg-type]


def in_zone(name: str, zone: str) -> Node:
    return node(name, labels={ZONE: zone})


@pytest.mark.parametrize(
    ("demand", "there", "want"),
    [
        pytest.param(spread(), {"n": 1, "m": 1}, True, id="even"),
        pytest.param(spread(), {"n": 1, "m": 0}, False, id="too many here"),
        pytest.param(spread(max_skew=2), {"n": 1, "m": 0}, True, id="a larger skew"),
        pytest.param(spread(min_domains=2), {"n": 0, "m": 5}, True, id="enough domains"),
        pytest.param(
            spread(min_domains=3), {"n": 0, "m": 5}, True, id="too few domains, none here"
        ),
        pytest.param(spread(min_domains=3), {"n": 1, "m": 5}, False, id="too few domains"),
        pytest.param(
            spread(min_domains=2),
            {"n": 1, "m": 1},
            False,
            id="enough domains, but too few once it is pinned",
        ),
        pytest.param(
            spread(min_domains=2, honors_affinity=False),
            {"n": 1, "m": 1},
            True,
            id="a pin does not matter where affinity does not",
        ),
        pytest.param(spread(selector=Selector()), {"n": 5, "m": 0}, True, id="selects everything"),
        pytest.param(spread(selector=None), {"n": 5, "m": 0}, True, id="selects nothing"),
    ],
)
def test_pods_are_spread(demand: Demand, there: dict[str, int], want: bool) -> None:
    found = sites(
        in_zone("n", "z1"),
        in_zone("m", "z2"),
        *(
            pod(f"{name}-{number}", name, presence=WEB)
            for name, count in there.items()
            for number in range(count)
        ),
    )
    assert fits(demand, "n", found) is want


def test_a_pod_that_is_being_deleted_no_longer_counts_in_a_spread() -> None:
    leaving = pod("p", "n", presence=replace(WEB, is_leaving=True))
    assert fits(spread(), "n", sites(in_zone("n", "z1"), in_zone("m", "z2"), leaving))


def test_only_nodes_that_the_pod_accepts_count_in_a_spread() -> None:
    found = sites(in_zone("n", "z1"), in_zone("m", "z2"), pod("p", "n", presence=WEB))
    tied = replace(
        spread(), pod=waiting(WEB, spread=(Spread(1, ZONE, IS_WEB),), node_terms=(IN_Z1,))
    )
    assert fits(tied, "n", found)


def test_only_nodes_whose_taints_it_tolerates_count_where_it_says_so() -> None:
    tainted = node("m", labels={ZONE: "z2"}, taints=(GPU,))
    found = sites(in_zone("n", "z1"), tainted, pod("p", "n", presence=WEB))
    assert not fits(spread(), "n", found)
    assert fits(spread(honors_taints=True), "n", found)


def test_a_set_without_a_pod_has_no_demands_but_units() -> None:
    crowded = pod("p", "n", requests={"cpu": 64_000})
    assert fits(ask(8), "n", sites(node("n"), crowded))


def test_a_pod_pinned_there_by_us_takes_room_like_one_that_runs_there() -> None:
    pinned = replace(
        pod("p", requests={"cpu": 64_000}, placing=PodPlacing()), pinned_to="n", launcher_mark="v"
    )
    assert not fits(ask(pod=waiting()), "n", sites(node("n"), pinned))
    stranger = replace(pinned, launcher_mark="")
    assert fits(ask(pod=waiting()), "n", sites(node("n"), stranger))


def test_a_spread_follows_the_nodes_as_they_change() -> None:
    """Which nodes count is worked out once, until one of them changes."""
    state = ClusterState(Sites())
    for each in (ALPHA, in_zone("n", "z1"), pod("p", "n", presence=WEB)):
        state.apply(Put(each))
    assert state.sites is not None
    assert fits(spread(), "n", state.sites)
    state.apply(Put(in_zone("m", "z2")))
    assert not fits(spread(), "n", state.sites)
    state.apply(Put(in_zone("m", "z1")))
    assert fits(spread(), "n", state.sites)
    state.apply(Put(in_zone("m", "z2")))
    assert not fits(spread(), "n", state.sites)
    state.apply(Gone(in_zone("m", "z2")))
    assert fits(spread(), "n", state.sites)


def test_pods_with_other_demands_count_other_nodes() -> None:
    found = sites(in_zone("n", "z1"), in_zone("m", "z2"), pod("p", "n", presence=WEB))
    constraint = (Spread(1, ZONE, IS_WEB),)
    for tied, want in (({}, False), ({ZONE: "z1"}, True), ({}, False)):
        asked = ask(pod=waiting(WEB, spread=constraint, node_selector=tied))
        assert fits(asked, "n", found) is want
    terms = (IN_Z1,)
    assert fits(ask(pod=waiting(WEB, spread=constraint, node_terms=terms)), "n", found)
