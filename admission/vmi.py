"""VirtualMachineInstances when they are made: refused for a reason, or given GPUs (rule 6.1).

Each rule looks at one reason and says what is wrong, if anything; they stand in the order of
precedence (rule 3.4). A VM is never refused for lack of units, nor for lack of budget where the
binder checks that: it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from admission import expansion, licenses
from admission.asked import (
    Asked,
    annotation_field,
    annotations_of,
    controller_of,
    is_ours,
    malformed_cause,
    unknown_annotations,
)
from admission.devices import DEVICES, hidden_gpus, host_device_names, raw_gpus
from admission.inputs import UNSEEN, VmiInputs, VmiNeeds
from admission.review import Allow, Decision, Misshapen, Patch, Request, refusal, require_kind
from shared.core.annotations import Malformed, parse_record, render_record
from shared.core.coverage import resource_of
from shared.core.entitlement import grant
from shared.core.gpunames import is_permitted
from shared.core.model import Claim, GpuClass, Lifecycle, RecordEntry
from shared.core.options import opening
from shared.core.terms import Grant, LimitingLevel, Truth
from shared.errors import Cause
from shared.fields import Json, mapping, text
from shared.reasons import Figures, Reason, Words, say
from shared.vocabulary import (
    ANNOTATION_ATTACHMENTS,
    ANNOTATION_CLAIMS,
    ANNOTATION_CLASSES,
    KIND_VM,
    KIND_VMI,
    KUBEVIRT_GROUP,
    LIMIT_ENTRIES,
    LIMIT_UNITS,
)

_GPUS: Final = (*DEVICES, "gpus")
_RECORD: Final = ("metadata", "annotations", ANNOTATION_ATTACHMENTS)


@dataclass(frozen=True)
class Judged:
    """A VMI that a decision is about."""

    vmi: Json

    @classmethod
    def of(cls, request: Request) -> Judged | None:
        """The VMI of a review, None where no decision is taken.

        Raises:
            BadRequest: the review is about another kind.
        """
        require_kind(request, KUBEVIRT_GROUP, KIND_VMI)
        vmi = request.object
        return (
            None if request.operation != "CREATE" or vmi is None or not is_ours(vmi) else cls(vmi)
        )

    @cached_property
    def asked(self) -> Asked:
        """What its annotations ask for."""
        return Asked.of(self.vmi)

    def needs(self) -> VmiNeeds:
        """What to read for a decision, besides what the hoster has set."""
        return VmiNeeds(
            claims=self.asked.claims[:LIMIT_ENTRIES],
            classes=frozenset(entry.class_name for entry in self.asked.classes),
            owner=controller_of(self.vmi, KIND_VM).name,
        )


@dataclass(frozen=True)
class Case:
    """One VMI and what is known about what it asks for."""

    namespace: str
    vmi: Json
    asked: Asked
    inputs: VmiInputs

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Those of the claims it names that exist."""
        found = (self.inputs.claims.get(name) for name in self.asked.claims)
        return tuple(claim for claim in found if claim is not None)

    @cached_property
    def record(self) -> tuple[RecordEntry, ...]:
        """What it gets, as far as classes and claims exist."""
        return expansion.record_of(self.claims, self.asked.classes, self.inputs.hoster.classes)

    @cached_property
    def units(self) -> list[dict[str, object]]:
        """The entries under `gpus` that it gets."""
        return expansion.units(self.record, host_device_names(self.vmi))

    @cached_property
    def gpu_names(self) -> frozenset[str]:
        """What counts as a GPU for it: what it gets does, whatever its class is by now."""
        return self.inputs.hoster.gpu_names() | {entry.resource_name for entry in self.record}

    @property
    def name(self) -> str:
        """Its name; empty where the API server makes one."""
        return text(mapping(self.vmi.get("metadata")).get("name"))

    @cached_property
    def vm(self) -> str:
        """The uid of the VirtualMachine whose VMI this is, empty where it is none's.

        Anyone can write an owner reference. But KubeVirt calls a VM's instance as it calls the
        VM, so that a stranger of that name and the VM's own cannot both be.
        """
        owner, reference = self.inputs.owner, controller_of(self.vmi, KIND_VM)
        if owner is None or not reference.uid:
            return ""
        its_own = (owner.namespace, owner.name, owner.uid)
        return owner.uid if its_own == (self.namespace, self.name, reference.uid) else ""

    def entries(self) -> Iterator[tuple[str, GpuClass, int]]:
        """Each class entry whose class exists: the entry's field, its class, its count."""
        for index, entry in enumerate(self.asked.classes):
            gpu_class = self.inputs.hoster.classes.get(entry.class_name)
            if gpu_class is not None:
                yield _entry_field(index), gpu_class, entry.count

    @cached_property
    def summed(self) -> list[tuple[str, GpuClass, int]]:
        """As `entries`, each class once, with the field of the first and the count of all."""
        counts = Counter[str]()
        first: dict[str, tuple[str, GpuClass]] = {}
        for field, gpu_class, count in self.entries():
            counts[gpu_class.name] += count
            first.setdefault(gpu_class.name, (field, gpu_class))
        return [(*place, counts[name]) for name, place in first.items()]

    @cached_property
    def used(self) -> list[tuple[str, GpuClass, str]]:
        """Every class that exists and that an entry or claim is of: field, class, resource."""
        found = [(field, gpu_class, gpu_class.resource_name) for field, gpu_class, _ in self.summed]
        for index, name in enumerate(self.asked.claims):
            claim = self.inputs.claims.get(name)
            its_class = self.inputs.hoster.classes.get(claim.class_name) if claim else None
            if claim is not None and its_class is not None:
                resource = resource_of(claim, self.inputs.hoster.classes)
                found.append((_claim_field(index), its_class, resource))
        return found


