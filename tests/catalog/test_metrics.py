"""Who reads the stock of a class that keeps it to itself (rule 3.1)."""

from __future__ import annotations

from dataclasses import replace

from tests.admission.counting import Reviews, token_of
from tests.catalog.objects import CLASS, Gpus
from tests.catalog.tenants import Tenant
from tests.cluster.install import Catalog
from tests.cluster.waiting import wait_until


async def test_only_who_may_get_the_metrics_reads_the_stock_of_a_hidden_class(
    healthy: Catalog, gpus: Gpus, tenant: Tenant
) -> None:
    admin = healthy.plane.cluster.admin
    await admin.patch(CLASS, gpus.name, {"spec": {"disclosure": "Hidden"}})
    platform = await Reviews.of(healthy)

    async def told() -> bool:
        _, text = await platform.figures()
        return f'gpu_apiserver_class_units{{class="{gpus.name}",state="free"}} 8.0' in text

    await wait_until(told, "the platform reads the stock")

    pod = replace(platform, token=await token_of(admin, "default", tenant.namespace))
    status, text = await pod.figures()
    assert status == 403
    assert gpus.name not in text
