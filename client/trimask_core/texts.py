"""Texts in several languages, and the words a form has of its own in the languages it knows.

Right-to-left languages are refused when a form is defined: the app cannot lay them out, and a form that is shown
wrongly is not one a person can consent to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.errors import StudyError

__all__ = ["Texts", "check_language", "decimal_comma", "show_number", "words"]

_TAG = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
# Languages and scripts written from right to left (BCP 47 subtags).
_RIGHT_TO_LEFT = frozenset([
    "ar", "arc", "ckb", "dv", "fa", "glk", "he", "iw", "ji", "khw", "ks", "lrc", "mzn", "nqo", "pnb", "ps", "sd",
    "syr", "ug", "ur", "yi", "adlm", "arab", "hebr", "mand", "nkoo", "rohg", "samr", "syrc", "thaa",
])  # fmt: skip
_COMMA = frozenset(["da", "de", "es", "fi", "fr", "it", "nb", "nl", "no", "pl", "pt", "ru", "sv", "tr", "uk"])


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
            _refuse_right_to_left(value[language], f"{where} ({language})")
        return cls(tuple((language, value[language]) for language in languages))


def check_language(tag: object) -> str:
    """The language tag ("en", "pt-BR"), or `StudyError`."""
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise StudyError(f"form.languages: {tag!r} is not a language tag such as 'en' or 'pt-BR'")
    if _RIGHT_TO_LEFT.intersection(tag.lower().split("-")):
        raise StudyError(f"form.languages: {tag!r} is written from right to left, which forms do not support")
    return tag


def _refuse_right_to_left(text: str, where: str) -> None:
    # Overrides and embeddings (RLO, RLE, ...) too: they can make a consent read as what it does not say.
    if any(unicodedata.bidirectional(letter) in ("R", "AL", "RLE", "RLO", "RLI", "LRO") for letter in text):
        raise StudyError(f"{where} has right-to-left letters, which forms do not support")


def decimal_comma(language: str) -> bool:
    """Whether numbers are written 7,5 in this language."""
    return language.split("-")[0] in _COMMA


def show_number(value: float, language: str) -> str:
    """A limit as a person writes it."""
    text = str(int(value)) if value == int(value) else f"{value:.10g}"
    return text.replace(".", ",") if decimal_comma(language) else text


_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "yes": "Yes",
        "no": "No",
        "needed": "an answer is needed",
        "number": "give a number",
        "whole": "give a whole number",
        "between": "must be between {low} and {high}",
        "step": "must be a whole number of steps of {step} above {low}",
        "yes_no": "answer yes or no",
        "choose": "choose one of the answers offered",
        "choose_some": "choose from the answers offered",
        "date": "give a date as year-month-day, such as 2001-12-31",
        "dates": "must be a date from {low} to {high}",
        "outside": "this date is outside what the study asks about",
    },
    "de": {
        "yes": "Ja",
        "no": "Nein",
        "needed": "eine Antwort ist nötig",
        "number": "bitte eine Zahl angeben",
        "whole": "bitte eine ganze Zahl angeben",
        "between": "muss zwischen {low} und {high} liegen",
        "step": "muss in Schritten von {step} ab {low} liegen",
        "yes_no": "bitte mit Ja oder Nein antworten",
        "choose": "bitte eine der Antworten wählen",
        "choose_some": "bitte aus den Antworten wählen",
        "date": "bitte ein Datum als Jahr-Monat-Tag angeben, etwa 2001-12-31",
        "dates": "muss ein Datum vom {low} bis zum {high} sein",
        "outside": "dieses Datum liegt außerhalb dessen, wonach die Studie fragt",
    },
    "fr": {
        "yes": "Oui",
        "no": "Non",
        "needed": "une réponse est nécessaire",
        "number": "donnez un nombre",
        "whole": "donnez un nombre entier",
        "between": "doit être compris entre {low} et {high}",
        "step": "doit être un multiple de {step} à partir de {low}",
        "yes_no": "répondez par oui ou non",
        "choose": "choisissez une des réponses proposées",
        "choose_some": "choisissez parmi les réponses proposées",
        "date": "donnez une date sous la forme année-mois-jour, par exemple 2001-12-31",
        "dates": "doit être une date du {low} au {high}",
        "outside": "cette date est en dehors de ce que demande l'étude",
    },
    "es": {
        "yes": "Sí",
        "no": "No",
        "needed": "hace falta una respuesta",
        "number": "indique un número",
        "whole": "indique un número entero",
        "between": "debe estar entre {low} y {high}",
        "step": "debe avanzar de {step} en {step} desde {low}",
        "yes_no": "responda sí o no",
        "choose": "elija una de las respuestas ofrecidas",
        "choose_some": "elija entre las respuestas ofrecidas",
        "date": "indique una fecha como año-mes-día, por ejemplo 2001-12-31",
        "dates": "debe ser una fecha del {low} al {high}",
        "outside": "esta fecha queda fuera de lo que pregunta el estudio",
    },
}


def words(language: str, key: str, **values: str) -> str:
    """A form's own sentence, in English where there is none in the language; a question's `message` goes before it."""
    known = _WORDS.get(language.split("-")[0], _WORDS["en"])
    return known[key].format(**values)
