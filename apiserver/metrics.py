"""Figures of the server, and the middleware that counts requests. Labels are few and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from typing_extensions import override

from apiserver.authorization import FREE_PATHS, INFO
from shared.core.capacity import Capacity
from shared.kube.reflector import Report
from shared.observability.reflectors import ReflectorFigures
from shared.observability.stock import class_units
from shared.vocabulary import RESOURCE_OPTIONS

log = structlog.get_logger(__name__)

PREFIX: Final = "gpu_apiserver"
"""Begin of the names of our figures."""

SLOW_SECONDS: Final = 1.0
"""An answer that took longer is logged."""

CLIENT_GONE: Final = 499
"""Code of a request whose client went away before the answer; nobody ever sees it."""

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_VERBS: Final = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Certificate(Protocol):
    """What is told of the serving certificate."""

    @property
    def expires(self) -> float:
        """Its end, POSIX seconds."""
        ...

    @property
    def failures(self) -> int:
        """How often its files could not be loaded."""
        ...


class _CertificateFigures(Collector):
    def __init__(self, certificate: Certificate) -> None:
        self._certificate = certificate

    @override
    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            f"{PREFIX}_certificate_expiration_timestamp_seconds",
            "When the serving certificate in use ends (notAfter), in seconds since 1970.",
            value=self._certificate.expires,
        )
        yield CounterMetricFamily(
            f"{PREFIX}_certificate_reload_failures",
            "How often the files of the serving certificate could not be loaded.",
            value=self._certificate.failures,
        )


class _ClassFigures(Collector):
    """Of all classes, whatever they disclose: the caller has the right to read our metrics."""

    def __init__(self) -> None:
        self.capacities: Mapping[str, Capacity] = {}

    @override
    def collect(self) -> Iterator[Metric]:
        yield class_units(PREFIX, self.capacities)


class Metrics:
    """The registry of this process, with what is counted here.

    Args:
        monotonic: seconds, to measure with.
        watchers: how many watches there are now.
        trust_problem: what is wrong with the request-header trust, empty where nothing is.
        settings_problems: how many settings are bad now.
        certificate: the serving certificate in use.
        inputs: how each collection that we follow stands.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        certificate: Certificate,
        watchers: Callable[[], int] = lambda: 0,
        trust_problem: Callable[[], str] = lambda: "",
        settings_problems: Callable[[], int] = lambda: 0,
        inputs: Callable[[], Iterable[Report]] = tuple,
        capacities: Callable[[], Mapping[str, Capacity]] = dict,
    ) -> None:
        self._monotonic = monotonic
        self._inputs = inputs
        self._capacities = capacities
        self._collections = ReflectorFigures(PREFIX)
        self._classes = _ClassFigures()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(self._collections)
        self.registry.register(_CertificateFigures(certificate))
        self.registry.register(self._classes)
        self._requests = Counter(
            f"{PREFIX}_requests",
            "Requests answered, by verb, resource (empty for other paths) and HTTP code.",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            f"{PREFIX}_request_duration_seconds",
            "How long answers took, watches excepted.",
            ["verb", "resource"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        Gauge(f"{PREFIX}_watchers", "Watches that are open.", registry=self.registry).set_function(
            watchers
        )
        Gauge(
            f"{PREFIX}_trust_problem",
            "1 while the ConfigMap that says whom to trust is missing or cannot be used.",
            registry=self.registry,
        ).set_function(lambda: bool(trust_problem()))
        Gauge(
            f"{PREFIX}_settings_problems",
            "Settings that are bad now, the last good value standing in; the log names them.",
            registry=self.registry,
        ).set_function(settings_problems)

    async def expose(self, _: web.Request) -> web.Response:
        """GET /metrics, in the text format of Prometheus."""
        self._collections.take(self._inputs())
        self._classes.capacities = self._capacities()
        body = await asyncio.to_thread(generate_latest, self.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def observed(self, request: web.Request, code: int, seconds: float) -> None:
        """Count one request; what failed here or was slow goes to the log, without headers."""
        info = request.get(INFO)
        resource = RESOURCE_OPTIONS if info and info.resource == RESOURCE_OPTIONS else ""
        known = info is not None and (info.verb in _VERBS)
        verb = info.verb if info is not None and known else "other"
        self._requests.labels(verb, resource, str(code)).inc()
        if verb != "watch":
            self._seconds.labels(verb, resource).observe(seconds)
        failed = code >= 500 and request.path not in FREE_PATHS  # those tell by themselves
        if failed or (seconds > SLOW_SECONDS and verb != "watch"):
            log.warning(
                "request failed" if failed else "request was slow",
                method=request.method,
                path=request.path,
                code=code,
                seconds=round(seconds, 3),
                audit_id=request.headers.get("Audit-Id", ""),
            )
        else:
            log.debug("request", method=request.method, path=request.path, code=code)

    def observing(self) -> Callable[..., Awaitable[web.StreamResponse]]:
        """The middleware, outermost: it sees what is really answered."""

        @web.middleware
        async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
            began = self._monotonic()
            code = CLIENT_GONE
            try:
                response = await handler(request)
                code = response.status
                return response
            finally:
                seconds = self._monotonic() - began
                # Once this turn of the loop is over: the answer does not wait to be counted.
                asyncio.get_running_loop().call_soon(self.observed, request, code, seconds)

        return observe
