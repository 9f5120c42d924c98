"""What can be set: the ConfigMap that is followed while running, and a process's own flags.

`parse` is the ConfigMap `gpu-settings` (rule 9), pure. `ProcessSettings` is what every process
takes as flags or environment variables when it starts; nothing else reads the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict
from typing_extensions import override

from shared.core.gpunames import is_extended_resource
from shared.core.model import Placement, Settings
from shared.vocabulary import KUBEVIRT_NAMESPACE, NAMESPACE

T = TypeVar("T")

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DURATION: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?", re.ASCII)
_DURATION_SECONDS_MAX: Final = 24 * 3600
_SHOWN_LENGTH_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """All settings of rule 9, as in force. Durations are in seconds.

    `reading` is the part that figures depend on; the defaults are those of a ConfigMap that
    does not exist or says nothing.
    """

    reading: Settings = field(default_factory=Settings)
    forbid_raw_names: bool = False
    kubevirt_usernames: frozenset[str] = frozenset(
        {f"system:serviceaccount:{KUBEVIRT_NAMESPACE}:kubevirt-controller"}
    )
    binder_username: str = f"system:serviceaccount:{NAMESPACE}:gpu-binder"
    trusted_groups: frozenset[str] = frozenset({"system:masters"})
    node_loss_grace: int = 300
    refusal_skip: int = 600
    pin_timeout: int = 300
    starvation_bound: int = 900


@dataclass(frozen=True, slots=True)
class Problem:
    """A bad setting: its key, what stands there, and what was expected."""

    key: str
    value: str
    expected: str

    @override
    def __str__(self) -> str:
        shown = repr(self.value)
        if len(shown) > _SHOWN_LENGTH_MAX:
            shown = f"{shown[:_SHOWN_LENGTH_MAX]}…"
        return f"{self.key}: {shown}, expected {self.expected}"


class _Bad(Exception):
    """A value is none; the message says what was expected."""


def parse(
    data: Mapping[str, object], previous: GpuSettings
) -> tuple[GpuSettings, tuple[Problem, ...]]:
    """Read the ConfigMap's `data`; where a value is bad, the previous one stays in force.

    A key that is absent has its default. Of the list `resourceNames` a bad name alone is left
    out. A key that does not exist is reported, since it is most likely misspelt.

    Returns:
        What is in force, and every problem, by key.
    """
    problems: list[Problem] = []
    default = GpuSettings()

    def read(key: str, take: Callable[[str], T], usual: T, last: T) -> T:
        if key not in data:
            return usual
        value = data[key]
        try:
            return take(value.strip() if isinstance(value, str) else _no_text())
        except _Bad as bad:
            problems.append(Problem(key, str(value), str(bad)))
            return last

    def names(value: str) -> frozenset[str]:
        found = _list(value)
        bad = [each for each in found if not is_extended_resource(each)]
        problems.extend(Problem("resourceNames", each, _A_RESOURCE) for each in bad)
        return frozenset(found) - frozenset(bad)

    last, usual = previous.reading, default.reading
    reading = Settings(
        enabled=read("enabled", _switch, usual.enabled, last.enabled),
        placement=read("placement", _placement, usual.placement, last.placement),
        kubevirt_namespace=read(
            "kubevirtNamespace", _label, usual.kubevirt_namespace, last.kubevirt_namespace
        ),
        resource_names=read("resourceNames", names, usual.resource_names, last.resource_names),
    )
    found = GpuSettings(
        reading=reading,
        forbid_raw_names=read(
            "forbidRawNames", _switch, default.forbid_raw_names, previous.forbid_raw_names
        ),
        kubevirt_usernames=read(
            "kubevirtUsernames", _accounts, default.kubevirt_usernames, previous.kubevirt_usernames
        ),
        binder_username=read(
            "binderUsername", _account, default.binder_username, previous.binder_username
        ),
        trusted_groups=read(
            "trustedGroups", _accounts, default.trusted_groups, previous.trusted_groups
        ),
    )
    for key, name in _DURATIONS.items():
        seconds = read(key, _duration, getattr(default, name), getattr(previous, name))
        found = replace(found, **{name: seconds})
    problems.extend(
        Problem(key, str(data[key]), f"one of the keys {', '.join(sorted(_KEYS))}")
        for key in data
        if key not in _KEYS
    )
    return found, tuple(sorted(problems, key=lambda problem: problem.key))


_DURATIONS: Final = {
    "nodeLossGrace": "node_loss_grace",
    "refusalSkip": "refusal_skip",
    "pinTimeout": "pin_timeout",
    "starvationBound": "starvation_bound",
}
_KEYS: Final = frozenset(_DURATIONS) | {
    "enabled",
    "placement",
    "resourceNames",
    "forbidRawNames",
    "kubevirtNamespace",
    "kubevirtUsernames",
    "binderUsername",
    "trustedGroups",
}
_A_RESOURCE: Final = (
    "the name of an extended resource with a domain, such as nvidia.com/GA102GL_A10, and none of "
    "Kubernetes' own"
)


def _no_text() -> str:
    raise _Bad("text")


def _switch(value: str) -> bool:
    if value not in {"true", "false"}:
        raise _Bad("true or false")
    return value == "true"


def _placement(value: str) -> Placement:
    try:
        return Placement(value)
    except ValueError:
        raise _Bad(" or ".join(Placement)) from None


def _label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise _Bad("the name of a namespace: lower-case letters, digits and -, at most 63")
    return value


def _list(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


def _accounts(value: str) -> frozenset[str]:
    found = _list(value)
    if not found or any(" " in each for each in found):
        raise _Bad("names separated by commas, at least one, without blanks inside")
    return frozenset(found)


def _account(value: str) -> str:
    if not value or " " in value or "," in value:
        raise _Bad("one name, without blanks or commas")
    return value


def _duration(value: str) -> int:
    found = _DURATION.fullmatch(value)
    hours, minutes, seconds = found.groups(default="0") if found else ("0", "0", "0")
    total = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if not 0 < total <= _DURATION_SECONDS_MAX:
        raise _Bad("a time from 1s to 24h in hours, minutes and seconds, such as 90s or 1h30m")
    return total


class ProcessSettings(BaseSettings):
    """What every process takes: flags such as `--log-level`, or variables such as GPU_LOG_LEVEL."""

    model_config = SettingsConfigDict(
        env_prefix="GPU_",
        cli_kebab_case=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        extra="forbid",
        frozen=True,
    )

    kubeconfig: Path | None = Field(
        default=None,
        description="kubeconfig to reach the API server with; without it, the service account "
        "that is mounted into the pod",
    )
    context: str | None = Field(
        default=None, description="context of the kubeconfig; without it, its current one"
    )
    watch_seconds: int = Field(
        default=6,
        ge=3,
        le=43,
        description="how long a watch of the cluster lasts at least; at most it lasts a third "
        "longer. Longer ones are fewer, and show later that nothing happened",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe lines to log"
    )
    log_format: Literal["json", "text"] = Field(
        default="json", description="json, one object per line, or text, for people"
    )


class BadSettings(Exception):
    """Flags or variables that cannot be used; the message has one line for each."""


S = TypeVar("S", bound=ProcessSettings)


def read(kind: type[S], arguments: Sequence[str]) -> S:
    """Read a process's settings: a flag wins over its variable, and that over the default.

    Raises:
        BadSettings: every bad one, with its value and what was expected.
        SystemExit: after `--help`, and for a flag that does not exist.
    """
    try:
        return CliApp.run(kind, cli_args=list(arguments))
    except ValidationError as error:
        raise BadSettings("\n".join(_told(each) for each in error.errors())) from None


def _told(error: ErrorDetails) -> str:
    """One line for a bad setting; one for several that do not go together names them itself."""
    if not error["loc"]:
        return error["msg"].removeprefix("Value error, ")
    flag = ".".join(str(part) for part in error["loc"]).replace("_", "-")
    return f"--{flag}: {error['input']!r:.60}: {error['msg']}"
