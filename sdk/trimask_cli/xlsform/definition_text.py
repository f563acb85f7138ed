"""An imported form as a study definition in TOML, with what is still to be filled in as comments."""

from __future__ import annotations

import json
from typing import Any

from trimask_cli.xlsform.convert import Imported

__all__ = ["definition_text"]

_HEAD = """# Imported from {source}. Fill in what is commented, then `trimask study new` makes a study of it.

title = {title}
purpose = "Say in a sentence what the answers are for."
contact = "who-asks@example.org"

[privacy]
# The guarantee towards whoever reads a release. `trimask plan` shows what it costs in accuracy.
# epsilon = 1.0
# delta = 1e-6

[collection]
# Rows masked together (more than a row has columns), and published together at least.
# block_rows = 128
# release_rows = 1024
"""


def definition_text(imported: Imported, source: str) -> str:
    """The whole definition."""
    parts = [_HEAD.format(source=source, title=_value(imported.title or "Untitled"))]
    for attribute in imported.attributes:
        lines = ["[[attributes]]", *(_line(key, value) for key, value in attribute.items())]
        if attribute["kind"] in ("integer", "continuous"):
            lines += [f"# {bound} =" for bound in ("minimum", "maximum") if bound not in attribute]
        parts.append("\n".join(lines) + "\n")
    form = ["[form]", _line("languages", imported.languages)]
    if imported.intro:
        form.append(_line("intro", imported.intro))
    parts.append("\n".join(form) + "\n")
    for question in imported.questions:
        lines = ["[[form.questions]]"]
        for key, value in question.items():
            if key == "choices":
                lines += ["choices = [", *(f"    {_value(choice)}," for choice in value), "]"]
            else:
                lines.append(_line(key, value))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(key: str, value: Any) -> str:
    return f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    """TOML for what a definition has: a JSON string is a TOML string but for DEL, which has to be escaped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    return str(value)


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else _value(key)
