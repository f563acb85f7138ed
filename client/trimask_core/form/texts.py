"""Texts in several languages, and the form's built-in ones: yes and no, and what is wrong with an answer.

A text may be in any script. Characters that reorder what is read are refused: they can make a consent read as what it
does not say. Which ways of taking part can show a language is said by `font_coverage`. Built-in texts are English where a
language has none; a question's own `message` takes precedence.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask_core.basics.errors import StudyError

_TAG = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
# Languages and scripts written from right to left (BCP 47 subtags).
_RIGHT_TO_LEFT = frozenset([
    "ar", "arc", "ckb", "dv", "fa", "glk", "he", "iw", "ji", "khw", "ks", "lrc", "mzn", "nqo", "pnb", "ps", "sd",
    "syr", "ug", "ur", "yi", "adlm", "arab", "hebr", "mand", "nkoo", "rohg", "samr", "syrc", "thaa",
])  # fmt: skip
_LEFT_TO_RIGHT_SCRIPTS = frozenset(["latn", "cyrl", "deva", "grek"])
# Embeddings, overrides and isolates; the plain marks (LRM, RLM, ALM) are letters' neighbours and stay.
_REORDERING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@dataclass(frozen=True, slots=True)
class Texts:
    """One text in each of a form's languages."""

    pairs: tuple[tuple[str, str], ...]

    def __getitem__(self, language: str) -> str:
        return dict(self.pairs)[language]

    def to_dict(self) -> dict[str, str]:
        """A JSON-ready form."""
        return dict(self.pairs)

    @classmethod
    def read(cls, value: Any, languages: tuple[str, ...], where: str) -> Texts:
        """A table with every language, or a plain text where the form has one language only."""
        if isinstance(value, str):
            if len(languages) > 1:
                raise StudyError(f"{where} must be given in each language: {{ {languages[0]} = ..., ... }}")
            value = {languages[0]: value}
        if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
            raise StudyError(f"{where} must be a text, or a table of one text a language")
        for language in value:
            if language not in languages:
                raise StudyError(f"{where}: {language!r} is not among the form's languages")
        for language in languages:
            if not value.get(language, "").strip():
                raise StudyError(
                    f"{where} is missing in {language!r}; a form is whole in each of its languages"
                )
            _refuse_reordering(value[language], f"{where} ({language})")
        return cls(tuple((language, value[language]) for language in languages))


def check_language(tag: object) -> str:
    """The language tag ("en", "pt-BR"), or `StudyError`."""
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise StudyError(f"form.languages: {tag!r} is not a language tag such as 'en' or 'pt-BR'")
    return tag


def is_right_to_left(language: str) -> bool:
    """Whether a language is written from right to left ("ar", "ku-Arab"; not "az-Latn")."""
    parts = language.lower().split("-")
    return bool(_RIGHT_TO_LEFT.intersection(parts)) and not _LEFT_TO_RIGHT_SCRIPTS.intersection(parts[1:])


def _refuse_reordering(text: str, where: str) -> None:
    for letter in text:
        if unicodedata.bidirectional(letter) in _REORDERING:
            raise StudyError(f"{where} has U+{ord(letter):04X}, which reorders what is read; take it out")


_WORDS = Path(__file__).parent / "words"
SENTENCES: dict[str, dict[str, str]] = {
    file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(_WORDS.glob("*.json"))
}
"""A form's own sentences, by language: form/words/<language>.json."""


def words(language: str, key: str, **values: str) -> str:
    """A form's own sentence, in English where there is none in the language."""
    known = SENTENCES.get(language.split("-")[0], SENTENCES["en"])
    return known[key].format(**values)
