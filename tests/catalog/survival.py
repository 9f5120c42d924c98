"""What a test must not do to our process: end it, make it unready, or have it answer 500."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator

import aiohttp

from tests.cluster.components import HOST
from tests.cluster.install import Catalog
from tests.cluster.processes import Process

BROKEN = ("Traceback", '"code":500')
"""What the log holds after a request that nobody foresaw, or a task that broke."""

FAILED = ("request failed",)
"""What it holds after any answer of 500 or above, health checks excepted."""


def process_of(catalog: Catalog) -> Process:
    """Our running process."""
    process = catalog.component.process
    assert process is not None
    return process


async def readiness(catalog: Catalog) -> tuple[int, str]:
    """What our process itself says about being ready, asked past kube-apiserver."""
    tls = ssl.create_default_context(cafile=catalog.authority)
    url = f"https://{HOST}:{catalog.component.port}/readyz?verbose"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls) as answer:
        return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def unharmed(catalog: Catalog, *, in_trouble: bool = False) -> AsyncIterator[None]:
    """Hold our process to it that the block neither ended nor broke it.

    Args:
        catalog: whose process.
        in_trouble: the block takes away what it needs: then it may say that it cannot serve.
    """
    before = process_of(catalog)
    log_start = before.log.stat().st_size
    yield
    before.check()
    assert process_of(catalog).pid == before.pid
    bad_words = BROKEN if in_trouble else BROKEN + FAILED
    lines = before.log.read_bytes()[log_start:].decode(errors="replace").splitlines()
    assert [line for line in lines if any(words in line for words in bad_words)] == []
    status, checks = await readiness(catalog)
    assert status == 200, checks
