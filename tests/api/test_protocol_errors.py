"""I. Errors: checks 98 to 101 of the contract, and check 30: no secrets in the log."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest
import structlog
from structlog.testing import LogCapture

from apiserver.identity import User
from tests.api.served import ALL, BASE, Served, options_of

A = options_of("tenant-a")


@pytest.fixture
def logged() -> Iterator[LogCapture]:
    """What is logged during a test."""
    capture = LogCapture()
    before = structlog.get_config()["processors"]
    structlog.configure(processors=[capture])
    yield capture
    structlog.configure(processors=before)


@pytest.mark.parametrize(
    ("method", "target", "status", "reason"),
    [
        ("GET", f"{A}?limit=x", 400, "BadRequest"),
        ("GET", f"{A}/nope", 404, "NotFound"),
        ("GET", "/nope", 404, "NotFound"),
        ("GET", f"{BASE}/nope", 404, "NotFound"),
        ("GET", f"{A}/a100/status", 404, "NotFound"),
        ("GET", f"/apis/watch/{BASE}", 404, "NotFound"),
        ("GET", f"{A}/nope/", 404, "NotFound"),
        ("GET", f"{A}//", 404, "NotFound"),
        ("GET", "//", 404, "NotFound"),
        ("POST", "/apis", 405, "MethodNotAllowed"),
        ("POST", "/healthz", 405, "MethodNotAllowed"),
        ("DELETE", "/openapi/v2", 405, "MethodNotAllowed"),
        ("DELETE", A, 405, "MethodNotAllowed"),
        ("GET", f"{A}?watch=1&resourceVersion=1", 410, "Expired"),
        ("GET", f"{A}?sendInitialEvents=1", 422, "Invalid"),
    ],
)
async def test_check_98_every_failure_is_a_status_in_json(
    served: Served, method: str, target: str, status: int, reason: str
) -> None:
    answer = await (await served.admin())(target, method=method, Accept="*/*")

    assert (answer.status, answer.json["code"]) == (status, status)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["kind"] == "Status"
    assert answer.json["apiVersion"] == "v1"
    assert answer.json["status"] == "Failure"
    assert answer.json["reason"] == reason
    assert answer.json["message"]


@pytest.mark.parametrize("target", ["/nope", "/healthz/", "/apis//", f"{ALL}/", "/..%2f", "/%00"])
@pytest.mark.parametrize("accept", ["text/html", "text/html,application/xhtml+xml,*/*;q=0.8"])
async def test_check_101_nothing_is_html_and_nothing_is_a_redirect(
    served: Served, target: str, accept: str
) -> None:
    answer = await (await served.admin())(target, Accept=accept, User_Agent="Mozilla/5.0")

    assert "html" not in answer.headers["Content-Type"]
    assert "Location" not in answer.headers
    assert not 300 <= answer.status < 400
    assert b"<html" not in answer.body


async def test_check_99_a_bug_is_an_internal_error_without_its_trace(
    served: Served, logged: LogCapture
) -> None:
    served.table.broken = True
    admin = await served.admin()

    answer = await admin(A, Audit_Id="abc-123")

    assert (answer.status, answer.json["reason"]) == (500, "InternalError")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["Audit-Id"] == "abc-123"
    told = [entry for entry in logged.entries if entry["log_level"] == "error"]
    assert told[0]["exc_info"]
    assert any(entry.get("audit_id") == "abc-123" for entry in logged.entries)
    assert (await admin("/healthz")).status == 200


async def test_check_99_the_audit_id_is_given_back(served: Served) -> None:
    assert (await (await served.admin())(A, Audit_Id="abc")).headers["Audit-Id"] == "abc"
    assert "Audit-Id" not in (await (await served.admin())(A)).headers


async def test_connections_cannot_be_upgraded(served: Served) -> None:
    answer = await (await served.admin())(f"{A}?watch=1", Connection="Upgrade", Upgrade="websocket")

    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


async def test_check_30_no_credential_and_no_identity_header_gets_into_the_log(
    served: Served, logged: LogCapture
) -> None:
    served.rights.tokens["token-of-alice"] = User("robot")
    nobody = await served.caller(("X-Remote-User", "forged-name"), token="wrong-token")
    robot = await served.caller(("X-Remote-Group", "forged-group"), token="token-of-alice")
    alice = await served.caller(
        ("X-Remote-User", "alice"),
        ("X-Remote-Extra-Secret", "extra-secret"),
        ("Authorization", "Bearer also-secret"),
        shown=served.keys.proxy,
    )
    for caller in (nobody, robot, alice):
        await caller(A)
    served.rights.failing = True
    for caller in (nobody, robot, alice):
        await caller(options_of("tenant-b"))

    text = orjson.dumps(logged.entries, default=str).decode()
    assert "caller is not believed" in text
    for secret in (
        "token-of-alice",
        "wrong-token",
        "forged-name",
        "forged-group",
        "extra-secret",
        "also-secret",
        "Bearer",
    ):
        assert secret not in text


async def test_a_post_with_a_large_body_is_answered_and_does_not_fill_memory(
    served: Served,
) -> None:
    """The body is not even read: there is nothing to create."""
    async with served.connection(served.keys.proxy) as (reader, writer):
        writer.write(
            f"POST {A} HTTP/1.1\r\nHost: x\r\nX-Remote-User: a\r\nContent-Length: 99999999\r\n"
            "X-Remote-Group: system:masters\r\n\r\n".encode()
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize(
    "line",
    [
        b"GET /%ff%fe HTTP/1.1",
        b"GET /\xff\xfe HTTP/1.1",
        b"GET " + A.encode() + b"/%ff HTTP/1.1",
        b"GET " + A.encode() + b"?labelSelector=%ff HTTP/1.1",
        b"GET " + A.encode() + b"?fieldSelector=metadata.name%3D%ff HTTP/1.1",
        b"GET " + A.encode() + b"?limit=%ff&resourceVersion=%ff HTTP/1.1",
        b"GET /readyz/%ff HTTP/1.1",
        b"GET /readyz?exclude=%ff HTTP/1.1",
    ],
)
@pytest.mark.parametrize("who", [b"admin", b"alice"])
async def test_bytes_that_are_no_text_never_break_the_server(
    served: Served, line: bytes, who: bytes
) -> None:
    group = b"system:masters" if who == b"admin" else b"devs"
    status, body = await served.raw(
        line
        + b"\r\nHost: x\r\nConnection: close\r\nAccept: \xff\r\nUser-Agent: \xff\r\n"
        + b"Audit-ID: \xff\r\nX-Remote-User: "
        + who
        + b"\r\nX-Remote-Group: "
        + group
        + b"\r\n\r\n",
        served.keys.proxy,
    )

    assert status < 500
    assert body == b"ok" or orjson.loads(body)["kind"] == "Status"


async def test_long_headers_and_queries_leave_nothing_behind(served: Served) -> None:
    """Whatever is kept by a text that callers choose has to be bounded."""
    nobody = await served.caller()
    for number in range(3):
        text = f"a{number}" * 200_000
        await nobody(f"{A}?fieldSelector=metadata.name%3D{text}&labelSelector={text}")
        await nobody(A, Accept=text, Audit_Id=text)

    assert (await nobody("/livez", Audit_Id="x" * 1000)).headers["Audit-Id"] == "x" * 64
