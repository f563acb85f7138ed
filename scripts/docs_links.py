"""A hook of mkdocs: a link to a file of the repository that is no page of the site is shown as the file's name."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace links that lead out of the documentation's folder, or to files it does not publish."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(match: re.Match[str]) -> str:
        words, target = match[1], posixpath.normpath(posixpath.join("docs", folder, match[2]))
        if target.startswith("docs/") and not target.endswith((".ipynb", ".py", "/")):
            return match[0]
        name = f"`{target}`"
        return name if words.strip("`") in target else f"{words} ({name})"

    return _LINK.sub(replaced, markdown)
