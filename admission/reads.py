"""Inputs of decisions, read from the API server: all at once, fresh, and with a deadline.

Reviews that come at once share a read, but never one that began before they came: what a
caller has just written must be seen. A read that fails is told by name in the inputs, and what
depends on it is refused; its cause goes to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

import orjson
import structlog

from admission.decoded import Listed
from admission.inputs import (
    VIEW_AGE_MAX,
    Classes,
    ClassInputs,
    ClassNeeds,
    FinalInputs,
    Hoster,
    OrderInputs,
    OrderNeeds,
    PodInputs,
    PodNeeds,
    Unread,
    View,
    VmiInputs,
    VmiNeeds,
    rivals,
)
from shared import vocabulary as v
from shared.core.cluster import ClusterState
from shared.core.gpunames import kubevirt_in_force
from shared.core.model import Attachment, Claim, GpuClass, KubeVirt, Migration, Namespace, Vm, Vmi
from shared.core.tenants import line, tops
from shared.errors import ApiError, BadRequest, Forbidden, NotFound, TimedOut, Unauthorized
from shared.fields import Json, mapping
from shared.kube import decode
from shared.kube.paths import collection, item
from shared.settings import GpuSettings, parse

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

READ_SECONDS: Final = 6.0
"""How long one read may take. There are at most two rounds, each perhaps after some patience:
together less than the webhooks' timeout of 15 seconds, so that the refusal is ours."""

PATIENCE_SECONDS: Final = 0.5
"""How long a read waits for the one before it, in order to be shared by more reviews."""

REMEMBERED: Final = 256
"""Objects of each sort whose value is kept, by their bytes: namespaces are read for every VM and
order of a tenant, and the claims of a VM twice for it."""

REMEMBERED_BYTES: Final = 4096
"""Larger ones are decoded each time: whoever makes objects does not fill our memory."""

AT_ONCE: Final = {"Accept-Encoding": "gzip"}
"""Headers of a read. To whoever takes no gzip kube-apiserver sends a list object by object, each in
a chunk of its own; to whoever does it sends at once what is below 128 KiB, which it does not pack
(`deferredResponseWriter` in k8s.io/apiserver)."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
V = TypeVar("V")


class Asking(Protocol):
    """The API server (`shared.kube.connect.Connection`)."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """Send a request and return the body of its answer; raises ApiError."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the process follows: the state that the catalog shows, its age, the last settings.

    `ages` are the seconds since each collection was proven fresh, infinite before its first
    list; `age_max` is how old the state may be for a promise; `refused` are the verbs that we
    lack, by collection.
    """

    state: ClusterState
    ages: Callable[[], Mapping[str, float]]
    settings: Callable[[], GpuSettings]
    age_max: float = VIEW_AGE_MAX
    refused: Callable[[], Mapping[str, str]] = dict

    def age(self) -> float:
        """The age of the state: that of the oldest collection."""
        return max(self.ages().values(), default=float("inf"))


@dataclass(slots=True)
class _Flight(Generic[V]):
    """A read that has not ended: `answer` is what it brought, None where it was given up."""

    landed: asyncio.Event = field(default_factory=asyncio.Event)
    answer: V | None = None


class Rounds(Generic[V]):
    """Equal reads at once: who comes while one is under way gets the next, with all others."""

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        self._under_way: dict[str, _Flight[V]] = {}
        self._next: dict[str, _Flight[V]] = {}

    async def get(self, key: str, read: Callable[[], Awaitable[V]]) -> V:
        """What a read brings that begins now or later; `read` raises nothing."""
        while True:
            flight = self._next.get(key)
            if flight is None:
                return await self._lead(key, read)
            await flight.landed.wait()
            if flight.answer is not None:
                return flight.answer  # else its leader was cancelled: one of us leads

    async def _lead(self, key: str, read: Callable[[], Awaitable[V]]) -> V:
        flight: _Flight[V] = _Flight()
        self._next[key] = flight
        try:
            before = self._under_way.get(key)
            if before is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._patience):
                        await before.landed.wait()
            # From here on nobody joins any more.
            del self._next[key]
            self._under_way[key] = flight
            flight.answer = await read()
            return flight.answer
        finally:
            for table in (self._next, self._under_way):
                if table.get(key) is flight:
                    del table[key]
            flight.landed.set()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """What was read: `value` is what there is of it where it could not be."""

    value: T_co
    unread: Unread | None = None


class Source(Generic[T]):
    """Things of one sort: read, and made values of, once for all who ask at once.

    Args:
        api: the API server.
        take: the value of the body that was read; of None where there is nothing.
    """

    def __init__(self, api: Asking, take: Callable[[bytes | None], T]) -> None:
        self._api = api
        self._take = take
        self._rounds: Rounds[Answer[T]] = Rounds()

    async def get(
        self, what: str, group_version: str, resource: str, name: str, namespace: str = ""
    ) -> Answer[T]:
        """One object; `what` is how a refusal calls it. An empty name is nothing's."""
        try:
            path = item(group_version, resource, name, namespace)
        except BadRequest:
            return Answer(self._take(None))  # nothing can have this name
        return await self.at(what, path)

    async def at(self, what: str, path: str) -> Answer[T]:
        """Whatever is at a path."""

        async def read() -> Answer[T]:
            try:
                body = await self._api.request(
                    "GET", path, headers=AT_ONCE, timeout_seconds=READ_SECONDS
                )
            except NotFound:
                return Answer(self._take(None))
            except ApiError as error:
                log.warning("cannot be read for admission", what=what, error=str(error))
                return Answer(self._take(None), Unread(what, _why(error)))
            return Answer(self._take(body))

        return await self._rounds.get(path, read)


