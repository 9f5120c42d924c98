"""The small pure parts of the door to Kubernetes: lines, paths, times."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import BadRequest
from shared.kube.lines import Lines, LineTooLong
from shared.kube.pace import BRISK, backoff, paced
from shared.kube.paths import collection, item


@given(
    lines=st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line and line.strip())),
    cuts=st.lists(st.integers(0, 200)),
)
def test_lines_come_out_whole_however_the_stream_was_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    at, got = Lines(), []
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in pairwise(places):
        got += at.feed(stream[start:end])
    assert got == lines
    assert not at.is_within_line


def test_a_stream_that_ends_inside_a_line_is_known_to() -> None:
    at = Lines()
    assert at.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert at.is_within_line
    assert at.feed(b":2}\n") == [b'{"b":2}']
    assert not at.is_within_line


def test_empty_lines_are_none() -> None:
    assert Lines().feed(b"\n\r\n  \na\n") == [b"a"]


def test_a_line_of_ten_megabytes_is_read() -> None:
    at, line = Lines(), b"x" * 10_000_000
    got: list[bytes] = []
    for start in range(0, len(line), 65536):
        got += at.feed(line[start : start + 65536])
    assert got + at.feed(b"\n") == [line]


def test_a_line_without_an_end_is_given_up() -> None:
    at = Lines(bytes_max=1000)
    at.feed(b"x" * 1000)
    with pytest.raises(LineTooLong, match="more than 1000 bytes"):
        at.feed(b"x")


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (collection("v1", "pods"), "/api/v1/pods"),
        (collection("v1", "pods", "tenant-a"), "/api/v1/namespaces/tenant-a/pods"),
        (
            collection("gpu.cozystack.io/v1alpha1", "gpuclaims"),
            "/apis/gpu.cozystack.io/v1alpha1/gpuclaims",
        ),
        (item("v1", "nodes", "gpu-1"), "/api/v1/nodes/gpu-1"),
        (
            item("gpu.cozystack.io/v1alpha1", "gpuclaims", "c1", "tenant-a", "status"),
            "/apis/gpu.cozystack.io/v1alpha1/namespaces/tenant-a/gpuclaims/c1/status",
        ),
        (
            item("rbac.authorization.k8s.io/v1", "clusterroles", "system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        ),
        (item("v1", "secrets", "a?b#c d", "x"), "/api/v1/namespaces/x/secrets/a%3Fb%23c%20d"),
    ],
)
def test_paths_are_those_of_the_api(got: str, want: str) -> None:
    assert got == want


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "%2e%2e", "a%2Fb", "\ud800", "x" * 254]
)
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="cannot be the name of an object"):
        item("v1", "secrets", name, "tenant-a")


@given(failures=st.integers(1, 10_000), chance=st.floats(0, 1))
def test_a_back_off_lies_between_0_8_and_30_seconds(failures: int, chance: float) -> None:
    assert 0.8 <= backoff(failures, chance) <= 30


@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 1.6), (2, 3.2), (3, 6.4), (4, 12.8), (5, 25.6), (6, 30), (99, 30)]
)
def test_a_back_off_doubles_and_is_spread(failures: int, longest: float) -> None:
    assert backoff(failures, 0) == pytest.approx(0.8)
    assert backoff(failures, 1) == pytest.approx(longest)


def test_brisk_watches_prove_freshness_within_ten_seconds() -> None:
    """Rule 6.3: an order is judged on figures that are at most ten seconds old."""
    assert paced(6) == BRISK
    assert (BRISK.watch, BRISK.stall) == ((6, 8), 12)
    assert BRISK.proof == 10


def test_slower_watches_prove_it_later_and_give_a_silent_connection_up_later() -> None:
    pace = paced(30)
    assert (pace.watch, pace.stall, pace.proof) == ((30, 40), 60, 42)
    assert paced(3).watch == (3, 4)
