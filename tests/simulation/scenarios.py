"""What is simulated: fair weather, each fault by itself, all together, and short stories."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from shared import vocabulary as v
from tests.simulation import facts, things
from tests.simulation.admitted import FOREIGN_GATE
from tests.simulation.kinds import NODE, POD, Kind
from tests.simulation.network import Fate, Weather
from tests.simulation.people import CLAIM, CONFIG_MAP, VM, People, World
from tests.simulation.policies import ADMIN
from tests.simulation.simulation import Scenario, Script
from tests.simulation.stage import key_of
from tests.simulation.store import Change

_BUSY: Final = World(nodes=6, machines=10, pause=(0.3, 3.0))
_CHANCE: Final = 0.05

_WRITES: Final = {fate: _CHANCE for fate in Fate if fate not in {Fate.GOOD, Fate.PAUSED}}


def _faulty(*fates: Fate) -> Weather:
    return Weather(write_faults=dict.fromkeys(fates, _CHANCE))


CHAOS: Final = (
    Scenario("fair", world=_BUSY),
    Scenario("lost-writes", world=_BUSY, weather=_faulty(Fate.LOST, Fate.UNANSWERED)),
    Scenario("repeated-writes", world=_BUSY, weather=_faulty(Fate.TWICE, Fate.LATE)),
    Scenario("conflicts", world=_BUSY, weather=_faulty(Fate.BEATEN, Fate.BUSY)),
    Scenario("slow-watches", world=_BUSY, weather=Weather(lag=(0.0, 20.0))),
    Scenario("broken-watches", world=_BUSY, weather=Weather(breaks=0.05, expires=0.3)),
    Scenario("old-views", world=_BUSY, weather=Weather(goes_back=0.1)),
    Scenario("refusals", world=_BUSY, refuses=0.3),
    Scenario("denials", world=_BUSY, denies=0.7),
    Scenario("left-pods", world=replace(_BUSY, leaves_pods=True), lives=(20.0, 90.0)),
    Scenario("restarts", world=_BUSY, lives=(3.0, 40.0)),
    Scenario("two-binders", world=_BUSY, binders=2, lives=(20.0, 90.0)),
    Scenario("paused-leader", world=_BUSY, binders=2, weather=_faulty(Fate.PAUSED)),
    Scenario("clock-jumps", world=_BUSY, binders=2, lives=(20.0, 90.0), jumps=True),
    Scenario(
        "storm",
        world=_BUSY,
        binders=2,
        lives=(20.0, 120.0),
        jumps=True,
        weather=Weather(
            lag=(0.0, 5.0),
            write_faults={**dict.fromkeys(_WRITES, 0.01), Fate.PAUSED: 0.005},
            breaks=0.01,
            expires=0.05,
        ),
    ),
)
"""Long, with people and weather by chance."""

_SMALL: Final = World(nodes=2, tenants=1)
HOME: Final = "tenant-a"


def _start(people: People) -> None:
    _machine(people, 1, "vm", classes=[{"className": "a100", "count": 2}])


def _set_of_three(people: People) -> None:
    _order(people, 1, "order", "a100", 1)
    entries = [{"className": "a100", "count": 1}, {"className": "a100", "count": 2}]
    _machine(people, 5, "vm", claims=["order"], classes=entries)


def _room_appears(people: People) -> None:
    _machine(people, 1, "first", classes=[{"className": "a100", "count": 3}])
    _machine(people, 10, "second", classes=[{"className": "a100", "count": 2}])
    people.stage.plan("delete", 40, lambda: _delete(people, "first"))


def _held_through_a_stop(people: People) -> None:
    _order(people, 1, "order", "a100", 2)
    _machine(people, 5, "vm", claims=["order"])
    people.stage.plan("stop", 30, lambda: _switch(people, "Halted"))
    people.stage.plan("start", 60, lambda: _switch(people, "Always"))


def _order_ends(people: People) -> None:
    _order(people, 1, "order", "a100", 2)
    _machine(people, 5, "vm", claims=["order"])

    def end() -> None:
        people.stage.api.delete(CLAIM, (HOME, "order"), ADMIN)

    people.stage.plan("end", 30, end)
    people.stage.plan("delete", 50, lambda: _delete(people, "vm"))


def _node_goes(people: People) -> None:
    _order(people, 1, "order", "a100", 2)

    def lose() -> None:
        people.stage.api.delete(NODE, ("", "n0"), ADMIN)

    people.stage.plan("lose", 30, lose)


def _two_terms(people: People) -> None:
    vm = things.machine(HOME, "vm", classes=[{"className": "a100", "count": 2}])
    _make(people, 1, VM, things.with_two_terms(vm))


def _foreign_gate(people: People) -> None:
    """Whose it is takes it away once ours is gone: two that wait for each other never start."""
    vm = things.machine(HOME, "vm", classes=[{"className": "a100", "count": 2}])
    vm["spec"]["template"]["metadata"]["annotations"][FOREIGN_GATE] = ""
    _make(people, 1, VM, vm)

    def open_gate() -> None:
        for pod in people.stage.store.all(POD):
            if facts.gates(pod) == [FOREIGN_GATE]:
                gone = {"spec": {"schedulingGates": None}}
                people.stage.api.merge(POD, key_of(pod), gone, ADMIN)

    people.stage.plan("gate", 40, open_gate)


def _off(people: People) -> None:
    """A pod that waits at its gate when the feature is switched off goes on without a pin."""
    _machine(people, 1, "first", classes=[{"className": "a100", "count": 4}])
    _machine(people, 5, "vm", classes=[{"className": "a100", "count": 4}])
    key = (v.NAMESPACE, v.SETTINGS_NAME)
    off = {"data": {"enabled": "false"}}
    people.stage.plan("off", 10, lambda: people.stage.api.merge(CONFIG_MAP, key, off, ADMIN))
    _order(people, 75, "order", "l40s", 1)


def _a_node_refuses(people: People) -> None:
    """Again and again; the other node that has room takes it."""
    people.stage.refusing["n0"] = 9
    _machine(people, 1, "vm", classes=[{"className": "a100", "count": 4}])


def _node_fails(people: People) -> None:
    """Just when the pin is under way; the node comes back later."""
    _machine(people, 1, "vm", classes=[{"className": "a100", "count": 2}])
    people.stage.plan("back", 60, functools.partial(_ready, people, "True"))
    failed = list[Change]()

    def fail(change: Change) -> None:
        if facts.node_of(change.after) and not failed:
            failed.append(change)
            people.stage.plan("fail", 0.3, functools.partial(_ready, people, "False"))

    people.stage.on((CLAIM,), fail)


def _ready(people: People, status: str) -> None:
    new = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
    people.stage.api.merge(NODE, ("", "n0"), new, ADMIN, "status")


def _make(people: People, at: float, kind: Kind, obj: things.Raw) -> None:
    name = obj["metadata"]["name"]
    people.stage.plan(name, at, lambda: people.stage.api.create(kind, HOME, obj, ADMIN))


def _machine(people: People, at: float, name: str, **asked: object) -> None:
    _make(people, at, VM, things.machine(HOME, name, **asked))


def _order(people: People, at: float, name: str, class_name: str, count: int) -> None:
    _make(people, at, CLAIM, things.claim(HOME, name, class_name, count))


def _switch(people: People, strategy: str) -> None:
    people.stage.api.merge(VM, (HOME, "vm"), {"spec": {"runStrategy": strategy}}, ADMIN)


def _delete(people: People, name: str) -> None:
    people.stage.api.delete(VM, (HOME, name), ADMIN)


def _story(name: str, script: Script, denies: float = 0.0) -> Scenario:
    return Scenario(name, 80.0, 60.0, 40.0, world=_SMALL, script=script, denies=denies)


STORIES: Final = (
    _story("a-vm-starts", _start),
    _story("a-set-of-three", _set_of_three),
    _story("a-start-is-denied", _set_of_three, denies=1.0),
    _story("room-appears", _room_appears),
    _story("an-order-is-held-through-a-stop", _held_through_a_stop),
    _story("an-order-ends-while-it-is-used", _order_ends),
    _story("the-node-of-an-order-goes", _node_goes),
    _story("two-terms", _two_terms),
    _story("a-foreign-gate", _foreign_gate),
    _story("a-vm-waits-while-all-is-off", _off),
    _story("the-node-fails-as-a-vm-starts", _node_fails),
)
"""Short and without chance: each is run again for every write, with the process killed there."""


REFUSED: Final = Scenario(
    "a-node-refuses", 400.0, 300.0, 40.0, world=World(nodes=4, tenants=1), script=_a_node_refuses
)
"""KubeVirt's pauses make it long."""

SCENARIOS: Final[Mapping[str, Scenario]] = {each.name: each for each in (*CHAOS, *STORIES, REFUSED)}
