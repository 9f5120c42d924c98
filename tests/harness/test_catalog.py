"""Our server on the run's control plane, and what happens while it is away."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path

from shared import vocabulary
from tests.cluster.install import API_SERVICE, Catalog
from tests.cluster.session import Cluster, Output
from tests.cluster.waiting import wait_until


async def groups(cluster: Cluster) -> set[str]:
    """The groups that discovery names, ours and everybody's."""
    found = await cluster.admin.call("GET", "/apis")
    return {group["name"] for group in found["groups"]}


async def test_without_our_server_all_else_works_the_error_names_us_and_all_recovers(
    cluster: Cluster, catalog: Catalog, namespace: str, tmp_path: Path
) -> None:
    def options() -> Awaitable[Output]:
        """As a user who has asked before: that kubectl knows where options were served."""
        arguments = ("get", vocabulary.RESOURCE_OPTIONS)
        return cluster.kubectl(*arguments, namespace=namespace, cache=tmp_path)

    assert (await options()).code == 0
    served = await groups(cluster)
    assert {vocabulary.CATALOG_GROUP, "apps", "batch"} <= served
    await catalog.stop()
    try:
        failed = await options()
        assert failed.code == 1
        assert failed.stderr == (
            "Error from server (ServiceUnavailable): the server is currently unable to handle the"
            " request (get gpuclassoptions.catalog.gpu.cozystack.io)\n"
        )

        assert (await cluster.kubectl("get", "namespaces", "-o", "name")).checked
        settings = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": namespace},
        }
        applied = await cluster.kubectl("apply", "-f", "-", stdin=json.dumps(settings))
        assert applied.checked == "configmap/settings created\n"
        assert served - {vocabulary.CATALOG_GROUP} <= await groups(cluster)
        resources = await cluster.kubectl("api-resources", "--api-group=apps", "-o", "name")
        assert "deployments.apps" in resources.stdout

        async def known_to_be_away() -> bool:
            return not await catalog.is_available()

        await catalog.have_it_looked_at()
        await wait_until(known_to_be_away, f"{API_SERVICE} is no longer Available")
    finally:
        await catalog.component.start()

    async def served_again() -> bool:
        return (await options()).code == 0

    await wait_until(served_again, "options are served again")
    await catalog.wait_until_available()
