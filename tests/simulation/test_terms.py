"""What a binder makes of what others did before its term, and of what hosters change."""

from __future__ import annotations

from shared import vocabulary as v
from tests.kubevirt.objects import name_of, stamp
from tests.simulation import things
from tests.simulation.binders import DEFAULT, binder_named
from tests.simulation.kinds import EVENT, Kind, kind_named
from tests.simulation.people import CLAIM, VM, People, World
from tests.simulation.policies import ADMIN, BINDER
from tests.simulation.simulation import Scenario, Script, simulate
from tests.simulation.stage import NOON, key_of
from tests.simulation.store import Change

CLASS = kind_named(v.RESOURCE_CLASSES)
SYSTEM = kind_named(v.RESOURCE_SYSTEMS)
HOME = "tenant-a"


def play(script: Script, *kinds: Kind) -> list[Change]:
    """What became of objects of some kinds while a script was played with our own binder."""
    seen: list[Change] = []

    def begin(people: People) -> None:
        people.stage.on(kinds, seen.append)
        script(people)

    small = World(nodes=2, tenants=1)
    scenario = Scenario("terms", 100.0, 40.0, 20.0, world=small, script=begin)
    simulate(scenario, 1, binder_named(DEFAULT), invariants=())
    return seen


def test_a_new_term_believes_what_claims_say_and_not_what_it_remembers_to_have_told() -> None:
    """Rule 7.9: meanwhile another binder told another reason."""

    def script(people: People) -> None:
        api = people.stage.api

        def machine() -> None:
            asked = [{"className": "a100", "count": 6}]
            api.create(VM, HOME, things.machine(HOME, "vm", classes=asked), ADMIN)

        def another_leads() -> None:
            epoch = api.get(SYSTEM, ("", v.SYSTEM_NAME))["status"]["epoch"]
            status = {"status": {"epoch": epoch + 5}}
            api.merge(SYSTEM, ("", v.SYSTEM_NAME), status, BINDER, "status")

        def another_tells() -> None:
            [claim] = people.stage.store.all(CLAIM)
            waiting = {"reason": "BudgetExceeded", "message": "", "sinceTime": stamp(NOON)}
            api.merge(CLAIM, key_of(claim), {"status": {"waiting": waiting}}, BINDER, "status")

        people.stage.plan("machine", 1, machine)
        people.stage.plan("another leads", 40, another_leads)
        people.stage.plan("another tells", 44, another_tells)

    told = [change.after for change in play(script, EVENT)]
    ours = [event for event in told if event and event.get("source") == {"component": "gpu-binder"}]
    assert [event["reason"] for event in ours] == ["NoCapacity", "NoCapacity"]
    assert len({name_of(event) for event in ours}) == 2


def test_the_figures_of_a_class_leave_its_status_when_they_are_not_to_be_shown_any_more() -> None:
    """Rule 3.1. A patch that does not name them leaves them where they are."""

    def script(people: People) -> None:
        hidden = {"spec": {"disclosure": "Hidden"}}
        api = people.stage.api
        people.stage.plan("hide", 30, lambda: api.merge(CLASS, ("", "a100"), hidden, ADMIN))

    states = [each.after for each in play(script, CLASS) if each.key == ("", "a100") and each.after]
    shown = [(each["spec"]["disclosure"], "capacity" in each.get("status", {})) for each in states]
    assert ("Exact", True) in shown
    assert shown[-1] == ("Hidden", False)
