"""The paths that kube-apiserver calls: a review in, a decision out.

Callers show no certificate and are not told apart: what a review says of its user is believed
for this answer only, and nothing is written. Headers such as X-Remote-User mean nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from admission import claim, final, gpuclass, pod, vmi
from admission.inputs import Reader
from admission.review import Allow, Decision, Request, answer, parse
from shared.core.annotations import shown
from shared.errors import ApiError, BadRequest, TimedOut
from shared.vocabulary import (
    WEBHOOK_CLAIMS,
    WEBHOOK_CLASSES,
    WEBHOOK_PODS,
    WEBHOOK_PREFIX,
    WEBHOOK_VMIS,
    WEBHOOK_VMIS_FINAL,
)

DEADLINE_SECONDS: Final = 14.0
"""How long an answer may take: less than the timeout in the webhook configurations."""

ASIDE_FROM_BYTES: Final = 256 * 1024
"""A larger review is parsed beside the loop, so that others do not wait for it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What callers may take, since anybody may be one.

    Attributes:
        at_once: how many reviews are held at once; who comes later waits for his turn, within
            his deadline.
        large_at_once: the same of reviews larger than `ASIDE_FROM_BYTES`, which wait for each
            other and for nobody else.
        body_seconds: how long a review may take to arrive, once it is its turn.
    """

    at_once: int = 512
    large_at_once: int = 4
    body_seconds: float = 5.0


_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

LIMITS: Final = Limits()

Decide = Callable[[Request], Awaitable[Decision]]


class Figures:
    """What is counted of reviews, in the registry of the process."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self.reviews = Counter(
            f"{prefix}_admission_reviews",
            "Admission reviews answered, by webhook, outcome (allowed, refused or failed) and "
            "reason of the refusal or failure.",
            ["webhook", "outcome", "reason"],
            registry=registry,
        )
        self.seconds = Histogram(
            f"{prefix}_admission_review_duration_seconds",
            "How long admission reviews took, reading included.",
            ["webhook"],
            buckets=_BUCKETS,
            registry=registry,
        )

    def observed(self, webhook: str, outcome: str, reason: str, seconds: float) -> None:
        """Count one review."""
        self.reviews.labels(webhook, outcome, reason).inc()
        self.seconds.labels(webhook).observe(seconds)


class Webhooks:
    """All webhooks.

    Args:
        reader: where inputs come from.
        figures: where reviews are counted.
        monotonic: seconds, to measure with.
        limits: what callers may take.
    """

    def __init__(
        self,
        reader: Reader,
        figures: Figures,
        *,
        monotonic: Callable[[], float],
        limits: Limits = LIMITS,
    ) -> None:
        self._reader = reader
        self._figures = figures
        self._monotonic = monotonic
        self._body_seconds = limits.body_seconds
        self._turns = asyncio.Semaphore(limits.at_once)
        self._large_turns = asyncio.Semaphore(limits.large_at_once)

    def routes(self) -> list[web.RouteDef]:
        """One path for each."""
        return [
            web.post(path, self._handler(path, decide))
            for path, decide in (
                (WEBHOOK_VMIS, self._vmi),
                (WEBHOOK_VMIS_FINAL, self._final),
                (WEBHOOK_PODS, self._pod),
                (WEBHOOK_CLAIMS, self._claim),
                (WEBHOOK_CLASSES, self._class),
            )
        ]

    def _handler(
        self, path: str, decide: Decide
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        webhook = path.removeprefix(WEBHOOK_PREFIX)

        async def handle(request: web.Request) -> web.Response:
            began = self._monotonic()
            outcome, reason = "failed", "InternalError"
            try:
                async with asyncio.timeout(DEADLINE_SECONDS), self._turn(request.content_length):
                    body = await self._body(request)
                    if len(body) > ASIDE_FROM_BYTES:
                        review = await asyncio.to_thread(parse, body)
                    else:
                        review = parse(body)
                    decision = await decide(review)
                if isinstance(decision, Allow):
                    outcome, reason = "allowed", ""
                else:
                    outcome, reason = "refused", decision.reason
                return web.Response(body=answer(review, decision), content_type="application/json")
            except TimeoutError:
                reason = TimedOut.reason
                raise TimedOut(f"GPU admission: no decision in {DEADLINE_SECONDS} s") from None
            except web.HTTPException:
                reason = BadRequest.reason
                raise
            except ApiError as error:
                reason = error.reason
                raise
            finally:
                seconds = self._monotonic() - began
                # Once this turn of the loop is over: the answer does not wait to be counted.
                loop = asyncio.get_running_loop()
                loop.call_soon(self._figures.observed, webhook, outcome, reason, seconds)

        return handle

    def _turn(self, length: int | None) -> asyncio.Semaphore:
        """Where a review of so many bytes waits; one that does not say may be of any length."""
        is_large = length is None or length > ASIDE_FROM_BYTES
        return self._large_turns if is_large else self._turns

    async def _body(self, request: web.Request) -> bytes:
        if request.content_type != "application/json":
            told = f"{shown(request.content_type)}, expected application/json"
            raise BadRequest(f"Content-Type: {told}")
        try:
            async with asyncio.timeout(self._body_seconds):
                return await request.read()
        except TimeoutError:
            raise TimedOut(f"GPU admission: no review in {self._body_seconds:g} s") from None

    async def _vmi(self, request: Request) -> Decision:
        judged = vmi.Judged.of(request)
        if judged is None:
            return Allow()
        inputs = await self._reader.for_vmi(request.namespace, judged.needs)
        return vmi.decide(request, inputs, judged=judged)

    async def _final(self, request: Request) -> Decision:
        return final.decide(request, await self._reader.for_final())

    async def _pod(self, request: Request) -> Decision:
        needs = pod.needs(request)
        return Allow() if needs is None else pod.decide(request, await self._reader.for_pod(needs))

    async def _claim(self, request: Request) -> Decision:
        needs = claim.needs(request)
        if needs is None:
            return Allow()
        return claim.decide(request, await self._reader.for_order(needs))

    async def _class(self, request: Request) -> Decision:
        needs = gpuclass.needs(request)
        if needs is None:
            return Allow()
        return gpuclass.decide(request, await self._reader.for_class(needs))
