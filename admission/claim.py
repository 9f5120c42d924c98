"""Orders: a GPUClaim by a tenant is refused where it cannot be met now (rule 6.3).

The limits are those of the option that the tenant sees, in the same order and with the same
figures; of a class that keeps its stock to itself the figures are compared and not told. A claim
that waits after it was admitted, since another was faster, is the binder's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from admission.inputs import OrderInputs, OrderNeeds
from admission.review import Allow, Decision, Refuse, Request, forbidden, refusal, require_kind
from shared.core.model import Disclosure, Lifecycle
from shared.core.options import BOUNDS, Bound, Facts, figures, opening, option
from shared.core.terms import Truth
from shared.errors import Cause
from shared.fields import Json, elements, mapping, text, whole
from shared.reasons import PRECEDENCE, Reason, Words, explain, say
from shared.vocabulary import FINALIZER_CLAIM, GROUP, KIND_CLAIM, LABEL_TEMPLATE

_CLASS: Final = "spec.className"
_COUNT: Final = "spec.count"

_OF_THE_CLASS: Final = frozenset(
    {
        Reason.CLASS_CONFLICT,
        Reason.NOT_PERMITTED,
        Reason.CLASS_CLOSED,
        Reason.NOT_ENTITLED,
    }
)
"""What no other count would change."""


@dataclass(frozen=True)
class Case:
    """One order, and what is known of the class that it names."""

    request: Request
    claim: Json
    inputs: OrderInputs

    @property
    def class_name(self) -> str:
        """The class that is ordered."""
        return text(mapping(self.claim.get("spec")).get("className"))

    @property
    def count(self) -> int:
        """How many units are ordered; the schema sees to it that it is a count."""
        return whole(mapping(self.claim.get("spec")).get("count", 1)) or 1

    @cached_property
    def facts(self) -> Facts | None:
        """What the option of the class follows from; None where there is no such class."""
        return self.inputs.facts(self.request.namespace, self.class_name)

    @cached_property
    def disclosed(self) -> Facts | None:
        """The same with the stock as it is, whether the class shows it or not."""
        if self.facts is None or self.facts.discloses:
            return self.facts
        shown = replace(self.facts.gpu_class, disclosure=Disclosure.EXACT)
        return replace(self.facts, gpu_class=shown)


Rule = Callable[[Case], Iterable[Cause]]
"""What is wrong with an order in one respect."""


def disabled(case: Case) -> Iterator[Cause]:
    """GPUs are switched off."""
    if not case.inputs.hoster.settings.reading.enabled:
        yield Cause(Reason.DISABLED, say(Reason.DISABLED))


def inputs_unreadable(case: Case) -> Iterator[Cause]:
    """Something that the decision depends on could not be read, or is too old."""
    troubles = list(case.inputs.unread)
    if case.facts is not None:
        trouble = case.inputs.view.trouble(case.facts.gpu_class)
        troubles += [] if trouble is None else [trouble]
    for trouble in troubles:
        told = f"GPU admission: {say(Reason.INPUTS_UNREADABLE)}: {trouble.what}: {trouble.why}"
        yield Cause(Reason.INPUTS_UNREADABLE, told)


def not_offered(case: Case) -> Iterator[Cause]:
    """Orders are not taken where Kubernetes' scheduler places: nothing would hold their units."""
    if case.inputs.hoster.by_scheduler:
        yield Cause(Reason.NOT_OFFERED, say(Reason.NOT_OFFERED))


def class_not_found(case: Case) -> Iterator[Cause]:
    """There is no such class."""
    if case.facts is None:
        told = say(Reason.CLASS_NOT_FOUND, words=Words(what=case.class_name))
        yield Cause(Reason.CLASS_NOT_FOUND, told, _CLASS)


def beyond(reason: Reason, bound: Bound) -> Rule:
    """The rule for one limit of the options: more is ordered than it lets through."""

    def rule(case: Case) -> Iterator[Cause]:
        if case.facts is None or case.disclosed is None:
            return
        most = bound(case.disclosed)
        if most is not None and case.count > most:
            told = say(reason, figures(case.facts, case.count))
            yield Cause(reason, told, _CLASS if reason in _OF_THE_CLASS else _COUNT)

    return rule


