"""Values as TOML text, for definitions that the program drafts."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["toml_line", "toml_value"]


def toml_line(key: str, value: Any) -> str:
    """`key = value`."""
    return f"{key} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """TOML for what a definition has: a JSON string is a TOML string but for DEL, which has to be escaped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    return str(value)


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else toml_value(key)
