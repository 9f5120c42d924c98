"""One request that somebody tries, always as a dry run: admission is asked, nothing changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from shared import vocabulary as words
from tests.cluster.access import User
from tests.cluster.api import JSON_PATCH, MERGE, Api, Object, Reply
from tests.cluster.session import Cluster
from tests.policies.scene import NAMESPACE, Scene

Act = Callable[[Cluster, Scene, Api], Awaitable[Reply]]

DRY: Final = {"dryRun": "All"}


def patches(kind: str, name: str, patch: Object | list[Object], subresource: str = "") -> Act:
    """Patch an object: a list is a JSON Patch, else a merge patch."""

    async def act(cluster: Cluster, scene: Scene, api: Api) -> Reply:
        del cluster, scene
        path = await _path(api, kind, name, subresource)
        how = {"Content-Type": JSON_PATCH if isinstance(patch, list) else MERGE}
        return await api.request("PATCH", path, patch, headers=how, query=DRY)

    return act


def creates(build: Callable[[Scene], Object]) -> Act:
    """Create an object in the place that it names itself."""

    async def act(cluster: Cluster, scene: Scene, api: Api) -> Reply:
        del cluster
        made = build(scene)
        kind = f"{made['apiVersion']}/{made['kind']}"
        path = await api.path(kind, made["metadata"].get("namespace"))
        return await api.request("POST", path, made, query=DRY)

    return act


def posts(path: str, body: Object) -> Act:
    """Create what has no kind in discovery; the path begins below the namespace."""

    async def act(cluster: Cluster, scene: Scene, api: Api) -> Reply:
        del cluster, scene
        return await api.request("POST", f"/api/v1/namespaces/{NAMESPACE}{path}", body, query=DRY)

    return act


def replaces(kind: str, name: str, change: Callable[[Object], None], subresource: str = "") -> Act:
    """Replace an object by itself with a change: the way where a patch is not offered."""

    async def act(cluster: Cluster, scene: Scene, api: Api) -> Reply:
        del scene
        path = await _path(cluster.admin, kind, name)
        found = await cluster.admin.call("GET", path)
        change(found)
        return await api.request("PUT", await _path(api, kind, name, subresource), found, query=DRY)

    return act


async def _path(api: Api, kind: str, name: str, subresource: str = "") -> str:
    path = await api.path(kind, NAMESPACE, name)
    return f"{path}/{subresource}" if subresource else path


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who tries what.

    Attributes:
        named: what it is, in words.
        thing: the policy that it is about.
        who: whose certificate it comes with.
        act: the request.
    """

    named: str
    thing: str
    who: User
    act: Act

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return policy_name(self.thing)

    async def answer(self, cluster: Cluster, scene: Scene) -> Reply:
        """What the API server says to it."""
        return await self.act(cluster, scene, cluster.api(self.who))

    async def refusal(self, cluster: Cluster, scene: Scene) -> str:
        """What a policy of ours has against it; empty where it is let in.

        Raises:
            AssertionError: when it fails for anything else, a missing right for instance.
        """
        reply = await self.answer(cluster, scene)
        if reply.status < 400:
            return ""
        message = str(reply.body.get("message", reply.text))
        assert "ValidatingAdmissionPolicy" in message, f"{self.named}: {reply.status} {message}"
        assert (reply.status, reply.body["reason"]) == (403, "Forbidden"), message
        return message


@dataclass(frozen=True, slots=True)
class Attack(Attempt):
    """An attempt that is refused.

    Attributes:
        told: the message, or how it begins.
        only: the index of the validation that alone is in its way, if there is one that a test
            takes out to see.
    """

    told: str = ""
    only: int | None = None


@dataclass(frozen=True, slots=True)
class Lawful(Attempt):
    """An attempt that is let in.

    Attributes:
        without: the match condition without which it would be refused, if there is one.
    """

    without: str = ""


def policy_name(thing: str) -> str:
    """How the policy is called that guards a thing."""
    return f"{words.POLICY_PREFIX}{thing}-policy"