Rule = Callable[[Case], Iterable[Cause]]
"""What is wrong with a VMI in one respect; nothing where all is well or it cannot be judged."""


def disabled(case: Case) -> Iterator[Cause]:
    """GPUs are switched off: a VM never starts without those that it names (6.1.5)."""
    if not case.inputs.hoster.settings.reading.enabled:
        yield Cause(Reason.DISABLED, say(Reason.DISABLED))


def misspelt(case: Case) -> Iterator[Cause]:
    """An annotation that looks like ours and is none: it asks for GPUs in vain (6.1.1)."""
    yield from unknown_annotations(case.vmi)


def malformed(case: Case) -> Iterator[Cause]:
    """An annotation that cannot be read in one way only (6.1.1), or a record alone (6.1.3)."""
    yield from case.asked.malformed


def too_many_units(case: Case) -> Iterator[Cause]:
    """More units, entries or claims than a VM may have (6.1.1); summed before expanding."""
    counted = (
        ("class entries", LIMIT_ENTRIES, len(case.asked.classes), ANNOTATION_CLASSES),
        ("claims", LIMIT_ENTRIES, len(case.asked.claims), ANNOTATION_CLAIMS),
        (
            "units",
            LIMIT_UNITS,
            sum(entry.count for entry in case.asked.classes)
            + sum(claim.count for claim in case.claims),
            ANNOTATION_CLASSES if case.asked.classes else ANNOTATION_CLAIMS,
        ),
    )
    for what, limit, asked, annotation in counted:
        if asked > limit:
            told = say(Reason.TOO_MANY_UNITS, Figures(limit=limit), Words(what=what))
            yield Cause(
                Reason.TOO_MANY_UNITS, f"asked {asked} {what}: {told}", annotation_field(annotation)
            )


def mixed_requests(case: Case) -> Iterator[Cause]:
    """GPUs that are asked for in another way than by our annotations (6.1.4)."""
    raw = list(raw_gpus(case.vmi))
    if raw and not _is_expanded(case):
        for found in raw:
            yield _mixed(found.field, found.what)
    for found in hidden_gpus(case.vmi, lambda: case.gpu_names):
        yield _mixed(found.field, found.what)


def inputs_unreadable(case: Case) -> Iterator[Cause]:
    """Something that the decision depends on could not be read."""
    troubles = list(case.inputs.unread)
    if case.inputs.hoster.by_scheduler:
        for _, gpu_class, _ in case.summed:
            trouble = case.inputs.views.get(gpu_class.name, UNSEEN).trouble(gpu_class)
            troubles += [] if trouble is None else [trouble]
    for what, why in dict.fromkeys((trouble.what, trouble.why) for trouble in troubles):
        told = say(Reason.INPUTS_UNREADABLE)
        yield Cause(Reason.INPUTS_UNREADABLE, f"GPU admission: {told}: {what}: {why}")


def claim_not_found(case: Case) -> Iterator[Cause]:
    """A claim that is not in this namespace, is being deleted, or is not the tenant's (6.1.2)."""
    for index, name in enumerate(case.asked.claims):
        claim = case.inputs.claims.get(name)
        if claim is None:
            why = "does not exist in this namespace"
        elif claim.deleting:
            why = "is being deleted"
        elif claim.is_template:
            why = "was made by the system for one VM's class entry"
        else:
            continue
        words = Words(what=name, why=why)
        yield Cause(
            Reason.CLAIM_NOT_FOUND, say(Reason.CLAIM_NOT_FOUND, words=words), _claim_field(index)
        )


