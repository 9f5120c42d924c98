"""The settings, followed: the ConfigMap as it changes, the last good values kept."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from shared import vocabulary as v
from shared.core.model import Change, Put
from shared.fields import Json, mapping
from shared.kube.collections import Collection, config_map
from shared.settings import GpuSettings, Problem, parse

logger: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class FollowedSettings:
    """A sink for the ConfigMap `gpu-settings` (rule 9).

    Attributes:
        in_force: all settings; the defaults while there is no ConfigMap.
        problems: what in the ConfigMap is bad now; the last good value stands in for it.
    """

    collection: Collection[Json] = config_map(v.NAMESPACE, v.SETTINGS_NAME)

    def __init__(self, on_change: Callable[[Change], None]) -> None:
        self._on_change = on_change
        self.in_force = GpuSettings()
        self.problems: tuple[Problem, ...] = ()

    def put(self, value: Json) -> None:
        """Take in the ConfigMap."""
        found, problems = parse(mapping(value.get("data")), self.in_force)
        self._adopt(found, problems)

    def gone(self, value: Json) -> None:
        """Go back to the defaults: the ConfigMap was deleted."""
        del value
        self._adopt(GpuSettings(), ())

    def _adopt(self, found: GpuSettings, problems: tuple[Problem, ...]) -> None:
        if problems != self.problems:
            for problem in problems:
                logger.warning("bad setting, the last good value stays", problem=str(problem))
        before, self.in_force, self.problems = self.in_force, found, problems
        if before != found:
            self._on_change(Put(found.reading))
