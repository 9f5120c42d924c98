"""Asking two API servers the same, and making their answers comparable.

Taken out of an answer is what is chance or time; what is left says the same on both sides or one
of them is wrong. A uid becomes the number of the object in the order in which the answers first
showed it, so that "the same object" and "another one" stay apart. A resource version becomes what
it is to a client: the first, the same as in the answer before, or another.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from tests.cluster.api import JSON_PATCH, MERGE, Api, Object, Reply
from tests.cluster.waiting import wait_until

Json = Any
"""Any JSON value."""

JSON: Final = "application/json"
FORMS: Final = {"merge": MERGE, "patch": JSON_PATCH}

_PLACE: Final = re.compile(r"<(\w+)(?::([\w-]+))?>")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( \+0000 UTC|Z)")
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VERSION: Final = re.compile(r"(current: |precondition \(|in record \()\d+\b")
_DIFFERENCE: Final = re.compile(r"\n@@ .*", re.DOTALL)
"""What changed, as the real one adds it in lines of its own memory."""

_BOOKKEEPING: Final = ("managedFields", "selfLink")


CALLS: Final = Path(__file__).with_name("calls.yaml")

_ROOTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "configmaps": ("v1", "ConfigMap", "<ns>"),
    "secrets": ("v1", "Secret", "<ns>"),
    "events": ("v1", "Event", "<ns>"),
    "pods": ("v1", "Pod", "<ns>"),
    "leases": ("coordination.k8s.io/v1", "Lease", "<ns>"),
    "gpuclaims": ("gpu.cozystack.io/v1alpha1", "GPUClaim", "<ns>"),
    "gpuclasses": ("gpu.cozystack.io/v1alpha1", "GPUClass", ""),
    "gpusystems": ("gpu.cozystack.io/v1alpha1", "GPUSystem", ""),
    "workloads": ("cozystack.io/v1alpha1", "Workload", "<ns>"),
    "virtualmachineinstances": ("kubevirt.io/v1", "VirtualMachineInstance", "<ns>"),
}
"""By resource: apiVersion, kind and namespace."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with places like `<ns>` or `<uid:claim>` that earlier answers fill.

    Attributes:
        what: the sentence that the test is named after.
        key: under which later calls find the object that was answered.
        form: of the body, as Content-Type.
        until: repeated until this code comes, for what controllers do later.
        only: the parts of the object that are compared, where controllers write the others.
    """

    what: str
    method: str
    path: str
    body: object = None
    key: str = ""
    form: str = JSON
    query: Mapping[str, str] = field(default_factory=dict)
    until: int = 0
    only: tuple[str, ...] = ()


def read_calls() -> list[Call]:
    """The calls of `calls.yaml`."""
    return [_call(raw) for raw in yaml.load(CALLS.read_text(), Loader=yaml.CSafeLoader)]


def _call(raw: Object) -> Call:
    method, path, *form = raw["ask"].split()
    body = raw["raw"].encode() if "raw" in raw else raw.get("send")
    if not path.startswith("/"):
        resource, slash, rest = path.partition("/")
        version, kind, namespace = _ROOTS[resource]
        if method in {"POST", "PUT"} and isinstance(body, dict):
            body = {"apiVersion": version, "kind": kind, **body}
        root = "/apis" if "/" in version else "/api"
        within = f"/namespaces/{namespace}" if namespace else ""
        path = f"{root}/{version}{within}/{resource}{slash}{rest}"
    return Call(
        what=raw["what"],
        method=method,
        path=path,
        body=body,
        key=raw.get("as", ""),
        form=FORMS.get(form[0], form[0]) if form else JSON,
        query=raw.get("query") or {},
        until=raw.get("until", 0),
        only=tuple(raw.get("only", ())),
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """What is compared."""

    code: int
    body: object


class Session:
    """One server, asked call by call."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._known: dict[str, Object] = {}
        self._uids: dict[str, int] = {}
        self._versions: dict[str, str] = {}
        self._random: dict[str, str] = {}

    async def answers(self, calls: Sequence[Call]) -> list[Answer]:
        """Make the calls, in order."""
        return [await self._answer(call) for call in calls]

    async def _answer(self, call: Call) -> Answer:
        body = self._filled(call.body)
        path = str(self._filled(call.path))
        query = {key: str(self._filled(value)) for key, value in call.query.items()}
        headers = {"Content-Type": call.form} if body is not None else {}

        async def ask() -> Reply | None:
            reply = await self._api.request(call.method, path, body, headers=headers, query=query)
            return reply if call.until in {0, reply.status} else None

        reply = await wait_until(ask, call.what) if call.until else await ask()
        assert reply is not None
        if query.get("watch"):
            events = [orjson.loads(line) for line in reply.raw.splitlines() if line]
            return Answer(reply.status, [self._plain(each) for each in events])
        try:
            found = reply.body
        except ValueError:
            return Answer(reply.status, reply.text.strip())
        if call.key:
            self._known[call.key] = found
        if call.only:
            found = {key: found.get(key) for key in call.only}
        return Answer(reply.status, self._plain(found))

    def _filled(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {str(self._filled(k)): self._filled(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, str):
            return value
        return _PLACE.sub(self._filling, value)

    def _filling(self, place: re.Match[str]) -> str:
        what, key = place.groups()
        if what == "ns":
            return self._namespace
        metadata = self._known[key]["metadata"]
        return str(
            metadata[
                {"uid": "uid", "rv": "resourceVersion", "name": "name", "more": "continue"}[what]
            ]
        )

    def _plain(self, value: Json) -> Json:
        """An answer without what is chance or time."""
        if isinstance(value, dict):
            if len(causes := (value.get("details") or {}).get("causes") or ()) > 1:
                # In no order that is promised; the message says the same once more.
                causes = sorted(causes, key=lambda cause: str(cause["field"]))
                details = {**value["details"], "causes": causes}
                value = {**value, "details": details, "message": "several"}
            if isinstance(value.get("metadata"), dict):
                value = {**value, "metadata": self._metadata(value["metadata"])}
            return {key: self._plain(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _metadata(self, metadata: Object) -> Object:
        metadata = {k: v for k, v in metadata.items() if k not in _BOOKKEEPING}
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if uid:
            self._uids.setdefault(uid, len(self._uids))
        if uid and metadata.get("generateName"):
            self._random[metadata["name"]] = f"{metadata['generateName']}<random>"
        if version is not None:
            before = self._versions.get(uid) if uid else None
            metadata["resourceVersion"] = (
                "some" if not uid or before is None else "same" if before == version else "other"
            )
            if uid:
                self._versions[uid] = version
        if metadata.get("continue"):
            metadata["continue"] = "more"
        return metadata

    def _text(self, text: str) -> str:
        for name, plain in self._random.items():
            text = text.replace(name, plain)
        return without_chance(text, lambda uid: self._uids.setdefault(uid, len(self._uids)))


def without_chance(text: str, number: Callable[[str], int]) -> str:
    """A text without its times, its versions and its uids; `number` counts uids.

    The uids go first: one may begin with digits alone, as a version does.
    """
    text = _TIME.sub("<time>", _DIFFERENCE.sub("", text))
    text = _UID.sub(lambda match: f"uid-{number(match[0])}", text)
    return _VERSION.sub(r"\1<version>", text)


async def both(
    first: Session, second: Session, calls: Sequence[Call]
) -> list[tuple[Answer, Answer]]:
    """Ask both, side by side."""
    async with asyncio.TaskGroup() as tasks:
        one = tasks.create_task(first.answers(calls))
        other = tasks.create_task(second.answers(calls))
    return list(zip(one.result(), other.result(), strict=True))
