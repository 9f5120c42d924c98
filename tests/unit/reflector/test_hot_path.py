"""For each object: raw JSON to a value of ours, and nothing that makes models (check 122)."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType

from shared.kube import decode
from shared.kube.collections import Collection
from tests.unit.reflector.following import Seen, follow, pod
from tests.unit.scripted_api import Answer, Listed, Watched, event

MODELS = ("pydantic", "kubernetes_asyncio", "dateutil", "yaml", "copy.py")
"""Libraries that make objects out of objects; a hundred thousand pods have no time for that."""


def test_no_object_is_made_a_model_on_its_way_from_the_wire_to_the_state() -> None:
    many = tuple(pod(f"p{number}", number) for number in range(1, 201))
    changes = tuple(event("MODIFIED", pod(f"p{n}", 300 + n, phase="Failed")) for n in range(1, 101))
    script: list[Answer] = [Listed("300", many), Watched(changes)]
    files: Counter[str] = Counter()

    def profile(frame: FrameType, what: str, _: object) -> None:
        if what == "call":
            files[frame.f_code.co_filename] += 1

    sys.setprofile(profile)
    try:
        got = follow(script, seconds=10, collection=Collection("pods", "/p", decode.pod))
    finally:
        sys.setprofile(None)
    assert isinstance(got.seen, Seen)
    assert len(got.seen.steps) == 300
    assert {name for name in files if any(model in name for model in MODELS)} == set()
    assert sum(calls for name, calls in files.items() if name.endswith("kube/decode.py")) > 300
