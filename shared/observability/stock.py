"""The stock of classes as one figure for Prometheus, the same for every process that tells it."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.core import GaugeMetricFamily

from shared.core.capacity import Capacity, figures


def class_units(prefix: str, capacities: Mapping[str, Capacity]) -> GaugeMetricFamily:
    """Units by class and by what they are; `prefix` is the begin of the process's names."""
    units = GaugeMetricFamily(
        f"{prefix}_class_units", "Units of a class, by state.", labels=["class", "state"]
    )
    for name, capacity in sorted(capacities.items()):
        for state, count in figures(capacity).items():
            units.add_metric([name, state], count)
    return units
