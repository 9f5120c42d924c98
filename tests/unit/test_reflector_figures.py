"""What Prometheus is told of the collections that are followed."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from shared.kube.reflector import Report, Standing
from shared.observability.reflectors import ReflectorFigures

REPORTS = [
    Report("pods", Standing.SYNCED, 1.5, 3, 1, 4, {("a", "b"): "odd"}, ""),
    Report("kubevirts", Standing.ABSENT, 2.0, 0, 9, 0, {}, "not served"),
    Report("nodes", Standing.UNREADABLE, float("inf"), 0, 2, 0, {}, "forbidden"),
]


def test_each_collection_is_told_and_the_age_of_one_never_read_is_infinite() -> None:
    figures, registry = ReflectorFigures("gpu_test"), CollectorRegistry()
    registry.register(figures)
    figures.take(REPORTS)
    got = [line for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]
    assert got == [
        'gpu_test_collection_age_seconds{collection="pods"} 1.5',
        'gpu_test_collection_age_seconds{collection="kubevirts"} 2.0',
        'gpu_test_collection_age_seconds{collection="nodes"} +Inf',
        'gpu_test_collection_synced{collection="pods"} 1.0',
        'gpu_test_collection_synced{collection="kubevirts"} 1.0',
        'gpu_test_collection_synced{collection="nodes"} 0.0',
        'gpu_test_collection_objects{collection="pods"} 3.0',
        'gpu_test_collection_objects{collection="kubevirts"} 0.0',
        'gpu_test_collection_objects{collection="nodes"} 0.0',
        'gpu_test_collection_problems{collection="pods"} 1.0',
        'gpu_test_collection_problems{collection="kubevirts"} 0.0',
        'gpu_test_collection_problems{collection="nodes"} 0.0',
        'gpu_test_collection_lists_total{collection="pods"} 1.0',
        'gpu_test_collection_lists_total{collection="kubevirts"} 9.0',
        'gpu_test_collection_lists_total{collection="nodes"} 2.0',
        'gpu_test_collection_watches_total{collection="pods"} 4.0',
        'gpu_test_collection_watches_total{collection="kubevirts"} 0.0',
        'gpu_test_collection_watches_total{collection="nodes"} 0.0',
    ]
