"""Who may do what, asked of the real authorizer: the rights that the manifests grant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import product

import pytest

from shared import vocabulary as words
from tests.cluster.access import GPU_APISERVER, GPU_BINDER, User
from tests.cluster.api import Refused
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.usefixtures("installed")

Right = tuple[str, str, str]
"""Group, resource with its subresource (`gpuclaims/status`), verb."""

READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")

OPTIONS = (words.CATALOG_GROUP, words.RESOURCE_OPTIONS)
CLAIMS = (words.GROUP, words.RESOURCE_CLAIMS)
CLAIM_STATUS = (words.GROUP, f"{words.RESOURCE_CLAIMS}/status")
CLASSES = (words.GROUP, words.RESOURCE_CLASSES)
CLASS_STATUS = (words.GROUP, f"{words.RESOURCE_CLASSES}/status")
SYSTEMS = (words.GROUP, words.RESOURCE_SYSTEMS)

ALL: frozenset[Right] = frozenset(
    (group, resource, verb)
    for (group, resource), verb in product(
        (OPTIONS, CLAIMS, CLAIM_STATUS, CLASSES, CLASS_STATUS, SYSTEMS), READ + WRITE
    )
)


def rights(of: tuple[str, str], *verbs: str) -> frozenset[Right]:
    return frozenset((*of, verb) for verb in verbs)


EVERYBODY = rights(CLASSES, *READ) | rights(SYSTEMS, *READ)
VIEWER = EVERYBODY | rights(OPTIONS, *READ) | rights(CLAIMS, *READ)
EDITOR = VIEWER | rights(CLAIMS, "create", "delete")

NATIVE = {"view": VIEWER, "edit": EDITOR, "admin": EDITOR}
COZYSTACK = {
    "cozy:tenant": EDITOR,
    "cozy:tenant:view": VIEWER,
    "cozy:tenant:use": EDITOR,
    "cozy:tenant:admin": EDITOR,
    "cozy:tenant:super-admin": EDITOR,
}


async def may(cluster: Cluster, user: User, right: Right, namespace: str) -> bool:
    """What the API server's authorizer says when the user asks for himself."""
    group, resource, verb = right
    resource, _, subresource = resource.partition("/")
    review = await cluster.api(user).create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {"name": ""},
            "spec": {
                "resourceAttributes": {
                    "group": group,
                    "resource": resource,
                    "subresource": subresource,
                    "verb": verb,
                    "namespace": namespace,
                }
            },
        }
    )
    return bool(review["status"]["allowed"])


async def allowed(cluster: Cluster, user: User, namespace: str) -> frozenset[Right]:
    """All rights of this page that the user has in the namespace."""
    return frozenset([right for right in ALL if await may(cluster, user, right, namespace)])


async def bind(cluster: Cluster, role: str, user: User, namespace: str) -> None:
    await cluster.admin.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "it", "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "User",
                    "name": user.name,
                }
            ],
        }
    )


@pytest.fixture(scope="module")
async def cozystack(cluster: Cluster) -> AsyncIterator[None]:
    """Cozystack's tenant roles, as far as others may extend them.

    There, the view role also feeds the higher ones; here each has its own label only, so that
    ours has to carry them all.
    """
    for role in COZYSTACK:
        label = "aggregate-to-" + role.removeprefix("cozy:").replace(":", "-")
        await cluster.admin.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": role},
                "aggregationRule": {
                    "clusterRoleSelectors": [
                        {"matchLabels": {f"rbac.cozystack.io/{label}": "true"}}
                    ]
                },
                "rules": [],
            }
        )
    yield
    for role in COZYSTACK:
        await cluster.admin.delete("rbac.authorization.k8s.io/v1/ClusterRole", role)


@pytest.mark.parametrize("role", [pytest.param(role, id=role) for role in NATIVE])
async def test_kubernetes_own_roles_hold_in_their_namespace_what_they_should_and_no_more(
    cluster: Cluster, unique: Callable[[str], str], role: str
) -> None:
    await holds_in_its_namespace_only(cluster, unique, role, NATIVE[role])


@pytest.mark.usefixtures("cozystack")
@pytest.mark.parametrize("role", [pytest.param(role, id=role) for role in COZYSTACK])
async def test_cozystacks_tenant_roles_hold_in_their_namespace_what_they_should_and_no_more(
    cluster: Cluster, unique: Callable[[str], str], role: str
) -> None:
    await holds_in_its_namespace_only(cluster, unique, role, COZYSTACK[role])