def claim_in_use(case: Case) -> Iterator[Cause]:
    """A claim that another VM has which still exists (6.1.2), or that an older VMI names (6.1.4).

    The next VMI of the VM that has it never conflicts.
    """
    for index, name in enumerate(case.asked.claims):
        claim = case.inputs.claims.get(name)
        attached = claim.attached_to if claim is not None else None
        if attached is not None and case.vm and attached.uid == case.vm:
            continue
        users = [
            f"the {KIND_VMI} {rival}"
            for rival in sorted(case.inputs.rivals.get(name, ()))
            if rival != case.name
        ]
        if attached is not None and attached.uid in case.inputs.present:
            users.insert(0, f"the {attached.kind} {attached.name}")
        if users:
            told = say(Reason.CLAIM_IN_USE, words=Words(what=name, user=users[0]))
            yield Cause(Reason.CLAIM_IN_USE, told, _claim_field(index))


def class_not_found(case: Case) -> Iterator[Cause]:
    """A class that does not exist."""
    named = [
        (f"{_entry_field(index)}.className", entry.class_name)
        for index, entry in enumerate(case.asked.classes)
    ]
    named += [
        (_claim_field(index), case.inputs.claims[name].class_name)
        for index, name in enumerate(case.asked.claims)
        if name in case.inputs.claims
    ]
    for field, name in named:
        if name not in case.inputs.hoster.classes:
            told = say(Reason.CLASS_NOT_FOUND, words=Words(what=name))
            yield Cause(Reason.CLASS_NOT_FOUND, told, field)


def class_conflict(case: Case) -> Iterator[Cause]:
    """A class whose resource another class names too: nobody can say whose units those are."""
    for field, gpu_class, _ in case.used:
        if case.inputs.hoster.in_conflict(gpu_class):
            yield _about(gpu_class, Reason.CLASS_CONFLICT, field)


def not_permitted(case: Case) -> Iterator[Cause]:
    """A device that KubeVirt's table does not name: the VM would hang without a pod."""
    for field, gpu_class, resource in case.used:
        if not is_permitted(resource, case.inputs.hoster.kubevirt):
            told = say(Reason.NOT_PERMITTED)
            yield Cause(Reason.NOT_PERMITTED, f"class {gpu_class.name} ({resource}): {told}", field)


def class_closed(case: Case) -> Iterator[Cause]:
    """A class that takes no new VMs; one that is older than the closing still starts (3.1)."""
    for field, gpu_class, _ in case.summed:
        if gpu_class.lifecycle is Lifecycle.CLOSED and not _is_older(case, gpu_class):
            yield _about(gpu_class, Reason.CLASS_CLOSED, field)


def not_entitled(case: Case) -> Iterator[Cause]:
    """A class that is kept for entitled tenants (4.7)."""
    hoster = case.inputs.hoster
    for field, gpu_class, _ in case.summed:
        if grant(gpu_class, hoster.line, hoster.namespaces) is Grant.MISSING:
            yield _about(gpu_class, Reason.NOT_ENTITLED, field)


def max_count(case: Case) -> Iterator[Cause]:
    """More of one class than its limit, over all entries of it; claims were judged before."""
    for field, gpu_class, count in case.summed:
        if gpu_class.max_count is not None and count > gpu_class.max_count:
            figures = Figures(asked=count, max_count=gpu_class.max_count)
            yield _too_many(
                gpu_class, Reason.MAX_COUNT_EXCEEDED, field, figures, gpu_class.max_count
            )


def budget(case: Case) -> Iterator[Cause]:
    """More than the budgets leave, where nobody checks that later (6.1.5)."""
    if not case.inputs.hoster.by_scheduler:
        return
    for field, gpu_class, count in case.summed:
        view = case.inputs.views.get(gpu_class.name)
        remaining = view.remaining if view is not None else None
        if remaining is None:
            continue
        left = max(0, remaining.units)
        if count > left:
            is_shared = remaining.level is LimitingLevel.ANCESTOR
            figures = Figures(asked=count, remaining=left, is_shared=is_shared)
            yield _too_many(gpu_class, Reason.BUDGET_EXCEEDED, field, figures, left)


