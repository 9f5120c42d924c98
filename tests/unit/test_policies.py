"""The policies keep to the rules for writing them, and to the vocabulary and the settings (6.6)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import vocabulary as words
from shared.settings import GpuSettings, parse

MANIFESTS = Path(__file__).parents[2] / "manifests"
RAW_NAMES = "components/raw-names"
Manifest = dict[str, Any]

GUARDED = {
    "entitlement",
    "epoch",
    "finalizer",
    "launcher",
    "secret",
    "status",
    "template-claim",
    "usage-record",
    "vmi",
}


def read(folder: str, name: str) -> list[Manifest]:
    text = (MANIFESTS / folder / name).read_bytes()
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def named(thing: str) -> str:
    return f"{words.POLICY_PREFIX}{thing}-policy"


PAIRS = [
    read(folder, path.name)
    for folder in ("policies", RAW_NAMES)
    for path in sorted((MANIFESTS / folder).glob("*.yaml"))
    if path.name != "kustomization.yaml"
]
EACH = [pytest.param(*pair, id=pair[0]["metadata"]["name"]) for pair in PAIRS]


def expressions(policy: Manifest) -> list[str]:
    """All that is evaluated, and all that is told."""
    spec = policy["spec"]
    return [
        text
        for each in (*spec["matchConditions"], *spec["variables"], *spec["validations"])
        for key, text in each.items()
        if key in {"expression", "message", "messageExpression"}
    ]


def test_each_rule_has_its_policy_and_the_kustomization_has_them_all() -> None:
    (kustomization,) = read("policies", "kustomization.yaml")
    assert {name.removesuffix(".yaml") for name in kustomization["resources"]} == GUARDED
    found = {policy["metadata"]["name"] for policy, _ in PAIRS}
    assert found == {named(thing) for thing in (*GUARDED, "raw-name")}


@pytest.mark.parametrize(("policy", "binding"), EACH)
def test_a_binding_has_the_name_of_its_policy_and_denies(
    policy: Manifest, binding: Manifest
) -> None:
    assert policy["kind"] == "ValidatingAdmissionPolicy"
    assert binding["kind"] == "ValidatingAdmissionPolicyBinding"
    name = policy["metadata"]["name"]
    assert (binding["metadata"]["name"], binding["spec"]["policyName"]) == (name, name)
    assert binding["spec"]["validationActions"] == ["Deny"]
    # An API server that does not know our kind yet, or no more, must not stop pods.
    fails = "Ignore" if name == named("raw-name") else "Fail"
    assert policy["spec"]["failurePolicy"] == fails


@pytest.mark.parametrize(("policy", "binding"), EACH)
def test_nothing_is_judged_when_it_is_deleted(policy: Manifest, binding: Manifest) -> None:
    del binding
    for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
        assert set(rule["operations"]) <= {"CREATE", "UPDATE"}


@pytest.mark.parametrize(("policy", "binding"), EACH)
def test_only_the_system_is_a_parameter_and_only_bookings_depend_on_it(
    policy: Manifest, binding: Manifest
) -> None:
    thing = policy["metadata"]["name"]
    action = {named("epoch"): "Deny", named("raw-name"): "Allow"}.get(thing)
    if action is None:
        assert "paramKind" not in policy["spec"]
        assert "paramRef" not in binding["spec"]
        return
    system = {"apiVersion": words.GROUP_VERSION, "kind": words.KIND_SYSTEM}
    assert policy["spec"]["paramKind"] == system
    assert binding["spec"]["paramRef"] == {
        "name": words.SYSTEM_NAME,
        "parameterNotFoundAction": action,
    }
    if action == "Deny":
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        assert rule["resources"] == [f"{words.RESOURCE_CLAIMS}/status"]


@pytest.mark.parametrize(("policy", "binding"), EACH)
def test_kubernetes_own_collectors_and_masters_pass_everywhere(
    policy: Manifest, binding: Manifest
) -> None:
    del binding
    first = policy["spec"]["matchConditions"][0]
    expression = first["expression"]
    if policy["metadata"]["name"] == named("raw-name"):
        # Pods that are made of tenants' templates are judged, whoever makes them.
        on_updates = 'request.operation == "UPDATE" && '
        assert on_updates in expression
        expression = expression.replace(on_updates, "")
    assert set(re.findall(r'"([^"]+)"', expression)) == {
        words.GROUP_MASTERS,
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:kube-system:namespace-controller",
        "system:kube-controller-manager",
    }
    same = PAIRS[0][0]["spec"]["matchConditions"][0]
    assert (first["name"], expression.split()) == (same["name"], same["expression"].split())


@pytest.mark.parametrize(("policy", "binding"), EACH)
def test_accounts_and_groups_are_those_of_the_settings(policy: Manifest, binding: Manifest) -> None:
    del binding
    known = [each for each in expressions(policy) if "system:serviceaccount" in each]
    if any("variables.accounts" in each for each in expressions(policy)):
        first = policy["spec"]["variables"][0]
        assert first["name"] == "accounts"  # where patches of installations look for it
        assert accounts(first["expression"]) == as_settings("base")
        known.remove(first["expression"])
    # Nowhere else does an account stand, but for those that always pass.
    assert known == [policy["spec"]["matchConditions"][0]["expression"]]


def test_without_settings_the_same_accounts_are_meant() -> None:
    default = GpuSettings()
    installed = as_settings("base")
    assert installed["binderUsername"] == {default.binder_username}
    assert installed["kubevirtUsernames"] == default.kubevirt_usernames
    assert installed["trustedGroups"] > default.trusted_groups  # and Cozystack's own groups


def test_the_component_for_another_namespace_of_kubevirt_changes_its_account_alone() -> None:
    (component,) = read("components/kubevirt-namespace", "kustomization.yaml")
    (patch,) = component["patches"]
    knows = {
        policy["metadata"]["name"]
        for policy, _ in PAIRS
        if policy["spec"]["variables"][0]["name"] == "accounts"
    }
    target = re.compile(patch["target"]["name"])
    every = {policy["metadata"]["name"] for policy, _ in PAIRS}
    assert {name for name in every if target.fullmatch(name)} == knows
    test, replace = yaml.load(patch["patch"], Loader=yaml.CSafeLoader)
    assert test == {"op": "test", "path": "/spec/variables/0/name", "value": "accounts"}
    assert replace["path"] == "/spec/variables/0/expression"
    there = {"system:serviceaccount:kubevirt:kubevirt-controller"}
    assert accounts(replace["value"]) == as_settings("base") | {"kubevirtUsernames": there}


@pytest.mark.parametrize(("policy", "binding"), EACH)
def test_every_name_of_ours_is_in_the_vocabulary(policy: Manifest, binding: Manifest) -> None:
    del binding
    known = {value for value in vars(words).values() if isinstance(value, str)}
    for text in expressions(policy):
        for name in re.findall(r"gpu\.cozystack\.io/[a-z0-9-]*", text):
            assert name in known | {f"{words.GROUP}/"}, text


@pytest.mark.parametrize(("policy", "binding"), EACH)
def test_a_refusal_says_what_and_is_forbidden(policy: Manifest, binding: Manifest) -> None:
    del binding
    for validation in policy["spec"]["validations"]:
        assert validation["reason"] == "Forbidden"
        assert re.match(
            r"(metadata|spec|status|resources|only the binder)\b", validation["message"]
        )


def accounts(expression: str) -> dict[str, set[str]]:
    """The literal; a map of lists of strings is spelt in CEL as in JSON."""
    found: dict[str, list[str]] = json.loads(expression)
    return {key: set(names) for key, names in found.items()}


def as_settings(folder: str) -> dict[str, set[str]]:
    (installed,) = read(folder, "settings.yaml")
    found, problems = parse(installed["data"], GpuSettings())
    assert problems == ()
    return {
        "binderUsername": {found.binder_username},
        "kubevirtUsernames": set(found.kubevirt_usernames),
        "trustedGroups": set(found.trusted_groups),
    }
