"""The catalog as tenants meet it: real kubectl, real aggregation layer, our real process.

Checks 40, 57, 60, 63 to 65, 83, 85, 90, 91 and 106 of the contract.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from shared import vocabulary
from tests.api.kinds import CLASS, gpu_class
from tests.api.tenants import OPTION, Tenant, create_tenant
from tests.cluster.access import ADMIN, User
from tests.cluster.api import Object, Refused
from tests.cluster.install import API_SERVICE, Catalog
from tests.cluster.session import Cluster, kubectl_environ
from tests.cluster.waiting import wait_until

Unique = Callable[[str], str]
BASE = f"/apis/{vocabulary.CATALOG_GROUP_VERSION}"


@pytest.fixture
async def tenant(cluster: Cluster, catalog: Catalog, unique: Unique) -> Tenant:
    """A tenant that may order 4 units of its class."""
    assert catalog.component.port
    tenant = await create_tenant(cluster, unique)
    await wait_for_units(tenant, 4)
    return tenant


async def wait_for_units(tenant: Tenant, units: int | None) -> None:
    """Wait until so many units may be ordered."""

    async def reached() -> bool:
        try:
            return await tenant.orderable() == units
        except Refused as refused:
            if refused.code != 404:
                raise
            return False  # the class is not known to the server yet

    await wait_until(reached, f"{tenant.class_name} has {units} orderable units")


async def test_check_106_the_api_service_is_available_and_passes_validation(
    cluster: Cluster, catalog: Catalog
) -> None:
    assert await catalog.is_available()
    service = await cluster.admin.get("apiregistration.k8s.io/v1/APIService", API_SERVICE)
    (condition,) = service["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("Passed", "all checks passed")
    assert not service["spec"].get("insecureSkipTLSVerify")
    assert (service["spec"]["groupPriorityMinimum"], service["spec"]["versionPriority"]) == (
        100,
        100,
    )


@pytest.mark.parametrize("name", ["gpuclassoptions", "gpuclassoption", "gpuopt"])
async def test_check_83_the_table_is_found_under_every_name(tenant: Tenant, name: str) -> None:
    lines = (await tenant.kubectl("get", name, tenant.class_name)).checked.splitlines()

    head, row = (line.split() for line in lines)
    assert " ".join(head) == "NAME MODE MEMORY FREE LARGEST BUDGET ORDERABLE SELECTABLE REASON"
    assert " ".join(row) == f"{tenant.class_name} Passthrough 80Gi 4 4 unlimited 4 True Available"


async def test_check_83_every_form_of_output(tenant: Tenant) -> None:
    async def get(*arguments: str) -> str:
        return (await tenant.kubectl("get", "gpuopt", *arguments)).checked

    wide = (await get(tenant.class_name, "-o", "wide")).splitlines()[0].split()
    assert wide[9:] == ["VENDOR", "MAX", "LIMITED-BY", "LIFECYCLE", "OBSERVED"]
    as_json = json.loads(await get(tenant.class_name, "-o", "json"))
    assert as_json["kind"] == "GPUClassOption"
    as_yaml = yaml.safe_load(await get(tenant.class_name, "-o", "yaml"))
    assert as_yaml["status"]["orderableUnits"] == as_json["status"]["orderableUnits"] == 4
    name = f"gpuclassoption.{vocabulary.CATALOG_GROUP}/{tenant.class_name}"
    assert (await get(tenant.class_name, "-o", "name")).strip() == name
    path = "{.items[?(@.metadata.name=='" + tenant.class_name + "')].option.label}"
    assert await get("-o", f"jsonpath={path}") == "Big 80Gi: up to 4"
    assert json.loads(await get("-o", "json"))["kind"] == "List"  # kubectl's own envelope


async def test_check_64_and_65_kubectl_selects_by_field_and_label(tenant: Tenant) -> None:
    name = tenant.class_name

    async def names(*arguments: str) -> list[str]:
        output = await tenant.kubectl("get", "gpuopt", "--no-headers", *arguments)
        return [line.split()[0] for line in output.checked.splitlines()]

    assert await names("--field-selector", f"metadata.name={name}") == [name]
    assert name not in await names("--field-selector", f"metadata.name!={name}")
    assert await names("-l", f"tier={name}") == [name]
    assert await names("-l", f"tier in ({name},other),!absent") == [name]
    assert name not in await names("-l", "!tier")
    shown = await tenant.kubectl("get", "gpuopt", name, "--show-labels")
    assert f"tier={name}" in shown.checked
    ordered = await names("--sort-by", ".status.availability.freeUnits")
    assert sorted(ordered) == sorted(await names())
    bad = await tenant.kubectl("get", "gpuopt", "-l", "a,,b")
    assert bad.code == 1
    assert "Error from server (BadRequest)" in bad.stderr


async def test_check_83_describe_and_wait(tenant: Tenant) -> None:
    described = (await tenant.kubectl("describe", "gpuopt", tenant.class_name)).checked
    assert "Orderable Units:" in described

    waited = await tenant.kubectl(
        "wait", f"gpuopt/{tenant.class_name}", "--for=condition=Selectable", "--timeout=30s"
    )
    assert "condition met" in waited.checked


async def test_check_40_other_namespaces_and_all_of_them_are_refused(tenant: Tenant) -> None:
    for arguments in (("-A",), ("-n", "default"), ("-n", "kube-system", tenant.class_name)):
        refused = await tenant.kubectl("get", "gpuopt", *arguments)
        assert refused.code == 1
        assert "Error from server (Forbidden)" in refused.stderr


async def test_a_cluster_administrator_sees_all_tenants_and_nothing_else(
    cluster: Cluster, tenant: Tenant
) -> None:
    output = await cluster.kubectl("get", "gpuopt", "-A", "-o", "json")

    items = json.loads(output.checked)["items"]
    namespaces = {item["metadata"]["namespace"] for item in items}
    assert tenant.namespace in namespaces
    assert all(namespace.startswith("tenant-") for namespace in namespaces)


@pytest.mark.parametrize(
    ("user", "reason"),
    [(None, "Forbidden"), (ADMIN, "MethodNotAllowed")],
    ids=["the tenant", "the administrator"],
)
async def test_check_63_nobody_writes_options(
    cluster: Cluster, tenant: Tenant, user: User | None, reason: str
) -> None:
    who = user or tenant.user
    name = tenant.class_name
    option = await tenant.option()
    option["metadata"] = {"name": "mine", "namespace": tenant.namespace}
    for arguments, stdin in (
        (("delete", "gpuopt", name), None),
        (("delete", "gpuopt", "--all"), None),
        (("patch", "gpuopt", name, "--type=merge", "-p", "{}"), None),
        (("create", "--validate=false", "-f", "-"), json.dumps(option)),
    ):
        refused = await cluster.kubectl(
            *arguments, user=who, namespace=tenant.namespace, stdin=stdin
        )
        assert refused.code == 1, arguments
        assert f"({reason})" in refused.stderr, arguments


async def test_check_57_kubectl_explains_the_kind_from_both_documents(tenant: Tenant) -> None:
    async def explained(*arguments: str) -> str:
        return (await tenant.kubectl("explain", "gpuclassoptions", *arguments)).checked

    async def known() -> bool:
        """kube-apiserver fetches our documents some seconds after the registration."""
        return (await tenant.kubectl("explain", "gpuclassoptions")).code == 0

    await wait_until(known, "kubectl explain knows the kind")
    recursive = await explained("--recursive")
    for field in ("orderableUnits", "limitedBy", "largestSet", "remaining", "lastTransitionTime"):
        assert field in recursive
    assert "Limited: see remaining" in " ".join(
        (await tenant.kubectl("explain", "gpuopt.status.budget.state")).checked.split()
    )
    old = await explained("--output=plaintext-openapiv2")
    assert "GPUClassOption" in old
    assert "apiVersion" in old


async def test_the_kind_is_listed_with_its_names_and_in_its_category(tenant: Tenant) -> None:
    listed = await tenant.kubectl(
        "api-resources", f"--api-group={vocabulary.CATALOG_GROUP}", "-o", "wide", "--no-headers"
    )
    assert listed.checked.split() == [
        "gpuclassoptions",
        "gpuopt",
        vocabulary.CATALOG_GROUP_VERSION,
        "true",
        "GPUClassOption",
        "get,list,watch",
        "cozygpu",
    ]
    everything = (await tenant.kubectl("get", "cozygpu")).checked
    assert f"gpuclassoption.{vocabulary.CATALOG_GROUP}/{tenant.class_name}" in everything


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"/apis/{vocabulary.CATALOG_GROUP}", "APIGroup"),
        (BASE, "APIResourceList"),
        (f"{BASE}/gpuclassoptions", "GPUClassOptionList"),
    ],
)
async def test_raw_documents_come_through(
    cluster: Cluster, catalog: Catalog, path: str, kind: str
) -> None:
    assert catalog.component.port
    got = json.loads((await cluster.kubectl("get", "--raw", path)).checked)

    assert got["kind"] == kind


async def test_our_schemas_are_merged_without_renaming_anybody_elses(
    cluster: Cluster, catalog: Catalog
) -> None:
    name = "io.cozystack.gpu.catalog.v1alpha1.GPUClassOption"

    async def merged() -> Object | None:
        found = await cluster.admin.call("GET", "/openapi/v2")
        return found if name in found["definitions"] else None

    assert catalog.component.port
    document = await wait_until(merged, "the OpenAPI document has our kind")
    definitions = document["definitions"]
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in definitions
    assert not [each for each in definitions if each.endswith("_v2")]
    index = await cluster.admin.call("GET", "/openapi/v3")
    url = index["paths"][BASE.removeprefix("/")]["serverRelativeURL"]
    assert name in (await cluster.admin.call("GET", url))["components"]["schemas"]


async def test_a_change_of_a_node_a_quota_and_a_label_shows_without_restart(
    cluster: Cluster, tenant: Tenant
) -> None:
    await tenant.set_devices("7")
    await wait_for_units(tenant, 7)
    await tenant.set_budget(units="3")
    await wait_for_units(tenant, 3)
    await tenant.set_budget(units="3", devices="2")
    await wait_for_units(tenant, 2)
    await cluster.admin.delete("v1/ResourceQuota", "budget", tenant.namespace)
    await wait_for_units(tenant, 7)

    await cluster.admin.patch(
        CLASS,
        tenant.class_name,
        {"spec": {"entitlement": "Required"}},
    )
    await wait_for_units(tenant, 0)
    await cluster.admin.patch(
        "v1/Namespace",
        tenant.namespace,
        {"metadata": {"labels": {vocabulary.LABEL_ENTITLEMENT: vocabulary.ENTITLED}}},
    )
    await wait_for_units(tenant, 7)


@pytest.mark.parametrize(
    ("devices", "budget", "units"),
    [
        pytest.param("4", {"units": "1e20"}, 4, id="a budget beyond all bounds"),
        pytest.param("4", {"units": "1500m"}, 1, id="a fraction of a unit buys nothing"),
        pytest.param("0", {}, 0, id="a node without devices"),
        pytest.param("4", {"units": "0"}, 0, id="a budget of nothing"),
    ],
)
async def test_odd_figures_give_right_numbers(
    tenant: Tenant, devices: str, budget: dict[str, str], units: int
) -> None:
    await tenant.set_devices(devices)
    if budget:
        await tenant.set_budget(**budget)

    await wait_for_units(tenant, units)


@asynccontextmanager
async def lines_of(
    cluster: Cluster, user: User, namespace: str, *arguments: str, **environ: str
) -> AsyncIterator[asyncio.StreamReader]:
    """Kubectl while it runs, line by line."""
    with tempfile.TemporaryDirectory(prefix="kubectl-") as cache:
        process = await asyncio.create_subprocess_exec(
            cluster.controlplane,
            "kubectl",
            *arguments,
            env=kubectl_environ(cluster.access.kubeconfig(user, namespace), Path(cache)) | environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(90):
                yield process.stdout
        finally:
            process.terminate()
            await process.wait()


async def test_check_83_kubectl_watches_a_table(cluster: Cluster, tenant: Tenant) -> None:
    # Not by its name: then kubectl drops the first event of its watch, as what it just printed,
    # and a change before the watch began would be in that one.
    selector = f"--field-selector=metadata.name={tenant.class_name}"
    arguments = ("get", "gpuopt", selector, "-w", "--output-watch-events", "--no-headers")
    async with lines_of(cluster, tenant.user, tenant.namespace, *arguments) as lines:
        first = (await lines.readline()).decode().split()
        assert first[:2] == ["ADDED", tenant.class_name]

        await tenant.set_devices("2")

        event = (await lines.readline()).decode().split()
    assert (event[0], event[1], event[4], event[7]) == ("MODIFIED", tenant.class_name, "2", "2")


async def test_check_83_a_watch_of_the_namespace_tells_of_new_and_gone_classes(
    cluster: Cluster, tenant: Tenant, unique: Unique
) -> None:
    name, selector = unique("class"), f"--field-selector=metadata.namespace={tenant.namespace}"
    arguments = ("get", "gpuopt", "-w", "--no-headers", "--output-watch-events", selector)
    async with lines_of(cluster, tenant.user, tenant.namespace, *arguments) as lines:
        await lines.readline()  # the list has been written
        await cluster.admin.create(gpu_class(name, resourceName=f"example.org/{name}"))
        await until_line(lines, "ADDED", name)
        await cluster.admin.delete(CLASS, name)
        await until_line(lines, "DELETED", name)


async def until_line(lines: asyncio.StreamReader, event: str, name: str) -> None:
    """Read until kubectl tells of this."""
    while True:
        line = (await lines.readline()).decode()
        assert line, "kubectl ended"
        if line.split()[0] == event and line.split()[1] == name:
            return


@pytest.mark.parametrize("streaming", ["true", "false"])
async def test_check_90_and_91_clients_that_would_stream_a_list_fall_back(
    cluster: Cluster, tenant: Tenant, streaming: str
) -> None:
    arguments = (
        "wait",
        f"gpuopt/{tenant.class_name}",
        "--for=jsonpath={.status.orderableUnits}=1",
        "--timeout=60s",
    )
    gate = {"KUBE_FEATURE_WatchListClient": streaming}
    async with lines_of(cluster, tenant.user, tenant.namespace, *arguments, **gate) as lines:
        await tenant.set_devices("1")
        assert b"condition met" in await lines.readline()


async def test_a_class_that_is_deleted_while_it_is_listed_is_gone_and_nothing_else(
    cluster: Cluster, tenant: Tenant
) -> None:
    await cluster.admin.delete(CLASS, tenant.class_name)

    async def gone() -> bool:
        return await cluster.admin.find(OPTION, tenant.class_name, tenant.namespace) is None

    await wait_until(gone, "the option is gone")
    assert (await tenant.kubectl("get", "gpuopt")).code == 0


async def test_a_namespace_that_does_not_exist_has_no_options_and_one_that_is_no_tenant_has(
    cluster: Cluster, tenant: Tenant
) -> None:
    assert await cluster.admin.list(OPTION, "tenant-nowhere") == []
    names = {each["metadata"]["name"] for each in await cluster.admin.list(OPTION, "default")}
    assert tenant.class_name in names


async def test_namespaces_can_be_deleted_beside_us(
    cluster: Cluster, catalog: Catalog, unique: Unique
) -> None:
    """The namespace controller looks at every resource with the verb delete; ours has none."""
    assert catalog.component.port
    name = unique("short-lived")
    await cluster.create_namespace(name)
    await cluster.admin.delete("v1/Namespace", name)

    async def gone() -> bool:
        return await cluster.admin.find("v1/Namespace", name) is None

    await wait_until(gone, f"namespace {name} is gone")
