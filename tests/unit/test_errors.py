"""The tree of errors and the Status objects that it stands for (API conventions)."""

import pytest

from shared.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestError,
    RequestTooLarge,
    ServerError,
    Subject,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
    from_status,
)

THING = Subject("catalog.gpu.cozystack.io", "gpuclassoptions", "a100")


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (BadRequest("x"), 400, "BadRequest"),
        (Unauthorized(), 401, "Unauthorized"),
        (Forbidden("x"), 403, "Forbidden"),
        (NotFound("x"), 404, "NotFound"),
        (MethodNotAllowed("x"), 405, "MethodNotAllowed"),
        (NotAcceptable("x"), 406, "NotAcceptable"),
        (Conflict("x"), 409, "Conflict"),
        (AlreadyExists("x"), 409, "AlreadyExists"),
        (Expired("x"), 410, "Expired"),
        (RequestTooLarge("x"), 413, "RequestEntityTooLarge"),
        (UnsupportedMediaType("x"), 415, "UnsupportedMediaType"),
        (Invalid("x"), 422, "Invalid"),
        (TooManyRequests("x"), 429, "TooManyRequests"),
        (InternalError("x"), 500, "InternalError"),
        (Unavailable("x"), 503, "ServiceUnavailable"),
        (TimedOut("x"), 504, "Timeout"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ApiError) else None,
)
def test_check_98_each_error_is_a_failure_status_with_its_code_and_reason(
    error: ApiError, code: int, reason: str
) -> None:
    status = error.to_status()

    assert status["kind"] == "Status"
    assert status["apiVersion"] == "v1"
    assert status["metadata"] == {}
    assert status["status"] == "Failure"
    assert status["message"] == str(error)
    assert (status["code"], status["reason"]) == (code, reason)
    assert isinstance(error, RequestError if code < 500 else ServerError)


def test_a_missing_object_is_told_as_kubernetes_tells_it() -> None:
    status = NotFound.of(THING).to_status()

    assert status["message"] == 'gpuclassoptions.catalog.gpu.cozystack.io "a100" not found'
    assert status["details"] == {
        "name": "a100",
        "group": "catalog.gpu.cozystack.io",
        "kind": "gpuclassoptions",
    }


def test_several_wrong_fields_are_told_in_one_message_and_one_cause_each() -> None:
    error = Invalid.of(
        Subject("meta.k8s.io", "ListOptions"),
        [Cause("FieldValueForbidden", "no", "a"), Cause("FieldValueForbidden", "never", "b")],
    )

    assert str(error) == 'ListOptions.meta.k8s.io "" is invalid: [a: no, b: never]'
    assert error.to_status()["details"] == {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [
            {"reason": "FieldValueForbidden", "message": "no", "field": "a"},
            {"reason": "FieldValueForbidden", "message": "never", "field": "b"},
        ],
    }


@pytest.mark.parametrize("kind", [TooManyRequests, Unavailable])
def test_check_100_429_and_503_say_when_to_come_back_in_header_and_details(
    kind: type[ApiError],
) -> None:
    error = kind("later", retry_after=7)

    assert error.headers() == {"Retry-After": "7"}
    assert error.to_status()["details"] == {"retryAfterSeconds": 7}
    assert kind("later").headers() == {"Retry-After": "1"}


def test_a_wrong_method_is_answered_with_the_right_ones() -> None:
    assert MethodNotAllowed("no", allowed=["GET", "HEAD"]).headers() == {"Allow": "GET, HEAD"}


def test_check_68_a_version_from_the_future_carries_the_cause_that_clients_look_for() -> None:
    status = TimedOut.version_too_large(9, 5).to_status()

    assert status["message"] == "Timeout: Too large resource version: 9, current: 5"
    assert status["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        pytest.param(409, {"reason": "AlreadyExists"}, AlreadyExists, id="reason decides"),
        pytest.param(409, {}, Conflict, id="code decides where no reason is given"),
        pytest.param(410, {"reason": "Gone"}, Expired, id="Gone is Expired"),
        pytest.param(504, {"reason": "ServerTimeout"}, TimedOut, id="ServerTimeout is TimedOut"),
        pytest.param(502, "bad gateway", ServerError, id="a proxy's text"),
        pytest.param(418, None, RequestError, id="an unknown 4xx"),
        pytest.param(503, {"reason": "NotFound"}, Unavailable, id="a reason of another class"),
        pytest.param(401, None, Unauthorized, id="no body"),
        pytest.param(405, {"reason": "MethodNotAllowed"}, MethodNotAllowed, id="405"),
    ],
)
def test_an_answer_of_the_api_server_becomes_the_error_of_its_reason_or_code(
    code: int, body: object, kind: type[ApiError]
) -> None:
    error = from_status(code, body)

    assert type(error) is kind
    assert error.code == code


def test_a_status_survives_the_way_through_an_error() -> None:
    first = TooManyRequests(
        "slow down", subject=THING, causes=[Cause("A", "b", "c")], retry_after=3
    )

    assert from_status(429, first.to_status()).to_status() == first.to_status()
