"""Credentials from a mounted service account and from a kubeconfig, replaced while we run."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from shared.errors import Unavailable
from shared.kube.connect import REREAD_SECONDS, Connection
from shared.kube.credentials import CredentialsError, InCluster, Source
from shared.kube.kubeconfig import Kubeconfig
from tests.cluster.keys import Authority, Pair
from tests.cluster.plane import system_clock
from tests.kube.local import HOST, Ticks, http_server


def mounted(folder: Path, token: str, authority: str = "CA") -> InCluster:
    """A service account as kubelet mounts it: files that are links through `..data`."""
    project(folder, "first", token, authority)
    for name in ("token", "ca.crt"):
        (folder / name).symlink_to(Path("..data") / name)
    return InCluster(
        folder / "token",
        folder / "ca.crt",
        {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"},
    )


def project(folder: Path, version: str, token: str, authority: str = "CA") -> None:
    """Replace all files at once, by turning the link over."""
    (folder / version).mkdir()
    (folder / version / "token").write_text(token)
    (folder / version / "ca.crt").write_text(authority)
    (folder / "..new").symlink_to(version)
    (folder / "..new").rename(folder / "..data")


class TestInCluster:
    """What kubelet mounts into a pod."""

    async def test_the_token_is_read_without_its_newline(self, tmp_path: Path) -> None:
        got = await mounted(tmp_path, "T1\n").read()
        assert got.authorization == "Bearer T1"
        assert got.server == "https://10.96.0.1:443"
        assert got.authority == b"CA"

    async def test_every_reading_sees_what_is_mounted_now(self, tmp_path: Path) -> None:
        source = mounted(tmp_path, "T1")
        await source.read()
        project(tmp_path, "second", "T2", "CA2")
        got = await source.read()
        assert (got.authorization, got.authority) == ("Bearer T2", b"CA2")

    @pytest.mark.parametrize("token", ["", "\n", "  "])
    async def test_an_empty_token_is_none(self, tmp_path: Path, token: str) -> None:
        with pytest.raises(CredentialsError):
            await mounted(tmp_path, token).read()

    async def test_an_ipv6_address_gets_its_brackets(self, tmp_path: Path) -> None:
        source = mounted(tmp_path, "T1")
        source = InCluster(
            source.token_file,
            source.authority_file,
            {"KUBERNETES_SERVICE_HOST": "fd00:10:96::1", "KUBERNETES_SERVICE_PORT": "443"},
        )
        assert (await source.read()).server == "https://[fd00:10:96::1]:443"

    @pytest.mark.parametrize(
        "environment",
        [{}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, {"KUBERNETES_SERVICE_HOST": ""}],
    )
    async def test_outside_a_cluster_it_says_so_and_looks_nowhere_else(
        self,
        tmp_path: Path,
        environment: dict[str, str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        other = tmp_path / "config"
        other.write_text("{}")
        monkeypatch.setenv("KUBECONFIG", str(other))
        source = mounted(tmp_path, "T1")
        with pytest.raises(CredentialsError, match=r"KUBERNETES_SERVICE_HOST.*name a kubeconfig"):
            await InCluster(source.token_file, source.authority_file, environment).read()

    async def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        source = mounted(tmp_path, "T1")
        (tmp_path / "..data" / "token").unlink()
        with pytest.raises(CredentialsError, match=str(tmp_path / "token")):
            await source.read()

    async def test_nothing_secret_is_shown(self, tmp_path: Path) -> None:
        got = await mounted(tmp_path, "T1-secret").read()
        assert "secret" not in f"{got!r} {got}"


def kubeconfig(path: Path, *, cluster: dict[str, object], user: dict[str, object]) -> Kubeconfig:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return Kubeconfig(path)


class TestKubeconfig:
    """A file of the user's."""

    async def test_files_are_found_beside_it(self, tmp_path: Path) -> None:
        (tmp_path / "ca.crt").write_text("CA")
        (tmp_path / "token").write_text("T1\n")
        source = kubeconfig(
            tmp_path / "config",
            cluster={"server": "https://kube.example/", "certificate-authority": "ca.crt"},
            user={"tokenFile": "token"},
        )
        got = await source.read()
        assert (got.server, got.authority, got.authorization) == (
            "https://kube.example",
            b"CA",
            "Bearer T1",
        )
        (tmp_path / "token").write_text("T2\n")
        assert (await source.read()).authorization == "Bearer T2"

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (None, "config"),
            ("", "config"),
            ("{}", "config"),
            ("[", "config"),
            ("just text", "config"),
            ('{"current-context": "x", "contexts": [], "clusters": []}', "x"),
        ],
    )
    async def test_what_is_wrong_with_it_is_told_with_its_path(
        self, tmp_path: Path, text: str | None, told: str
    ) -> None:
        path = tmp_path / "config"
        if text is not None:
            path.write_text(text)
        with pytest.raises(CredentialsError) as caught:
            await Kubeconfig(path).read()
        assert str(caught.value).startswith(f"kubeconfig {path}: ")
        assert told in str(caught.value)


