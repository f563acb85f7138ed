"""The app's words: those it shares with the page (trimask_core.explain), and its own, a JSON file a language.

Of its own are what only the app has, and sentences that must differ: it keeps a list of studies, and is no page. A study's
words are in its form.

Months have names in every language the app's font can write: words/months.json, which
`node scripts/month_names.mjs` writes from the Unicode CLDR. Where it has none a list shows numbers.
"""

from __future__ import annotations

import datetime as dt
import json
from functools import cache
from pathlib import Path

from trimask_core.explain import sentences
from trimask_core.form.parse_input import month_names, show_date

_FOLDER = Path(__file__).parents[1] / "words"
LANGUAGES = {"en": "English", "de": "Deutsch"}


class Catalogue:
    """The words of one language."""

    def __init__(self, language: str, words: dict[str, str]) -> None:
        self.language = language
        self.words = words

    def say(self, key: str, **values: object) -> str:
        """One text with its values."""
        return self.words[key].format(**values)

    def count(self, key: str, number: int, **values: object) -> str:
        """One text that depends on a number: `key.one` or `key.many`."""
        return self.say(f"{key}.{'one' if number == 1 else 'many'}", number=number, **values)

    def span(self, milliseconds: int) -> str:
        """How long from now, roughly."""
        minutes = -(-milliseconds // 60_000)
        if minutes <= 0:
            return self.say("when.soon")
        if minutes < 100:
            return self.count("when.minutes", minutes)
        return self.count("when.hours", -(-minutes // 60))


@cache
def catalogue(language: str) -> Catalogue:
    """The catalogue nearest to a language tag ("de-AT" -> "de"), English where there is none."""
    tag = language.replace("_", "-").split("-")[0].lower()
    tag = tag if tag in LANGUAGES else "en"
    own: dict[str, str] = json.loads((_FOLDER / f"{tag}.json").read_text(encoding="utf-8"))
    return Catalogue(tag, {**sentences.catalogue(tag), **own})


def local_time(milliseconds: int, language: str) -> str:
    """Where the person is, as the person writes it."""
    when = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).astimezone()
    return f"{show_date(when.date(), language)}, {when:%H:%M}"


@cache
def _table() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((_FOLDER / "months.json").read_text(encoding="utf-8"))
    return found


def listed_months(language: str) -> tuple[str, ...]:
    """Twelve names, standing alone (a date in a sentence may bend them)."""
    return tuple(_table().get(language.split("-")[0].lower(), ())) or month_names(language)
