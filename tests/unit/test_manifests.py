"""The manifests say what the vocabulary says, and grant no more than the rules allow."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.routes import DEADLINE_SECONDS
from apiserver.__main__ import ApiServerSettings
from apiserver.listener import DRAIN_SECONDS
from apiserver.options import END_SECONDS
from binder.__main__ import BinderSettings
from shared import vocabulary as words
from shared.kube.collections import PLACING
from shared.settings import GpuSettings, parse

MANIFESTS = Path(__file__).parents[2] / "manifests"
Manifest = dict[str, Any]

READ = {"get", "list", "watch"}
AGGREGATE_NATIVE = "rbac.authorization.k8s.io/aggregate-to-"
AGGREGATE_COZYSTACK = "rbac.cozystack.io/aggregate-to-"


def manifests_of(folder: str) -> list[Manifest]:
    """All objects in the YAML files directly in `folder`, kustomizations left out."""
    found: list[Manifest] = []
    for path in sorted((MANIFESTS / folder).glob("*.yaml")):
        if path.name == "kustomization.yaml":
            continue
        found.extend(
            document
            for document in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader)
            if document is not None
        )
    return found


def the(kind: str, name: str, folder: str = "base") -> Manifest:
    """The one object of this kind and name."""
    found = [
        manifest
        for manifest in manifests_of(folder)
        if manifest["kind"] == kind and manifest["metadata"]["name"] == name
    ]
    assert len(found) == 1, f"{len(found)} of {kind} {name} in manifests/{folder}"
    return found[0]


def rights(role: str) -> set[tuple[str, str, str]]:
    """(group, resource, verb) of every right that the ClusterRole grants."""
    return {
        (group, resource, verb)
        for rule in the("ClusterRole", role)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def reads(group: str, *resources: str) -> set[tuple[str, str, str]]:
    return {(group, resource, verb) for resource in resources for verb in READ}


BINDER = "gpu-binder"
BOTH = pytest.mark.parametrize("process", [words.SERVICE_APISERVER, BINDER])


def pod_spec(process: str = words.SERVICE_APISERVER) -> Manifest:
    spec: Manifest = the("Deployment", process)["spec"]["template"]["spec"]
    return spec


def test_everything_lives_in_our_namespace_but_the_right_to_read_the_cluster_authorities() -> None:
    elsewhere = [
        (manifest["kind"], manifest["metadata"]["name"], manifest["metadata"]["namespace"])
        for folder in ("base", "components/cert-manager", "components/network-policy")
        for manifest in manifests_of(folder)
        if manifest["metadata"].get("namespace", words.NAMESPACE) != words.NAMESPACE
    ]
    assert elsewhere == [("RoleBinding", "gpu-apiserver:authentication-reader", "kube-system")]
    assert the("Namespace", words.NAMESPACE)["metadata"]["labels"]["cozystack.io/system"] == "true"


def test_the_server_reads_what_the_rules_need_and_writes_nothing() -> None:
    assert rights("gpu-apiserver") == (
        reads("", "nodes", "pods", "namespaces", "resourcequotas")
        | reads(words.GROUP, words.RESOURCE_CLASSES, words.RESOURCE_CLAIMS, words.RESOURCE_SYSTEMS)
        | reads("kubevirt.io", "kubevirts", "virtualmachineinstances")
        | {("kubevirt.io", "virtualmachines", "get")}
        | {("kubevirt.io", "virtualmachineinstancemigrations", "get")}
    )


def test_the_binder_may_only_do_what_its_code_does() -> None:
    ours = words.GROUP
    assert rights(BINDER) == (
        reads("", "nodes", "pods", "namespaces", "resourcequotas", "secrets")
        | reads("", "persistentvolumes", "persistentvolumeclaims")
        | reads(ours, words.RESOURCE_CLASSES, words.RESOURCE_CLAIMS, words.RESOURCE_SYSTEMS)
        | reads("kubevirt.io", "kubevirts", "virtualmachineinstances")
        | {(ours, words.RESOURCE_CLAIMS, verb) for verb in ("create", "patch", "delete")}
        | {(ours, f"{words.RESOURCE_CLAIMS}/status", "patch")}
        | {(ours, words.RESOURCE_CLASSES, "patch"), (ours, "gpuclasses/status", "patch")}
        | {(ours, words.RESOURCE_SYSTEMS, "create"), (ours, "gpusystems/status", "patch")}
        | {("", "pods", "patch"), ("", "events", "create")}
    )
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert the("Role", BINDER)["rules"] == [
        {**lease, "resourceNames": [words.LEASE_NAME], "verbs": ["get", "update"]},
        {**lease, "verbs": ["create"]},
    ]


def test_the_binder_may_watch_what_it_follows_and_nothing_else() -> None:
    watched = {(group, kind) for group, kind, verb in rights(BINDER) if verb == "watch"}
    assert watched == {group_and_kind(each.path) for each in PLACING}


def group_and_kind(path: str) -> tuple[str, str]:
    """Of a collection over all namespaces: `/api/v1/pods`, `/apis/GROUP/VERSION/KIND`."""
    root, *version, kind = path.strip("/").split("/")
    return ("" if root == "api" else version[0]), kind


def test_the_server_reads_one_config_map_only() -> None:
    assert the("Role", "gpu-settings-read")["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [words.SETTINGS_NAME],
            "verbs": ["get", "list", "watch"],
        }
    ]


@pytest.mark.parametrize(
    "binding",
    [
        pytest.param("gpu-apiserver", id="its own role"),
        pytest.param("gpu-apiserver:auth-delegator", id="asking who a caller is"),
    ],
)
def test_only_the_server_holds_its_rights(binding: str) -> None:
    assert the("ClusterRoleBinding", binding)["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": words.SERVICE_APISERVER,
            "namespace": words.NAMESPACE,
        }
    ]


def test_tenants_read_options_and_claims_and_order_and_give_back() -> None:
    assert rights("cozy:gpu:view") == (
        reads(words.CATALOG_GROUP, words.RESOURCE_OPTIONS)
        | reads(words.GROUP, words.RESOURCE_CLAIMS)
    )
    assert rights("cozy:gpu:order") == {
        (words.GROUP, words.RESOURCE_CLAIMS, "create"),
        (words.GROUP, words.RESOURCE_CLAIMS, "delete"),
    }


@pytest.mark.parametrize(
    ("role", "native", "cozystack"),
    [
        pytest.param(
            "cozy:gpu:view",
            {"view", "edit", "admin"},
            {"tenant", "tenant-view", "tenant-use", "tenant-admin", "tenant-super-admin"},
            id="everybody in a tenant sees",
        ),
        pytest.param(
            "cozy:gpu:order",
            {"edit", "admin"},
            {"tenant", "tenant-use", "tenant-admin", "tenant-super-admin"},
            id="whoever may only view does not order",
        ),
    ],
)
def test_rights_reach_the_roles_that_exist(
    role: str, native: set[str], cozystack: set[str]
) -> None:
    want = {AGGREGATE_NATIVE + name for name in native}
    want |= {AGGREGATE_COZYSTACK + name for name in cozystack}
    labels = the("ClusterRole", role)["metadata"]["labels"]
    assert {key for key, value in labels.items() if value == "true"} == want


def test_every_authenticated_user_reads_the_classes_and_nothing_else() -> None:
    assert rights("gpu-catalog-read") == reads(
        words.GROUP, words.RESOURCE_CLASSES, words.RESOURCE_SYSTEMS
    )
    binding = the("ClusterRoleBinding", "gpu-catalog-read-authenticated")
    assert [subject["name"] for subject in binding["subjects"]] == ["system:authenticated"]
    assert binding["roleRef"]["name"] == "gpu-catalog-read"


def test_the_api_service_is_the_catalog_below_everybody_else_and_never_skips_verification() -> None:
    api_service = the("APIService", f"{words.VERSION}.{words.CATALOG_GROUP}", folder="apiservice")
    assert api_service["spec"] == {
        "group": words.CATALOG_GROUP,
        "version": words.VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": words.SERVICE_APISERVER, "namespace": words.NAMESPACE, "port": 443},
    }


def test_the_service_leads_to_the_named_port_of_the_servers_pods() -> None:
    service = the("Service", words.SERVICE_APISERVER)["spec"]
    template = the("Deployment", words.SERVICE_APISERVER)["spec"]["template"]
    (port,) = service["ports"]
    assert service["type"] == "ClusterIP"
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    assert (port["name"], port["port"], port["targetPort"]) == ("https", 443, "https")
    (container,) = template["spec"]["containers"]
    assert [each["name"] for each in container["ports"]] == ["https"]


@BOTH
def test_a_rollout_never_leaves_fewer_than_two_and_a_drain_takes_one_at_a_time(
    process: str,
) -> None:
    deployment = the("Deployment", process)["spec"]
    budget = the("PodDisruptionBudget", process)["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    # Not minAvailable: with one replica, as on a cluster of one node, no drain would ever end.
    assert "minAvailable" not in budget
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == deployment["selector"]
    (apart,) = pod_spec(process)["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"] == deployment["selector"]


def test_the_server_has_time_to_end_by_itself() -> None:
    delay = ApiServerSettings.model_fields["shutdown_delay"].default

    # Twice: requests may end, then those that were cancelled may.
    assert delay + 2 * DRAIN_SECONDS + END_SECONDS < pod_spec()["terminationGracePeriodSeconds"]


def test_the_binder_has_time_to_end_its_writes_and_give_the_lease_back() -> None:
    settings = BinderSettings()
    ends = settings.end_deadline + settings.times().attempt

    assert ends < pod_spec(BINDER)["terminationGracePeriodSeconds"]


def test_the_binder_is_probed_where_it_listens() -> None:
    (container,) = pod_spec(BINDER)["containers"]
    (port,) = container["ports"]
    assert container["command"] == [BINDER]
    assert container["args"] == [f"--health-port={port['containerPort']}"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == port["name"]


@BOTH
def test_each_process_is_an_account_of_its_own(process: str) -> None:
    assert pod_spec(process)["serviceAccountName"] == process


@BOTH
def test_a_process_runs_with_no_privilege_at_all(process: str) -> None:
    spec = pod_spec(process)
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_certificate_is_for_the_name_that_the_api_server_asks_for() -> None:
    leaf = the("Certificate", words.SERVICE_APISERVER, folder="components/cert-manager")["spec"]
    (volume,) = pod_spec()["volumes"]
    assert pod_spec()["securityContext"]["fsGroup"] == 65532, "the certificate is root's"
    assert f"{words.SERVICE_APISERVER}.{words.NAMESPACE}.svc" in leaf["dnsNames"]
    assert volume["secret"]["secretName"] == leaf["secretName"]
    injected = (MANIFESTS / "components/cert-manager-ca/kustomization.yaml").read_text()
    assert (
        f"cert-manager.io/inject-ca-from: {words.NAMESPACE}/{words.SERVICE_APISERVER}\n" in injected
    )


def test_our_calls_to_the_cluster_have_a_priority_level_of_their_own() -> None:
    levels = [m for m in manifests_of("base") if m["kind"] == "PriorityLevelConfiguration"]
    schemas = [m for m in manifests_of("base") if m["kind"] == "FlowSchema"]
    (level,) = levels
    accounts = {
        subject["serviceAccount"]["name"]
        for schema in schemas
        for rule in schema["spec"]["rules"]
        for subject in rule["subjects"]
    }
    assert accounts == {words.SERVICE_APISERVER, BINDER}
    for schema in schemas:
        assert schema["spec"]["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
        # Kubernetes' own schema for all service accounts matches at 9000.
        assert schema["spec"]["matchingPrecedence"] < 9000


def test_the_settings_carry_their_defaults_as_rule_9_has_them() -> None:
    settings = the("ConfigMap", words.SETTINGS_NAME)
    assert settings["data"] == {
        "enabled": "true",
        "placement": "binder",
        "resourceNames": "",
        "forbidRawNames": "false",
        "kubevirtNamespace": words.KUBEVIRT_NAMESPACE,
        "kubevirtUsernames": "system:serviceaccount:cozy-kubevirt:kubevirt-controller",
        "binderUsername": "system:serviceaccount:cozy-gpu:gpu-binder",
        "trustedGroups": ",".join(
            ["system:masters"]
            + [
                f"system:serviceaccounts:{name}"
                for name in ("cozy-system", "cozy-fluxcd", "kube-system")
            ]
        ),
        "nodeLossGrace": "5m",
        "refusalSkip": "10m",
        "pinTimeout": "5m",
        "starvationBound": "15m",
    }


def test_the_settings_are_good_and_say_what_holds_without_them() -> None:
    found, problems = parse(the("ConfigMap", words.SETTINGS_NAME)["data"], GpuSettings())
    assert problems == ()
    # The manifests trust Cozystack's own groups besides those that are trusted anywhere.
    assert found.trusted_groups > GpuSettings().trusted_groups
    assert replace(found, trusted_groups=GpuSettings().trusted_groups) == GpuSettings()


def test_the_dev_component_redirects_the_service_and_asks_for_no_pods() -> None:
    component = yaml.load(
        (MANIFESTS / "components/dev/kustomization.yaml").read_bytes(), Loader=yaml.CSafeLoader
    )
    assert set(component) == {"apiVersion", "kind", "patches"}
    redirect, no_pods = component["patches"]
    assert redirect["target"] == {
        "version": "v1",
        "kind": "Service",
        "name": words.SERVICE_APISERVER,
    }
    assert yaml.load(redirect["patch"], Loader=yaml.CSafeLoader) == [
        {
            "op": "replace",
            "path": "/spec",
            "value": {"type": "ExternalName", "externalName": "127.0.0.1"},
        }
    ]
    assert no_pods["target"]["kind"] == "Deployment"
    assert re.fullmatch(no_pods["target"]["name"], words.SERVICE_APISERVER)
    assert re.fullmatch(no_pods["target"]["name"], BINDER)
    assert yaml.load(no_pods["patch"], Loader=yaml.CSafeLoader) == [
        {"op": "replace", "path": "/spec/replicas", "value": 0}
    ]


def webhooks() -> list[tuple[str, Manifest]]:
    """Each webhook with the kind of its configuration, Mutating or Validating."""
    return [
        (manifest["kind"].removesuffix("WebhookConfiguration"), webhook)
        for manifest in manifests_of("webhooks")
        for webhook in manifest["webhooks"]
    ]


def test_the_webhooks_lead_to_the_paths_that_are_served() -> None:
    assert {
        (kind, *webhook["rules"][0]["resources"], webhook["clientConfig"]["service"]["path"])
        for kind, webhook in webhooks()
    } == {
        ("Mutating", "virtualmachineinstances", words.WEBHOOK_VMIS),
        ("Mutating", "pods", words.WEBHOOK_PODS),
        ("Validating", "virtualmachineinstances", words.WEBHOOK_VMIS_FINAL),
        ("Validating", words.RESOURCE_CLAIMS, words.WEBHOOK_CLAIMS),
        ("Validating", words.RESOURCE_CLASSES, words.WEBHOOK_CLASSES),
    }
    for _, webhook in webhooks():
        service = webhook["clientConfig"]["service"]
        assert (service["namespace"], service["name"]) == (
            words.NAMESPACE,
            words.SERVICE_APISERVER,
        )


def test_the_webhooks_fail_closed_after_we_have_refused_ourselves() -> None:
    assert {manifest["metadata"]["name"] for manifest in manifests_of("webhooks")} == {words.GROUP}
    assert words.GROUP < "virt-api-mutator"
    for _, webhook in webhooks():
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["sideEffects"] == "None"
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert webhook["timeoutSeconds"] > DEADLINE_SECONDS
        assert not {"namespaceSelector", "objectSelector", "DELETE"} & {
            *webhook,
            *webhook["rules"][0]["operations"],
        }


def test_the_claims_of_the_binder_alone_do_not_reach_us() -> None:
    """Rule 6.3: the account is a literal, and that of the settings."""
    installed, _ = parse(the("ConfigMap", words.SETTINGS_NAME)["data"], GpuSettings())
    account = the("ServiceAccount", BINDER)["metadata"]
    assert installed.binder_username == (
        f"system:serviceaccount:{account['namespace']}:{account['name']}"
    )
    (claims,) = [
        webhook
        for _, webhook in webhooks()
        if words.RESOURCE_CLAIMS in webhook["rules"][0]["resources"]
    ]
    (condition,) = claims["matchConditions"]
    assert condition["expression"] == (
        f'request.userInfo.username != "{installed.binder_username}"'
    )


@pytest.mark.parametrize(
    ("resource", "names"),
    [
        pytest.param(
            "virtualmachineinstances",
            {words.ANNOTATION_PREFIX},
            id="any annotation of our prefix on a VM",
        ),
        pytest.param(
            "pods",
            {words.ANNOTATION_ATTACHMENTS, words.ANNOTATION_LAUNCHER, words.GATE},
            id="record, mark or gate on a pod",
        ),
    ],
)
def test_only_what_carries_our_names_reaches_us(resource: str, names: set[str]) -> None:
    found = [webhook for _, webhook in webhooks() if resource in webhook["rules"][0]["resources"]]
    assert found
    for webhook in found:
        (condition,) = webhook["matchConditions"]
        assert set(re.findall(rf'"({words.GROUP}/[a-z]*)"', condition["expression"])) == names
