"""Calls of our webhooks past kube-apiserver, as it makes them."""

from __future__ import annotations

import io
import ssl
from dataclasses import dataclass

import aiohttp

from shared import vocabulary as words
from tests.cluster.api import Object, Reply


@dataclass
class Caller:
    """Somebody without a certificate."""

    session: aiohttp.ClientSession
    url: str
    tls: ssl.SSLContext

    async def __call__(self, path: str, body: bytes, method: str = "POST", **headers: str) -> Reply:
        sent = {"Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method, self.url + path, data=io.BytesIO(body), headers=sent, ssl=self.tls
        ) as answer:
            return Reply(answer.status, answer.headers, await answer.read())


def review(kind: tuple[str, str] = ("kubevirt.io", words.KIND_VMI), **members: object) -> Object:
    """A review of a VM that names a class."""
    annotations = {words.ANNOTATION_CLASSES: '[{"className":"a100","count":1}]'}
    metadata = {"name": "x", "namespace": "tenant-acme", "annotations": annotations}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-1",
            "kind": {"group": kind[0], "version": "v1", "kind": kind[1]},
            "operation": "CREATE",
            "namespace": "tenant-acme",
            "name": "x",
            "userInfo": {"username": "somebody"},
            "object": {"metadata": metadata, "spec": {"domain": {"devices": {}}}},
            **members,
        },
    }
