"""Bytes and objects as text: base64 in JSON, and the canonical form of JSON that is hashed."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["canonical_json", "decode_bytes", "encode_bytes"]


def encode_bytes(value: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(value).decode()


def decode_bytes(text: str) -> bytes:
    """Base64 text as bytes; `ValueError` if it is anything else."""
    return base64.b64decode(text, validate=True)


def canonical_json(data: Mapping[str, Any]) -> bytes:
    """The canonical JSON of a study, which is hashed."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()
