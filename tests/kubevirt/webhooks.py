"""Admission webhooks that run in the test's own process, and their registration."""

from __future__ import annotations

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from aiohttp import web

from tests.cluster.access import Access
from tests.cluster.api import Object, Refused
from tests.cluster.components import HOST
from tests.cluster.keys import Authority, Pair
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import finalizers_of, name_of
from tests.kubevirt.virt_api import Decide, VirtApi

REVIEW_BYTES_MAX: Final = 16 * 1024**2
_GROUP: Final = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server of webhooks is reached, and what it is trusted by."""

    url: str
    authority: bytes

    def webhook(
        self,
        name: str,
        path: str,
        rule: Object,
        *,
        namespace: str | None = None,
        fields: Object | None = None,
    ) -> Object:
        """One entry of a webhook configuration.

        Args:
            name: of the webhook.
            path: which decision is asked.
            rule: what it is asked about.
            namespace: the only one that it is asked about.
            fields: others of the entry, such as `objectSelector` or `failurePolicy`.
        """
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            "rules": [rule],
            "clientConfig": {
                "url": f"{self.url}/{path}",
                "caBundle": base64.b64encode(self.authority).decode(),
            },
            **({"namespaceSelector": _only(namespace)} if namespace else {}),
            **(fields or {}),
        }


@contextlib.asynccontextmanager
async def serving(cluster: Cluster, decisions: Mapping[str, Decide]) -> AsyncIterator[Endpoint]:
    """Serve decisions, each under its name as the path, on this machine only.

    Args:
        cluster: its folder of credentials keeps the certificate.
        decisions: by path, without a slash.
    """
    context, authority = _tls(cluster.access)
    app = web.Application(client_max_size=REVIEW_BYTES_MAX)
    for path, decide in decisions.items():
        app.router.add_post(f"/{path}", _answering(decide))
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, ssl_context=context).start()
        yield Endpoint(f"https://{HOST}:{runner.addresses[0][1]}", authority)
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def registered(
    cluster: Cluster,
    configurations: Sequence[Object],
    probe: Callable[[], Awaitable[bool]],
) -> AsyncIterator[None]:
    """Have the API server ask webhooks for as long as the block runs.

    Args:
        cluster: of the API server.
        configurations: Mutating- and ValidatingWebhookConfigurations.
        probe: tells, by a dry run, whether they are asked by now; it takes a moment.
    """
    kinds = [f"{each['apiVersion']}/{each['kind']}" for each in configurations]
    try:
        for each in configurations:
            await cluster.admin.apply(each, manager="kubevirt")
        await wait_until(probe, "the webhooks are asked")
        yield
    finally:
        for kind, each in zip(kinds, configurations, strict=True):
            with contextlib.suppress(Refused):
                await cluster.admin.delete(kind, name_of(each))


def configuration(kind: str, name: str, webhooks: Sequence[Object]) -> Object:
    """A configuration of webhooks; `kind` is Mutating or Validating."""
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def rule(group: str, resource: str, *operations: str) -> Object:
    """What a webhook is asked about: operations on a resource in its version v1."""
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": [resource],
        "operations": list(operations),
        "scope": "Namespaced",
    }


@contextlib.asynccontextmanager
async def virt_api(
    cluster: Cluster,
    kubevirt_namespace: str,
    serves: str | None = None,
    *,
    host_devices: bool = True,
) -> AsyncIterator[None]:
    """KubeVirt's webhooks for as long as the block runs, under the names that they really have.

    Mutating webhooks are asked in the order of their configurations' names: one that sorts before
    `virt-api-mutator` sees instances as users wrote them.

    Args:
        cluster: of the machines.
        kubevirt_namespace: whose accounts may do what others may not.
        serves: the only namespace whose objects they are asked about; its name is then part of
            the configurations'.
        host_devices: whether the gate HostDevices is on.
    """
    api = VirtApi(kubevirt_namespace, host_devices)
    decisions = {
        "virtualmachineinstances-mutate": api.mutate_instance,
        "virtualmachineinstances-validate": api.validate_instance,
        "virtualmachines-validate": api.validate_machine,
    }
    tail = f"-{serves}" if serves else ""
    async with serving(cluster, decisions) as at:
        both = ("CREATE", "UPDATE")
        instances = rule(w.GROUP, "virtualmachineinstances", *both)
        machines = rule(w.GROUP, "virtualmachines", *both)
        configurations = [
            configuration(
                "Mutating",
                f"virt-api-mutator{tail}",
                [
                    at.webhook(
                        "virtualmachineinstances-mutator.kubevirt.io",
                        "virtualmachineinstances-mutate",
                        instances,
                        namespace=serves,
                    )
                ],
            ),
            configuration(
                "Validating",
                f"virt-api-validator{tail}",
                [
                    at.webhook(
                        "virtualmachineinstances-validator.kubevirt.io",
                        "virtualmachineinstances-validate",
                        instances,
                        namespace=serves,
                    ),
                    at.webhook(
                        "virtualmachine-validator.kubevirt.io",
                        "virtualmachines-validate",
                        machines,
                        namespace=serves,
                    ),
                ],
            ),
        ]

        async def asked() -> bool:
            """Both are: a probe gets its finalizer, and one without a device is refused."""
            probe: Object = {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachineInstance",
                "metadata": {"generateName": "probe-", "namespace": serves or kubevirt_namespace},
                "spec": {"domain": {"devices": {}}},
            }
            created = await cluster.admin.create(probe, dryRun="All")
            wrong = {**probe, "spec": {"domain": {"devices": {"gpus": [{"name": "gpu"}]}}}}
            try:
                await cluster.admin.create(wrong, dryRun="All")
            except Refused:
                return w.FINALIZER_VMI in finalizers_of(created)
            return False

        async with registered(cluster, configurations, asked):
            yield


def _answering(decide: Decide) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())
        made = {**decide(review["request"]), "uid": review["request"]["uid"]}
        if "patch" in made:
            made["patch"] = base64.b64encode(orjson.dumps(made["patch"])).decode()
            made["patchType"] = "JSONPatch"
        answered = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": made,
        }
        return web.Response(body=orjson.dumps(answered), content_type="application/json")

    return answer


def _tls(access: Access) -> tuple[ssl.SSLContext, bytes]:
    """A certificate of our own for this machine, and what it is trusted by."""
    authority = Authority.ensure(access.folder, "webhooks-ca", access.clock())
    files = Pair.at(access.folder, "webhooks")
    if not files.certificate.exists():
        authority.server(files, (HOST, "localhost"), access.clock())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context, authority.files.certificate.read_bytes()


def _only(namespace: str) -> Object:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
