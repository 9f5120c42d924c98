"""A. Transport and TLS: checks 1 to 10 of the contract."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import orjson
import pytest

from apiserver.listener import HEADERS_SECONDS, KEEP_ALIVE_SECONDS
from tests.api.pki import authority, now
from tests.api.served import HOST, PATIENCE_SECONDS, Served, options_of

A = options_of("tenant-a")
ADMIN = b"X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n"


def head(target: str = A) -> bytes:
    """The begin of a request."""
    return f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode()


async def test_check_1_the_certificate_is_for_the_name_of_the_service(served: Served) -> None:
    async with served.connection() as (_, writer):
        tls = writer.get_extra_info("ssl_object")
        assert tls.context.check_hostname
        assert ("DNS", HOST) in tls.getpeercert()["subjectAltName"]


@pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"]
)
async def test_check_2_tls_1_2_and_1_3_are_spoken(served: Served, version: ssl.TLSVersion) -> None:
    context = served.client_context()
    context.minimum_version = context.maximum_version = version

    _, writer = await asyncio.open_connection(*served.address, ssl=context, server_hostname=HOST)
    assert writer.get_extra_info("ssl_object").version() == f"TLSv1.{version.name[-1]}"
    writer.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_check_2_older_tls_is_not_spoken(served: Served) -> None:
    context = served.client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(*served.address, ssl=context, server_hostname=HOST)


async def test_check_2_nothing_is_answered_in_plain_text(served: Served) -> None:
    reader, writer = await asyncio.open_connection(*served.address)
    writer.write(head())

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert b"HTTP" not in await reader.read()
    writer.close()


async def test_check_3_a_new_certificate_is_used_for_new_connections_and_watches_live_on(
    served: Served, tmp_path: Path
) -> None:
    admin = await served.admin()
    async with admin.watch(f"{A}?watch=1") as stream:
        await stream.take(2)
        renewed = served.keys.server()
        _, key = renewed.write(tmp_path, "serving")
        assert served.tls.reload()
        assert not served.tls.reload()

        async with served.connection() as (_, writer):
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert shown == renewed.der
        assert served.tls.expires == renewed.certificate.not_valid_after_utc.timestamp()
        served.do(served.table.allow("tenant-a", "l4", 1))
        assert await stream.take(1) == [("MODIFIED", "l4")]
    assert key.exists()


async def test_check_3_files_that_do_not_match_yet_change_nothing(
    served: Served, tmp_path: Path
) -> None:
    """A certificate and its key are two files: for a moment one is new and one is old."""
    old = served.files[0].read_text()
    half = served.keys.server()
    served.files[0].write_text(half.pem)

    assert not served.tls.reload()
    async with served.connection() as (_, writer):
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert ssl.DER_cert_to_PEM_cert(shown).split() == old.split()
    served.files[0].unlink()
    assert not served.tls.reload()

    half.write(tmp_path, "serving")
    assert served.tls.reload()


async def test_check_3_a_folder_that_cannot_be_looked_into_leaves_the_last_good_certificate(
    served: Served,
) -> None:
    """A broken mount: the certificate's path is no path any more."""
    folder = served.files[0].parent
    aside = folder.rename(folder.with_name("aside"))
    folder.write_text("no folder")

    assert not served.tls.reload()
    assert not served.tls.reload()
    assert served.tls.failures == 2

    folder.unlink()
    aside.rename(folder)
    async with served.connection():
        pass
    assert served.tls.reload()


