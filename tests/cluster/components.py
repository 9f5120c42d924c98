"""The command line of each component: what it is told, as pure functions of where things are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shared import vocabulary
from tests.cluster.access import GPU_BINDER
from tests.cluster.build import Binaries
from tests.cluster.keys import Pair

HOST = "127.0.0.1"
FRONT_PROXY = "front-proxy-client"
"""Common name of the certificate that the aggregation layer shows to our API server."""

CLIENT_QPS, CLIENT_BURST = 1000, 2000
"""The defaults (50 a second) would hide what a benchmark measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a control plane may do differently; the defaults suit all tests at once."""

    audit: bool = False
    """Write every request for pods, namespaces, and for kinds of ours, of KubeVirt and of Cozystack
    to `log/audit.log`, before it is answered."""

    identified: bool = False
    """Have kube-apiserver show webhooks who it is: the certificate of the aggregation layer."""

    node_lease_seconds: int = 200
    """kwok renews a node's lease four times in this time. Long, so that 5,000 nodes are cheap."""

    node_grace_seconds: int = 200
    """A node whose lease was not renewed for so long is lost."""

    kwok_selector: str | None = None
    """Label selector of the nodes that kwok keeps alive; None means all. A node can be lost only
    by dropping the label, since kwok never stops renewing by itself."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a control plane keeps its things, all in one folder."""

    folder: Path

    @property
    def keys(self) -> Path:
        """Authorities and server certificates."""
        return self.folder / "keys"

    @property
    def users(self) -> Path:
        """Client certificates and kubeconfigs."""
        return self.folder / "users"

    @property
    def logs(self) -> Path:
        """A file for each process."""
        return self.folder / "log"

    @property
    def data(self) -> Path:
        """The store of etcd."""
        return self.folder / "data"

    @property
    def audit_policy(self) -> Path:
        """What is written to the audit log."""
        return self.folder / "audit-policy.json"

    @property
    def admission(self) -> Path:
        """How kube-apiserver calls webhooks, where it shows who it is."""
        return self.folder / "admission.json"

    @property
    def webhook_user(self) -> Path:
        """A kubeconfig with what it shows."""
        return self.folder / "webhook-user.json"

    @property
    def audit_log(self) -> Path:
        """One event as JSON per line."""
        return self.logs / "audit.log"

    @property
    def serving(self) -> Pair:
        """What kube-apiserver, controller-manager and scheduler show."""
        return Pair.at(self.keys, "serving")

    @property
    def front_proxy(self) -> Pair:
        """What the aggregation layer shows; tests that play it use the same."""
        return Pair.at(self.keys, FRONT_PROXY)

    @property
    def service_accounts(self) -> Path:
        """The key of service account tokens."""
        return self.keys / "service-accounts.key"

    def authority(self, name: str) -> Path:
        """The certificate of an authority."""
        return Pair.at(self.keys, name).certificate


BY_HAND = {"kwok.x-k8s.io/status": "custom"}
"""Annotation of a pod or node that kwok leaves alone: a test plays the kubelet for it."""

SERVING_CA = "serving-ca"
CLIENT_CA = "client-ca"
FRONT_PROXY_CA = "front-proxy-ca"


