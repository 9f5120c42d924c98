"""Reviews: what is sent to the cluster, and what is made of its answer."""

from __future__ import annotations

import orjson
import pytest

from apiserver.authorization import Attributes, Decision
from apiserver.identity import User
from apiserver.requestinfo import RequestInfo
from apiserver.reviews import KubernetesReviews
from shared.errors import Forbidden, InternalError

ASKED = Attributes(User("alice"), RequestInfo("get", "/version"))


class Cluster:
    """Answers every request the same, and remembers it."""

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self.sent: list[tuple[str, str, object, float]] = []

    async def request(
        self, method: str, path: str, *, body: object = None, timeout_seconds: float = 30.0
    ) -> bytes:
        self.sent.append((method, path, body, timeout_seconds))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer if isinstance(self._answer, bytes) else orjson.dumps(self._answer)


async def test_a_token_is_reviewed_by_the_cluster() -> None:
    user = {"username": "robot", "uid": "7", "groups": ["robots"]}
    cluster = Cluster({"status": {"authenticated": True, "user": user}})

    assert await KubernetesReviews(cluster).review_token("abc") == User("robot", "7", ("robots",))
    assert cluster.sent == [
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": "abc"},
            },
            10.0,
        )
    ]


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "error": "expired"},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": "true", "user": {"username": "x"}},
        {"authenticated": False, "user": {"username": "x"}},
    ],
)
async def test_a_token_that_is_not_vouched_for_is_nobodys(status: dict[str, object]) -> None:
    assert await KubernetesReviews(Cluster({"status": status})).review_token("abc") is None


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"allowed": True, "reason": "RBAC"}, Decision(True, "RBAC")),
        ({"allowed": False}, Decision(False)),
        ({"allowed": False, "denied": True, "reason": "no"}, Decision(False, "no")),
        ({"allowed": True, "denied": True}, Decision(False)),
        ({"allowed": "yes"}, Decision(False)),
        ({}, Decision(False)),
    ],
)
async def test_only_a_clear_yes_allows(status: dict[str, object], wanted: Decision) -> None:
    assert await KubernetesReviews(Cluster({"status": status})).review_access(ASKED) == wanted


@pytest.mark.parametrize("answer", [b"nonsense", b"[]", b"{}", {"status": None}])
async def test_an_answer_that_is_none_is_our_error(answer: object) -> None:
    reviews = KubernetesReviews(Cluster(answer))

    with pytest.raises(InternalError):
        await reviews.review_access(ASKED)
    with pytest.raises(InternalError):
        await reviews.review_token("abc")


async def test_what_the_cluster_refuses_us_is_passed_on_to_who_asked() -> None:
    with pytest.raises(Forbidden):
        await KubernetesReviews(Cluster(Forbidden("not you"))).review_access(ASKED)