class KubernetesReader:
    """Reads what decisions take (`admission.inputs.Reader`).

    Args:
        api: the API server.
        known: what the process follows.
    """

    def __init__(self, api: Asking, known: Known) -> None:
        self._known = known
        self._settings_map = Source(api, self._parsed)
        self._parsed_last: tuple[bytes, GpuSettings, GpuSettings] | None = None
        self._class_list = Source(api, _classes())
        self._kubevirt_list = Source(api, _listed(decode.kubevirt))
        self._namespaces = Source(api, _single(decode.namespace))
        self._claims = Source(api, _single(decode.claim))
        self._vms = Source(api, _single(decode.vm))
        self._vmis = Source(api, _single(decode.vmi))
        self._migrations = Source(api, _single(decode.migration))

    async def for_vmi(self, namespace: str, needs: Callable[[], VmiNeeds]) -> VmiInputs:
        """Everything that a decision about a VMI takes."""
        state = self._known.state
        async with asyncio.TaskGroup() as tasks:
            hoster = await self._hoster(tasks, namespace)
            await asyncio.sleep(0)  # these leave; the API server works while the VMI is looked at
            asked = needs()
            seen = {
                name: known.attached_to
                for name in asked.claims
                if (known := state.holders.claims.get((namespace, name))) and known.attached_to
            }
            claims = [tasks.create_task(self._claim(namespace, name)) for name in asked.claims]
            owner = tasks.create_task(self._vm(namespace, asked.owner))
            holders = {
                holder: tasks.create_task(self._present(namespace, holder))
                for holder in set(seen.values())
            }
        found_claims = [claim for task in claims if (claim := task.result().value) is not None]
        named = {claim.name: claim for claim in found_claims}
        attached = {claim.attached_to for claim in named.values() if claim.attached_to}
        if unheard := attached - holders.keys():
            async with asyncio.TaskGroup() as tasks:
                for holder in unheard:
                    holders[holder] = tasks.create_task(self._present(namespace, holder))
        present = {holder: holders[holder].result() for holder in attached}
        found, unread = hoster()
        return VmiInputs(
            hoster=found,
            claims=named,
            present=frozenset(h.uid for h, answer in present.items() if answer.value),
            rivals={name: rivals(state, namespace, name) for name in asked.claims},
            owner=owner.result().value,
            views=self._views(namespace, asked.classes) if found.by_scheduler else {},
            unread=(
                *unread,
                *_unread(task.result() for task in claims),
                *_unread([owner.result()]),
                *_unread(present.values()),
                *(self._unknown(_VMIS) if asked.claims else ()),
            ),
        )

    async def for_final(self) -> FinalInputs:
        """What the last look at a VMI takes; from memory."""
        return FinalInputs.of(self._known.state)

    async def for_pod(self, needs: PodNeeds) -> PodInputs:
        """Everything that a decision about a pod takes."""
        async with asyncio.TaskGroup() as tasks:
            settings = tasks.create_task(self._settings())
            classes = tasks.create_task(self._classes())
            vmi = tasks.create_task(self._vmi(needs.namespace, needs.vmi))
            migration = tasks.create_task(self._migration(needs.namespace, needs.migration))
        answers = (settings.result(), classes.result(), vmi.result(), migration.result())
        return PodInputs(
            hoster=Hoster(settings=answers[0].value, classes=answers[1].value),
            vmi=answers[2].value,
            migration=answers[3].value,
            unread=tuple(_unread(answers)),
        )

    async def for_order(self, needs: OrderNeeds) -> OrderInputs:
        """Everything that a decision about an order takes."""
        async with asyncio.TaskGroup() as tasks:
            read = await self._hoster(tasks, needs.namespace)
        hoster, unread = read()
        view = self._views(needs.namespace, [needs.class_name])[needs.class_name]
        return OrderInputs(hoster, view, unread)

    async def for_class(self, needs: ClassNeeds) -> ClassInputs:
        """Everything that a decision about a class takes."""
        async with asyncio.TaskGroup() as tasks:
            settings = tasks.create_task(self._settings())
            classes = tasks.create_task(self._classes())
            kubevirts = tasks.create_task(self._kubevirts())
        found = settings.result().value
        hoster = Hoster(
            settings=found,
            classes=classes.result().value,
            kubevirt=kubevirt_in_force(kubevirts.result().value, found.reading.kubevirt_namespace),
        )
        claims = self._known.state.holders.claims_of(needs.class_name)
        return ClassInputs(hoster, claims, tuple(_unread([classes.result()])))

    async def _hoster(
        self, tasks: asyncio.TaskGroup, namespace: str
    ) -> Callable[[], tuple[Hoster, tuple[Unread, ...]]]:
        """Begin to read all that the hoster has set, for one namespace.

        Once the tasks have ended, what is returned tells it, and what could not be read.
        """
        # First what takes the API server longest, before the others are even made.
        classes = tasks.create_task(self._classes())
        await asyncio.sleep(0)
        settings = tasks.create_task(self._settings())
        kubevirts = tasks.create_task(self._kubevirts())
        possible = [tasks.create_task(self._namespace(name)) for name in tops(namespace)]

        def read() -> tuple[Hoster, tuple[Unread, ...]]:
            found = [each for task in possible if (each := task.result().value) is not None]
            namespaces = {each.name: each for each in found}
            in_force = settings.result().value
            hoster = Hoster(
                settings=in_force,
                classes=classes.result().value,
                kubevirt=kubevirt_in_force(
                    kubevirts.result().value, in_force.reading.kubevirt_namespace
                ),
                line=line(namespace, namespaces),
                namespaces=namespaces,
            )
            answers = (settings.result(), classes.result(), kubevirts.result())
            return hoster, (*_unread(answers), *_unread(task.result() for task in possible))

        return read

    def _views(self, namespace: str, classes: Iterable[str]) -> dict[str, View]:
        known = self._known
        age = known.age()
        refused = known.refused() if known.state.unreadable else {}
        return {
            name: View.of(known.state, namespace, name, age, known.age_max, refused)
            for name in classes
        }

    def _unknown(self, name: str) -> Iterator[Unread]:
        """A collection of the state that a decision relies on, where it is not known."""
        if self._known.ages().get(name, float("inf")) == float("inf"):
            yield Unread("the virtual machines", "they are not known yet")
        elif name in self._known.state.unreadable:
            yield Unread("the virtual machines", "we may not read them")

    # One thing each.

    def _parsed(self, body: bytes | None) -> GpuSettings:
        if body is None:
            return GpuSettings()
        previous, last = self._known.settings(), self._parsed_last
        if last is None or last[0] != body or last[1] is not previous:
            found = parse(mapping(_object(body).get("data")), previous)[0]
            last = self._parsed_last = body, previous, found
        return last[2]

    async def _settings(self) -> Answer[GpuSettings]:
        return await self._settings_map.get(
            "the settings", "v1", "configmaps", v.SETTINGS_NAME, v.NAMESPACE
        )

    async def _classes(self) -> Answer[Classes]:
        path = collection(v.GROUP_VERSION, v.RESOURCE_CLASSES)
        return await self._class_list.at("the GPU classes", path)

    async def _kubevirts(self) -> Answer[Sequence[KubeVirt]]:
        path = collection(v.KUBEVIRT_GROUP_VERSION, "kubevirts")
        return await self._kubevirt_list.at("KubeVirt's configuration", path)

    async def _namespace(self, name: str) -> Answer[Namespace | None]:
        return await self._namespaces.get(f"the namespace {name}", "v1", "namespaces", name)

    async def _claim(self, namespace: str, name: str) -> Answer[Claim | None]:
        return await self._claims.get(
            f"the claim {name}", v.GROUP_VERSION, v.RESOURCE_CLAIMS, name, namespace
        )

    async def _vm(self, namespace: str, name: str) -> Answer[Vm | None]:
        what, kind = f"the {v.KIND_VM} {name:.60}", v.KUBEVIRT_GROUP_VERSION
        return await self._vms.get(what, kind, "virtualmachines", name, namespace)

    async def _vmi(self, namespace: str, name: str) -> Answer[Vmi | None]:
        what, kind = f"the {v.KIND_VMI} {name:.60}", v.KUBEVIRT_GROUP_VERSION
        return await self._vmis.get(what, kind, _VMIS, name, namespace)

    async def _migration(self, namespace: str, name: str) -> Answer[Migration | None]:
        what, kind = f"the migration {name:.60}", v.KUBEVIRT_GROUP_VERSION
        resource = "virtualmachineinstancemigrations"
        return await self._migrations.get(what, kind, resource, name, namespace)

    async def _present(self, namespace: str, holder: Attachment) -> Answer[bool]:
        """Whether what a claim is attached to exists, with that uid, and is not final."""
        if holder.kind == v.KIND_VM:
            vm = await self._vm(namespace, holder.name)
            return Answer(vm.value is not None and vm.value.uid == holder.uid, vm.unread)
        vmi = await self._vmi(namespace, holder.name)
        there = vmi.value is not None and vmi.value.uid == holder.uid and not vmi.value.final
        return Answer(there, vmi.unread)


