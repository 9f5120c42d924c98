"""docs/metrics.md and the registry of the server name the same figures."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from aiohttp.test_utils import make_mocked_request

from admission.routes import Figures
from apiserver.metrics import PREFIX, Metrics
from binder.metrics import Metrics as BinderMetrics
from binder.metrics import Told
from shared.core.capacity import Capacity
from shared.kube.reflector import Report, Standing

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
NEVER = Report("pods", Standing.STARTING, float("inf"), 0, 0, 0, {}, "")


@dataclass
class Certificate:
    """As of 2027-01-01, after three failures."""

    expires: float = 1798761600.0
    failures: int = 3


def metrics() -> Metrics:
    made = Metrics(
        monotonic=lambda: 0.0,
        certificate=Certificate(),
        settings_problems=lambda: 2,
        inputs=lambda: [NEVER],
        capacities=lambda: {"a100": Capacity(9, 2, 1, 3, 4, 1, 2)},
    )
    Figures(PREFIX, made.registry)
    return made


async def exposed() -> str:
    answer = await metrics().expose(make_mocked_request("GET", "/metrics"))
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def quiet() -> Told:
    """A binder that stands by."""
    return Told(
        in_term=True,
        leads=False,
        terms=0,
        epoch=0,
        passes=0,
        seconds=0.0,
        deciding_seconds=0.0,
        since_pass=float("inf"),
        held=0,
        works={},
        writes={},
    )


async def exposed_by_binder() -> str:
    request = make_mocked_request("GET", "/metrics")
    answer = await BinderMetrics(quiet, lambda: [NEVER]).expose(request)
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def test_what_a_binder_that_stands_by_would_count_is_told_as_none() -> None:
    lines = asyncio.run(exposed_by_binder()).splitlines()

    assert "gpu_binder_leader 0.0" in lines
    assert "gpu_binder_seconds_since_pass +Inf" in lines
    assert 'gpu_binder_writes_total{outcome="Unknown",verb="patch"} 0.0' in lines
    assert 'gpu_binder_works_total{outcome="Done"} 0.0' in lines


def test_every_figure_is_in_the_document_and_the_other_way_round() -> None:
    text = asyncio.run(exposed()) + asyncio.run(exposed_by_binder())
    served = {
        name
        for name in re.findall(r"(?m)^# TYPE (gpu_\w+) ", text)
        if not name.endswith("_created")  # when a counter began: the client library's own
    }
    told = set(re.findall(r"gpu_\w+", DOCUMENT.read_text()))
    rows = set(re.findall(r"(?m)^\| `(gpu_\w+)` \|", DOCUMENT.read_text()))

    assert served
    assert told == rows == served


def test_a_collection_never_listed_is_told_all_the_same() -> None:
    lines = asyncio.run(exposed()).splitlines()

    assert 'gpu_apiserver_collection_synced{collection="pods"} 0.0' in lines
    assert 'gpu_apiserver_collection_age_seconds{collection="pods"} +Inf' in lines


def test_the_units_of_a_class_are_told_by_state() -> None:
    """By hand: 9 = 2 + 1 + 3 + 4 - 1."""
    lines = asyncio.run(exposed()).splitlines()
    begin = 'gpu_apiserver_class_units{class="a100",state='

    assert {line.removeprefix(begin) for line in lines if line.startswith(begin)} == {
        '"total"} 9.0',
        '"bound"} 2.0',
        '"outside"} 1.0',
        '"unavailable"} 3.0',
        '"free"} 4.0',
        '"overbooked"} 1.0',
        '"largestSet"} 2.0',
    }


def test_bad_settings_are_counted() -> None:
    """Rule 9."""
    assert "gpu_apiserver_settings_problems 2.0" in asyncio.run(exposed()).splitlines()


def test_the_end_of_the_certificate_and_failed_loadings_are_told() -> None:
    lines = asyncio.run(exposed()).splitlines()

    assert "gpu_apiserver_certificate_expiration_timestamp_seconds 1.7987616e+09" in lines
    assert "gpu_apiserver_certificate_reload_failures_total 3.0" in lines
