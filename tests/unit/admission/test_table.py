"""Sixty VMIs, each with its verdict, its message and what is stored, worked by hand (rule 6.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission import final, vmi
from admission.inputs import Classes, FinalInputs, Hoster, View, VmiInputs, VmiNeeds, rivals
from admission.review import Allow, Refuse, Request
from shared.core.cluster import ClusterState
from shared.core.model import Object, Put, Vm
from shared.core.tenants import Tenants
from shared.kube import decode
from shared.settings import GpuSettings, parse
from tests.unit.admission.building import changed_by, request
from tests.vmis.table import Case, cases, world
from tests.worlds.reading import value

KIND = ("kubevirt.io", "VirtualMachineInstance")
CASES = cases()
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def no_problem(problem: str) -> None:
    raise AssertionError(problem)


class Reading:
    """Reads the world of the table as the real reader reads a cluster, but from values."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.tenants = Tenants()
        self.vms: dict[tuple[str, str], Vm] = {}
        for raw in world():
            if raw["kind"] == "VirtualMachine":
                found = decode.vm(raw, no_problem)
                self.vms[found.namespace, found.name] = found
                continue
            thing: Object | None = value(raw)
            assert thing is not None, raw
            self.state.apply(Put(thing))
            if raw["kind"] == "Namespace":
                self.tenants.add(raw["metadata"]["name"])

    def inputs(self, namespace: str, needs: VmiNeeds, settings: dict[str, str]) -> VmiInputs:
        state = self.state
        parsed, problems = parse(settings, GpuSettings())
        assert not problems
        state.apply(Put(parsed.reading))
        hoster = Hoster(
            parsed,
            Classes(state.classes),
            state.kubevirt,
            self.tenants.line(namespace),
            state.namespaces,
        )
        keys = {name: (namespace, name) for name in needs.claims}
        there = {vm.uid for vm in self.vms.values()}
        there |= {each.uid for each in state.holders.vmis.values() if not each.final}
        return VmiInputs(
            hoster,
            claims={
                name: state.holders.claims[key]
                for name, key in keys.items()
                if key in state.holders.claims
            },
            present=frozenset(there),
            rivals={name: rivals(state, namespace, name) for name in keys},
            owner=self.vms.get((namespace, needs.owner)),
            views={
                name: View.of(state, namespace, name, 0.5)
                for name in needs.classes
                if hoster.by_scheduler
            },
        )


def asked_and_read(case: Case) -> tuple[Request, VmiInputs]:
    asked = request(case.vmi, kind=KIND, namespace=case.namespace)
    judged = vmi.Judged.of(asked)
    assert judged is not None
    return asked, Reading().inputs(case.namespace, judged.needs(), case.settings)


def test_the_table_has_thirty_of_each_sort() -> None:
    admitted = [case for case in CASES if case.stored is not None]
    refused = [case for case in CASES if case.reason]
    assert (len(admitted), len(refused)) == (30, 30)
    assert len({case.name for case in CASES}) == 60
    assert [case.unknown for case in CASES if case.unknown] == []


@each_case
def test_verdict_message_and_object_are_those_of_the_table(case: Case) -> None:
    asked, inputs = asked_and_read(case)
    got = vmi.decide(asked, inputs)
    if isinstance(got, Refuse):
        assert (got.reason, got.message) == (case.reason, case.message)
        assert {cause.reason for cause in got.causes} == {case.reason}
        assert "node" not in got.message
        return
    assert changed_by(got, case.vmi) == case.stored
    assert got.warnings == case.warnings


@each_case
def test_what_is_stored_passes_the_last_look_and_is_not_changed_again(case: Case) -> None:
    if case.stored is None:
        return
    asked, inputs = asked_and_read(case)
    stored = replace(asked, object=case.stored)
    assert vmi.decide(stored, inputs) == Allow(warnings=case.warnings)
    names = inputs.hoster.gpu_names()
    assert final.decide(stored, FinalInputs(names)) == Allow()
