"""What it costs to make a value of an object's bytes, against parsing alone in the same run."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import median

import orjson

from shared.core.model import Object
from shared.kube.collections import CLUSTER, PLACING, Collection
from tests.bench.raw import COLLECTIONS, Renderer
from tests.bench.results import Row
from tests.bench.size import Size
from tests.bench.world import make

SIZE = Size(nodes=500, pods=6000, claims=1500, tenants=200, quotas=400, classes=50)
ROUNDS = 5


def measure(runs: int) -> list[Row]:
    """For each kind: parsing, decoding on top, and both as a multiple of parsing."""
    world = make(SIZE)
    render = Renderer(world)
    by_kind: dict[type, list[bytes]] = {}
    for value in chain(world.objects(), world.placing_only()):
        by_kind.setdefault(type(value), []).append(render(value))
    rows: list[Row] = []
    figures = ((each, "") for each in CLUSTER)
    known = {each.decode for each in CLUSTER}
    placing = ((each, " for placing") for each in PLACING if each.decode not in known)
    for collection, reader in chain(figures, placing):
        lines = by_kind[COLLECTIONS[collection.name]]
        pairs = [_run(collection, lines) for _ in range(runs)]
        what = f"{collection.name}{reader}, {sum(map(len, lines)) // len(lines)} bytes"
        rows += [
            Row(f"{what}: parse", tuple(parse for parse, _ in pairs), "us"),
            Row(f"{what}: decode", tuple(both - parse for parse, both in pairs), "us"),
            Row(f"{what}: parse and decode, to parse", tuple(b / p for p, b in pairs)),
        ]
    return rows


def _run(collection: Collection[Object], lines: Sequence[bytes]) -> tuple[float, float]:
    """Microseconds per object: parsed, and parsed and decoded. Rounds alternate."""

    def both(line: bytes) -> object:
        return collection.decode(orjson.loads(line), _note)

    gc.collect()
    gc.disable()  # nothing here makes cycles; a collection in between would count for one side
    try:
        parses, boths = [], []
        for _ in range(ROUNDS):
            parses.append(_each(orjson.loads, lines))
            boths.append(_each(both, lines))
        return median(parses), median(boths)
    finally:
        gc.enable()


def _each(work: Callable[[bytes], object], lines: Sequence[bytes]) -> float:
    began = time.perf_counter()
    for line in lines:
        work(line)
    return (time.perf_counter() - began) / len(lines) * 1e6


def _note(problem: str) -> None:
    raise AssertionError(problem)
