"""Logs: one line an event, as text or JSON, never a secret.

Every line knows the request it belongs to and the first digits of its study. No line at info or above has the id of a
submission: with a provider's own clock that would tie a row to a moment and an address.
"""

from __future__ import annotations

import json
import logging
import sys
import time

from trimask_server.operations.context import current_request, current_study
from trimask_server.operations.tracing import trace_id

__all__ = ["configure"]


def _context() -> dict[str, str]:
    found = {"request_id": current_request.get(), "study": current_study.get(), "trace_id": trace_id()}
    return {key: value for key, value in found.items() if value}


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = f"{when} {record.levelname:<7} {record.name}: {record.getMessage()}"
        known = " ".join(f"{key}={value}" for key, value in _context().items())
        line = f"{line} [{known}]" if known else line
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "node": record.name,
            "message": record.getMessage(),
            **_context(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure(name: str, style: str) -> logging.Logger:
    """The node's logger, writing to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    logger = logging.getLogger(f"trimask.{name}")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
