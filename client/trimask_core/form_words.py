"""The sentences a form says by itself: two words for yes and no, and what is wrong with an answer.

English where a language has none; a question's own `message` goes before them.
"""

from __future__ import annotations

__all__ = ["LANGUAGES", "words"]

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
        "dates": "must be a date from {low} to {high}",
        "outside": "this date is outside what the study asks about",
        "ambiguous": "{text} can mean {small} or {large}; write {large} or {sure}",
        "thousands": "{text} looks like {value}; write it without marks between the digits: {value}",
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
        "exclusive": "«{choice}» no se puede elegir junto con otra respuesta",
        "date": "indique una fecha, por ejemplo {example}",
        "two_dates": "{text} puede significar {first} o {second}; escriba el mes con letras, o {iso}",
        "year": "escriba el año con sus cuatro cifras",
        "time": "indique una hora, por ejemplo {example}",
        "times": "debe ser una hora de {low} a {high}",
        "outside_time": "esta hora queda fuera de lo que pregunta el estudio",
    },
}


LANGUAGES = tuple(_WORDS)


def words(language: str, key: str, **values: str) -> str:
    """A form's own sentence, in English where there is none in the language."""
    known = _WORDS.get(language.split("-")[0], _WORDS["en"])
    return known[key].format(**values)
