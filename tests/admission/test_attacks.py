"""What a tenant with the role edit tries, or another webhook does after ours (rule 6.1.4)."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from shared import vocabulary as words
from tests.admission.people import VMI
from tests.catalog.objects import CLAIM
from tests.catalog.tenants import Tenant
from tests.cluster.api import Object, Refused
from tests.cluster.components import HOST
from tests.cluster.install import OUR_CA, Catalog
from tests.cluster.keys import Authority, Pair
from tests.cluster.waiting import wait_until

Unique = Callable[[str], str]

GPU = "nvidia.com/AD102GL_L40S"


def vmi(namespace: str, name: str, **annotations: str) -> Object:
    """A VM instance with these annotations of ours."""
    named = {f"{words.GROUP}/{key}": value for key, value in annotations.items()}
    return {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VMI,
        "metadata": {"name": name, "namespace": namespace, "annotations": named},
        "spec": {"domain": {"devices": {}}},
    }


@pytest.fixture
async def later(enforced: Catalog) -> AsyncIterator[list[Object]]:
    """A webhook that sorts after ours and does to VMs what the test puts into the list."""
    patch: list[Object] = []

    async def answer(request: web.Request) -> web.Response:
        uid = (await request.json())["request"]["uid"]
        response: Object = {"uid": uid, "allowed": True}
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    at = enforced.plane.at
    files = Pair.at(at.keys, "later-webhook")
    now = enforced.plane.cluster.access.clock()
    authority = Authority.ensure(at.keys, OUR_CA, now)
    authority.server(files, ("localhost", HOST), now)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.certificate, files.key)
    app = web.Application()
    app.add_routes([web.post("/", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    kind, name = "admissionregistration.k8s.io/v1", "virt-later"
    only = 'object.metadata.?labels["later"].hasValue()'
    await enforced.plane.cluster.admin.create(
        {
            "apiVersion": kind,
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": "later.example.com",
                    "clientConfig": {
                        "url": f"https://{HOST}:{port}/",
                        "caBundle": base64.b64encode(
                            authority.files.certificate.read_bytes()
                        ).decode(),
                    },
                    "rules": [
                        {
                            "apiGroups": [words.KUBEVIRT_GROUP],
                            "apiVersions": ["v1"],
                            "resources": ["virtualmachineinstances"],
                            "operations": ["CREATE"],
                        }
                    ],
                    "matchConditions": [{"name": "asked-for", "expression": only}],
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                }
            ],
        }
    )
    yield patch
    await enforced.plane.cluster.admin.delete(f"{kind}/MutatingWebhookConfiguration", name)
    await runner.cleanup()


LAST_LOOK = 'admission webhook "vmis.gpu.cozystack.io" denied the request:'
UNDONE = "the VM would start without its GPUs: the webhooks gpu.cozystack.io are not in force"
"""By a policy, which is asked before the last look, and knows both ways to that."""


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        pytest.param(
            {
                "op": "add",
                "path": "/spec/domain/devices/gpus/-",
                "value": {"name": "more", "deviceName": GPU},
            },
            f"{LAST_LOOK} spec.domain.devices.gpus: the list is not the 1 units that admission",
            id="one entry more",
        ),
        pytest.param(
            {"op": "remove", "path": "/spec/domain/devices/gpus"},
            UNDONE,
            id="no entries",
        ),
        pytest.param(
            {
                "op": "add",
                "path": "/spec/domain/devices/hostDevices",
                "value": [{"name": "more", "deviceName": GPU}],
            },
            f'{LAST_LOOK} spec.domain.devices.hostDevices[0]: the entry asks for the GPU "{GPU}"',
            id="a GPU as a host device",
        ),
        pytest.param(
            {"op": "add", "path": "/spec/domain/resources", "value": {"requests": {GPU: "9"}}},
            f'{LAST_LOOK} spec.domain.resources.requests[{GPU}]: this asks for the GPU "{GPU}"',
            id="another count",
        ),
        pytest.param(
            {"op": "remove", "path": "/metadata/annotations/gpu.cozystack.io~1attachments"},
            UNDONE,
            id="no record",
        ),
    ],
)
async def test_what_a_later_webhook_does_to_a_vm_with_gpus_is_seen_in_the_last_look(
    acme: Tenant, later: list[Object], operation: Object, told: str
) -> None:
    thing = vmi(acme.namespace, "changed", classes='[{"className":"a100","count":1}]')
    thing["metadata"]["labels"] = {"later": "yes"}
    path = await acme.api.path(VMI, acme.namespace)
    later.append(operation)
    seen: list[str] = []

    async def refused() -> bool:  # webhooks begin some moments after they are made
        reply = await acme.api.request("POST", path, thing, query={"dryRun": "All"})
        seen[:] = [str(reply.body.get("message", ""))]
        return reply.status >= 400

    await wait_until(refused, "the later webhook is called")
    assert told in seen[0]


async def test_a_claim_goes_to_the_first_of_two_vms(acme: Tenant, unique: Unique) -> None:
    first, second = unique("first"), unique("second")
    wanted = json.dumps(["train"])
    await acme.api.create(vmi(acme.namespace, first, claims=wanted))
    path = await acme.api.path(VMI, acme.namespace)
    told: list[str] = []

    async def refused() -> bool:  # once the first one has been seen
        body = vmi(acme.namespace, second, claims=wanted)
        reply = await acme.api.request("POST", path, body, query={"dryRun": "All"})
        told[:] = [str(reply.body.get("message", ""))]
        return reply.status == 403

    await wait_until(refused, "the second VM is refused")
    assert told[0].endswith(f"the claim train belongs to the VirtualMachineInstance {first}")
    await acme.api.delete(VMI, first, acme.namespace)


@pytest.mark.parametrize(
    ("classes", "code", "told"),
    [
        pytest.param(1024, 201, "", id="as many units as may be"),
        pytest.param(1025, 422, "a VM has at most 1024 units", id="one more"),
    ],
)
async def test_a_vm_has_at_most_1024_units(
    acme: Tenant, classes: int, code: int, told: str
) -> None:
    entry = json.dumps([{"className": "l40s", "count": classes}])
    path = await acme.api.path(VMI, acme.namespace)
    body = vmi(acme.namespace, "large", classes=entry)
    reply = await acme.api.request("POST", path, body, query={"dryRun": "All"})
    assert reply.status == code, reply.text[:300]
    assert told in reply.text


async def test_an_older_version_of_the_kind_is_no_way_around(acme: Tenant) -> None:
    body = vmi(acme.namespace, "old", classes="[]") | {"apiVersion": "kubevirt.io/v1alpha3"}
    path = (await acme.api.path(VMI, acme.namespace)).replace("/v1/", "/v1alpha3/")
    reply = await acme.api.request("POST", path, body, query={"dryRun": "All"})
    assert (reply.status, reply.body["reason"]) == (422, "Malformed")


@pytest.mark.parametrize(("entries", "code"), [(32, 201), (33, 422)])
async def test_a_vm_has_at_most_32_entries(acme: Tenant, entries: int, code: int) -> None:
    entry = json.dumps([{"className": "l40s", "count": 1}] * entries)
    path = await acme.api.path(VMI, acme.namespace)
    body = vmi(acme.namespace, "long", classes=entry)
    reply = await acme.api.request("POST", path, body, query={"dryRun": "All"})
    assert reply.status == code, reply.text[:300]


async def test_a_namespace_with_vms_and_claims_can_be_deleted(
    enforced: Catalog, unique: Unique
) -> None:
    cluster, name = enforced.plane.cluster, unique("tenant-ending")
    await cluster.create_namespace(name)
    await cluster.admin.create(vmi(name, "vm1", classes='[{"className":"a100","count":1}]'))
    with pytest.raises(Refused):  # no node has any: the webhooks are in force here
        await cluster.admin.create(
            {
                "apiVersion": words.GROUP_VERSION,
                "kind": words.KIND_CLAIM,
                "metadata": {"name": "order", "namespace": name},
                "spec": {"className": "a100", "count": 1},
            }
        )
    assert await cluster.admin.list(CLAIM, name) == []
    await cluster.admin.delete("v1/Namespace", name)

    async def is_gone() -> bool:
        return await cluster.admin.find("v1/Namespace", name) is None

    await wait_until(is_gone, f"{name} is gone")
