"""API servers that show webhooks who they are, as docs/operating.md has it."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import orjson
import pytest

from shared import vocabulary as words
from tests.admission.calling import review
from tests.catalog.kubevirt import apply_kinds
from tests.catalog.objects import claim
from tests.cluster.api import Refused
from tests.cluster.build import Binaries
from tests.cluster.components import FRONT_PROXY, HOST, Options
from tests.cluster.install import Catalog
from tests.cluster.plane import control_plane


async def test_only_api_servers_are_answered_once_they_show_who_they_are(
    binaries: Binaries, run: Path
) -> None:
    async with control_plane(run / "identified", binaries, Options(identified=True)) as plane:
        catalog = Catalog(plane, (f"--webhook-callers=somebody, {FRONT_PROXY}",))
        try:
            await apply_kinds(plane.cluster)
            await catalog.install()
            await catalog.enforce()
            with pytest.raises(Refused) as refused:
                await plane.cluster.admin.create(claim("default", "x", "no-such-class", 1))
            assert "no-such-class" in refused.value.message
            assert "failed calling webhook" not in refused.value.message

            tls = ssl.create_default_context(cafile=catalog.authority)
            url = f"https://{HOST}:{catalog.component.port}{words.WEBHOOK_VMIS}"
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, data=orjson.dumps(review()), ssl=tls) as answer,
            ):
                assert answer.status == 401
        finally:
            await catalog.stop()
