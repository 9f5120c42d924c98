"""Whatever an object holds, reading it ends well."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.kube import decode
from shared.kube.decode import Undecodable
from tests.unit.decoding.placed import GATED, MACHINE, SECRET, SYSTEM, VOLUME, VOLUME_CLAIM
from tests.unit.decoding.raws import (
    CLAIM,
    CLASS,
    KUBEVIRT,
    MIGRATION,
    NAMESPACE,
    NODE,
    POD,
    QUOTA,
    VM,
    VMI,
)
from tests.unit.scripted_api import Raw

ALL: list[tuple[Callable[[Raw, decode.Note], object], Raw]] = [
    (decode.node, NODE),
    (decode.pod, POD),
    (decode.claim, CLAIM),
    (decode.gpu_class, CLASS),
    (decode.quota, QUOTA),
    (decode.namespace, NAMESPACE),
    (decode.vmi, VMI),
    (decode.vm, VM),
    (decode.migration, MIGRATION),
    (decode.kubevirt, KUBEVIRT),
    (partial(decode.pod, placing=True), GATED),
    (partial(decode.claim, placing=True), CLAIM),
    (partial(decode.gpu_class, placing=True), CLASS),
    (partial(decode.vmi, placing=True), MACHINE),
    (decode.volume_claim, VOLUME_CLAIM),
    (decode.volume, VOLUME),
    (decode.secret, SECRET),
    (decode.system, SYSTEM),
]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


def put(value: Any, path: tuple[str | int, ...], new: object) -> Any:  # noqa: ANN401 - JSON
    """A copy of a JSON value with another in one place."""
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


@given(data=st.data())
def test_anything_anywhere_is_a_value_or_undecodable_and_nothing_else(data: st.DataObject) -> None:
    read, raw = data.draw(st.sampled_from(ALL))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(raw)[1:]))
        raw = put(raw, path, data.draw(JSON))
    told: list[str] = []
    try:
        read(raw, told.append)
    except Undecodable as error:
        told.append(str(error))
    assert all(isinstance(each, str) for each in told)
