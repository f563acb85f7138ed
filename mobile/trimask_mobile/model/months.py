"""The months' names in a list, in every language the app's font can write: words/months.json, which
`node scripts/month_names.mjs` writes from the Unicode CLDR. Where it has none a list shows numbers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from trimask_core.writing import month_names

__all__ = ["listed_months"]


@cache
def _table() -> dict[str, list[str]]:
    path = Path(__file__).parents[1] / "words" / "months.json"
    found: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def listed_months(language: str) -> tuple[str, ...]:
    """Twelve names, standing alone (a date in a sentence may bend them)."""
    return tuple(_table().get(language.split("-")[0].lower(), ())) or month_names(language)
