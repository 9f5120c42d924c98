"""The session to the API server: faults of the network, credentials that change, proxies."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from shared.errors import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    NotFound,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from shared.kube.connect import REREAD_SECONDS, Connection, Stalled
from shared.kube.credentials import Credentials, Source
from tests.kube.local import (
    END,
    HEAD,
    Calls,
    Held,
    Ticks,
    chunk,
    http_server,
    raw_server,
    read_head,
)

SECRET = "eyJhbGciOiJSUzI1NiJ9.secret"


def connection(source: Source, clock: Ticks | None = None) -> Connection:
    return Connection(source, clock=clock or time.monotonic, user_agent="test/1")


@asynccontextmanager
async def connected(url: str, token: str = SECRET) -> AsyncIterator[Connection]:
    held = Held(Credentials(url, authorization=f"Bearer {token}"))
    async with connection(held) as made:
        yield made


async def ok(request: web.Request) -> web.Response:
    del request
    return web.Response(text='{"kind": "Status", "status": "Success"}\n')


class TestRequest:
    """One request and its answer."""

    async def test_sends_what_it_was_given_and_returns_the_body(self) -> None:
        async def echo(request: web.Request) -> web.Response:
            return web.json_response(
                {
                    "method": request.method,
                    "path": request.raw_path,
                    "body": await request.text(),
                    "type": request.content_type,
                    "authorization": request.headers["Authorization"],
                    "agent": request.headers["User-Agent"],
                    "accept": request.headers["Accept"],
                }
            )

        async with http_server(echo) as url, connected(url) as api:
            got = json.loads(
                await api.request(
                    "PATCH",
                    "/api/v1/pods/a%3Fb",
                    params={"fieldManager": "gpu binder"},
                    body=[{"op": "test"}],
                    headers={"Content-Type": "application/json-patch+json"},
                )
            )
        assert got == {
            "method": "PATCH",
            "path": "/api/v1/pods/a%3Fb?fieldManager=gpu+binder",
            "body": '[{"op":"test"}]',
            "type": "application/json-patch+json",
            "authorization": f"Bearer {SECRET}",
            "agent": "test/1",
            "accept": "application/json",
        }

    async def test_a_packed_answer_is_unpacked_where_one_was_asked_for(self) -> None:
        accepted: list[str] = []

        async def packed(request: web.Request) -> web.Response:
            accepted.append(request.headers["Accept-Encoding"])
            response = web.Response(body=b"x" * 200_000)
            if accepted[-1] == "gzip":
                response.enable_compression(web.ContentCoding.gzip)
            return response

        async with http_server(packed) as url, connected(url) as api:
            plain = await api.request("GET", "/")
            unpacked = await api.request("GET", "/", headers={"Accept-Encoding": "gzip"})
        assert accepted == ["identity", "gzip"]
        assert plain == unpacked == b"x" * 200_000

    @pytest.mark.parametrize(
        ("code", "reason", "want"),
        [
            (403, "Forbidden", Forbidden),
            (404, "NotFound", NotFound),
            (409, "Conflict", Conflict),
            (410, "Expired", Expired),
            (410, "Gone", Expired),
            (500, "InternalError", InternalError),
            (503, "ServiceUnavailable", Unavailable),
            (504, "Timeout", TimedOut),
        ],
    )
    async def test_a_status_becomes_its_error(
        self, code: int, reason: str, want: type[ApiError]
    ) -> None:
        async def refuse(request: web.Request) -> web.Response:
            del request
            body = {"kind": "Status", "reason": reason, "message": "as it is", "code": code}
            return web.json_response(body, status=code)

        async with http_server(refuse) as url, connected(url) as api:
            with pytest.raises(want, match="as it is") as caught:
                await api.request("GET", "/api/v1/nodes/x")
        assert type(caught.value) is want
        assert caught.value.code == code

    async def test_plain_text_from_a_proxy_on_the_way_is_an_error_too(self) -> None:
        async def refuse(request: web.Request) -> web.Response:
            del request
            return web.Response(status=429, text="Too many requests", headers={"Retry-After": "7"})

        async with http_server(refuse) as url, connected(url) as api:
            with pytest.raises(TooManyRequests) as caught:
                await api.request("GET", "/api/v1/nodes")
        assert caught.value.retry_after == 7

    async def test_a_redirect_is_not_followed(self) -> None:
        async def redirect(request: web.Request) -> web.Response:
            del request
            raise web.HTTPFound("http://elsewhere.example/")

        calls = Calls(redirect)
        async with http_server(calls) as url, connected(url) as api:
            with pytest.raises(Unavailable, match="redirects"):
                await api.request("GET", "/api/v1/nodes")
        assert len(calls.seen) == 1

    async def test_no_answer_in_time_is_an_error(self) -> None:
        async def silent(request: web.Request) -> web.Response:
            del request
            await asyncio.Event().wait()
            return web.Response()

        async with http_server(silent) as url, connected(url) as api:
            with pytest.raises(TimedOut, match="GET /api/v1/nodes"):
                await api.request("GET", "/api/v1/nodes", timeout_seconds=0.2)

    async def test_nobody_at_the_address_is_an_error(self) -> None:
        async with http_server(ok) as url:
            pass
        async with connected(url) as api:
            with pytest.raises(Unavailable, match="GET /version"):
                await api.request("GET", "/version")

    async def test_a_body_cut_in_the_middle_is_an_error(self) -> None:
        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_head(reader)
            writer.write(HEAD + chunk(b'{"kind":'))
            await writer.drain()

        async with raw_server(cut) as url, connected(url) as api:
            with pytest.raises(Unavailable):
                await api.request("GET", "/api/v1/nodes")

    @pytest.mark.parametrize(
        "answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 999999 x\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nx"]
    )
    async def test_no_fault_shows_the_token(self, answer: bytes) -> None:
        async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_head(reader)
            writer.write(answer)
            await writer.drain()

        async with raw_server(broken) as url, connected(url) as api:
            with pytest.raises(Unavailable) as caught:
                await api.request("GET", "/api/v1/nodes")
        error: BaseException | None = caught.value
        shown = "".join(traceback.format_exception(caught.value))
        while error is not None:
            shown += f"{error!r} {error.args!r} {vars(error)!r}"
            error = error.__cause__
        assert "secret" not in shown


class TestStream:
    """The lines of a watch."""

    async def lines(self, api: Connection, idle_seconds: float = 30.0) -> list[bytes]:
        got = []
        async with aclosing(api.stream("/w", {"watch": "1"}, idle_seconds=idle_seconds)) as lines:
            async for line in lines:
                got.append(line)
                self.got = got
        return got

    async def serve(
        self, *parts: bytes, idle_seconds: float = 30.0, hold: bool = False
    ) -> list[bytes]:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_head(reader)
            for part in (HEAD, *parts):
                writer.write(part)
                await writer.drain()
            if hold:
                await asyncio.Event().wait()

        async with raw_server(script) as url, connected(url) as api:
            return await self.lines(api, idle_seconds)

    async def test_lines_are_whole_however_chunks_cut_them(self) -> None:
        got = await self.serve(chunk(b'{"a"'), chunk(b':1}\n{"b":2}\n{"c'), chunk(b'":3}\n'), END)
        assert got == [b'{"a":1}', b'{"b":2}', b'{"c":3}']

    async def test_a_line_of_nine_megabytes_is_read(self) -> None:
        line = b"x" * (9 * 1024 * 1024)
        assert await self.serve(chunk(line + b"\n"), END) == [line]

    async def test_an_end_inside_a_line_is_an_error_and_what_came_before_counts(self) -> None:
        with pytest.raises(Unavailable, match="ended inside an event"):
            await self.serve(chunk(b'{"a":1}\n{"b"'), END)
        assert self.got == [b'{"a":1}']

    async def test_a_connection_that_breaks_is_no_end(self) -> None:
        with pytest.raises(Unavailable):
            await self.serve(chunk(b'{"a":1}\n'))
        assert self.got == [b'{"a":1}']

    @pytest.mark.parametrize("before", [b"", b'{"a":1}\n', b"{"])
    async def test_a_connection_on_which_nothing_comes_any_more_is_given_up(
        self, before: bytes
    ) -> None:
        with pytest.raises(Stalled, match=r"nothing for 0\.3 seconds"):
            await self.serve(*([chunk(before)] if before else []), hold=True, idle_seconds=0.3)

    async def test_a_server_that_does_not_even_answer_is_no_open_watch(self) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            del writer
            await reader.read()

        async with raw_server(silent) as url, connected(url) as api:
            with pytest.raises(TimedOut) as caught:
                await self.lines(api, idle_seconds=0.3)
        assert not isinstance(caught.value, Stalled)

    async def test_a_refusal_is_its_error(self) -> None:
        async def refuse(request: web.Request) -> web.Response:
            del request
            body = {"kind": "Status", "reason": "Expired", "message": "too old", "code": 410}
            return web.json_response(body, status=410)

        async with http_server(refuse) as url, connected(url) as api:
            with pytest.raises(Expired, match="too old"):
                await self.lines(api)


class TestCredentials:
    """Tokens, certificates and CAs are replaced under a running process."""

    async def test_are_read_again_when_they_are_older_than_half_a_minute(self) -> None:
        calls, clock = Calls(ok), Ticks()
        async with http_server(calls) as url:
            held = Held(Credentials(url, authorization="Bearer first"))
            async with connection(held, clock) as api:
                await api.request("GET", "/1")
                held.now = Credentials(url, authorization="Bearer second")
                clock.now += REREAD_SECONDS - 1
                await api.request("GET", "/2")
                clock.now += 2
                await api.request("GET", "/3")
        sent = [request.headers["Authorization"] for request in calls.seen]
        assert sent == ["Bearer first", "Bearer first", "Bearer second"]
        assert REREAD_SECONDS <= 60

    async def test_that_are_refused_are_read_again_at_once_and_tried_once_more(self) -> None:
        async def only_second(request: web.Request) -> web.Response:
            if request.headers["Authorization"] != "Bearer second":
                return web.Response(status=401)
            return await ok(request)

        calls, clock = Calls(only_second), Ticks()
        async with http_server(calls) as url:
            held = Held(Credentials(url, authorization="Bearer first"))
            async with connection(held, clock) as api:
                held.now = Credentials(url, authorization="Bearer second")
                clock.now += 1
                await api.request("GET", "/1")
        assert len(calls.seen) == 2

    async def test_that_stay_refused_are_an_error_after_one_reading(self) -> None:
        async def refuse(request: web.Request) -> web.Response:
            del request
            return web.Response(status=401)

        calls, clock = Calls(refuse), Ticks()
        async with http_server(calls) as url:
            held = Held(Credentials(url, authorization="Bearer first"))
            async with connection(held, clock) as api:
                clock.now += 1
                with pytest.raises(Unauthorized):
                    await api.request("GET", "/1")
        assert (len(calls.seen), held.reads) == (1, 2)

    async def test_that_cannot_be_read_for_a_moment_do_not_replace_those_held(self) -> None:
        calls, clock = Calls(ok), Ticks()
        async with http_server(calls) as url:
            held = Held(Credentials(url, authorization="Bearer first"))
            async with connection(held, clock) as api:
                held.now = None
                clock.now += REREAD_SECONDS + 1
                await api.request("GET", "/1")
                held.now = Credentials(url, authorization="Bearer second")
                clock.now += 5
                await api.request("GET", "/2")
        sent = [request.headers["Authorization"] for request in calls.seen]
        assert sent == ["Bearer first", "Bearer second"]

    async def test_are_read_once_by_many_requests_at_a_time(self) -> None:
        calls, clock = Calls(ok), Ticks()
        async with http_server(calls) as url:
            held = Held(Credentials(url, authorization="Bearer first"))
            async with connection(held, clock) as api:
                clock.now += REREAD_SECONDS + 1
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(20):
                        tasks.create_task(api.request("GET", "/"))
        assert held.reads == 2


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[bytes]]:
    """A proxy that all variables name; what it is asked is in the list."""
    asked: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_head(reader))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    async with raw_server(script) as url:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, url)
            monkeypatch.setenv(name.lower(), url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        yield asked


async def test_proxies_in_the_environment_get_nothing(proxy: list[bytes]) -> None:
    """Trouble 12: they are about the outside, and a cluster's addresses are not there."""
    calls = Calls(ok)
    async with http_server(calls) as url, connected(url) as api:
        await api.request("GET", "/version")
        async with aclosing(api.stream("/w", {"watch": "1"}, idle_seconds=5)) as lines:
            assert [line async for line in lines]
    assert len(calls.seen) == 2
    assert proxy == []


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_requests_that_fail_leave_no_sockets_behind() -> None:
    """Trouble 14."""

    async def odd(request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/500":
                return web.Response(status=500, text="x" * 200_000)
            case "/cut":
                assert request.transport is not None
                request.transport.close()
            case _:
                pass
        await asyncio.Event().wait()
        return web.Response()

    async def watch(api: Connection, path: str) -> None:
        async with aclosing(api.stream(path, {}, idle_seconds=0.05)) as lines:
            async for _ in lines:
                pass

    async def fail(api: Connection) -> None:
        for path in ("/500", "/cut", "/slow"):
            with pytest.raises(ApiError):
                await api.request("GET", path, timeout_seconds=0.05 if path == "/slow" else 30)
            with pytest.raises(ApiError):
                await watch(api, path)

    async with http_server(odd) as url, connected(url) as api:
        await fail(api)
        before = open_files()
        for _ in range(30):
            await fail(api)
        assert open_files() <= before + 3


async def test_closing_it_ends_a_watch_that_is_open() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(HEAD + chunk(b"{}\n"))
        await asyncio.Event().wait()

    async def watch(api: Connection, opened: asyncio.Event) -> None:
        async with aclosing(api.stream("/w", {}, idle_seconds=60)) as lines:
            async for _ in lines:
                opened.set()

    async with raw_server(hold) as url, connected(url) as api:
        opened = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(watch(api, opened))
            await opened.wait()
            task.cancel()
    assert task.cancelled()
