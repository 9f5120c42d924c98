"""Figures of the collections that a process follows, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from shared.kube.reflector import Report, Standing


class ReflectorFigures(Collector):
    """What each collection's report says, as of the last `take`.

    A scrape may run in a thread of its own, and reports belong to the loop: take them there,
    right before.

    Args:
        prefix: of all names, such as `gpu_apiserver`.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._reports: tuple[Report, ...] = ()

    def take(self, reports: Iterable[Report]) -> None:
        """Remember what to tell."""
        self._reports = tuple(reports)

    @override
    def collect(self) -> Iterator[Metric]:
        reports = self._reports
        yield self._gauge(
            "age_seconds",
            "Seconds since a collection was last proven to be that of the API server; +Inf before.",
            _each(reports, lambda report: report.age),
        )
        yield self._gauge(
            "synced",
            "1 where a collection is known, be it as absent; 0 where it is not or may not be read.",
            _each(reports, lambda report: report.standing in {Standing.SYNCED, Standing.ABSENT}),
        )
        yield self._gauge(
            "objects", "Objects of a collection.", _each(reports, lambda report: report.objects)
        )
        yield self._gauge(
            "problems",
            "Objects that could not be read, or not wholly; the log names them.",
            _each(reports, lambda report: len(report.problems)),
        )
        yield self._counter(
            "lists", "Lists asked for.", _each(reports, lambda report: report.lists)
        )
        yield self._counter(
            "watches", "Watches opened.", _each(reports, lambda report: report.watches)
        )

    def _gauge(self, name: str, told: str, values: Sequence[tuple[str, float]]) -> Metric:
        made = GaugeMetricFamily(f"{self._prefix}_collection_{name}", told, labels=["collection"])
        for collection, value in values:
            made.add_metric([collection], value)
        return made

    def _counter(self, name: str, told: str, values: Sequence[tuple[str, float]]) -> Metric:
        made = CounterMetricFamily(f"{self._prefix}_collection_{name}", told, labels=["collection"])
        for collection, value in values:
            made.add_metric([collection], value)
        return made


def _each(reports: Iterable[Report], value: Callable[[Report], float]) -> list[tuple[str, float]]:
    return [(report.name, float(value(report))) for report in reports]
