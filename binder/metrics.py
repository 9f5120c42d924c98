"""Figures of the binder, for Prometheus: taken when asked for, with few and bounded labels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from typing_extensions import override

from shared.core.capacity import Capacity
from shared.kube.reflector import Report
from shared.observability.reflectors import ReflectorFigures
from shared.observability.stock import class_units

PREFIX: Final = "gpu_binder"
"""Begin of the names of our figures."""

OUTCOMES: Final = ("Done", "Stale", "Refused", "Missing", "Unknown", "Withheld")
"""Every outcome of a write; works end with one of them too."""

VERBS: Final = ("create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Told:
    """What the process tells of itself at one moment.

    Attributes:
        leads: whether it holds the Lease.
        in_term: whether it leads and its term has begun: it decides, and books.
        terms: how many terms of office it began.
        epoch: of the last of them, 0 before the first.
        passes: how many passes it ran.
        seconds: how long they took together, writing included as far as they waited for it.
        deciding_seconds: how long deciding took of that.
        since_pass: seconds since the last one ended; infinite before.
        held: works that rest after a failure.
        under_way: works that were begun and are not over.
        oldest: for how many seconds the oldest of them is under way; 0 where there is none.
        works: how many works ended with each outcome.
        writes: how many writes of each verb had each outcome.
        capacities: the stock of each class that discloses it.
        waiting: how many claims wait, by reason.
        unknown_keys: budget keys that name no GPU.
        starts_refused: VMs whose start the API server refused when it was last asked.
    """

    leads: bool
    in_term: bool
    terms: int
    epoch: int
    passes: int
    seconds: float
    deciding_seconds: float
    since_pass: float
    held: int
    works: Mapping[str, int]
    writes: Mapping[tuple[str, str], int]
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    under_way: int = 0
    oldest: float = 0.0
    unknown_keys: int = 0
    starts_refused: int = 0


class _Figures(Collector):
    def __init__(self) -> None:
        self.told: Told | None = None

    @override
    def collect(self) -> Iterator[Metric]:
        told = self.told
        if told is None:
            return
        yield _gauge("leader", "1 while this replica leads.", told.leads)
        yield _gauge(
            "in_term", "1 while it leads and its term has begun: it decides.", told.in_term
        )
        yield _counter("terms", "Terms of office that this replica began.", told.terms)
        yield _gauge("epoch", "Number of the last term that this replica began.", told.epoch)
        yield _counter(
            "passes", "Passes: decisions about everything, and their writes.", told.passes
        )
        yield _counter("pass_seconds", "How long passes took together.", told.seconds)
        yield _counter("deciding_seconds", "How long deciding took of that.", told.deciding_seconds)
        yield _gauge(
            "seconds_since_pass", "Seconds since the last pass ended; +Inf before.", told.since_pass
        )
        yield _gauge("works_held", "Sets and the like that rest after a failure.", told.held)
        yield _gauge("works_under_way", "Sets and the like whose writes go on.", told.under_way)
        yield _gauge(
            "oldest_work_seconds", "For how long the oldest of them is written.", told.oldest
        )
        works = CounterMetricFamily(
            f"{PREFIX}_works", "Works by what ended them.", labels=["outcome"]
        )
        for outcome in OUTCOMES:
            works.add_metric([outcome], told.works.get(outcome, 0))
        yield works
        writes = CounterMetricFamily(
            f"{PREFIX}_writes", "Writes, by verb and outcome.", labels=["verb", "outcome"]
        )
        for verb in VERBS:
            for outcome in OUTCOMES:
                writes.add_metric([verb, outcome], told.writes.get((verb, outcome), 0))
        yield writes
        yield class_units(PREFIX, told.capacities)
        waiting = GaugeMetricFamily(
            f"{PREFIX}_claims_waiting", "Claims that wait, by reason.", labels=["reason"]
        )
        for reason, count in sorted(told.waiting.items()):
            waiting.add_metric([reason], count)
        yield waiting
        yield _gauge(
            "unknown_budget_keys",
            "Keys of ResourceQuotas that are meant for GPUs and name none.",
            told.unknown_keys,
        )
        yield _gauge(
            "starts_refused",
            "VMs whose start the API server refused when it was last asked.",
            told.starts_refused,
        )


class Metrics:
    """The registry of this process.

    Args:
        told: what to tell now; called on the loop, at each scrape.
        inputs: how each collection that we follow stands.
    """

    def __init__(
        self, told: Callable[[], Told], inputs: Callable[[], Iterable[Report]] = tuple
    ) -> None:
        self._told = told
        self._inputs = inputs
        self._figures = _Figures()
        self._collections = ReflectorFigures(PREFIX)
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(self._collections)
        self.registry.register(self._figures)

    async def expose(self, _: web.Request) -> web.Response:
        """GET /metrics, in the text format of Prometheus."""
        self._collections.take(self._inputs())
        self._figures.told = self._told()
        body = await asyncio.to_thread(generate_latest, self.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", told, value=float(value))


def _counter(name: str, told: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}_{name}", told, value=float(value))
