"""Pods as the API server takes them: defaults, what may change, when a deletion is at once.

Rules of Kubernetes 1.36 as `calls.yaml` shows them, line by line, against the real one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from tests.simulation.causes import Cause

Raw = dict[str, Any]

_TERMS: Final = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
)
_MAY_CHANGE: Final = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)
_ONLY_ADDITIONS: Final = "only additions are allowed (no mutations or deletions)"
_USUAL_TOLERATIONS: Final = tuple(
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
_USUAL: Final[Raw] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
_PLAIN: Final = ("cpu", "memory")
_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"


def completed(pod: Raw, now: str) -> Raw:
    """A pod as it is stored when it is created: with its defaults and its first status."""
    spec = {**_USUAL, **pod["spec"]}
    spec["containers"] = [_container(each) for each in spec["containers"]]
    given = spec.get("tolerations") or []
    known = {each.get("key") for each in given}
    spec["tolerations"] = [*given, *(e for e in _USUAL_TOLERATIONS if e["key"] not in known)]
    status: Raw = {"phase": "Pending", "qosClass": _quality(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": _GATED,
            }
        ]
    return {**pod, "spec": spec, "status": status}


def tidied(spec: Raw) -> Raw:
    """A spec without lists and maps that became empty."""
    return {
        key: value
        for key, value in spec.items()
        if value or key not in {"schedulingGates", "nodeSelector", "affinity"}
    }


def _container(container: Raw) -> Raw:
    image = container["image"]
    pull = "Always" if ":" not in image or image.endswith(":latest") else "IfNotPresent"
    resources = container.get("resources") or {}
    if limits := resources.get("limits"):
        resources = {**resources, "requests": {**limits, **resources.get("requests", {})}}
    return {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": pull,
        **container,
        "resources": resources,
    }


def _quality(spec: Raw) -> str:
    asked, limited = (
        [
            {key: each for key, each in part["resources"].get(which, {}).items() if key in _PLAIN}
            for part in spec["containers"]
        ]
        for which in ("requests", "limits")
    )
    if not any(asked) and not any(limited):
        return "BestEffort"
    is_whole = asked == limited and all(len(each) == len(_PLAIN) for each in limited)
    return "Guaranteed" if is_whole else "Burstable"


def wrongs(pod: Raw) -> list[Cause]:
    """What is wrong with a pod by itself."""
    spec, found = pod["spec"], []
    names = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    for place, name in enumerate(names):
        if name in names[:place]:
            told = f'Duplicate value: "{name}"'
            found.append(Cause("Duplicate", f"spec.schedulingGates[{place}]", told))
    if names and spec.get("nodeName"):
        told = "Forbidden: cannot be set until all schedulingGates have been cleared"
        found.append(Cause("Forbidden", "spec.nodeName", told))
    return [*found, *_wrong_terms(spec)]


def _wrong_terms(spec: Raw) -> Iterator[Cause]:
    required = _required(spec)
    if required is not None and not required.get("nodeSelectorTerms"):
        told = "Required value: must have at least one node selector term"
        yield Cause("Required", _TERMS, told)
    for place, term in enumerate(_terms(spec)):
        for index, field in enumerate(term.get("matchFields") or ()):
            path = f"{_TERMS}[{place}].matchFields[{index}]"
            if len(field.get("values") or ()) != 1:
                told = (
                    "Required value: must be only one value when `operator` is 'In' or 'NotIn' for"
                    " node field selector"
                )
                yield Cause("Required", f"{path}.values", told)
            if field["key"] != "metadata.name":
                told = f'Invalid value: "{field["key"]}": not a valid field selector key'
                yield Cause("Invalid", f"{path}.key", told)


def wrong_changes(pod: Raw, old: Raw) -> list[Cause]:
    """What may not change: nearly all of the spec; of a gated pod its terms may be narrowed."""
    new, was = pod["spec"], old["spec"]
    if new == was:
        return []
    found = [*_wrong_gates(new, was)]
    gated = bool(was.get("schedulingGates"))
    if gated:
        found += [*_wrong_selector(new, was), *_wrong_narrowing(new, was)]
    if _frozen(new, gated) != _frozen(was, gated) or not _only_more_tolerations(new, was):
        found.append(Cause("Forbidden", "spec", _MAY_CHANGE))
    return found


def _wrong_gates(new: Raw, was: Raw) -> Iterator[Cause]:
    known = {gate["name"] for gate in was.get("schedulingGates") or ()}
    for place, gate in enumerate(new.get("schedulingGates") or ()):
        if gate["name"] not in known:
            told = (
                "Forbidden: only deletion is allowed, but found new scheduling gate"
                f" '{gate['name']}'"
            )
            yield Cause("Forbidden", f"spec.schedulingGates[{place}].name", told)


def _wrong_selector(new: Raw, was: Raw) -> Iterator[Cause]:
    selector = new.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (was.get("nodeSelector") or {}).items()):
        told = (
            f"Invalid value: {orjson.dumps(selector, option=orjson.OPT_SORT_KEYS).decode()}: only"
            " additions to spec.nodeSelector are allowed (no mutations or deletions)"
        )
        yield Cause("Invalid", "spec.nodeSelector", told)


def _wrong_narrowing(new: Raw, was: Raw) -> Iterator[Cause]:
    """Each alternative may get requirements at its end; none may come or go."""
    before, after = _terms(was), _terms(new)
    if _required(was) is None:
        return
    if len(before) != len(after):
        told = (
            f"Invalid value: [{','.join(map(_shown, after))}]: no additions/deletions to non-empty"
            " NodeSelectorTerms list are allowed"
        )
        yield Cause("Invalid", _TERMS, told)
        return
    for place, (old, term) in enumerate(zip(before, after, strict=True)):
        if old == term:
            continue
        is_empty = not old.get("matchExpressions") and not old.get("matchFields")
        if is_empty or not all(
            _begins(term.get(part) or (), old.get(part) or ())
            for part in ("matchExpressions", "matchFields")
        ):
            told = f"Invalid value: {_shown(term)}: {_ONLY_ADDITIONS}"
            yield Cause("Invalid", f"{_TERMS}[{place}]", told)


def _begins(longer: Sequence[Raw], shorter: Sequence[Raw]) -> bool:
    return list(longer[: len(shorter)]) == list(shorter)


def _shown(term: Raw) -> str:
    """A term as the API server quotes it: in the words of its own memory."""

    def requirements(part: str) -> list[Raw] | None:
        given = term.get(part)
        if given is None:
            return None
        return [
            {"Key": e["key"], "Operator": e["operator"], "Values": e.get("values")} for e in given
        ]

    parts = {
        "MatchExpressions": requirements("matchExpressions"),
        "MatchFields": requirements("matchFields"),
    }
    return orjson.dumps(parts).decode()


def _frozen(spec: Raw, gated: bool) -> Raw:
    """What of a spec must stay equal."""
    kept = {
        key: value
        for key, value in spec.items()
        if key not in {"schedulingGates", "tolerations", "activeDeadlineSeconds"}
    }
    kept["containers"] = [{**each, "image": ""} for each in spec["containers"]]
    if gated:
        kept.pop("nodeSelector", None)
        affinity = dict(spec.get("affinity") or {})
        affinity.pop("nodeAffinity", None)
        kept.pop("affinity", None)
        if affinity:
            kept["affinity"] = affinity
    return kept


def _only_more_tolerations(new: Raw, was: Raw) -> bool:
    given = [_bare(each) for each in new.get("tolerations") or ()]
    return all(_bare(each) in given for each in was.get("tolerations") or ())


def _bare(toleration: Raw) -> Raw:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _required(spec: Raw) -> Raw | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found: Raw | None = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return found


def _terms(spec: Raw) -> list[Raw]:
    return list((_required(spec) or {}).get("nodeSelectorTerms") or ())


def grace_seconds(pod: Raw, asked: int | None) -> int:
    """How long a deletion leaves a pod: not at all where no kubelet has it any more, or yet."""
    ended = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    if ended or not pod["spec"].get("nodeName"):
        return 0
    return int(pod["spec"]["terminationGracePeriodSeconds"]) if asked is None else asked