def etcd(binaries: Binaries, at: Layout, client: int, peer: int) -> list[str | Path]:
    """The store. What it holds is thrown away, so it need not reach the disk."""
    peers = f"http://{HOST}:{peer}"
    clients = f"http://{HOST}:{client}"
    return [
        binaries.controlplane,
        "etcd",
        f"--data-dir={at.data}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(
    binaries: Binaries, at: Layout, options: Options, etcd_client: int, port: int
) -> list[str | Path]:
    """The API server, with the aggregation layer."""
    audit = [
        f"--audit-policy-file={at.audit_policy}",
        f"--audit-log-path={at.audit_log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=4096",  # one file, however long it gets
    ]
    return [
        binaries.controlplane,
        "kube-apiserver",
        f"--etcd-servers=http://{HOST}:{etcd_client}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={at.keys}",
        f"--tls-cert-file={at.serving.certificate}",
        f"--tls-private-key-file={at.serving.key}",
        f"--client-ca-file={at.authority(CLIENT_CA)}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={at.service_accounts}",
        f"--service-account-signing-key-file={at.service_accounts}",
        # Aggregation. Never --enable-aggregator-routing: it would look for endpoints instead of
        # following the Service's external name to a process on this machine.
        f"--proxy-client-cert-file={at.front_proxy.certificate}",
        f"--proxy-client-key-file={at.front_proxy.key}",
        f"--requestheader-client-ca-file={at.authority(FRONT_PROXY_CA)}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        *(audit if options.audit else ()),
        *([f"--admission-control-config-file={at.admission}"] if options.identified else ()),
    ]


def kube_controller_manager(
    binaries: Binaries, at: Layout, options: Options, kubeconfig: Path, port: int
) -> list[str | Path]:
    """Garbage collection, namespaces, quotas, service accounts, node life: all real."""
    return [
        binaries.controlplane,
        "kube-controller-manager",
        *_client(at, kubeconfig, port),
        f"--service-account-private-key-file={at.service_accounts}",
        f"--root-ca-file={at.authority(SERVING_CA)}",
        "--use-service-account-credentials=true",
        f"--node-monitor-grace-period={options.node_grace_seconds}s",
    ]


def kube_scheduler(binaries: Binaries, at: Layout, kubeconfig: Path, port: int) -> list[str | Path]:
    """The default scheduler with its default profile."""
    return [binaries.controlplane, "kube-scheduler", *_client(at, kubeconfig, port)]


def _client(at: Layout, kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_BURST}",
        "--leader-elect=false",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={at.serving.certificate}",
        f"--tls-private-key-file={at.serving.key}",
    ]


def kwok(
    binaries: Binaries, options: Options, stages: Path, kubeconfig: Path, port: int
) -> list[str | Path]:
    """The kubelets of nodes that do not exist; without stages it would do nothing."""
    chosen = (
        f"--manage-nodes-with-label-selector={options.kwok_selector}"
        if options.kwok_selector
        else "--manage-all-nodes=true"
    )
    return [
        binaries.kwok,
        f"--kubeconfig={kubeconfig}",
        f"--server-address={HOST}:{port}",
        f"--node-lease-duration-seconds={options.node_lease_seconds}",
        "--cidr=10.64.0.0/16",
        "--disregard-status-with-annotation-selector="
        + ",".join(f"{key}={value}" for key, value in BY_HAND.items()),
        chosen,
        *(f"--config={path}" for path in sorted(stages.glob("*.yaml"))),
    ]


def admission(at: Layout) -> dict[str, object]:
    """Both sorts of webhooks are shown the same."""
    version = "apiserver.config.k8s.io/v1"
    webhooks = {
        "apiVersion": version,
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(at.webhook_user),
    }
    names = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    return {
        "apiVersion": version,
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": name, "configuration": webhooks} for name in names],
    }


def webhook_user(at: Layout) -> dict[str, object]:
    """Whatever webhook is called; a service on port 443 could be named as `name.namespace.svc`."""
    files = {
        "client-certificate": str(at.front_proxy.certificate),
        "client-key": str(at.front_proxy.key),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": "*", "user": files}],
    }


def audit_policy() -> dict[str, object]:
    """Whole requests and answers for what we judge by, and all that the binder asks for."""
    judged: list[dict[str, object]] = [
        {"group": "", "resources": ["pods", "pods/*"]},
        {"group": vocabulary.GROUP},
        {"group": vocabulary.CATALOG_GROUP},
        {"group": "kubevirt.io"},
        {"group": "apps.cozystack.io"},
        {"group": "", "resources": ["namespaces"]},
    ]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "RequestResponse", "resources": judged},
            {"level": "Metadata", "users": [GPU_BINDER.name]},
            {"level": "None"},
        ],
    }
