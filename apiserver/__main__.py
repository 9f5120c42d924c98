"""The process that answers: what it is made of, in which order it starts, and how it ends.

Everything real is made here: clocks, chance, sockets, signals. Nothing else reads them.
"""

from __future__ import annotations

import asyncio
import random
import resource
import secrets
import signal
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final, Self

import structlog
import uvloop
from pydantic import Field, model_validator

from admission.inputs import VIEW_AGE_MAX
from admission.reads import Known, KubernetesReader
from admission.routes import Figures, Webhooks
from apiserver.app import Services, make_app
from apiserver.authentication import Authenticator
from apiserver.authorization import Authorizer
from apiserver.catalog import Catalog, StateSource
from apiserver.entry import freshness
from apiserver.flow import Lifecycle, Stage, WatchLimit
from apiserver.listener import bind, listening
from apiserver.metrics import PREFIX, Metrics
from apiserver.options import Options
from apiserver.readings import OLD, lagging, refusals, unread
from apiserver.reviews import KubernetesReviews
from apiserver.serving import CertificateError, Tls
from apiserver.trust import TrustSource
from apiserver.versions import IDENTITIES, Versions
from shared.core.capacity import Capacity
from shared.core.cluster import ClusterState
from shared.core.model import Change
from shared.core.options import STOCK_INPUTS
from shared.errors import Unavailable
from shared.fields import Json, mapping, text
from shared.kube.collections import CLUSTER, config_map
from shared.kube.connect import Connection
from shared.kube.credentials import CredentialsError
from shared.kube.followed import FollowedSettings
from shared.kube.informer import Informer
from shared.kube.pace import paced
from shared.kube.reflector import Standing
from shared.kube.source import source
from shared.observability.health import PING, Check
from shared.observability.logs import configure
from shared.settings import BadSettings, ProcessSettings, read
from shared.vocabulary import RESOURCE_CLAIMS, RESOURCE_CLASSES, TRUST_NAME, TRUST_NAMESPACE

log = structlog.get_logger(__name__)

PROGRAM: Final = "gpu-apiserver"
DISTRIBUTION: Final = "cozystack-gpu"

STALE_SECONDS: Final = 60.0
"""Inputs that were not proven fresh for so long make every option say Fresh=False."""

OUR_KINDS: Final = frozenset({RESOURCE_CLASSES, RESOURCE_CLAIMS})
"""Collections without which there are no options. KubeVirt's may be missing (rule 4.1)."""

_FRESHNESS_SECONDS: Final = 2.0


class ApiServerSettings(ProcessSettings):
    """Flags of the API server, or variables such as GPU_SECURE_PORT."""

    bind_address: str = Field(
        default="::", description="address to listen on; :: is every one of both families"
    )
    secure_port: int = Field(default=8443, ge=1, le=65535, description="port to listen on (TLS)")
    tls_cert_file: Path = Field(description="serving certificate, PEM; read again when it changes")
    tls_private_key_file: Path = Field(description="key of the serving certificate, PEM")
    shutdown_delay: float = Field(
        default=20.0,
        ge=0,
        le=300,
        description="seconds to serve on after SIGTERM, until load balancers have noticed",
    )
    sync_delay: float = Field(
        default=60.0,
        ge=0,
        le=600,
        description="seconds for which the first reading of the cluster may delay readiness; "
        "after that the options alone answer 503",
    )
    """Rule 10: a missing right or kind may cost the options, but not discovery, and with it the
    deletion of every namespace."""
    view_seconds: float = Field(
        default=VIEW_AGE_MAX,
        ge=5,
        le=STALE_SECONDS,
        description="how old what is known of the cluster may be for an order to be judged on it; "
        "an older one refuses orders",
    )
    anonymous_auth: bool = Field(
        default=True, description="whether callers without credentials are authorized as nobody"
    )

    webhook_callers: str = Field(
        default="",
        description="names (CN) of the client certificates with which API servers call webhooks, "
        "separated by commas; empty, whoever reaches the port is answered",
    )

    @model_validator(mode="after")
    def _watches_prove_in_time(self) -> Self:
        """Rule 6.3: in a quiet cluster only the end of a watch proves what is known."""
        proof = paced(self.watch_seconds).proof
        if proof > self.view_seconds:
            raise ValueError(
                f"--watch-seconds: {self.watch_seconds}: a quiet cluster would be known as it was "
                f"up to {proof} seconds ago, and --view-seconds={self.view_seconds:g} would refuse "
                f"orders most of the time: --view-seconds has to be {proof} or more"
            )
        return self