async def holds_in_its_namespace_only(
    cluster: Cluster, unique: Callable[[str], str], role: str, want: frozenset[Right]
) -> None:
    own, other = unique("tenant-rbac"), unique("tenant-rbac")
    user = User(unique("person"))
    await cluster.create_namespace(own)
    await cluster.create_namespace(other)
    await bind(cluster, role, user, own)

    # Roles are put together and seen by the authorizer a moment after they are written.
    missing = frozenset(want)

    async def has_all() -> bool:
        nonlocal missing
        missing = frozenset([each for each in missing if not await may(cluster, user, each, own)])
        return not missing

    await wait_until(has_all, f"{role} has what it should in {own}")
    assert await allowed(cluster, user, own) == want
    assert await allowed(cluster, user, other) == EVERYBODY
    assert await allowed(cluster, user, "") == EVERYBODY


async def test_whoever_is_authenticated_reads_classes_and_the_system_and_nothing_else_of_ours(
    cluster: Cluster, unique: Callable[[str], str]
) -> None:
    assert await allowed(cluster, User(unique("stranger")), "default") == EVERYBODY


async def test_who_shows_no_certificate_reads_not_even_classes(cluster: Cluster) -> None:
    with pytest.raises(Refused) as refused:
        await cluster.api(None).call("GET", f"/apis/{words.GROUP_VERSION}/gpuclasses")
    assert refused.value.code == 403


async def test_a_tenant_orders_and_gives_back_but_never_writes_a_status_or_changes_an_order(
    cluster: Cluster, unique: Callable[[str], str]
) -> None:
    namespace = unique("tenant-rbac")
    user = User(unique("person"))
    await cluster.create_namespace(namespace)
    await bind(cluster, "admin", user, namespace)
    kind = f"{words.GROUP_VERSION}/{words.KIND_CLAIM}"
    await wait_until(
        lambda: may(cluster, user, (*CLAIMS, "create"), namespace), "the binding is seen"
    )
    tenant = cluster.api(user)

    await tenant.create(
        {
            "apiVersion": words.GROUP_VERSION,
            "kind": words.KIND_CLAIM,
            "metadata": {"name": "train", "namespace": namespace},
            "spec": {"className": "a100", "count": 2},
        }
    )
    for subresource, patch in (
        ("", {"metadata": {"labels": {words.LABEL_TEMPLATE: "true"}}}),
        ("", {"metadata": {"finalizers": []}}),
        ("status", {"status": {"nodeName": "gpu-1"}}),
    ):
        with pytest.raises(Refused) as refused:
            await tenant.patch(kind, "train", patch, namespace, subresource=subresource)
        assert refused.value.code == 403, patch
    await tenant.delete(kind, "train", namespace)
    assert await cluster.admin.find(kind, "train", namespace) is None


Grant = tuple[str, str, str, tuple[str, ...]]
"""Group, resource, verb, and the names that it is held to."""

EVERYBODYS: frozenset[Grant] = frozenset(  # what Kubernetes gives every authenticated user
    {
        ("authorization.k8s.io", "selfsubjectaccessreviews", "create", ()),
        ("authorization.k8s.io", "selfsubjectrulesreviews", "create", ()),
        ("authentication.k8s.io", "selfsubjectreviews", "create", ()),
    }
)
SETTINGS: frozenset[Grant] = frozenset(
    ("", "configmaps", verb, (words.SETTINGS_NAME,)) for verb in READ
)


def grants(of: tuple[str, str], *verbs: str, names: tuple[str, ...] = ()) -> frozenset[Grant]:
    return frozenset((*of, verb, names) for verb in verbs)


