"""What a request is about (checks 36 and 39): method, path and query in, attributes out."""

from urllib.parse import parse_qsl

import pytest

from apiserver.requestinfo import RequestInfo, request_info

G, V, R = "catalog.gpu.cozystack.io", "v1alpha1", "gpuclassoptions"
BASE = f"/apis/{G}/{V}"


def info(method: str, target: str) -> RequestInfo:
    path, _, query = target.partition("?")
    first: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        first.setdefault(key, value)
    return request_info(method, path, first)


@pytest.mark.parametrize(
    ("method", "target", "verb", "namespace", "name"),
    [
        ("GET", f"{BASE}/{R}", "list", "", ""),
        ("HEAD", f"{BASE}/{R}", "list", "", ""),
        ("GET", f"{BASE}/{R}?watch=true", "watch", "", ""),
        ("GET", f"{BASE}/{R}?watch=1", "watch", "", ""),
        ("GET", f"{BASE}/{R}?watch=", "watch", "", ""),
        ("GET", f"{BASE}/{R}?watch=false", "list", "", ""),
        ("GET", f"{BASE}/{R}?watch=0", "list", "", ""),
        ("GET", f"{BASE}/namespaces/tenant-a/{R}", "list", "tenant-a", ""),
        ("GET", f"{BASE}/namespaces/tenant-a/{R}?watch=1", "watch", "tenant-a", ""),
        ("GET", f"{BASE}/namespaces/tenant-a/{R}/a100", "get", "tenant-a", "a100"),
        ("HEAD", f"{BASE}/namespaces/tenant-a/{R}/a100", "get", "tenant-a", "a100"),
        ("GET", f"{BASE}/namespaces/tenant-a/{R}/a100?watch=1", "get", "tenant-a", "a100"),
        ("POST", f"{BASE}/namespaces/tenant-a/{R}", "create", "tenant-a", ""),
        ("PUT", f"{BASE}/namespaces/tenant-a/{R}/a100", "update", "tenant-a", "a100"),
        ("PATCH", f"{BASE}/namespaces/tenant-a/{R}/a100", "patch", "tenant-a", "a100"),
        ("DELETE", f"{BASE}/namespaces/tenant-a/{R}/a100", "delete", "tenant-a", "a100"),
        ("DELETE", f"{BASE}/namespaces/tenant-a/{R}", "deletecollection", "tenant-a", ""),
        ("DELETE", f"{BASE}/{R}", "deletecollection", "", ""),
        ("OPTIONS", f"{BASE}/{R}", "", "", ""),
        ("GET", f"{BASE}/{R}?fieldSelector=metadata.name%3Da100", "list", "", "a100"),
        ("GET", f"{BASE}/{R}?watch=1&fieldSelector=metadata.name%3D%3Dx", "watch", "", "x"),
        ("GET", f"{BASE}/{R}?fieldSelector=metadata.name!%3Da100", "list", "", ""),
        ("GET", f"{BASE}/{R}?fieldSelector=metadata.name%3D..", "list", "", ""),
        ("GET", f"{BASE}/{R}?fieldSelector=nonsense", "list", "", ""),
        (
            "DELETE",
            f"{BASE}/{R}?fieldSelector=metadata.name%3Da100",
            "deletecollection",
            "",
            "",
        ),
    ],
)
def test_check_36_a_resource_request_has_its_verb_namespace_and_name(
    method: str, target: str, verb: str, namespace: str, name: str
) -> None:
    got = info(method, target)

    assert (got.verb, got.group, got.version, got.resource) == (verb, G, V, R)
    assert (got.namespace, got.name, got.subresource) == (namespace, name, "")


def test_a_subresource_is_told_apart() -> None:
    got = info("GET", f"{BASE}/namespaces/tenant-a/{R}/a100/status")

    assert (got.resource, got.name, got.subresource, got.verb) == (R, "a100", "status", "get")


@pytest.mark.parametrize(
    "path",
    ["/", "/apis", f"/apis/{G}", f"/apis/{G}/{V}", "/healthz", "/readyz/ping", "/openapi/v2"],
)
def test_check_35_other_paths_are_about_the_path(path: str) -> None:
    got = info("GET", path)

    assert not got.is_resource
    assert (got.verb, got.path) == ("get", path)


def test_other_groups_and_the_core_do_not_pass_for_our_resource() -> None:
    assert info("GET", f"/apis/other/v1/{R}").group == "other"
    assert not info("GET", f"/api/v1/namespaces/x/{R}").is_resource
    assert not info("GET", f"/apis/{G}/{V}//{R}").is_resource


def test_a_namespace_itself_is_the_resource_namespaces() -> None:
    got = info("GET", f"{BASE}/namespaces/tenant-a")

    assert (got.resource, got.namespace) == ("namespaces", "tenant-a")


def test_check_39_selectors_belong_to_lists_and_watches_only() -> None:
    query = "?fieldSelector=metadata.name%3Da&labelSelector=b%3Dc"

    got = info("GET", f"{BASE}/{R}{query}")
    assert (got.field_selector, got.label_selector) == ("metadata.name=a", "b=c")
    single = info("GET", f"{BASE}/namespaces/n/{R}/a{query}")
    assert (single.field_selector, single.label_selector) == ("", "")


def test_the_name_in_the_path_is_kept_apart_from_a_selected_one() -> None:
    assert info("GET", f"{BASE}/{R}?fieldSelector=metadata.name%3Da100").path_name == ""
    assert info("GET", f"{BASE}/namespaces/n/{R}/a100").path_name == "a100"