async def test_check_3_authorities_that_come_while_the_files_are_loaded_are_not_lost(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are loaded in a thread, authorities come on the loop."""
    loading, go_on = threading.Event(), threading.Event()
    load = ssl.SSLContext.load_verify_locations

    def held(context: ssl.SSLContext, **told: str) -> None:
        load(context, **told)
        if not loading.is_set():
            loading.set()
            go_on.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", held)
    served.keys.server().write(tmp_path, "serving")
    files = threading.Thread(target=served.tls.reload)
    files.start()
    assert await asyncio.to_thread(loading.wait, PATIENCE_SECONDS)
    served.keys.front = authority("next-front-proxy-ca", now=now())
    served.keys.proxy = served.keys.front.issue("front-proxy-client", now=now())
    served.trust.update(served.keys.config())
    authorities = threading.Thread(target=served.tls.set_trust, args=(served.trust.current,))
    authorities.start()
    # It has to wait for the files; were it not to, it would be done long before.
    await asyncio.to_thread(authorities.join, 0.2)
    go_on.set()
    await asyncio.to_thread(files.join)
    await asyncio.to_thread(authorities.join)
    monkeypatch.undo()

    assert (await (await served.admin())(A)).status == 200


async def test_check_3_new_authorities_do_not_disturb_a_certificate_that_is_being_replaced(
    served: Served,
) -> None:
    served.files[0].write_text("nonsense")

    served.believe(requestheader_allowed_names="[]")

    async with served.connection():
        pass


async def test_check_4_a_client_without_certificate_may_come(served: Served) -> None:
    assert (await (await served.caller())("/healthz")).status == 200


async def test_a_certificate_of_strangers_fails_in_the_handshake(served: Served) -> None:
    stranger = served.keys.serving.issue("alice", now=now())

    with pytest.raises(aiohttp.ClientError):
        await (await served.caller(shown=stranger))("/healthz")


async def test_check_5_a_user_of_thousands_of_groups_fits_in(served: Served) -> None:
    groups = [f"group-{number}-{'x' * 90}" for number in range(2000)]

    answer = await (await served.aggregator("alice", *groups))(A)

    assert answer.status == 403
    assert served.rights.asked[0].user.groups == (*groups, "system:authenticated")


async def test_check_5_one_long_header_fits_in(served: Served) -> None:
    answer = await (await served.aggregator("admin", "system:masters", "g" * 200_000))(A)

    assert answer.status == 200


async def test_check_6_a_long_selector_fits_in(served: Served) -> None:
    names = ",".join(f"value-{number}" for number in range(8000))
    target = f"{A}?labelSelector=tier+notin+({names})"
    assert len(target) > 64 * 1024

    assert len((await (await served.admin())(target)).json["items"]) == 2


async def test_check_6_an_endless_url_is_refused_and_the_server_lives_on(served: Served) -> None:
    status, body = await served.raw(head(f"{A}?labelSelector=" + "a" * 1_200_000) + b"\r\n")

    assert status == 400
    assert orjson.loads(body)["kind"] == "Status"
    assert (await (await served.admin())(A)).status == 200


async def test_check_5_headers_that_are_too_many_together_are_refused(served: Served) -> None:
    headers = b"".join(b"X-Large-%d: %s\r\n" % (n, b"x" * 100_000) for n in range(100))

    async with served.connection() as (reader, writer):
        writer.write(head("/healthz") + headers)
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert orjson.loads(answer.partition(b"\r\n\r\n")[2])["kind"] == "Status"


async def test_check_5_headers_sent_during_an_answer_count_as_well(served: Served) -> None:
    headers = b"".join(b"X-Large-%d: %s\r\n" % (n, b"x" * 100_000) for n in range(100))

    async with served.connection(served.keys.proxy) as (reader, writer):
        writer.write(f"GET {A}?watch=1 HTTP/1.1\r\nHost: x\r\n".encode() + ADMIN + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head() + headers)

        await reader.read()  # the watch has no other end


async def test_check_5_a_body_may_be_larger_than_headers_may(served: Served) -> None:
    length = 3 * 1024 * 1024
    request = b"POST %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%bContent-Length: %d\r\n\r\n"

    status, _ = await served.raw(
        request % (A.encode(), ADMIN, length) + b"x" * length, served.keys.proxy
    )

    assert status == 405


@pytest.mark.parametrize(
    "nonsense",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        head() + b"Bad Header: x\r\n\r\n",
        head() + b"Content-Length: x\r\n\r\n",
        head() + b"Accept: text/html\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_check_101_what_is_no_http_gets_a_status_too(served: Served, nonsense: bytes) -> None:
    status, body = await served.raw(nonsense)

    assert status == 400
    assert orjson.loads(body)["kind"] == "Status"


async def test_check_7_idle_connections_are_kept_longer_than_any_client_keeps_them() -> None:
    assert KEEP_ALIVE_SECONDS >= 120


async def test_check_7_a_connection_serves_many_requests(served: Served) -> None:
    async with served.connection(served.keys.proxy) as (reader, writer):
        for _ in range(3):
            writer.write(b"GET /apis HTTP/1.1\r\nHost: x\r\n" + ADMIN + b"\r\n")
            answer = await reader.readuntil(b"}]}")
            assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[Served]:
    """A server that waits a tenth of a second for the headers of a request."""
    served = Served(tmp_path)
    served.headers_seconds = 0.1
    async with served:
        served.believe()
        yield served


async def test_check_9_headers_that_never_end_are_not_waited_for(impatient: Served) -> None:
    assert HEADERS_SECONDS <= 32
    async with impatient.connection() as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert await reader.read() == b""

    async with impatient.connection(impatient.keys.proxy) as (reader, writer):
        writer.write(b"GET /apis HTTP/1.1\r\nHost: x\r\n" + ADMIN + b"\r\n")
        await reader.readuntil(b"}]}")
        writer.write(b"GET /apis HTTP/1.1\r\nX-Slow: ")  # slow the second time
        assert await reader.read() == b""


async def test_check_9_a_client_that_says_nothing_at_all_is_not_waited_for(
    impatient: Served,
) -> None:
    async with impatient.connection() as (reader, _):
        assert await reader.read() == b""


async def test_check_9_a_watch_is_not_taken_for_slow_whatever_its_client_sends_meanwhile(
    impatient: Served,
) -> None:
    async with impatient.connection(impatient.keys.proxy) as (reader, writer):
        target = f"{A}?watch=1&timeoutSeconds=1"
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n".encode() + ADMIN + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /apis HTTP/1.1\r\n")  # the begin of the next request

        assert (await reader.readuntil(b"0\r\n\r\n")).count(b"ADDED") == 2


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None), (["h2"], None)],
    ids=str,
)
async def test_check_10_http_1_1_is_spoken_whatever_else_is_offered(
    served: Served, offered: list[str], chosen: str | None
) -> None:
    context = served.client_context()
    if offered:
        context.set_alpn_protocols(offered)

    _, writer = await asyncio.open_connection(*served.address, ssl=context, server_hostname=HOST)

    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == chosen
    writer.close()


@pytest.mark.parametrize(
    "target", [A, f"{A}/nope", "/apis", "/healthz", "/metrics", "/openapi/v2", "/nope"]
)
async def test_no_answer_tells_what_the_server_is_made_of(served: Served, target: str) -> None:
    assert "Server" not in (await (await served.admin())(target)).headers


async def test_not_even_the_answer_to_nonsense_tells_it(served: Served) -> None:
    async with served.connection() as (reader, writer):
        writer.write(b"nonsense\r\n\r\n")
        told = await reader.read()

    assert b" 400 " in told.split(b"\r\n")[0]
    assert b"\nserver:" not in told.lower()