async def granted(cluster: Cluster, user: User, namespace: str) -> frozenset[Grant]:
    """By the authorizer's own list, all that the user may."""
    review = await cluster.api(user).create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "metadata": {"name": ""},
            "spec": {"namespace": namespace},
        }
    )
    return frozenset(
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in review["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


async def test_the_server_reads_what_it_needs_and_asks_who_may_and_that_is_all(
    cluster: Cluster,
) -> None:
    asks = grants(("authorization.k8s.io", "subjectaccessreviews"), "create")
    asks |= grants(("authentication.k8s.io", "tokenreviews"), "create")
    reads = {
        ("", "nodes"),
        ("", "pods"),
        ("", "namespaces"),
        ("", "resourcequotas"),
        CLASSES,
        CLAIMS,
        SYSTEMS,
        ("kubevirt.io", "kubevirts"),
        ("kubevirt.io", "virtualmachineinstances"),
    }
    want = EVERYBODYS | asks | SETTINGS
    for kind in ("virtualmachines", "virtualmachineinstancemigrations"):
        want |= grants(("kubevirt.io", kind), "get")
    want |= {grant for each in reads for grant in grants(each, *READ)}
    assert await granted(cluster, GPU_APISERVER, words.NAMESPACE) == want


async def test_the_binder_writes_what_is_its_own_and_that_is_all(cluster: Cluster) -> None:
    writes = {
        CLAIMS: (*READ, "create", "patch", "delete"),
        CLASSES: (*READ, "patch"),
        SYSTEMS: (*READ, "create"),
        CLAIM_STATUS: ("patch",),
        CLASS_STATUS: ("patch",),
        (words.GROUP, "gpusystems/status"): ("patch",),
        ("", "pods"): (*READ, "patch"),
        ("", "events"): ("create",),
    }
    reads = {
        ("", "nodes"),
        ("", "namespaces"),
        ("", "resourcequotas"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("", "secrets"),
        ("kubevirt.io", "kubevirts"),
        ("kubevirt.io", "virtualmachineinstances"),
    }
    everywhere = EVERYBODYS | {grant for each in reads for grant in grants(each, *READ)}
    everywhere |= {grant for each, verbs in writes.items() for grant in grants(each, *verbs)}
    assert await granted(cluster, GPU_BINDER, "default") == everywhere

    leases = ("coordination.k8s.io", "leases")
    at_home = SETTINGS | grants(leases, "create")
    at_home |= grants(leases, "get", "update", names=("gpu-binder",))
    assert await granted(cluster, GPU_BINDER, words.NAMESPACE) == everywhere | at_home


async def test_the_server_follows_its_settings_and_no_other_config_map(cluster: Cluster) -> None:
    server = cluster.api(GPU_APISERVER)
    path = f"/api/v1/namespaces/{words.NAMESPACE}/configmaps"

    found = await server.call("GET", path, query={"fieldSelector": "metadata.name=gpu-settings"})
    assert [each["metadata"]["name"] for each in found["items"]] == ["gpu-settings"]
    for query in ({}, {"fieldSelector": "metadata.name=kube-root-ca.crt"}):
        with pytest.raises(Refused) as refused:
            await server.call("GET", path, query=query)
        assert refused.value.code == 403


async def test_the_server_reads_the_authorities_of_the_aggregation_layer(
    cluster: Cluster, installed: Catalog
) -> None:
    found = await cluster.api(GPU_APISERVER).get(
        "v1/ConfigMap", "extension-apiserver-authentication", "kube-system"
    )
    assert installed.plane.at.front_proxy.certificate.exists()
    assert "requestheader-client-ca-file" in found["data"]


@pytest.mark.parametrize(
    ("method", "path", "schema"),
    [
        pytest.param("GET", "/api/v1/nodes", "gpu-apiserver-reads", id="reading"),
        pytest.param(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "gpu-apiserver-reviews",
            id="asking who may",
        ),
    ],
)
async def test_the_servers_calls_have_a_share_of_the_api_server_of_their_own(
    cluster: Cluster, method: str, path: str, schema: str
) -> None:
    kind = "flowcontrol.apiserver.k8s.io/v1"
    flow = (await cluster.admin.get(f"{kind}/FlowSchema", schema))["metadata"]["uid"]
    level = await cluster.admin.get(f"{kind}/PriorityLevelConfiguration", "gpu-system")
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "x", "nonResourceAttributes": {"path": "/", "verb": "get"}},
    }

    async def charged_to() -> tuple[str, str]:
        sent = body if method == "POST" else None
        reply = await cluster.api(GPU_APISERVER).request(method, path, sent)
        assert reply.status < 400, reply.body
        return (
            reply.headers["X-Kubernetes-PF-FlowSchema-UID"],
            reply.headers["X-Kubernetes-PF-PriorityLevel-UID"],
        )

    async def charged_to_us() -> bool:
        return await charged_to() == (flow, level["metadata"]["uid"])

    await wait_until(charged_to_us, f"{path} is charged to {schema}")
