"""Texts in several languages, and the form's built-in ones: yes and no, and what is wrong with an answer.

A text may be in any script. Characters that reorder what is read are refused: they can make a consent read as what it
does not say. Which ways of taking part can show a language is said by `font_coverage`. Built-in texts are English where a
language has none; a question's own `message` takes precedence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
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


SENTENCES: dict[str, dict[str, str]] = {
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
        "dates": "must be a date from {low} to {high}",
        "outside": "this date is outside what the study asks about",
        "ambiguous": "{text} can mean {small} or {large}; write {large} or {sure}",
        "thousands": "{text} looks like {value}; write it without marks between the digits: {value}",
        "unfinished": "{text} is not finished: write {value}, or the digits after the mark",
        "exclusive": "“{choice}” cannot be chosen together with another answer",
        "date": "give a date such as {example}",
        "two_dates": "{text} can mean {first} or {second}; write the month as a word, or {iso}",
        "year": "write the year with all four digits",
        "time": "give a time of day such as {example}",
        "times": "must be a time from {low} to {high}",
        "outside_time": "this time is outside what the study asks about",
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
        "dates": "muss ein Datum vom {low} bis zum {high} sein",
        "outside": "dieses Datum liegt außerhalb dessen, wonach die Studie fragt",
        "ambiguous": "{text} kann {small} oder {large} heißen; schreiben Sie {large} oder {sure}",
        "thousands": "{text} sieht wie {value} aus; bitte ohne Zeichen zwischen den Ziffern schreiben: {value}",
        "unfinished": "{text} ist nicht fertig: schreiben Sie {value} oder die Ziffern nach dem Zeichen",
        "exclusive": "„{choice}“ lässt sich nicht mit einer anderen Antwort verbinden",
        "date": "bitte ein Datum angeben, etwa {example}",
        "two_dates": "{text} kann {first} oder {second} heißen; schreiben Sie den Monat als Wort, oder {iso}",
        "year": "bitte das Jahr mit allen vier Ziffern schreiben",
        "time": "bitte eine Uhrzeit angeben, etwa {example}",
        "times": "muss eine Uhrzeit von {low} bis {high} sein",
        "outside_time": "diese Uhrzeit liegt außerhalb dessen, wonach die Studie fragt",
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
        "dates": "doit être une date du {low} au {high}",
        "outside": "cette date est en dehors de ce que demande l'étude",
        "ambiguous": "{text} peut signifier {small} ou {large} ; écrivez {large} ou {sure}",
        "thousands": "{text} semble être {value} ; écrivez-le sans signe entre les chiffres : {value}",
        "unfinished": "{text} n'est pas fini : écrivez {value}, ou les chiffres après le signe",
        "exclusive": "« {choice} » ne peut pas être choisi avec une autre réponse",
        "date": "donnez une date, par exemple {example}",
        "two_dates": "{text} peut signifier {first} ou {second} ; écrivez le mois en lettres, ou {iso}",
        "year": "écrivez l'année avec ses quatre chiffres",
        "time": "donnez une heure, par exemple {example}",
        "times": "doit être une heure de {low} à {high}",
        "outside_time": "cette heure est en dehors de ce que demande l'étude",
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
        "dates": "debe ser una fecha del {low} al {high}",
        "outside": "esta fecha queda fuera de lo que pregunta el estudio",
        "ambiguous": "{text} puede significar {small} o {large}; escriba {large} o {sure}",
        "thousands": "{text} parece {value}; escríbalo sin signos entre las cifras: {value}",
        "unfinished": "{text} no está terminado: escriba {value}, o las cifras que siguen al signo",
        "exclusive": "«{choice}» no se puede elegir junto con otra respuesta",
        "date": "indique una fecha, por ejemplo {example}",
        "two_dates": "{text} puede significar {first} o {second}; escriba el mes con letras, o {iso}",
        "year": "escriba el año con sus cuatro cifras",
        "time": "indique una hora, por ejemplo {example}",
        "times": "debe ser una hora de {low} a {high}",
        "outside_time": "esta hora queda fuera de lo que pregunta el estudio",
    },
    "ar": {
        "yes": "نعم",
        "no": "لا",
        "needed": "الإجابة مطلوبة",
        "number": "أدخل عددًا",
        "whole": "أدخل عددًا صحيحًا",
        "between": "يجب أن يكون بين {low} و{high}",
        "step": "يجب أن يكون على خطوات من {step} ابتداءً من {low}",
        "yes_no": "أجب بنعم أو لا",
        "choose": "اختر إحدى الإجابات المعروضة",
        "choose_some": "اختر من الإجابات المعروضة",
        "dates": "يجب أن يكون تاريخًا من {low} إلى {high}",
        "outside": "هذا التاريخ خارج ما تسأل عنه الدراسة",
        "ambiguous": "قد يعني {text} العدد {small} أو العدد {large}؛ اكتب {large} أو {sure}",
        "thousands": "يبدو {text} كأنه {value}؛ اكتبه بلا علامات بين الأرقام: {value}",
        "unfinished": "{text} غير مكتمل: اكتب {value} أو الأرقام التي تلي العلامة",
        "exclusive": "لا يمكن اختيار «{choice}» مع إجابة أخرى",
        "date": "أدخل تاريخًا مثل {example}",
        "two_dates": "قد يعني {text} تاريخ {first} أو {second}؛ اكتب الشهر بالحروف، أو {iso}",
        "year": "اكتب السنة بأرقامها الأربعة",
        "time": "أدخل وقتًا مثل {example}",
        "times": "يجب أن يكون وقتًا من {low} إلى {high}",
        "outside_time": "هذا الوقت خارج ما تسأل عنه الدراسة",
    },
    "hi": {
        "yes": "हाँ",
        "no": "नहीं",
        "needed": "उत्तर आवश्यक है",
        "number": "कोई संख्या लिखें",
        "whole": "कोई पूर्ण संख्या लिखें",
        "between": "{low} और {high} के बीच होना चाहिए",
        "step": "{low} से {step} के चरणों में होना चाहिए",
        "yes_no": "हाँ या नहीं में उत्तर दें",
        "choose": "दिए गए उत्तरों में से एक चुनें",
        "choose_some": "दिए गए उत्तरों में से चुनें",
        "dates": "{low} से {high} तक की तारीख़ होनी चाहिए",
        "outside": "यह तारीख़ उससे बाहर है जो अध्ययन पूछता है",
        "ambiguous": "{text} का अर्थ {small} या {large} हो सकता है; {large} या {sure} लिखें",
        "thousands": "{text} शायद {value} है; इसे अंकों के बीच चिह्न के बिना लिखें: {value}",
        "unfinished": "{text} अधूरा है: {value} लिखें, या चिह्न के बाद के अंक",
        "exclusive": "“{choice}” को किसी दूसरे उत्तर के साथ नहीं चुना जा सकता",
        "date": "कोई तारीख़ लिखें, जैसे {example}",
        "two_dates": "{text} का अर्थ {first} या {second} हो सकता है; महीना शब्द में लिखें, या {iso}",
        "year": "वर्ष चारों अंकों में लिखें",
        "time": "दिन का कोई समय लिखें, जैसे {example}",
        "times": "{low} से {high} तक का समय होना चाहिए",
        "outside_time": "यह समय उससे बाहर है जो अध्ययन पूछता है",
    },
}


def words(language: str, key: str, **values: str) -> str:
    """A form's own sentence, in English where there is none in the language."""
    known = SENTENCES.get(language.split("-")[0], SENTENCES["en"])
    return known[key].format(**values)
