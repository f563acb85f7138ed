"""Which ways of taking part can show a form in a language.

The page in a browser shows every script. The app has one font and lays out from left to right: a form that it would show
as empty boxes or in the wrong order is not one a person can consent to, so it opens a form only in languages it can show.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from trimask_core.form.form import Form
from trimask_core.form.texts import Texts, is_right_to_left

# What Roboto, the app's font, has glyphs for, without private use and specials; a test reads the font itself.
_RANGES = """
    20-7E A0-17F 18F 192 1A0-1A1 1AF-1B0 1F0 1FA-1FF 218-21B 237 259 2BC 2C6-2C7 2C9 2D8-2DD 2F3 300-301 303 309 30F 323
    384-38A 38C 38E-3A1 3A3-3CE 3D1-3D2 3D6 400-486 488-513 1E00-1E01 1E3E-1E3F 1E80-1E85 1EA0-1EF9 1F4D 2000-200B
    2010-2011 2013-2015 2017-201E 2020-2022 2025-2027 2030 2032-2033 2039-203A 203C 2044 2074 207F 20A3-20A4 20A6-20AC
    20B1 20B9-20BA 20BC-20BD 2105 2113 2116 2122 2126 212E 215B-215E 2202 2206 220F 2211-2212 221A 221E 222B 2248 2260
    2264-2265 25CA FB01-FB04
"""
_APP_LETTERS = frozenset(
    code
    for item in _RANGES.split()
    for low, _, high in [item.partition("-")]
    for code in range(int(low, 16), int(high or low, 16) + 1)
) | {9, 10, 13}


@dataclass(frozen=True)
class Unshown:
    """Why the app cannot show a language: its direction, and the characters its font lacks, each once."""

    language: str
    right_to_left: bool
    characters: str
    where: str = ""

    @property
    def is_script(self) -> bool:
        """Whether a character belongs to the script itself, rather than being a mark among letters that can be shown."""
        return self.right_to_left or any(unicodedata.category(one)[0] in "LM" for one in self.characters)


def app_cannot_show(form: Form, language: str) -> Unshown | None:
    """What keeps the app from showing a form in a language; `where` is the first text that does."""
    right, lacking, first = is_right_to_left(language), "", ""
    for where, texts in form_texts(form):
        text = texts[language]
        odd = [letter for letter in text if ord(letter) not in _APP_LETTERS]
        turned = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)
        first = first or (where if odd or turned else "")
        right = right or turned
        lacking += "".join(letter for letter in dict.fromkeys(odd) if letter not in lacking)
    return Unshown(language, right, lacking, first) if right or lacking else None


def app_languages(form: Form) -> tuple[str, ...]:
    """The languages that the app can show this form in."""
    return tuple(language for language in form.languages if app_cannot_show(form, language) is None)


def form_texts(form: Form) -> Iterator[tuple[str, Texts]]:
    """Every text of a form with where it is."""
    for name in ("title", "purpose", "intro"):
        if (texts := getattr(form, name)) is not None:
            yield f"form.{name}", texts
    if form.agreement is not None:
        yield "form.consent.text", form.agreement.text
    asked = [("questions", question) for question in form.questions]
    for section, question in [("eligibility", item.question) for item in form.eligibility] + asked:
        where = f"form.{section}.{question.name}"
        for name in ("label", "help", "unit", "message"):
            if (texts := getattr(question, name)) is not None:
                yield f"{where}.{name}", texts
        for choice in question.choices:
            yield f"{where}.choices.{choice.value}", choice.label
        for row in question.rows:
            yield f"{where}.rows.{row.name}", row.label
