"""The GPUSystem's status, from the state and the settings (rule 3.6). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from binder.actions import Condition, Ref, ReportSystem, Work
from binder.rendering import conditions
from shared.api.base import RESOURCE_LENGTH
from shared.api.conditions import ConditionType
from shared.core.cluster import ClusterState
from shared.core.gpunames import gpu_names
from shared.core.model import Placement
from shared.core.terms import Truth
from shared.fields import Json, mapping, mappings, text, whole
from shared.reasons import Reason, say
from shared.settings import GpuSettings, Problem
from shared.vocabulary import SYSTEM_NAME

KEY: Final = "system"
"""Of the work that reports it."""

PLACING_READS: Final = frozenset(
    {
        "nodes",
        "pods",
        "gpuclasses",
        "gpuclaims",
        "resourcequotas",
        "namespaces",
        "virtualmachineinstances",
        "persistentvolumeclaims",
        "persistentvolumes",
    }
)
"""Collections without which nothing can be placed."""

# The schema's limits: what is beyond them would cost the whole status.
_NAMES_MAX: Final = 1024
_ACCOUNTS_MAX: Final = 64
_ACCOUNT_LENGTH: Final = 256
_MESSAGE_LENGTH: Final = 4096


def report(
    system: Json,
    state: ClusterState,
    settings: GpuSettings,
    problems: Iterable[Problem],
    now: str,
) -> Work | None:
    """The work that brings the GPUSystem's status up to date; None where it is.

    Args:
        system: the object as it is.
        state: the cluster.
        settings: as in force.
        problems: what is bad in the ConfigMap.
        now: RFC 3339, for conditions that change.
    """
    wanted = status(system, state, settings, problems, now)
    present = mapping(system.get("status"))
    if all(present.get(key) == value for key, value in wanted.items()):
        return None
    metadata = mapping(system.get("metadata"))
    ref = Ref("", SYSTEM_NAME, version=text(metadata.get("resourceVersion")))
    return Work(KEY, ((ReportSystem(ref, wanted),),))


def status(
    system: Json,
    state: ClusterState,
    settings: GpuSettings,
    problems: Iterable[Problem],
    now: str,
) -> Json:
    """The status but for its epoch; conditions that others may have set stay."""
    generation = whole(mapping(system.get("metadata")).get("generation"))
    before = list(mappings(mapping(system.get("status")).get("conditions")))
    ours = [
        _settled(before, generation, now, *judged)
        for judged in (
            (ConditionType.SETTINGS_VALID, *_settings_valid(problems)),
            (ConditionType.PLACING, *_placing(state, settings)),
            (ConditionType.KUBEVIRT_FOUND, *_kubevirt_found(state)),
        )
    ]
    types = {condition.type for condition in ours}
    others = [condition for condition in before if text(condition.get("type")) not in types]
    names = gpu_names(state.classes.values(), state.kubevirt, settings.reading.resource_names)
    return {
        "resourceNames": _names(names),
        "effectiveSettings": effective(settings),
        "conditions": [*conditions(ours), *others],
    }


def effective(settings: GpuSettings) -> Json:
    """The settings in force, spelt as the ConfigMap spells them."""
    reading = settings.reading
    return {
        "enabled": _switch(reading.enabled),
        "placement": reading.placement.value,
        "resourceNames": _names(reading.resource_names),
        "forbidRawNames": _switch(settings.forbid_raw_names),
        "kubevirtNamespace": reading.kubevirt_namespace,
        "kubevirtUsernames": _accounts(settings.kubevirt_usernames),
        "binderUsername": settings.binder_username[:_ACCOUNT_LENGTH],
        "trustedGroups": _accounts(settings.trusted_groups),
        "nodeLossGrace": duration(settings.node_loss_grace),
        "refusalSkip": duration(settings.refusal_skip),
        "pinTimeout": duration(settings.pin_timeout),
        "starvationBound": duration(settings.starvation_bound),
    }


def duration(seconds: int) -> str:
    """Seconds as the settings spell them, such as 1h30m."""
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{value}{unit}" for value, unit in parts if value) or "0s"


_Judged = tuple[Truth, Reason, str]


def _settings_valid(problems: Iterable[Problem]) -> _Judged:
    told = "; ".join(str(problem) for problem in problems)
    if told:
        more = f"{told}; the last good values stay in force"
        return Truth.FALSE, Reason.MALFORMED, more[:_MESSAGE_LENGTH]
    return Truth.TRUE, Reason.AVAILABLE, ""


def _placing(state: ClusterState, settings: GpuSettings) -> _Judged:
    if not settings.reading.enabled:
        return Truth.FALSE, Reason.DISABLED, say(Reason.DISABLED)
    if settings.reading.placement is not Placement.BINDER:
        return Truth.FALSE, Reason.NOT_OFFERED, "kube-scheduler chooses the nodes"
    if missing := sorted(state.unreadable & PLACING_READS):
        told = f"the binder may not read {', '.join(missing)}"
        return Truth.FALSE, Reason.INPUTS_UNREADABLE, told
    return Truth.TRUE, Reason.AVAILABLE, ""


def _kubevirt_found(state: ClusterState) -> _Judged:
    if "kubevirts" in state.unreadable:
        told = "the binder may not read kubevirts; every device counts as permitted"
        return Truth.UNKNOWN, Reason.INPUTS_UNREADABLE, told
    if state.kubevirt is None:
        told = (
            f"no KubeVirt in the namespace {state.settings.kubevirt_namespace} has begun its "
            "work; every device counts as permitted"
        )
        return Truth.FALSE, Reason.UNEVALUATED, told
    return Truth.TRUE, Reason.AVAILABLE, ""


def _settled(
    before: Iterable[Json],
    generation: int | None,
    now: str,
    type_: ConditionType,
    truth: Truth,
    reason: Reason,
    message: str,
) -> Condition:
    """A condition; its transition time stays while its status does."""
    since = next(
        (
            text(condition.get("lastTransitionTime"))
            for condition in before
            if condition.get("type") == type_ and condition.get("status") == truth
        ),
        "",
    )
    return Condition(type_, truth, reason, since or now, message, generation)


def _switch(value: bool) -> str:
    return "true" if value else "false"


def _names(names: Iterable[str]) -> list[str]:
    """A longer name is none that the API server takes for a resource."""
    return sorted(name for name in names if len(name) <= RESOURCE_LENGTH)[:_NAMES_MAX]


def _accounts(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if len(name) <= _ACCOUNT_LENGTH)[:_ACCOUNTS_MAX]
