"""Does what a plan says to a state, one action at a time, as an API server would."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from binder.actions import (
    Action,
    AddFinalizer,
    BookClaim,
    Condition,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    FencePod,
    Kind,
    Plan,
    Ref,
    ReleaseClaim,
    RemoveFinalizer,
    ReportClaim,
    ReportClass,
    ReportSystem,
    StartPod,
    TellQuota,
    TellVmi,
    Waiting,
    Work,
)
from binder.agenda import Agenda
from shared.core.cluster import ClusterState
from shared.core.model import Change, Claim, Gone, GpuClass, Put
from shared.core.placing import ClaimWritten, ClassWritten
from shared.core.placing import Condition as Written
from shared.core.placing import Waiting as WrittenWaiting
from shared.fields import mapping, mappings, text, whole
from shared.vocabulary import GATE


class Refused(Exception):
    """What the API server would answer to a write that does not meet the object as it is."""


class Applier:
    """A state, and the agenda that follows it."""

    def __init__(self, state: ClusterState, agenda: Agenda) -> None:
        self.state = state
        self.agenda = agenda
        self.events: list[TellVmi] = []
        self.hints: list[TellQuota] = []
        self._version = 1000

    def change(self, change: Change) -> None:
        """Something changed in the cluster."""
        touched = self.state.apply(change)
        self.agenda.note(change, touched)

    def do(self, plan: Plan, cut: Callable[[Action], bool] | None = None) -> None:
        """Do all works; one ends at its first action that `cut` says fails, but for an event."""
        for work in plan.works:
            self.work(work, cut)

    def work(self, work: Work, cut: Callable[[Action], bool] | None = None) -> None:
        """Do one work."""
        for step in work.steps:
            for action in step:
                if cut is None or not cut(action):
                    self.one(action)
                elif not isinstance(action, TellVmi):
                    return

    def one(self, action: Action) -> None:
        """Do one action."""
        match action:
            case BookClaim():
                claim = self._claim(action.claim)
                booked = replace(
                    claim, node_name=action.node_name, resource_name=action.resource_name
                )
                self._status(booked, action, bound=action.bound_time)
            case ReleaseClaim():
                claim = self._claim(action.claim)
                freed = replace(claim, node_name="", resource_name=action.resource_name)
                self._status(freed, action, bound="")
            case ReportClaim():
                claim = self._claim(action.claim)
                self._status(claim, action, bound=_written(claim).bound)
            case CreateClaim():
                self._create(action)
            case DeleteClaim():
                claim = self._claim(action.claim)
                if _written(claim).finalizers:
                    written = replace(_written(claim), resource_version=self._next())
                    self.change(Put(replace(claim, deleting=True, written=written)))
                else:
                    self.change(Gone(claim))
            case AddFinalizer() | RemoveFinalizer():
                self._finalizer(action)
            case StartPod():
                self._start(action)
            case FencePod():
                pod = self.state.holders.pods[action.pod.namespace, action.pod.name]
                assert pod.placing is not None
                _meets(action.pod, pod.uid, pod.placing.resource_version)
                placing = replace(pod.placing, resource_version=self._next())
                self.change(Put(replace(pod, placing=placing)))
            case DeletePod():
                pod = self.state.holders.pods[action.pod.namespace, action.pod.name]
                self.change(Gone(pod))
            case TellVmi():
                self.events.append(action)
            case TellQuota():
                self.hints.append(action)
                self.agenda.budget_keys.told(action)
            case ReportClass():
                self._class(action)
            case ReportSystem():
                raise AssertionError("a plan of claims reports no system")

    def _claim(self, ref: Ref) -> Claim:
        claim = self.state.holders.claims.get((ref.namespace, ref.name))
        if claim is None:
            raise Refused(f"{ref} is not there")
        _meets(ref, claim.uid, _written(claim).resource_version)
        return claim

    def _status(
        self, claim: Claim, action: BookClaim | ReleaseClaim | ReportClaim, bound: str
    ) -> None:
        waiting = None if isinstance(action, BookClaim) else action.waiting
        written = replace(
            _written(claim),
            resource_version=self._next(),
            bound=bound,
            conditions=tuple(map(_as_written, action.conditions)),
            waiting=None if waiting is None else _waiting(waiting),
        )
        self.change(Put(replace(claim, attached_to=action.attached_to, written=written)))

    def _create(self, action: CreateClaim) -> None:
        ref = action.claim
        if (ref.namespace, ref.name) in self.state.holders.claims:
            raise Refused(f"{ref} is there already")
        version = self._next()
        claim = Claim(
            ref.namespace,
            ref.name,
            action.class_name,
            action.count,
            uid=f"uid-{version}",
            is_template=True,
            owner=action.owner_uid,
            written=ClaimWritten(version, 1, created=f"v{version}", finalizers=action.finalizers),
        )
        self.change(Put(claim))

    def _finalizer(self, action: AddFinalizer | RemoveFinalizer) -> None:
        kept = [each for each in action.present if each != action.finalizer]
        finalizers = (*kept, *([action.finalizer] if isinstance(action, AddFinalizer) else []))
        if action.kind is Kind.CLASS:
            found = self.state.classes[action.object.name]
            told = found.written or ClassWritten()
            _meets(action.object, found.uid, told.resource_version)
            told = replace(told, finalizers=finalizers, resource_version=self._next())
            left: GpuClass | Claim = replace(found, written=told)
            gone = bool(told.deleted)
        else:
            claim = self._claim(action.object)
            written = replace(_written(claim), finalizers=finalizers, resource_version=self._next())
            left, gone = replace(claim, written=written), claim.deleting
        self.change(Gone(left) if gone and not finalizers else Put(left))

    def _start(self, action: StartPod) -> None:
        pod = self.state.holders.pods.get((action.pod.namespace, action.pod.name))
        if pod is None or pod.placing is None:
            raise Refused(f"{action.pod} is not there")
        _meets(action.pod, pod.uid, pod.placing.resource_version)
        if GATE not in pod.placing.gates or pod.placing.gates != action.gates:
            raise Refused(f"{action.pod} has other gates")
        gates = tuple(gate for gate in pod.placing.gates if gate != GATE)
        placing = replace(pod.placing, gates=gates, resource_version=self._next())
        self.change(Put(replace(pod, pinned_to=action.node_name, placing=placing)))

    def _class(self, action: ReportClass) -> None:
        gpu_class = self.state.classes[action.gpu_class.name]
        told = gpu_class.written or ClassWritten()
        _meets(action.gpu_class, gpu_class.uid, told.resource_version)
        # A merge patch leaves what it does not name.
        capacity = action.status.get("capacity", told.capacity)
        written = replace(
            told,
            resource_version=self._next(),
            conditions=tuple(
                Written(
                    text(each["type"]),
                    text(each["status"]),
                    text(each["reason"]),
                    text(each["message"]),
                    text(each["lastTransitionTime"]),
                    whole(each.get("observedGeneration")),
                )
                for each in mappings(action.status["conditions"])
            ),
            capacity=None
            if capacity is None
            else {k: v for k, v in mapping(capacity).items() if isinstance(v, int)},
            observed=text(mapping(capacity).get("observedTime")),
        )
        self.change(Put(replace(gpu_class, written=written)))

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def actions(plan: Plan) -> Iterable[Action]:
    """All actions of a plan, in order."""
    return [action for work in plan.works for step in work.steps for action in step]


def _meets(ref: Ref, uid: str, version: str) -> None:
    if ref.uid and ref.uid != uid:
        raise Refused(f"{ref} has another uid: {uid}")
    if ref.version and ref.version != version:
        raise Refused(f"{ref} has another version: {version}")


def _written(claim: Claim) -> ClaimWritten:
    return claim.written or ClaimWritten()


def _as_written(each: Condition) -> Written:
    return Written(
        str(each.type), str(each.status), str(each.reason), each.message, each.since,
        each.generation,
    )  # fmt: skip


def _waiting(each: Waiting) -> WrittenWaiting:
    return WrittenWaiting(str(each.reason), each.message, each.since)
