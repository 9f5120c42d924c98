"""Pods when they are made: KubeVirt's launchers are marked, gated and tolerate (rule 6.2).

A launcher is recognised by who makes it and by the uid of its owner, never by a label that
KubeVirt derives from names, since those collide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from admission.asked import annotation_field, annotations_of, controller_of
from admission.inputs import PodInputs, PodNeeds
from admission.review import (
    Allow,
    Decision,
    Misshapen,
    Patch,
    Refuse,
    Request,
    forbidden,
    refusal,
    require_kind,
)
from shared.core.annotations import shown
from shared.core.model import Vmi
from shared.core.scheduling import Toleration
from shared.errors import Cause
from shared.fields import Json, mapping, mappings, text
from shared.reasons import Reason, say
from shared.vocabulary import (
    ANNOTATION_ATTACHMENTS,
    ANNOTATION_LAUNCHER,
    ANNOTATION_MIGRATION_NAME,
    GATE,
    KIND_VMI,
    LABEL_KUBEVIRT,
    LABEL_MIGRATION_JOB,
    LAUNCHER,
)

_GATES: Final = ("spec", "schedulingGates")
_TOLERATIONS: Final = ("spec", "tolerations")
_MARK: Final = ("metadata", "annotations", ANNOTATION_LAUNCHER)

_STRANGER: Final = "only pods that KubeVirt makes for a virtual machine with GPUs have it"


@dataclass(frozen=True, slots=True)
class Case:
    """One pod, who makes it, and what is known of the VMI that it says it belongs to."""

    request: Request
    pod: Json
    inputs: PodInputs

    @property
    def by_kubevirt(self) -> bool:
        """Whether KubeVirt's controller makes it, and for a VM's machine itself."""
        return (
            self.request.username in self.inputs.hoster.settings.kubevirt_usernames
            and labels_of(self.pod).get(LABEL_KUBEVIRT) == LAUNCHER
        )

    @property
    def vmi(self) -> Vmi | None:
        """The VMI whose launcher this is: it exists, with this uid, and has our record."""
        vmi, controller = self.inputs.vmi, controller_of(self.pod, KIND_VMI)
        if vmi is None or not self.by_kubevirt or not vmi.record:
            return None
        its_own = (vmi.namespace, vmi.name, vmi.uid)
        named = (self.request.namespace, controller.name, controller.uid)
        return vmi if its_own == named else None

    @property
    def is_migration_target(self) -> bool:
        """Whether a live migration of this VMI asks for the pod, and the VMI runs.

        A tenant can have the label copied from a template to pods that are no targets.
        """
        vmi, migration = self.vmi, self.inputs.migration
        return (
            vmi is not None
            and migration is not None
            and not migration.final
            and migration.namespace == vmi.namespace
            and migration.uid == text(labels_of(self.pod).get(LABEL_MIGRATION_JOB))
            and migration.vmi_name == vmi.name
            and vmi.node_name != ""
        )

    @property
    def waits(self) -> bool:
        """Whether the pod waits at the gate for the binder.

        Never a migration target, which KubeVirt deletes when it waits for long. Where
        Kubernetes' scheduler places, only VMs wait that name claims they hold.
        """
        vmi, hoster = self.vmi, self.inputs.hoster
        return (
            vmi is not None
            and hoster.settings.reading.enabled
            and not self.is_migration_target
            and (not hoster.by_scheduler or any(entry.claim for entry in vmi.record))
        )


Rule = Callable[[Case], Iterable[Refuse]]
"""A refusal where something is wrong with a pod in one respect."""


def inputs_unreadable(case: Case) -> Iterator[Refuse]:
    """Something that the decision depends on could not be read; KubeVirt tries again."""
    causes = [
        Cause(
            Reason.INPUTS_UNREADABLE,
            f"GPU admission: {say(Reason.INPUTS_UNREADABLE)}: {unread.what}: {unread.why}",
        )
        for unread in case.inputs.unread
    ]
    if causes:
        yield refusal(case.request, Reason.INPUTS_UNREADABLE, causes)


def stranger(case: Case) -> str:
    """Why a pod may not pose as a launcher: who made it, where that is not KubeVirt.

    KubeVirt's pods are refused so where the settings have another account of it.
    """
    accounts = case.inputs.hoster.settings.kubevirt_usernames
    if case.request.username in accounts:
        return _STRANGER
    expected = " or ".join(sorted(accounts))
    made = f"this one was made by {shown(case.request.username)}, expected {expected}"
    return f"{_STRANGER}; {made} (setting kubevirtUsernames)"


def poses(case: Case) -> Iterator[Refuse]:
    """A pod with our mark or our record that is no launcher of a VM with GPUs (6.2.2)."""
    if case.vmi is None:
        annotations = annotations_of(case.pod)
        for name in (ANNOTATION_LAUNCHER, ANNOTATION_ATTACHMENTS):
            if name in annotations:
                yield forbidden(case.request, stranger(case), annotation_field(name))


def names_the_gate(case: Case) -> Iterator[Refuse]:
    """A pod that names our gate and is no launcher of a VM with GPUs (6.2.2)."""
    if case.vmi is None:
        for index, gate in enumerate(gates_of(case.pod)):
            if gate.get("name") == GATE:
                yield forbidden(case.request, stranger(case), f"spec.schedulingGates[{index}].name")


CHAIN: Final[tuple[Rule, ...]] = (inputs_unreadable, poses, names_the_gate)
"""Every rule for a refusal."""


def needs(request: Request) -> PodNeeds | None:
    """What to read for a decision; None for a pod that is none of ours, which costs no read.

    Raises:
        BadRequest: the review is about another kind.
    """
    require_kind(request, "", "Pod")
    pod = request.object
    if request.operation != "CREATE" or pod is None or not is_ours(pod):
        return None
    migration = annotations_of(pod).get(ANNOTATION_MIGRATION_NAME)
    return PodNeeds(
        namespace=request.namespace,
        vmi=controller_of(pod, KIND_VMI).name,
        migration=text(migration) if LABEL_MIGRATION_JOB in labels_of(pod) else "",
    )


def is_ours(pod: Json) -> bool:
    """Whether a pod carries our record (KubeVirt copies it from the VMI), our mark or our gate."""
    annotations = annotations_of(pod)
    if ANNOTATION_ATTACHMENTS in annotations or ANNOTATION_LAUNCHER in annotations:
        return True
    return any(gate.get("name") == GATE for gate in gates_of(pod))


def decide(request: Request, inputs: PodInputs, chain: Sequence[Rule] = CHAIN) -> Decision:
    """Refuse who poses as a launcher; give a launcher its mark, its tolerations and the gate.

    Applied to its own result it changes nothing.

    Raises:
        BadRequest: the review is about another kind.
    """
    if needs(request) is None or request.object is None:
        return Allow()
    case = Case(request, request.object, inputs)
    for rule in chain:
        for refused in rule(case):
            return refused
    vmi = case.vmi
    if vmi is None:
        return Allow()
    patch = Patch(case.pod)
    try:
        patch.put(_MARK, vmi.uid)
        patch.append(_TOLERATIONS, missing_tolerations(case, vmi))
        if case.waits and not any(gate.get("name") == GATE for gate in gates_of(case.pod)):
            patch.append(_GATES, [{"name": GATE}])
    except Misshapen as misshapen:
        return forbidden(request, str(misshapen), misshapen.field)
    return Allow(patch.operations)


def missing_tolerations(case: Case, vmi: Vmi) -> list[object]:
    """Tolerations of the VM's classes that the pod lacks, each once, as a pod spells them."""
    there = {
        _toleration(given) for given in mappings(mapping(case.pod.get("spec")).get("tolerations"))
    }
    missing: dict[Toleration, object] = {}
    for entry in vmi.record:
        gpu_class = case.inputs.hoster.classes.get(entry.class_name)
        for toleration in gpu_class.tolerations if gpu_class is not None else ():
            if toleration not in there:
                missing.setdefault(toleration, _spelled(toleration))
    return list(missing.values())


def labels_of(pod: Json) -> Json:
    """The labels of a pod."""
    return mapping(mapping(pod.get("metadata")).get("labels"))


def gates_of(pod: Json) -> Iterator[Json]:
    """The scheduling gates of a pod."""
    return mappings(mapping(pod.get("spec")).get("schedulingGates"))


def _toleration(given: Json) -> Toleration:
    seconds = given.get("tolerationSeconds")
    return Toleration(
        key=text(given.get("key")),
        operator=text(given.get("operator")) or "Equal",
        value=text(given.get("value")),
        effect=text(given.get("effect")),
        seconds=seconds if isinstance(seconds, int) else None,
    )


def _spelled(toleration: Toleration) -> dict[str, object]:
    members: dict[str, object] = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    spelled = {key: value for key, value in members.items() if value}
    return (
        spelled
        if toleration.seconds is None
        else {**spelled, "tolerationSeconds": toleration.seconds}
    )
