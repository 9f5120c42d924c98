"""Logs: the message is a constant, the facts are fields; one JSON object per line, or text.

structlog, not the standard library with a formatter: facts stay values until they are written,
and a line can be bound to its context. What libraries log comes out the same way.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal

import orjson
import structlog
from structlog.typing import Processor

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(level: Literal["debug", "info", "warning", "error"], form: str) -> None:
    """Set up logging for the process, to standard error.

    Args:
        level: the least severe lines that are written.
        form: `json`, or anything else for people.
    """
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    written: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_dumps)]
        if form == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *written],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _dumps(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
