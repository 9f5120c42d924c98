"""A renewed authority and a renewed certificate: no call fails in between (rule 10)."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import vocabulary as words
from tests.admission.people import VMI
from tests.catalog.tenants import Tenant
from tests.cluster.api import Object
from tests.cluster.components import HOST
from tests.cluster.install import API_SERVICE, SERVICE_HOST, WEBHOOKS, Catalog
from tests.cluster.keys import Authority, Pair
from tests.cluster.waiting import wait_until

VM: Object = {
    "apiVersion": words.KUBEVIRT_GROUP_VERSION,
    "kind": words.KIND_VMI,
    "metadata": {
        "name": "renewed",
        "namespace": "tenant-acme",
        "annotations": {words.ANNOTATION_CLASSES: '[{"className":"a100","count":1}]'},
    },
    "spec": {"domain": {"devices": {}}},
}


async def trust(catalog: Catalog, authorities: bytes) -> None:
    """Let kube-apiserver trust us by these, for webhooks and the APIService alike."""
    admin, bundle = catalog.plane.cluster.admin, base64.b64encode(authorities).decode()
    for kind, names in WEBHOOKS.items():
        patch = [
            {"op": "replace", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index, _ in enumerate(names)
        ]
        await admin.patch(f"admissionregistration.k8s.io/v1/{kind}", words.GROUP, patch)
    service: Object = {"spec": {"caBundle": bundle}}
    await admin.patch("apiregistration.k8s.io/v1/APIService", API_SERVICE, service)


async def certificate(catalog: Catalog) -> str:
    """What the server shows now."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(HOST, catalog.component.port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return ssl.DER_cert_to_PEM_cert(shown)


@pytest.fixture
async def serving(enforced: Catalog) -> AsyncIterator[Pair]:
    """The files of our certificate; as they were again afterwards."""
    files = Pair.at(enforced.plane.at.keys, words.SERVICE_APISERVER)
    before = [path.read_bytes() for path in (files.certificate, files.key)]
    yield files
    for path, content in zip((files.certificate, files.key), before, strict=True):
        path.write_bytes(content)
    await trust(enforced, enforced.authority.read_bytes())
    await enforced.restart()
    await enforced.enforce()


@pytest.mark.parametrize("first", ["the key", "the certificate"])
async def test_while_authority_and_certificate_are_renewed_every_vm_is_judged(
    enforced: Catalog, acme: Tenant, serving: Pair, tmp_path: Path, first: str
) -> None:
    """Trouble A2: both authorities are trusted meanwhile, and no half of a pair is taken up."""
    clock = enforced.plane.cluster.access.clock
    old = enforced.authority.read_bytes()
    renewed = Authority.create(tmp_path, "renewed-ca", clock())
    pair = renewed.server(Pair.at(tmp_path, "renewed"), (SERVICE_HOST, "localhost", HOST), clock())
    path, over = await acme.api.path(VMI, acme.namespace), asyncio.Event()
    codes: list[tuple[int, str]] = []

    async def go_on_making_vms() -> None:
        while not over.is_set():
            reply = await acme.api.request("POST", path, VM, query={"dryRun": "All"})
            codes.append((reply.status, reply.text[:300] if reply.status != 201 else ""))

    async def let_in(more: int) -> None:
        count = len(codes) + more

        async def made() -> bool:
            return len(codes) >= count

        await wait_until(made, "more VMs were made")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(go_on_making_vms())
        try:
            await trust(enforced, old + renewed.files.certificate.read_bytes())
            await let_in(20)
            halves = [(serving.certificate, pair.certificate), (serving.key, pair.key)]
            for ours, new in reversed(halves) if first == "the key" else halves:
                ours.write_bytes(new.read_bytes())
                await let_in(20)
            shown = pair.certificate.read_text().strip()

            async def is_shown() -> bool:
                return (await certificate(enforced)).strip() == shown

            await wait_until(is_shown, "the new certificate is shown")
            await trust(enforced, renewed.files.certificate.read_bytes())
            await let_in(20)
        finally:
            over.set()
    assert {code for code, _ in codes} == {201}, [told for _, told in codes if told][:3]
    await wait_until(enforced.is_available, "the APIService is available")
