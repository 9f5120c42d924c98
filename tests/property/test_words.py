"""Any figures at any times: how old a text may be, and how often it is written (rule 7.9)."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from binder.actions import ReportClaim
from tests.unit.binder.applier import actions
from tests.unit.binder.world import World, node, template, vm

STANDS = timedelta(seconds=30)
VMS = ("v1", "v2", "v3")

moments = st.tuples(st.integers(1, 20), st.integers(0, 2), st.sampled_from(("", *VMS)))
"""Seconds until the next pass, how much is free by then, and who comes."""


@given(st.lists(moments, min_size=1, max_size=30))
@settings(deadline=None)
def test_a_text_is_of_the_last_30_s_and_stands_so_long(
    history: list[tuple[int, int, str]],
) -> None:
    world = World()
    there = {0: "none", 1: "1", 2: "2"}
    true: list[tuple[datetime, str]] = []
    """From when on which text was true, in the order of passes."""
    written: dict[str, datetime] = {}
    for seconds, free, comes in history:
        world.now += timedelta(seconds=seconds)
        if comes and f"vmi-{comes}" not in world.state.holders.vmis:
            world.put(*vm(comes, {"a100": 9}))
        world.put(node("n1", a100=free))
        true.append((world.now, f"asked 9: {there[free]} free"))
        found = actions(world.carry_out())
        until = [*(at for at, _ in true[1:]), world.now + STANDS]
        lately = {
            text for (_, text), end in zip(true, until, strict=True) if world.now - end < STANDS
        }
        for name in {each.claim.name for each in found if isinstance(each, ReportClaim)}:
            assert world.now - written.get(name, world.now - STANDS) >= STANDS
            written[name] = world.now
        assert {world.waiting(name).message for name in world.where()} <= lately
    world.rest()
    assert {world.waiting(name).message for name in world.where()} <= {true[-1][1]}
    assert world.where().keys() == {template(comes) for *_, comes in history if comes}
