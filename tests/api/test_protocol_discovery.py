"""D. Discovery, and E. OpenAPI over the socket: checks 42 to 54 and 59."""

from __future__ import annotations

import pytest

from tests.api.served import ALL, BASE, GROUP, Served

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2_BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
DOCUMENTS = ["/openapi/v2", "/openapi/v3", f"/openapi/v3{BASE}"]


async def test_check_42_the_aggregator_gets_aggregated_discovery(served: Served) -> None:
    answer = await (await served.admin())("/apis", Accept=V2)

    assert answer.status == 200
    assert answer.headers["Content-Type"] == V2
    assert answer.json == {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": "catalog.gpu.cozystack.io", "creationTimestamp": None},
                "versions": [
                    {
                        "version": "v1alpha1",
                        "freshness": "Current",
                        "resources": [
                            {
                                "resource": "gpuclassoptions",
                                "responseKind": {
                                    "group": "catalog.gpu.cozystack.io",
                                    "version": "v1alpha1",
                                    "kind": "GPUClassOption",
                                },
                                "scope": "Namespaced",
                                "singularResource": "gpuclassoption",
                                "verbs": ["get", "list", "watch"],
                                "shortNames": ["gpuopt"],
                                "categories": ["cozygpu"],
                            }
                        ],
                    }
                ],
            }
        ],
    }


@pytest.mark.parametrize("accept", ["application/json", "", "*/*", f"{V2_BETA},application/json"])
@pytest.mark.parametrize("path", ["/apis", "/apis/"])
async def test_check_43_everybody_else_gets_the_list_of_groups(
    served: Served, accept: str, path: str
) -> None:
    answer = await (await served.admin())(path, Accept=accept)

    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json["kind"] == "APIGroupList"
    assert "ETag" not in answer.headers  # the aggregator takes only a 200 here
    (group,) = answer.json["groups"]
    assert group["name"] == "catalog.gpu.cozystack.io"


async def test_check_43_only_the_version_that_was_never_final_is_not_acceptable(
    served: Served,
) -> None:
    assert (await (await served.admin())("/apis", Accept=V2_BETA)).status == 406


async def test_check_43_the_first_form_that_can_be_served_wins(served: Served) -> None:
    answer = await (await served.admin())("/apis", Accept=f"{V2},{V2_BETA},application/json")

    assert answer.json["kind"] == "APIGroupDiscoveryList"


async def test_check_44_group_and_version_have_their_documents(served: Served) -> None:
    admin = await served.admin()

    group = await admin(GROUP)
    version = {"groupVersion": "catalog.gpu.cozystack.io/v1alpha1", "version": "v1alpha1"}
    assert group.json == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "catalog.gpu.cozystack.io",
        "versions": [version],
        "preferredVersion": version,
    }
    resources = await admin(BASE)
    assert resources.json == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "catalog.gpu.cozystack.io/v1alpha1",
        "resources": [
            {
                "name": "gpuclassoptions",
                "singularName": "gpuclassoption",
                "namespaced": True,
                "kind": "GPUClassOption",
                "verbs": ["get", "list", "watch"],
                "shortNames": ["gpuopt"],
                "categories": ["cozygpu"],
            }
        ],
    }


async def test_check_45_who_knows_the_document_is_not_sent_it_again(served: Served) -> None:
    admin = await served.admin()
    first = await admin("/apis", Accept=V2)
    tag = first.headers["ETag"]
    assert first.headers["Vary"] == "Accept"
    assert first.headers["Cache-Control"] == "public"

    again = await admin("/apis", Accept=V2, If_None_Match=tag)
    assert (again.status, again.body) == (304, b"")
    assert again.headers["ETag"] == tag
    assert (await admin("/apis", Accept=V2, If_None_Match='"OTHER"')).status == 200
    legacy = await admin("/apis", Accept="application/json", If_None_Match=tag)
    assert legacy.status == 200


@pytest.mark.parametrize("path", ["/apis", GROUP, BASE, "/openapi/v2", "/openapi/v3", "/version"])
async def test_check_48_and_54_before_it_is_known_whom_to_trust_it_is_503(
    starting: Served, path: str
) -> None:
    nobody = await starting.caller(("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"))

    answer = await nobody(path)

    assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Connection"] == "close"


async def test_check_48_a_front_proxy_that_came_too_early_is_believed_later(
    starting: Served,
) -> None:
    admin = await starting.admin()
    assert (await admin(BASE)).status == 503

    starting.believe()

    assert (await admin(BASE)).status == 200


async def test_check_50_the_aggregators_user_without_groups_can_be_let_in(served: Served) -> None:
    served.rights.paths.add(("system:authenticated", BASE))

    assert (await (await served.aggregator("system:kube-aggregator"))(BASE)).status == 200


@pytest.mark.parametrize("path", ["/apis/other.io", "/apis/other.io/v1", f"{GROUP}/v1", "/api/v1"])
async def test_check_51_other_groups_and_versions_are_not_found(served: Served, path: str) -> None:
    answer = await (await served.admin())(path)

    assert (answer.status, answer.json["kind"], answer.json["reason"]) == (
        404,
        "Status",
        "NotFound",
    )


async def test_discovery_answers_whatever_state_the_cluster_is_in(served: Served) -> None:
    served.unavailable = "the cluster is not read yet"
    admin = await served.admin()

    for path in ("/apis", BASE, *DOCUMENTS, "/version", "/healthz"):
        assert (await admin(path)).status == 200, path
    data = await admin(ALL)
    assert (data.status, data.json["message"]) == (503, "the cluster is not read yet")
    assert data.headers["Retry-After"] == "1"


async def test_the_paths_there_are_can_be_listed(served: Served) -> None:
    admin = await served.admin()

    for path in (await admin("/")).json["paths"]:
        assert (await admin(path)).status == 200, path
    assert (await admin("/api")).json["versions"] == []


async def test_check_52_openapi_v2_is_json_with_a_tag(served: Served) -> None:
    admin = await served.admin()
    answer = await admin("/openapi/v2", Accept="application/json")

    assert answer.json["swagger"] == "2.0"
    again = await admin("/openapi/v2", If_None_Match=answer.headers["ETag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", DOCUMENTS)
@pytest.mark.parametrize(
    "accept",
    [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
        "text/html",
    ],
)
async def test_check_52_protobuf_alone_is_not_acceptable(
    served: Served, path: str, accept: str
) -> None:
    admin = await served.admin()

    assert (await admin(path, Accept=accept)).status == 406
    assert (await admin(path, Accept=f"{accept},application/json")).status == 200


async def test_check_53_the_index_leads_to_the_document_which_may_be_kept_for_ever(
    served: Served,
) -> None:
    admin = await served.admin()
    paths = (await admin("/openapi/v3")).json["paths"]
    url = paths["apis/catalog.gpu.cozystack.io/v1alpha1"]["serverRelativeURL"]

    answer = await admin(url)

    assert answer.json["openapi"].startswith("3.0")
    assert "immutable" in answer.headers["Cache-Control"]
    assert (await admin(url, If_None_Match=answer.headers["ETag"])).status == 304


async def test_check_53_a_wrong_hash_gets_the_document_there_is(served: Served) -> None:
    answer = await (await served.admin())(f"/openapi/v3{BASE}?hash=OLD")

    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-cache, private"


async def test_check_105_the_version_is_json(served: Served) -> None:
    answer = await (await served.admin())("/version")

    assert answer.json["gitVersion"] == "v0.1.0"
    assert (answer.json["major"], answer.json["minor"]) == ("0", "1")
