"""What a line of the log and a call to a peer know of the request they belong to.

A request is named by 16 random hexadecimal digits, drawn where it enters the system and handed on from node to node, so
that one grep over all nodes' logs shows one request. It names a call, never a person: a device does not send one, and one
that comes on the public port is not believed.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any

__all__ = ["REQUEST_KEY", "current_request", "current_study", "known_request_id", "study_prefix"]

REQUEST_KEY = "trimask-request-id"
current_request: ContextVar[str] = ContextVar("trimask_request", default="")
current_study: ContextVar[str] = ContextVar("trimask_study", default="")
_REQUEST_ID = re.compile(r"[0-9a-f]{16}")
_STUDY_ID_BYTES, _PREFIX_DIGITS = 32, 12


def known_request_id(value: object) -> str:
    """A peer's request id, or nothing if it is not one."""
    return value if isinstance(value, str) and _REQUEST_ID.fullmatch(value) else ""


def study_prefix(request: Any) -> str:
    """The first digits of the study a message is about; nothing if it is about none."""
    study_id = getattr(request, "study_id", None) or getattr(
        getattr(request, "attempt", None), "study_id", None
    )
    if isinstance(study_id, bytes) and len(study_id) == _STUDY_ID_BYTES:
        return study_id.hex()[:_PREFIX_DIGITS]
    return ""