async def subject(request: web.Request) -> web.Response:
    """Answers with the common name of the caller's certificate."""
    assert request.transport is not None
    shown = request.transport.get_extra_info("peercert") or {}
    names = dict(part for parts in shown.get("subject", ()) for part in parts)
    return web.Response(text=str(names.get("commonName")))


def serving(authority: Authority, folder: Path, clients: Authority | None = None) -> ssl.SSLContext:
    pair = authority.server(Pair.at(folder, "serving"), [HOST], system_clock())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if clients is not None:
        context.load_verify_locations(clients.files.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def connection(source: Source, clock: Ticks) -> Connection:
    return Connection(source, clock=clock, user_agent="test/1")


async def test_a_new_client_certificate_is_shown_within_a_minute(tmp_path: Path) -> None:
    now, clock = system_clock(), Ticks()
    authority = Authority.create(tmp_path, "ca", now)
    mine = Pair.at(tmp_path, "client")
    authority.client(mine, "first", (), now)
    async with http_server(subject, serving(authority, tmp_path, authority)) as url:
        source = kubeconfig(
            tmp_path / "config",
            cluster={"server": url, "certificate-authority": "ca.crt"},
            user={"client-certificate": "client.crt", "client-key": "client.key"},
        )
        async with connection(source, clock) as api:
            assert await api.request("GET", "/") == b"first"
            authority.client(mine, "second", (), now)
            clock.now += REREAD_SECONDS + 1
            assert await api.request("GET", "/") == b"second"


async def test_a_key_that_does_not_fit_yet_does_not_replace_the_pair_that_is_held(
    tmp_path: Path,
) -> None:
    now, clock = system_clock(), Ticks()
    authority = Authority.create(tmp_path, "ca", now)
    mine = Pair.at(tmp_path, "client")
    authority.client(mine, "first", (), now)
    async with http_server(subject, serving(authority, tmp_path, authority)) as url:
        source = kubeconfig(
            tmp_path / "config",
            cluster={"server": url, "certificate-authority": "ca.crt"},
            user={"client-certificate": "client.crt", "client-key": "client.key"},
        )
        async with connection(source, clock) as api:
            other = authority.client(Pair.at(tmp_path, "other"), "second", (), now)
            mine.certificate.write_bytes(other.certificate.read_bytes())
            clock.now += REREAD_SECONDS + 1
            assert await api.request("GET", "/") == b"first"
            mine.key.write_bytes(other.key.read_bytes())
            clock.now += 5
            assert await api.request("GET", "/") == b"second"


async def test_a_new_authority_is_trusted_within_a_minute_and_no_other(tmp_path: Path) -> None:
    now, clock = system_clock(), Ticks()
    first = Authority.create(tmp_path, "first", now)
    second = Authority.create(tmp_path, "second", now)
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(first.files.certificate.read_bytes())
    context = serving(first, tmp_path)
    async with http_server(subject, context) as url:
        source = kubeconfig(
            tmp_path / "config",
            cluster={"server": url, "certificate-authority": "ca.crt"},
            user={"token": "T1"},
        )
        async with connection(source, clock) as api:
            assert await api.request("GET", "/", headers={"Connection": "close"}) == b"None"
            pair = second.server(Pair.at(tmp_path, "serving"), [HOST], now)
            context.load_cert_chain(pair.certificate, pair.key)
            with pytest.raises(Unavailable, match="certificate"):
                await api.request("GET", "/")
            trusted.write_bytes(second.files.certificate.read_bytes())
            clock.now += REREAD_SECONDS + 1
            assert await api.request("GET", "/") == b"None"


async def test_a_server_with_a_name_that_is_not_its_own_is_not_believed(tmp_path: Path) -> None:
    now = system_clock()
    authority = Authority.create(tmp_path, "ca", now)
    pair = authority.server(Pair.at(tmp_path, "other"), ["kube.example"], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    async with http_server(subject, context) as url:
        cluster: dict[str, object] = {"server": url, "certificate-authority": "ca.crt"}
        source = kubeconfig(tmp_path / "config", cluster=cluster, user={"token": "T1"})
        async with connection(source, Ticks()) as api:
            with pytest.raises(Unavailable, match="certificate"):
                await api.request("GET", "/")
        named = kubeconfig(
            tmp_path / "config", cluster={**cluster, "tls-server-name": "kube.example"}, user={}
        )
        async with connection(named, Ticks()) as api:
            assert await api.request("GET", "/") == b"None"


async def test_without_credentials_there_is_no_connection(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no-such-file"):
        async with connection(Kubeconfig(tmp_path / "no-such-file"), Ticks()):
            pass