class Process:
    """What the process is made of. Made, nothing runs yet; `jobs` is what has to."""

    def __init__(self, settings: ApiServerSettings, connection: Connection) -> None:
        self.lifecycle = Lifecycle()
        self.tls = Tls(settings.tls_cert_file, settings.tls_private_key_file)
        self._sync_until = time.monotonic() + settings.sync_delay
        self._synced = False
        self._has_started = False
        self._missing: list[str] = []
        self._refused: dict[str, str] = {}
        self._state = ClusterState()
        pace = paced(settings.watch_seconds)
        versions = Versions(_wall, identity=secrets.randbelow(IDENTITIES))
        self.catalog = Catalog(StateSource(self._state), versions, monotonic=time.monotonic)
        self._informer = Informer(
            connection,
            CLUSTER,
            self._apply,
            clock=time.monotonic,
            chance=random.SystemRandom(),
            pace=pace,
            on_standing=self._judge,
        )
        followed = FollowedSettings(self._apply)
        self._informer.follow(followed.collection, followed)
        # Apart from the informer: we can be believed before the cluster is known.
        self._trust = TrustSource(time.monotonic)
        self._trusted = Informer(
            connection,
            clock=time.monotonic,
            chance=random.SystemRandom(),
            pace=pace,
            on_standing=self._judge_trust,
        )
        self._trusted.follow(
            config_map(TRUST_NAMESPACE, TRUST_NAME), _TrustSink(self._trust, self.tls)
        )
        metrics = Metrics(
            monotonic=time.monotonic,
            certificate=self.tls,
            watchers=lambda: self.catalog.watchers,
            trust_problem=lambda: self._trust.problem,
            settings_problems=lambda: len(followed.problems),
            inputs=lambda: [*self._informer.reports(), *self._trusted.reports()],
            capacities=self._capacities,
        )
        known = Known(
            self._state,
            self._informer.ages,
            lambda: followed.in_force,
            settings.view_seconds,
            lambda: refusals(self._informer.reports()),
        )
        webhooks = Webhooks(
            KubernetesReader(connection, known),
            Figures(PREFIX, metrics.registry),
            monotonic=time.monotonic,
        )
        reviews = KubernetesReviews(connection)
        version = metadata.version(DISTRIBUTION)
        self.app = make_app(
            Services(
                lifecycle=self.lifecycle,
                trust=self._trust,
                authenticator=Authenticator(
                    self._trust,
                    reviews,
                    monotonic=time.monotonic,
                    wall=_wall,
                    token_key=secrets.token_bytes(32),
                    anonymous=settings.anonymous_auth,
                ),
                authorizer=Authorizer(reviews, monotonic=time.monotonic),
                options=Options(
                    self.catalog,
                    limit=WatchLimit(),
                    chance=random.SystemRandom(),
                    unavailable=self._unsynced,
                ),
                health={
                    "healthz": [PING],
                    "livez": [PING],
                    "readyz": [
                        PING,
                        Check("request-header-ca", self._untrusting),
                        Check("informer-sync", self._starting),
                        Check("shutdown", self._leaving),
                    ],
                },
                metrics=metrics,
                package_version=version,
                admission=webhooks.routes(),
                webhook_callers=_names(settings.webhook_callers),
            )
        )

    def jobs(self) -> dict[str, Coroutine[None, None, None]]:
        """What runs beside the server until it has ended, by name."""
        return {
            "trust": self._trusted.run(),
            "informer": self._informer.run(),
            "catalog": self.catalog.run(),
            "certificates": self.tls.run(),
            "freshness": self._watch_freshness(),
        }

    def _apply(self, change: Change) -> None:
        self.catalog.touch(self._state.apply(change))

    def _judge(self) -> None:
        self._synced = self._synced or self._informer.synced
        refused = refusals(self._informer.reports())
        if refused != self._refused:
            self._refused = refused
            if refused:
                log.error("rights are missing", verb_by_collection=refused)
        self._missing = sorted(
            report.name
            for report in self._informer.reports()
            if report.standing is Standing.ABSENT and report.name in OUR_KINDS
        )
        self.catalog.touch(self._state.set_unreadable(self._informer.unreadable))
        if why := self._unsynced():
            self.catalog.interrupt(Unavailable(why))
        else:
            self._has_started = True

    def _judge_trust(self) -> None:
        if self._trusted.unreadable:
            log.error(
                "may not read whom to trust, so nobody is",
                config_map=f"{TRUST_NAMESPACE}/{TRUST_NAME}",
                hint=f"bind our account in {TRUST_NAMESPACE} to the Role "
                "extension-apiserver-authentication-reader",
            )

    def _unsynced(self) -> str:
        """Why options cannot be served, empty when they can.

        Once all was read what goes out of date shows in the options. Kinds of ours that are
        not installed leave no option to show it in: an empty list would be a lie.
        """
        if self._missing:
            return f"kinds that are not installed here: {', '.join(self._missing)}"
        if self._synced:
            return ""
        return unread(self._informer.reports())

    def _capacities(self) -> dict[str, Capacity]:
        """The stock of every class; of none while it is not known."""
        if self._unsynced() or STOCK_INPUTS & self._state.unreadable:
            return {}
        return {name: self._state.capacity(name) for name in self._state.classes}

    def _starting(self) -> str:
        """Rule 10: only the first reading delays readiness, and not for ever."""
        if self._has_started or time.monotonic() >= self._sync_until:
            return ""
        return self._unsynced()

    def _untrusting(self) -> str:
        if self._trust.current.front_proxy is not None:
            return ""
        return f"{TRUST_NAMESPACE}/{TRUST_NAME}: {self._trust.problem}"

    def _leaving(self) -> str:
        return "asked to end" if self.lifecycle.stage >= Stage.LEAVING else ""

    async def _watch_freshness(self) -> None:
        """Say in every option whether what it was computed from is fresh."""
        before: list[str] = []
        while True:
            await asyncio.sleep(_FRESHNESS_SECONDS)
            stale = lagging(self._informer.reports(), STALE_SECONDS)
            if stale == before:
                continue
            log.warning(
                "figures may be old" if stale else "figures are fresh again", not_read=stale
            )
            if bool(stale) != bool(before):
                since = datetime.fromtimestamp(_wall(), UTC)
                self.catalog.set_fresh(freshness(OLD if stale else None, since))
            before = stale


