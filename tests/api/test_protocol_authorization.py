"""C. What may be done: checks 34 to 40 of the contract."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.authorization import Attributes, Authorizer, Decision
from apiserver.identity import User
from apiserver.requestinfo import RequestInfo
from apiserver.reviews import access_spec
from shared.errors import ApiError, Forbidden, InternalError, Unavailable
from tests.api.served import ALL, BASE, GROUP, Served, options_of

A, B = options_of("tenant-a"), options_of("tenant-b")


async def test_check_34_the_masters_are_not_asked_about(served: Served) -> None:
    admin = await served.admin()

    assert (await admin(ALL)).status == 200
    assert (await admin("/metrics")).status == 200
    assert served.rights.asked == []


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_check_35_health_is_free_for_everybody(served: Served, path: str) -> None:
    answer = await (await served.caller())(path)

    assert (answer.status, answer.text) == (200, "ok")
    assert served.rights.asked == []


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/readyz/ping",
        "/livez/ping",
        "/metrics",
        "/version",
        "/api",
        "/apis",
        GROUP,
        BASE,
        "/openapi/v2",
        "/openapi/v3",
        f"/openapi/v3{BASE}",
    ],
)
async def test_check_35_other_paths_are_asked_about_as_paths(served: Served, path: str) -> None:
    nobody = await served.caller()

    answer = await nobody(path)

    assert answer.status == 403
    assert answer.json["message"] == (
        f'forbidden: User "system:anonymous" cannot get path "{path}"'
    )
    (asked,) = served.rights.asked
    assert access_spec(asked)["nonResourceAttributes"] == {"path": path, "verb": "get"}

    served.rights.paths.add(("alice", path))
    assert (await (await served.aggregator("alice"))(path)).status == 200


@pytest.mark.parametrize(
    ("method", "target", "wanted"),
    [
        ("GET", A, {"verb": "list", "namespace": "tenant-a"}),
        ("HEAD", A, {"verb": "list", "namespace": "tenant-a"}),
        ("GET", ALL, {"verb": "list"}),
        ("GET", f"{A}/a100", {"verb": "get", "namespace": "tenant-a", "name": "a100"}),
        ("GET", f"{A}?watch=1", {"verb": "watch", "namespace": "tenant-a"}),
        ("POST", A, {"verb": "create", "namespace": "tenant-a"}),
        ("PUT", f"{A}/a100", {"verb": "update", "namespace": "tenant-a", "name": "a100"}),
        ("PATCH", f"{A}/a100", {"verb": "patch", "namespace": "tenant-a", "name": "a100"}),
        ("DELETE", f"{A}/a100", {"verb": "delete", "namespace": "tenant-a", "name": "a100"}),
        ("DELETE", A, {"verb": "deletecollection", "namespace": "tenant-a"}),
        (
            "GET",
            f"{A}/a100/status",
            {"verb": "get", "namespace": "tenant-a", "name": "a100", "subresource": "status"},
        ),
        (
            "GET",
            f"{A}?fieldSelector=metadata.name%3Da100&labelSelector=tier+in+(big),!x,n%3E1",
            {
                "verb": "list",
                "namespace": "tenant-a",
                "name": "a100",
                "fieldSelector": {
                    "requirements": [{"key": "metadata.name", "operator": "In", "values": ["a100"]}]
                },
                "labelSelector": {
                    "requirements": [
                        {"key": "tier", "operator": "In", "values": ["big"]},
                        {"key": "x", "operator": "DoesNotExist"},
                    ]
                },
            },
        ),
    ],
)
async def test_check_36_and_39_the_question_is_what_the_request_is_about(
    served: Served, method: str, target: str, wanted: dict[str, object]
) -> None:
    answer = await (await served.aggregator("alice", "devs"))(target, method=method)

    assert answer.status == 403
    (asked,) = served.rights.asked
    assert access_spec(asked) == {
        "user": "alice",
        "groups": ["devs", "system:authenticated"],
        "resourceAttributes": {
            "group": "catalog.gpu.cozystack.io",
            "version": "v1alpha1",
            "resource": "gpuclassoptions",
        }
        | wanted,
    }


def test_check_39_uid_and_extras_are_told_too() -> None:
    user = User("alice", uid="42", extra=(("scopes", ("one", "two")),))

    spec = access_spec(Attributes(user, RequestInfo("get", "/version")))

    assert spec == {
        "user": "alice",
        "uid": "42",
        "extra": {"scopes": ["one", "two"]},
        "nonResourceAttributes": {"path": "/version", "verb": "get"},
    }


@pytest.mark.parametrize(
    ("method", "target", "message"),
    [
        (
            "GET",
            A,
            (
                'gpuclassoptions.catalog.gpu.cozystack.io is forbidden: User "alice" cannot list '
                'resource "gpuclassoptions" in API group "catalog.gpu.cozystack.io" in the '
                'namespace "tenant-a"'
            ),
        ),
        (
            "GET",
            ALL,
            (
                'gpuclassoptions.catalog.gpu.cozystack.io is forbidden: User "alice" cannot list '
                'resource "gpuclassoptions" in API group "catalog.gpu.cozystack.io" at the cluster '
                "scope"
            ),
        ),
        (
            "GET",
            f"{A}/a100",
            (
                'gpuclassoptions.catalog.gpu.cozystack.io "a100" is forbidden: User "alice" cannot '
                'get resource "gpuclassoptions" in API group "catalog.gpu.cozystack.io" in the '
                'namespace "tenant-a"'
            ),
        ),
        (
            "GET",
            f"{A}/a100/scale",
            (
                'gpuclassoptions.catalog.gpu.cozystack.io "a100" is forbidden: User "alice" cannot '
                'get resource "gpuclassoptions/scale" in API group "catalog.gpu.cozystack.io" in '
                'the namespace "tenant-a"'
            ),
        ),
    ],
)
async def test_check_37_a_refusal_is_worded_as_kubernetes_words_it(
    served: Served, method: str, target: str, message: str
) -> None:
    answer = await (await served.aggregator("alice"))(target, method=method)

    assert answer.status == 403
    assert answer.json["reason"] == "Forbidden"
    assert answer.json["message"] == message
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_check_37_a_refusal_does_not_tell_what_exists(served: Served) -> None:
    alice = await served.aggregator("alice")

    there, not_there = await alice(f"{A}/a100"), await alice(f"{A}/a999")

    assert there.text.replace("a100", "a999") == not_there.text


async def test_check_37_a_name_that_a_browser_could_run_is_escaped(served: Served) -> None:
    answer = await (await served.aggregator("<b>&"))(A)

    assert 'User "&lt;b&gt;&amp;" cannot list' in answer.json["message"]


async def test_check_37_where_nobody_can_tell_it_is_our_error_and_not_a_refusal(
    served: Served,
) -> None:
    served.rights.failing = True

    answer = await (await served.aggregator("alice"))(A)

    assert (answer.status, answer.json["reason"]) == (500, "InternalError")
    assert "the cluster does not answer" not in answer.text


async def test_check_40_a_right_in_one_namespace_is_none_in_another_nor_in_all(
    served: Served,
) -> None:
    served.rights.grants |= {("alice", "list", "tenant-a"), ("alice", "watch", "tenant-a")}
    alice = await served.aggregator("alice")

    assert (await alice(A)).status == 200
    for target in (B, ALL, f"{B}?watch=1", f"{ALL}?watch=1", f"{A}/a100"):
        assert (await alice(target)).status == 403, target


async def test_a_refused_method_is_refused_before_it_is_known_to_be_wrong(served: Served) -> None:
    alice = await served.aggregator("alice")

    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await alice(f"{A}/a100", method=method)).status == 403
    assert (await alice(f"{A}/a100/nonsense")).status == 403
    assert (await alice(A, Accept="text/html")).status == 403
    assert (await alice("/nonsense")).status == 403


class Now:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Answers:
    """What the cluster says now, and how often it was asked."""

    def __init__(self) -> None:
        self.allowed = True
        self.times = 0
        self.error: ApiError | None = None

    async def review_access(self, attributes: Attributes) -> Decision:
        del attributes
        self.times += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return Decision(self.allowed, "RBAC: no")


ASKED = Attributes(User("alice"), RequestInfo("list", A, resource="gpuclassoptions"))


async def test_check_38_an_answer_counts_ten_seconds_whatever_it_is() -> None:
    now, answers = Now(), Answers()
    authorizer = Authorizer(answers, monotonic=now)

    await authorizer.authorize(ASKED)
    answers.allowed = False
    now.seconds = 9.9
    await authorizer.authorize(ASKED)
    now.seconds = 10.1
    with pytest.raises(Forbidden, match="RBAC: no"):
        await authorizer.authorize(ASKED)
    answers.allowed = True
    now.seconds = 20
    with pytest.raises(Forbidden):
        await authorizer.authorize(ASKED)
    now.seconds = 20.2
    await authorizer.authorize(ASKED)
    assert answers.times == 3


async def test_an_answer_that_could_not_be_had_is_asked_for_again() -> None:
    answers = Answers()
    authorizer = Authorizer(answers, monotonic=Now())
    answers.error = Unavailable("down")
    with pytest.raises(InternalError):
        await authorizer.authorize(ASKED)

    answers.error = None
    await authorizer.authorize(ASKED)


async def test_a_question_of_excessive_length_is_asked_each_time() -> None:
    answers = Answers()
    authorizer = Authorizer(answers, monotonic=Now())
    long = Attributes(User("alice", groups=("g" * 10_001,)), ASKED.info)

    await authorizer.authorize(long)
    await authorizer.authorize(long)

    assert answers.times == 2


async def test_different_users_and_requests_are_different_questions() -> None:
    answers = Answers()
    authorizer = Authorizer(answers, monotonic=Now())
    for user in (User("alice"), User("bob"), User("alice", groups=("devs",))):
        for verb in ("list", "watch"):
            info = RequestInfo(verb, A, resource="gpuclassoptions")
            await authorizer.authorize(Attributes(user, info))

    assert answers.times == 6