_VMIS: Final = "virtualmachineinstances"


def _why(error: ApiError) -> str:
    """Why something could not be read, in words that name nothing of the platform."""
    match error:
        case TimedOut():
            return "no answer in time"
        case Forbidden() | Unauthorized():
            return "we may not read it"
        case _:
            return f"the API server answers {error.code} {error.reason}"


def _value(read: Callable[[V], T]) -> Callable[[V], T | None]:
    """How something becomes a value; an object of which too little can be read counts as absent."""

    def value(raw: V) -> T | None:
        try:
            return read(raw)
        except decode.Undecodable as error:
            log.warning("cannot be read for admission", what=f"{error}")
            return None

    return value


def _single(read: Callable[[Json, decode.Note], T]) -> Callable[[bytes | None], T | None]:
    """How one object becomes a value: the same one for the same bytes, while it is remembered."""

    def decoded(body: bytes) -> T:
        return read(_object(body), _ignore)

    remembered = lru_cache(maxsize=REMEMBERED)(decoded)

    def known(body: bytes) -> T:
        return remembered(body) if len(body) <= REMEMBERED_BYTES else decoded(body)

    value = _value(known)
    return lambda body: None if body is None else value(body)


def _object(body: bytes) -> Json:
    return mapping(orjson.loads(body))


def _listed(read: Callable[[Json, decode.Note], T]) -> Callable[[bytes | None], Sequence[T]]:
    """How a list becomes values."""
    listed = Listed(_value(lambda raw: read(raw, _ignore)))
    return lambda body: () if body is None else listed.of(body)


def _classes() -> Callable[[bytes | None], Classes]:
    """How the list of classes becomes classes by name: the same for as long as none has changed."""
    listed = _listed(decode.gpu_class)
    last: Sequence[GpuClass] = ()
    classes = Classes()

    def read(body: bytes | None) -> Classes:
        nonlocal last, classes
        found = listed(body)
        if found is not last:
            last, classes = found, Classes((each.name, each) for each in found)
        return classes

    return read


def _unread(answers: Iterable[Answer[object]]) -> Iterator[Unread]:
    return (answer.unread for answer in answers if answer.unread is not None)


def _ignore(what: str) -> None:
    """Odd fields are the informer's to report."""
    del what
