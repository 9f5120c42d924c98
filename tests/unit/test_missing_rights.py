"""What is said of a cluster that is not read, and what is not."""

from __future__ import annotations

from apiserver.readings import OLD, lagging, refusals, unread
from shared.kube.reflector import Report, Standing

NEVER = float("inf")
LIST = (
    'Forbidden: pods is forbidden: User "system:serviceaccount:cozy-gpu:gpu-apiserver" cannot list '
    'resource "pods" in API group "" at the cluster scope'
)
WATCH = LIST.replace("cannot list", "cannot watch")


def a_report(name: str, standing: Standing, trouble: str = "") -> Report:
    return Report(name, standing, NEVER, 0, 1, 0, {}, trouble)


def test_a_missing_right_is_named_by_its_verb_and_collections() -> None:
    reports = [
        a_report("nodes", Standing.UNREADABLE, WATCH),
        a_report("pods", Standing.UNREADABLE, LIST),
        a_report("resourcequotas", Standing.UNREADABLE, LIST),
        a_report("gpuclasses", Standing.SYNCED),
        a_report("kubevirts", Standing.ABSENT, "NotFound: not served"),
    ]

    assert unread(reports) == (
        "the cluster is not read yet: Forbidden: this server may not list: pods, resourcequotas; "
        "Forbidden: this server may not watch: nodes"
    )
    assert refusals(reports) == {"nodes": "watch", "pods": "list", "resourcequotas": "list"}


def test_an_account_is_not_named() -> None:
    assert "serviceaccount" not in unread([a_report("pods", Standing.UNREADABLE, LIST)])


def test_a_refusal_in_other_words_names_both_verbs_that_are_needed() -> None:
    refused = a_report("pods", Standing.UNREADABLE, "Forbidden: a webhook said no")

    assert unread([refused]) == (
        "the cluster is not read yet: Forbidden: this server may not list and watch: pods"
    )


def test_what_is_still_to_come_is_told_apart() -> None:
    assert unread([a_report("nodes", Standing.STARTING), a_report("pods", Standing.SYNCED)]) == (
        "the cluster is not read yet: not listed so far: nodes"
    )


def test_tenants_are_told_what_it_means_for_them_and_no_collection() -> None:
    assert OLD.startswith("figures may be old")
    assert not any(name in OLD for name in ("nodes", "pods", "gpuclaims"))


def test_what_may_not_be_read_any_more_lags_at_once_and_what_is_slow_after_its_time() -> None:
    seen = {
        "nodes": (Standing.SYNCED, 60.0),
        "pods": (Standing.UNREADABLE, 1.0),
        "quotas": (Standing.SYNCED, 60.5),
        "kubevirts": (Standing.ABSENT, 0.0),
    }
    reports = [Report(name, *each, 0, 1, 0, {}, "") for name, each in seen.items()]

    assert lagging(reports, 60.0) == ["pods", "quotas"]