_OWN: Final[tuple[tuple[Reason, Rule], ...]] = (
    (Reason.DISABLED, disabled),
    (Reason.INPUTS_UNREADABLE, inputs_unreadable),
    (Reason.NOT_OFFERED, not_offered),
    (Reason.CLASS_NOT_FOUND, class_not_found),
)
CHAIN: Final[tuple[tuple[Reason, Rule], ...]] = tuple(
    sorted(
        (
            *_OWN,
            *(
                (reason, beyond(reason, bound))
                for reason, bound in BOUNDS
                if reason not in dict(_OWN)
            ),
        ),
        key=lambda rule: PRECEDENCE[rule[0]],
    )
)
"""Every rule, in the order of precedence (rule 3.4): our own, and one for each limit."""

_ENDS: Final = frozenset(reason for reason, _ in _OWN)
"""What says enough by itself, or leaves nothing to say about figures."""


def needs(request: Request) -> OrderNeeds | None:
    """What to read for a decision; None where it takes nothing.

    Raises:
        BadRequest: the review is about another kind.
    """
    require_kind(request, GROUP, KIND_CLAIM)
    if request.operation != "CREATE" or request.object is None:
        return None
    return OrderNeeds(request.namespace, text(mapping(request.object.get("spec")).get("className")))


def decide(
    request: Request, inputs: OrderInputs, chain: Sequence[tuple[Reason, Rule]] = CHAIN
) -> Decision:
    """Refuse an order that cannot be met now.

    The binder's template claims are not judged: their VMs may wait. Nobody else makes one.

    Raises:
        BadRequest: the review is about another kind.
    """
    if needs(request) is None or request.object is None:
        return Allow()
    if request.username == inputs.hoster.settings.binder_username:
        return Allow()
    passed_off = not_an_order(request, mapping(request.object.get("metadata")))
    if passed_off is not None:
        return passed_off
    case = Case(request, request.object, inputs)
    found: list[tuple[Reason, Cause]] = []
    for reason, rule in chain:
        causes = tuple(rule(case))
        found += [(reason, cause) for cause in causes]
        if causes and reason in _ENDS:
            break
    if not found:
        return Allow(warnings=tuple(deprecated(case)))
    reasons = [reason for reason, _ in found]
    message = ""
    if case.facts is not None and reasons[0] not in _ENDS:
        message = describe(case.facts, case.count, reasons)
    return refusal(request, reasons[0], [cause for _, cause in found], message)


def not_an_order(request: Request, metadata: Json) -> Refuse | None:
    """A refusal of what no order has, whatever it asks for."""
    if LABEL_TEMPLATE in mapping(metadata.get("labels")):
        wrong = "the system alone makes claims for a VM's class entries; order without this label"
        return forbidden(request, wrong, f"metadata.labels[{LABEL_TEMPLATE}]")
    for finalizer in map(text, elements(metadata.get("finalizers"))):
        if finalizer != FINALIZER_CLAIM:
            wrong = (
                f"{finalizer!r} would keep the order, its units and its class after it is deleted, "
                "and who orders cannot take it away; order without finalizers"
            )
            return forbidden(request, wrong, "metadata.finalizers")
    return None


def describe(facts: Facts, asked: int, reasons: Sequence[Reason]) -> str:
    """How many are ordered, how many may be, and what limits, in the words of the option."""
    limits = [reason for reason in reasons if reason not in _ENDS]
    why = explain(limits, figures(facts, asked))
    if not facts.discloses:
        return f"asked {asked}: {why}"
    shown = option(facts)
    selectable = Truth.FALSE if shown.orderable == 0 else Truth.TRUE
    return f"asked {asked}, {opening(selectable, shown.orderable)}: {why}"


def deprecated(case: Case) -> Iterator[str]:
    """A warning for a class that will close."""
    if case.facts is not None and case.facts.gpu_class.lifecycle is Lifecycle.DEPRECATED:
        yield f"GPU class {case.class_name} is deprecated and will close"
