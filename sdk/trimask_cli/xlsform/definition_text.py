"""An imported form as a study definition in TOML, with what is still to be filled in as comments."""

from __future__ import annotations

from trimask_cli.toml_text import toml_line, toml_value
from trimask_cli.xlsform.convert import Imported

__all__ = ["definition_text"]

_HEAD = """# Imported from {source}. Fill in what is commented, then `trimask study new` makes a study of it.

title = {title}
purpose = "Say in a sentence what the answers are for."
contact = "who-asks@example.org"

[privacy]
# The guarantee towards readers of a release. `trimask plan` shows what it costs in accuracy.
# epsilon = 1.0
# delta = 1e-6

[collection]
# Rows masked together (more than a row has columns), and published together at least.
# block_rows = 128
# release_rows = 1024
"""


def definition_text(imported: Imported, source: str) -> str:
    """The whole definition."""
    parts = [_HEAD.format(source=source, title=toml_value(imported.title or "Untitled"))]
    for attribute in imported.attributes:
        lines = ["[[attributes]]", *(toml_line(key, value) for key, value in attribute.items())]
        if attribute["kind"] in ("integer", "continuous"):
            lines += [f"# {bound} =" for bound in ("minimum", "maximum") if bound not in attribute]
        parts.append("\n".join(lines) + "\n")
    form = ["[form]", toml_line("languages", imported.languages)]
    if imported.intro:
        form.append(toml_line("intro", imported.intro))
    parts.append("\n".join(form) + "\n")
    for question in imported.questions:
        lines = ["[[form.questions]]"]
        for key, value in question.items():
            if key in ("choices", "rows"):
                lines += [f"{key} = [", *(f"    {toml_value(item)}," for item in value), "]"]
            else:
                lines.append(toml_line(key, value))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
