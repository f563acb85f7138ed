"""Logs: one line an event, as text or JSON, never a secret.

Every line knows the request it belongs to and the first digits of its study. No line at info or above has the id of a
submission: with a provider's own clock that would tie a row to a moment and an address.

What a line names (`log.info("pooled block=%s rows=%d", ...)`) is a field of its own in JSON, and no part of the message. A
full disk or a database that is away is said in its own words, without a traceback. What a background task, or one request,
has said within the last minute is not said again.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Any

from trimask_core.refusals import Reason
from trimask_server.operations.context import current_request, current_study
from trimask_server.operations.store_failures import reason_of_failure
from trimask_server.operations.tracing import trace_id

__all__ = ["configure", "make_handler"]

_NAMED = re.compile(r"(?:\b([a-z_]+)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_LEFT_OVER = re.compile(r"\s*([:;,])[\s:;,]*(?=\s)|\s+(?=\s)")  # what stood between fields
_REPEAT_SECONDS = 60.0
_REMEMBERED = 1000


def _context() -> dict[str, str]:
    found = {"request_id": current_request.get(), "study": current_study.get(), "trace_id": trace_id()}
    return {key: value for key, value in found.items() if value}


def _passing(record: logging.LogRecord) -> str:
    """What a full disk or a server that is away says, where that is what failed."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None or reason_of_failure(error) is not Reason.STORE_UNAVAILABLE:
        return ""
    return str(error) or type(error).__name__


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = f"{when} {record.levelname:<7} {record.name}: {record.getMessage()}"
        passing = _passing(record)
        line = f"{line} why={passing}" if passing else line
        known = " ".join(f"{key}={value}" for key, value in _context().items())
        line = f"{line} [{known}]" if known else line
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info and not passing else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message, fields = _parts(record)
        entry = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "node": record.name,
            "message": message,
            **_context(),
            **fields,
        }
        passing = _passing(record)
        if passing:
            entry["why"] = passing
        elif record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _parts(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """A line's message without what it names, and that by name."""
    given = list(record.args) if isinstance(record.args, tuple) else []
    fields: dict[str, Any] = {}
    plain: list[Any] = []

    def take(match: re.Match[str]) -> str:
        if match[0].endswith("%%"):
            return match[0]
        value = given.pop(0)
        if match[1] is None:
            plain.append(value)
            return match[0]
        fields[match[1]] = value if isinstance(value, int | float) else str(value)
        return ""

    template = _NAMED.sub(take, str(record.msg)) if given else str(record.msg)
    message = template % tuple(plain) if record.args else template
    return _LEFT_OVER.sub(lambda match: match[1] or "", f" {message} ").strip(" :;,"), fields


class _Repeats(logging.Filter):
    """Keeps back warnings of one background task, or of one request, that were written within the last minute."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        said = f"{current_request.get()} {record.getMessage()} {_passing(record)}"
        if record.created - self._said.get(said, 0.0) < _REPEAT_SECONDS:
            return False
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[said] = record.created
        return True


def make_handler(style: str) -> logging.Handler:
    """Writes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    handler.addFilter(_Repeats())
    return handler


def configure(name: str, style: str) -> logging.Logger:
    """The node's logger."""
    logger = logging.getLogger(f"trimask.{name}")
    logger.handlers = [make_handler(style)]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
