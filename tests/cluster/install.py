"""Our own manifests and processes on a control plane, as a user would install them.

Only two things differ from a real cluster: the component `manifests/components/dev` sends the
Service to this machine and asks for no pods, and the APIService gets the port and the authority of
the process that runs here. Both are kustomizations written into the run's folder.
"""

from __future__ import annotations

import base64
import json
import os
import random
import ssl
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from shared import vocabulary
from tests.cluster.access import GPU_APISERVER
from tests.cluster.api import Object, Refused
from tests.cluster.build import REPOSITORY
from tests.cluster.components import HOST
from tests.cluster.keys import Authority, Pair
from tests.cluster.plane import Component, ControlPlane
from tests.cluster.session import Output
from tests.cluster.waiting import wait_until

MANIFESTS = REPOSITORY / "manifests"
SERVICE_HOST = f"{vocabulary.SERVICE_APISERVER}.{vocabulary.NAMESPACE}.svc"
"""The name that the aggregation layer asks our server for."""

API_SERVICE = f"{vocabulary.VERSION}.{vocabulary.CATALOG_GROUP}"
API_SERVICE_KIND = "apiregistration.k8s.io/v1/APIService"
OUR_CA = "gpu-ca"
WEBHOOKS = {
    "MutatingWebhookConfiguration": ("vmis.gpu.cozystack.io", "pods.gpu.cozystack.io"),
    "ValidatingWebhookConfiguration": (
        "vmis.gpu.cozystack.io",
        "gpuclaims.gpu.cozystack.io",
        "gpuclasses.gpu.cozystack.io",
    ),
}
"""The webhooks of our configurations, each of which needs the port and the authority."""