class _TrustSink:
    """Takes in the ConfigMap that says whom to trust, and tells the TLS layer."""

    def __init__(self, trust: TrustSource, tls: Tls) -> None:
        self._trust = trust
        self._tls = tls

    def put(self, value: Json) -> None:
        self._update({key: text(told) for key, told in mapping(value.get("data")).items()})

    def gone(self, value: Json) -> None:
        del value
        self._update(None)

    def _update(self, data: dict[str, str] | None) -> None:
        if self._trust.update(data):
            self._tls.set_trust(self._trust.current)
        if self._trust.problem:
            log.error("whom to trust cannot be read", problem=self._trust.problem)


async def serve(settings: ApiServerSettings) -> None:
    """Run the process.

    Start: listen at once; 503 is the answer until it is known whom to trust. End, on SIGTERM:
    not ready any more; serve on for the delay; accept nothing new; watches end; what is in
    flight ends; last of all the readers of the cluster.
    """
    user_agent = f"{PROGRAM}/{metadata.version(DISTRIBUTION)}"
    async with (
        Connection(
            source(settings.kubeconfig, settings.context),
            clock=time.monotonic,
            user_agent=user_agent,
        ) as connection,
        asyncio.TaskGroup() as tasks,
    ):
        process = Process(settings, connection)
        sock = bind(settings.bind_address, settings.secure_port)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.lifecycle.leave)
        jobs = [tasks.create_task(job, name=name) for name, job in process.jobs().items()]
        async with listening(process.app, sock, process.tls.context):
            log.info("serving", address=settings.bind_address, port=settings.secure_port)
            await process.lifecycle.wait_until_leaving()
            log.info("ending", delay_seconds=settings.shutdown_delay)
            await asyncio.sleep(settings.shutdown_delay)
            process.catalog.end()
        for job in jobs:
            job.cancel()
    log.info("ended")


def main() -> None:
    """Read the settings, serve, and end as told."""
    try:
        settings = read(ApiServerSettings, sys.argv[1:])
        configure(settings.log_level, settings.log_format)
        _raise_file_limit()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except* (BadSettings, CertificateError, CredentialsError, OSError) as errors:
        sys.exit("\n".join(f"{PROGRAM}: {error}" for error in errors.exceptions))


def _names(listed: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, listed.split(","))))


def _wall() -> float:
    """POSIX seconds."""
    return time.time_ns() / 1e9


def _raise_file_limit() -> None:
    """Each watch is a socket: take as many descriptors as we may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
