"""What people type, with nothing but the tenant role. More of it is in `tests/api`.

Writing is refused by who asks: 403 for whoever has no right to write, which nobody of a tenant
has; 405 for an administrator, who has every right where there is nothing to write. Before that
kubectl itself looks at an object that it would create or apply. Since nothing says that our API
server checks the fields of what is created here, it wants to see whether the kind is a CRD's,
which no tenant may read: so it ends without asking us, unless `--validate=false` says not to look.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from shared import vocabulary as words
from tests.catalog.objects import CLASS, Gpus, class_key, gpu_class, quota
from tests.catalog.tenants import Tenant
from tests.cluster.access import ADMIN, User
from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until

GROUP = words.CATALOG_GROUP
BASE = f"/apis/{words.CATALOG_GROUP_VERSION}"
RESOURCE = f"{words.RESOURCE_OPTIONS}.{GROUP}"


async def test_the_wide_table_has_a_figure_or_a_word_in_every_column(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    spec = {"memory": "80Gi", "maxCount": 4, "disclosure": "Exact"}
    await cluster.admin.patch(CLASS, gpus.name, {"spec": spec})
    await cluster.admin.create(quota(tenant.namespace, {class_key(gpus.name): "4"}))
    await tenant.sees(gpus.name, hard=4, orderableUnits=4)
    get = ("get", "gpuclassoptions", gpus.name, "-o", "wide", "--no-headers")
    row = (await tenant.kubectl(*get)).checked.split()
    assert row[:-1] == [
        *(gpus.name, "Passthrough", "80Gi", "8", "8", "4/4", "4", "True", "Available"),
        *("NVIDIA", "4", "MaxCountExceeded,BudgetExceeded", "Active"),
    ]
    await cluster.admin.patch(CLASS, gpus.name, {"spec": {"disclosure": "Hidden", "memory": None}})
    await tenant.sees(gpus.name, level="Unknown")
    row = (await tenant.kubectl(*get)).checked.split()
    assert row[1:7] == ["Passthrough", "<none>", "<unknown>", "<unknown>", "4/4", "<unknown>"]


async def test_columns_and_paths_of_the_readers_own(tenant: Tenant, gpus: Gpus) -> None:
    await tenant.sees(gpus.name, orderableUnits=8)
    columns = "CLASS:.metadata.name,UNITS:.status.orderableUnits,WHY:.status.limitedBy[0]"
    table = await tenant.kubectl("get", "gpuopt", gpus.name, "-o", f"custom-columns={columns}")
    assert [line.split() for line in table.checked.splitlines()] == [
        ["CLASS", "UNITS", "WHY"],
        [gpus.name, "8", "NoCapacity"],
    ]
    path = '{.status.conditions[?(@.type=="Selectable")].reason}'
    reason = await tenant.kubectl("get", "gpuopt", gpus.name, "-o", f"jsonpath={path}")
    assert reason.checked == "Available"
    plain = await tenant.kubectl("get", "gpuopt", gpus.name, "--server-print=false")
    assert plain.checked.splitlines()[0].split() == ["NAME", "AGE"]


async def test_a_list_is_sorted_by_a_figure_and_is_whole_whatever_the_chunks(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    few = f"a-{gpus.name}"  # by name it comes first
    label = {"metadata": {"labels": {"test": gpus.name}}}
    await cluster.admin.create(gpu_class(few, f"{gpus.resource}-few"))
    try:
        for name in (few, gpus.name):
            await cluster.admin.patch(CLASS, name, label)
        more = {"status": {"allocatable": {f"{gpus.resource}-few": "9"}}}
        await cluster.admin.patch("v1/Node", gpus.node, more, subresource="status")
        await tenant.sees(few, freeUnits=9)
        await tenant.sees(gpus.name, freeUnits=8)
        mine = ("get", "gpuopt", "-l", f"test={gpus.name}", "-o", "name")
        names = [f"{words.SINGULAR_OPTION}.{GROUP}/{name}" for name in (few, gpus.name)]
        assert (await tenant.kubectl(*mine)).checked.split() == names
        assert (await tenant.kubectl(*mine, "--chunk-size=1")).checked.split() == names
        by_units = ("--sort-by", ".status.availability.freeUnits")
        assert (await tenant.kubectl(*mine, *by_units)).checked.split() == names[::-1]
    finally:
        await cluster.admin.delete(CLASS, few)


async def test_describe_tells_all_figures_and_the_conditions(tenant: Tenant, gpus: Gpus) -> None:
    await tenant.sees(gpus.name, orderableUnits=8)
    told = (await tenant.kubectl("describe", "gpuclassoption", gpus.name)).checked.split("\n")
    lines = [" ".join(line.split()) for line in told]
    for line in (
        f"Name: {gpus.name}",
        f"Namespace: {tenant.namespace}",
        "Orderable Units: 8",
        "Largest Set: 8",
        "State: Unlimited",
        "Entitlement: NotRequired",
        "Type: Selectable",
        "Type: Fresh",
    ):
        assert line in lines


async def test_what_is_not_there_or_not_allowed_is_told_in_kubernetes_own_words(
    tenant: Tenant,
) -> None:
    cannot = f'(Forbidden): {RESOURCE} is forbidden: User "{tenant.user.name}" cannot list resource'
    what = f'"{words.RESOURCE_OPTIONS}" in API group "{GROUP}"'
    for arguments, message in (
        (("no-such-class",), f'(NotFound): {RESOURCE} "no-such-class" not found'),
        (("-A",), f"{cannot} {what} at the cluster scope"),
        (("-n", "kube-system"), f'{cannot} {what} in the namespace "kube-system"'),
    ):
        output = await tenant.kubectl("get", "gpuopt", *arguments)
        assert (output.code, output.stderr.strip()) == (1, f"Error from server {message}")


async def test_the_category_lists_everything_of_ours_without_an_error(
    tenant: Tenant, gpus: Gpus
) -> None:
    await tenant.sees(gpus.name, orderableUnits=8)
    output = await tenant.kubectl("get", words.CATEGORY, "-o", "name")
    assert f"{words.SINGULAR_OPTION}.{GROUP}/{gpus.name}" in output.checked.split()
    assert output.stderr == ""


async def test_a_tenant_can_ask_what_he_may_do(tenant: Tenant) -> None:
    for verb, answer in (("get", "yes"), ("list", "yes"), ("watch", "yes"), ("create", "no")):
        output = await tenant.kubectl("auth", "can-i", verb, RESOURCE)
        assert output.stdout.strip() == answer, verb


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        pytest.param(None, "Forbidden", id="the tenant"),
        pytest.param(ADMIN, "MethodNotAllowed", id="the administrator"),
    ],
)
async def test_options_cannot_be_written_in_any_of_kubectls_ways(
    cluster: Cluster, tenant: Tenant, gpus: Gpus, who: User | None, reason: str
) -> None:
    await tenant.sees(gpus.name, orderableUnits=8)
    option = await tenant.option(gpus.name)
    old = json.dumps({**option, "spec": {**option["spec"], "displayName": "Mine"}})
    new = json.dumps({**option, "metadata": {"name": "mine", "namespace": tenant.namespace}})
    odd = json.dumps({**json.loads(new), "spec": {"odd": True}})
    unseen = "--validate=false"
    for arguments, stdin in (
        (("create", unseen, "-f", "-"), new),
        (("create", unseen, "-f", "-"), odd),
        (("apply", unseen, "-f", "-"), new),
        (("apply", unseen, "-f", "-"), old),
        (("apply", "--server-side", unseen, "-f", "-"), new),
        (("apply", "--server-side", unseen, "-f", "-"), odd),
        (("replace", unseen, "-f", "-"), old),
        (("replace", "--force", unseen, "-f", "-"), old),
        (("label", "gpuopt", gpus.name, "a=b"), None),
        (("annotate", "gpuopt", gpus.name, "a=b"), None),
        (("patch", "gpuopt", gpus.name, "--type=json", "-p", "[]"), None),
        (("delete", "gpuopt", gpus.name, "--force"), None),
    ):
        output = await cluster.kubectl(
            *arguments, user=who or tenant.user, namespace=tenant.namespace, stdin=stdin
        )
        assert output.code != 0, arguments
        assert reason in output.stderr, (arguments, output.stderr)
    assert await tenant.option(gpus.name) == option


async def test_kubectl_itself_ends_before_it_asks_us_to_create(tenant: Tenant) -> None:
    mine = {
        "apiVersion": words.CATALOG_GROUP_VERSION,
        "kind": words.KIND_OPTION,
        "metadata": {"name": "mine"},
    }
    output = await tenant.kubectl("create", "-f", "-", stdin=json.dumps(mine))
    assert output.code == 1
    assert 'error validating "STDIN"' in output.stderr


async def test_kubectl_waits_until_an_option_is_gone(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    await tenant.sees(gpus.name, orderableUnits=8)
    arguments = ("wait", f"gpuopt/{gpus.name}", "--for=delete", "--timeout=60s")
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(tenant.kubectl(*arguments))
        await cluster.admin.delete(CLASS, gpus.name)
    assert waiting.result().code == 0


async def test_a_watch_by_label_tells_what_enters_and_leaves(
    cluster: Cluster, tenant: Tenant, gpus: Gpus
) -> None:
    await tenant.sees(gpus.name, orderableUnits=8)

    async def label(value: str | None) -> None:
        await cluster.admin.patch(CLASS, gpus.name, {"metadata": {"labels": {"tier": value}}})

    async def event() -> tuple[str, str]:
        async with asyncio.timeout(DEADLINE_SECONDS):
            event = await anext(events)
        return event["type"], event["object"]["metadata"]["name"]

    async with tenant.watch(labelSelector=f"tier={gpus.name}") as events:
        await label(gpus.name)
        assert await event() == ("ADDED", gpus.name)
        await label("other")
        assert await event() == ("DELETED", gpus.name)
        await label(gpus.name)
        assert await event() == ("ADDED", gpus.name)
        await cluster.admin.patch(CLASS, gpus.name, {"spec": {"maxCount": 2}})
        assert await event() == ("MODIFIED", gpus.name)
        await cluster.admin.delete(CLASS, gpus.name)
        assert await event() == ("DELETED", gpus.name)


async def test_the_merged_discovery_has_our_resource_with_all_its_names(tenant: Tenant) -> None:
    """What kubectl asks for, which lets nobody choose the Accept header."""
    kind = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = await tenant.api.call("GET", "/apis", headers={"Accept": f"application/json;{kind}"})
    (group,) = [each for each in found["items"] if each["metadata"]["name"] == GROUP]
    (served,) = group["versions"]
    assert (served["version"], served.get("freshness")) == (words.VERSION, "Current")
    (resource,) = [r for r in served["resources"] if r["resource"] == words.RESOURCE_OPTIONS]
    assert resource == {
        "resource": words.RESOURCE_OPTIONS,
        "responseKind": {
            "group": GROUP,
            "version": words.VERSION,
            "kind": words.KIND_OPTION,
        },
        "scope": "Namespaced",
        "singularResource": words.SINGULAR_OPTION,
        "verbs": ["get", "list", "watch"],
        "shortNames": [words.SHORT_OPTIONS],
        "categories": [words.CATEGORY],
    }


@pytest.mark.parametrize(
    ("path", "key"),
    [
        pytest.param("/apis", "groups", id="all groups"),
        pytest.param(f"/apis/{GROUP}", "preferredVersion", id="the group"),
        pytest.param(BASE, "resources", id="the resources"),
        pytest.param("/openapi/v3", "paths", id="the index of OpenAPI v3"),
        pytest.param(f"/openapi/v3{BASE}", "components", id="our OpenAPI v3"),
        pytest.param("/openapi/v2", "definitions", id="the OpenAPI v2 of all"),
    ],
)
async def test_a_tenant_reads_every_document_raw(tenant: Tenant, path: str, key: str) -> None:
    async def ours() -> bool:
        """Asked again: kube-apiserver fetches our OpenAPI some seconds after the registration."""
        output = await tenant.kubectl("get", "--raw", path)
        if output.code:
            assert "(NotFound)" in output.stderr
            return False
        document: Object = json.loads(output.stdout)
        return GROUP in json.dumps(document[key]) or path == BASE

    await wait_until(ours, f"{path} tells of us")