class Catalog:
    """Our API server: a real process as its least privileged user, registered by the manifests.

    `flags` are added to its command line.
    """

    def __init__(self, plane: ControlPlane, flags: Sequence[str] = ()) -> None:
        self.plane = plane
        at = plane.at
        clock = plane.cluster.access.clock
        authority = Authority.ensure(at.keys, OUR_CA, clock())
        serving = Pair.at(at.keys, vocabulary.SERVICE_APISERVER)
        if not serving.certificate.exists():
            authority.server(serving, (SERVICE_HOST, "localhost", HOST), clock())
        self.authority = authority.files.certificate
        self.component = Component(
            vocabulary.SERVICE_APISERVER,
            at.logs / f"{vocabulary.SERVICE_APISERVER}.log",
            1,
            lambda port: [
                *gpu_apiserver(plane.cluster.access.kubeconfig(GPU_APISERVER), serving, port),
                *flags,
            ],
            lambda port: f"https://{HOST}:{port}/readyz",
            ssl.create_default_context(cafile=self.authority),
            random.Random(),
        )

    async def install(self) -> None:
        """Apply the manifests, start the process, register it and wait until it is Available."""
        await self.apply_base()
        await self.component.start()
        await self.apply_service()
        await self.wait_until_available()

    async def apply_base(self) -> None:
        """Step one of an installation: kinds, rights, settings."""
        await self._apply(MANIFESTS / "crds")
        base = self._kustomization("base", resources=["base"], components=["components/dev"])
        await self._apply(base)

    async def apply_service(self) -> None:
        """Step two: the APIService, once the process answers."""
        patch = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API_SERVICE},
            "spec": {
                "caBundle": base64.b64encode(self.authority.read_bytes()).decode(),
                "service": {"port": self.component.port},
            },
        }
        await self._apply(
            self._kustomization("apiservice", resources=["apiservice"], patches=[patch])
        )

    async def apply_webhooks(self) -> None:
        """Step three: admission, once the process answers; it begins some moments later."""
        folder = self._kustomization("webhooks", ["webhooks"], patches=self._addresses())
        await self._apply(folder)

    def _addresses(self) -> list[Object]:
        """Patches that give each webhook the port and the authority of the process."""
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        client = {"caBundle": authority, "service": {"port": self.component.port}}
        return [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": vocabulary.GROUP},
                "webhooks": [{"name": name, "clientConfig": client} for name in names],
            }
            for kind, names in WEBHOOKS.items()
        ]

    async def apply_policies(self, components: Sequence[str | Path] = ()) -> None:
        """Step three as well: what was admitted stays as it was, some moments later.

        From then on nobody writes the status of a claim while there is no GPUSystem.

        Args:
            components: names of ours, or folders of others.
        """
        found = [Path("components") / each for each in components]
        await self._apply(self._kustomization("policies", ["policies"], found))

    async def enforce(self, components: Sequence[str | Path] = ()) -> None:
        """Apply webhooks, and policies with components; wait until each webhook is called."""
        await self.apply_webhooks()
        await self.apply_policies(components)
        probes = [_probe(name) for name in ("vmi", "pod", "claim", "class")]

        async def judged() -> bool:
            answers = [await self._refusal(probe) for probe in probes]
            return all("gpu.cozystack.io" in answer for answer in answers)

        await wait_until(judged, "the webhooks are called")

    async def _refusal(self, probe: Object) -> str:
        """Why a dry run is refused; empty where it is not."""
        try:
            await self.plane.cluster.admin.create(probe, dryRun="All")
        except Refused as refused:
            return refused.message
        return ""

    async def wait_until_available(self) -> None:
        """Wait until kube-apiserver reaches our server, and names it to whoever asks."""
        await wait_until(self.is_available, f"APIService {API_SERVICE} is Available")
        await wait_until(self.is_discovered, f"discovery names {vocabulary.CATALOG_GROUP}")

    async def is_available(self) -> bool:
        """What kube-apiserver says in the APIService's condition."""
        service = await self.plane.cluster.admin.find(API_SERVICE_KIND, API_SERVICE)
        conditions = (service or {}).get("status", {}).get("conditions", ())
        return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)

    async def have_it_looked_at(self) -> None:
        """Have kube-apiserver look at once whether it reaches us; else it does twice a minute."""
        admin = self.plane.cluster.admin
        service = await admin.get(API_SERVICE_KIND, API_SERVICE)
        changed = {"example.com/looked-at": service["metadata"]["resourceVersion"]}
        change = {"metadata": {"annotations": changed}}
        await admin.patch(API_SERVICE_KIND, API_SERVICE, change)

    async def is_discovered(self) -> bool:
        """Whether discovery holds what our server serves: it follows a moment later."""
        discovery = await self.plane.cluster.admin.discovery("/apis")
        return any(
            group["metadata"]["name"] == vocabulary.CATALOG_GROUP and version["resources"]
            for group in discovery["items"]
            for version in group["versions"]
            if version["freshness"] == "Current"
        )

    async def stop(self) -> None:
        """Stop the process; it stays registered."""
        await self.component.stop()

    async def restart(self) -> None:
        """Stop the process and start it again, with the code as it is now."""
        await self.stop()
        await self.component.start()
        await self.wait_until_available()

    async def _apply(self, folder: Path) -> Output:
        output = await self.plane.cluster.kubectl("apply", "-k", str(folder))
        assert output.checked
        return output

    def _kustomization(
        self,
        name: str,
        resources: Sequence[str],
        components: Sequence[str | Path] = (),
        patches: Sequence[Object] = (),
    ) -> Path:
        """Write one that takes folders, of the manifests or any; kustomize wants them relative."""
        folder = self.plane.at.folder / "manifests" / name
        folder.mkdir(parents=True, exist_ok=True)
        above = os.path.relpath(MANIFESTS, folder)
        content = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{above}/{resource}" for resource in resources],
            "components": [os.path.relpath(MANIFESTS / each, folder) for each in components],
            "patches": [{"patch": json.dumps(patch)} for patch in patches],
        }
        (folder / "kustomization.yaml").write_text(json.dumps(content, indent=2))
        return folder


def _probe(kind: str) -> Object:
    """An object that the webhook of its kind refuses, whatever there is in the cluster."""
    metadata: Object = {"name": "probe", "namespace": "default"}
    marked = {"annotations": {vocabulary.ANNOTATION_LAUNCHER: "probe"}}
    match kind:
        case "vmi":
            return {
                "apiVersion": vocabulary.KUBEVIRT_GROUP_VERSION,
                "kind": vocabulary.KIND_VMI,
                "metadata": metadata | marked,
                "spec": {},
            }
        case "pod":
            return {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata | marked,
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            }
        case "claim":
            return {
                "apiVersion": vocabulary.GROUP_VERSION,
                "kind": vocabulary.KIND_CLAIM,
                "metadata": metadata,
                "spec": {"className": "there-is-no-such-class"},
            }
        case _:
            return {
                "apiVersion": vocabulary.GROUP_VERSION,
                "kind": vocabulary.KIND_CLASS,
                "metadata": {"name": "probe"},
                "spec": {"vendor": "none", "mode": "Passthrough", "resourceName": _OF_KUBERNETES},
            }


_OF_KUBERNETES = "requests.example.com/device"
"""Has the form of a device's resource, and is one of Kubernetes' own."""


def gpu_apiserver(kubeconfig: Path, serving: Pair, port: int) -> list[str | Path]:
    """The command line of our API server."""
    return [
        Path(sysconfig.get_path("scripts")) / "gpu-apiserver",
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        "--shutdown-delay=0",  # there is no load balancer that must notice first
    ]