CHAIN: Final[tuple[tuple[Reason, Rule], ...]] = (
    (Reason.DISABLED, disabled),
    (Reason.MALFORMED, misspelt),
    (Reason.MALFORMED, malformed),
    (Reason.TOO_MANY_UNITS, too_many_units),
    (Reason.MIXED_REQUESTS, mixed_requests),
    (Reason.INPUTS_UNREADABLE, inputs_unreadable),
    (Reason.CLAIM_NOT_FOUND, claim_not_found),
    (Reason.CLAIM_IN_USE, claim_in_use),
    (Reason.CLASS_NOT_FOUND, class_not_found),
    (Reason.CLASS_CONFLICT, class_conflict),
    (Reason.NOT_PERMITTED, not_permitted),
    (Reason.CLASS_CLOSED, class_closed),
    (Reason.NOT_ENTITLED, not_entitled),
    (Reason.MAX_COUNT_EXCEEDED, max_count),
    (Reason.BUDGET_EXCEEDED, budget),
)
"""Every rule, in the order of precedence (rule 3.4)."""


def decide(
    request: Request,
    inputs: VmiInputs,
    chain: Sequence[tuple[Reason, Rule]] = CHAIN,
    judged: Judged | None = None,
) -> Decision:
    """Refuse a VMI for the first reason that holds, or give it what it asks for.

    Applied to its own result it changes nothing. `judged` is the VMI of the request, where it has
    been looked at before.

    Raises:
        BadRequest: the review is about another kind.
    """
    judged = judged or Judged.of(request)
    if judged is None:
        return Allow()
    case = Case(request.namespace, judged.vmi, judged.asked, inputs)
    for reason, rule in chain:
        causes = tuple(rule(case))
        if causes:
            return refusal(request, reason, causes)
    try:
        patch = expand(case)
    except Misshapen as misshapen:
        wrong = malformed_cause(misshapen.field, misshapen.value, misshapen.expected)
        return refusal(request, Reason.MALFORMED, [wrong])
    return Allow(patch.operations, tuple(deprecated(case)))


def expand(case: Case) -> Patch:
    """What an admitted VMI is changed to: entries, record, licences (6.1.3 and 6.1.6).

    Raises:
        Misshapen: where a list belongs there is something else.
    """
    patch = Patch(case.vmi)
    if not expansion.are(case.vmi, case.units):
        patch.put_list(_GPUS, case.units)
    patch.put(_RECORD, render_record(case.record))
    found = (case.inputs.hoster.classes.get(entry.class_name) for entry in case.record)
    classes = [gpu_class for gpu_class in found if gpu_class is not None]
    licenses.attach(patch, licenses.licensed(classes))
    return patch


def deprecated(case: Case) -> Iterator[str]:
    """A warning for each class that will close."""
    for _, gpu_class, _ in case.summed:
        if gpu_class.lifecycle is Lifecycle.DEPRECATED:
            yield f"GPU class {gpu_class.name} is deprecated and will close"


def _is_expanded(case: Case) -> bool:
    """Whether the entries under `gpus` are our own, of an earlier call for this VMI.

    They are those of what it asks for now, or exactly those of the record that it carries: a
    class may have got another resource in between. Then all of them are made anew, so that a
    forged record gains nothing.
    """
    if expansion.are(case.vmi, case.units):
        return True
    try:
        earlier = parse_record(annotations_of(case.vmi).get(ANNOTATION_ATTACHMENTS))
    except Malformed:
        return False
    return expansion.are(case.vmi, expansion.units(earlier, host_device_names(case.vmi)))


def _is_older(case: Case, gpu_class: GpuClass) -> bool:
    """Whether the VMI's VM, as read live, was there when the class was closed.

    A closing whose time nobody has written yet has just happened, later than any VM that is.
    """
    if not case.vm or case.inputs.owner is None:
        return False
    closed, created = _time(gpu_class.closed_since), _time(case.inputs.owner.created)
    return closed is None or (created is not None and created <= closed)


def _time(value: str) -> datetime | None:
    """A time as Kubernetes writes it (RFC 3339 with an offset), or None."""
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def _about(gpu_class: GpuClass, reason: Reason, field: str) -> Cause:
    return Cause(reason, f"class {gpu_class.name}: {say(reason)}", field)


def _too_many(
    gpu_class: GpuClass, reason: Reason, field: str, figures: Figures, limit: int
) -> Cause:
    """How many are asked for, and how many there may be, as the class's option says it."""
    start = opening(Truth.TRUE if limit else Truth.FALSE, limit)
    told = f"class {gpu_class.name}: asked {figures.asked}, {start}: {say(reason, figures)}"
    return Cause(reason, told, field)


def _mixed(field: str, what: str) -> Cause:
    return Cause(Reason.MIXED_REQUESTS, say(Reason.MIXED_REQUESTS, words=Words(what=what)), field)


def _entry_field(index: int) -> str:
    return annotation_field(ANNOTATION_CLASSES, f"[{index}]")


def _claim_field(index: int) -> str:
    return annotation_field(ANNOTATION_CLAIMS, f"[{index}]")
