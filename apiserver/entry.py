"""One option as it is served: its content, its versions, its bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from apiserver.forms import Encoded, encode
from apiserver.versions import instant
from shared.api.conditions import Condition, ConditionType
from shared.core.terms import Truth
from shared.reasons import Reason
from shared.times import rfc3339

if TYPE_CHECKING:
    from apiserver.selectors import Selector
    from shared.core.options import Option


@dataclass(frozen=True)
class Entry:
    """One option at one version.

    `created` is the version under which it came, `labelled` the one at which its labels last
    changed, `since` the one at which Selectable got its status.
    """

    option: Option
    version: int
    created: int
    labelled: int
    since: int
    fresh: Condition

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.option.namespace

    @property
    def name(self) -> str:
        """Its name: that of the class."""
        return self.option.gpu_class.name

    @cached_property
    def encoded(self) -> Encoded:
        """Its bytes, made when first asked for."""
        return encode(
            self.option,
            version=self.version,
            observed_time=rfc3339(instant(self.version)),
            since=rfc3339(instant(self.since)),
            fresh=self.fresh,
        )

    def matches(self, selector: Selector) -> bool:
        """Whether a selector means it."""
        return selector.matches(self.namespace, self.name, self.option.gpu_class.labels)

    def at(self, version: int) -> Entry:
        """The same content under another version."""
        return replace(self, version=version)


def freshness(lag: str | None, since: datetime) -> Condition:
    """The condition Fresh: True, or False with what lags."""
    return Condition(
        type=ConditionType.FRESH,
        status=Truth.TRUE if lag is None else Truth.FALSE,
        last_transition_time=rfc3339(since),
        reason=Reason.AVAILABLE if lag is None else Reason.INPUTS_UNREADABLE,
        message=lag or "",
    )
