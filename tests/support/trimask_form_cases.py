"""Random forms with random responses, and what Python makes of them: what the page's form has to make of them too."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from trimask_core.basics.errors import AnswerError
from trimask_core.form.file import read_form
from trimask_core.form.form import Form
from trimask_core.form.kinds import KINDS

__all__ = ["form_case"]

LANGUAGES = ("en", "de", "fr", "es", "ar", "hi", "en-US", "pt-BR", "hu", "de-CH", "zh", "sv")
NUMBERS = (
    "7.5", "7,5", "1.000", "1,000", "1 000", "1'000", "1\u202f000", "1.234,5", "1,234.5", "-3", "+4", "\u0663\u066b\u0665",
    "\u0967\u0968", "12abc", "  8 ", "0.125", "1e5", "1_000", "\u221e", "\uff11\uff12", ".5", "5.", "-0", "\u22123", "2.50",
    "1.2.3", "10.000.000", "1,23,456", "999", "0", "6", "3.999", "nan", "9" * 41, "1.0000", "\u0661\u066c\u0660\u0660\u0660",
)  # fmt: skip
DATES = (
    "2001-12-31", "1984-05-17", "31.12.2001", "12/31/2001", "1/2/2003", "13/1/2003", "31 December 2001", "31. Dez 2001",
    "1 juillet 1999", "jui 1 1999", "20011231", "2001-02-30", "1.1.01", "2004-02-29", "17 de mayo de 1984", "May 17, 1984",
    "\u0662\u0660\u0660\u0661-\u0661\u0662-\u0663\u0661", "yesterday", "2001 12 31", "0999-01-01",
    "1.1.2001.", "5-5-1955", "Mar 3 2003", "17 \u092e\u0908 1984", "17 \u0645\u0627\u064a\u0648 1984", "\u07c1.\u07c2.2001",
)  # fmt: skip
TIMES = (
    "7:30", "07.30", "19h30", "7:30 pm", "24:00", "12:00 am", "12:00 PM", "23:59", "00:00", "7.5", "13:00 pm",
    "22:15", "1:05", "\u0967\u0968:\u0969\u0966", "noon", "9:60", "7:30 p", "7:30 m", "7:30 P.M.",
)  # fmt: skip
WORDS = (
    "yes",
    "no",
    "Ja",
    "NEIN",
    "oui",
    "s\u00ed",
    "true",
    "0",
    "maybe",
    " Yes ",
    "1",
    "S\u00cd",
    "\u0646\u0639\u0645",
    "\u0939\u093e\u0901",
)


Rng = random.Random
_OPS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Case:
    """How questions of one kind are made: settings, answers good and odd, what a condition says, what stands for missing.

    `texts` makes a text in the form's languages; `data` is the question as it stands in the form.
    """

    settings: Callable[[Rng, Callable[[str], Any]], dict[str, Any]]
    good: Callable[[Rng, dict[str, Any]], Any]
    odd: Callable[[Rng, dict[str, Any]], Any]
    compare: Callable[[Rng, dict[str, Any]], str]
    missing: Callable[[Rng, dict[str, Any]], Any] = lambda _rng, _data: 3.0


def _number(rng: Rng, texts: Callable[[str], Any]) -> dict[str, Any]:
    unit = {"unit": texts("unit")} if rng.random() < 0.3 else {}
    return unit | {"minimum": rng.choice((-5, 0, 0.5)), "maximum": rng.choice((10, 12.5, 5000))}


def _integer(rng: Rng, texts: Callable[[str], Any]) -> dict[str, Any]:
    return _number(rng, texts) | {"minimum": rng.choice((-5, 0, 1)), "maximum": rng.choice((10, 20, 5000))}


def _slider(rng: Rng, _: Callable[[str], Any]) -> dict[str, Any]:
    return {"minimum": -1, "maximum": 4, "step": rng.choice((1, 0.5, 0.1, 0.25))}


def _date(rng: Rng, _: Callable[[str], Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"count": rng.choice(("days", "years", "age")), "origin": "2003-06-15"}
    data |= {"minimum": -40000, "maximum": 40000} if rng.random() < 0.7 else {"minimum": 0, "maximum": 30}
    data |= {"earliest": "1950-01-01"} if rng.random() < 0.4 else {}
    return data | ({"latest": "2010-12-31"} if rng.random() < 0.4 else {})


def _time(rng: Rng, _: Callable[[str], Any]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "count": rng.choice(("minutes", "hours")), "origin": rng.choice(("00:00", "12:00", "06:30")),
    }  # fmt: skip
    data |= {"minimum": 0, "maximum": 1440} if rng.random() < 0.7 else {"minimum": 2, "maximum": 11}
    if rng.random() < 0.4 and data["origin"] != "06:30":
        data |= {"earliest": "20:00", "latest": "23:30"}
    return data


def _choices(rng: Rng, texts: Callable[[str], Any]) -> dict[str, Any]:
    return {"choices": [{"value": f"v{n}", "label": texts(f"choice {n}")} for n in range(rng.randint(2, 4))]}


def _some_choices(rng: Rng, texts: Callable[[str], Any]) -> dict[str, Any]:
    data = _choices(rng, texts)
    if rng.random() < 0.5:
        data["choices"][-1]["exclusive"] = True
    return data


def _grid(rng: Rng, texts: Callable[[str], Any]) -> dict[str, Any]:
    rows = [{"name": f"r{n}", "label": texts(f"row {n}")} for n in range(rng.randint(1, 3))]
    return _choices(rng, texts) | {"rows": rows}


def _values(data: dict[str, Any]) -> list[str]:
    return [choice["value"] for choice in data["choices"]]


def _some_values(rng: Rng, data: dict[str, Any]) -> Any:
    some = rng.sample(_values(data), rng.randint(0, len(data["choices"])))
    return rng.choice((some, " ".join(some), [*some, "v9"] if rng.random() < 0.1 else some))


def _of(*answers: object) -> Callable[[Rng, dict[str, Any]], Any]:
    return lambda rng, _data: rng.choice(answers)


def _mostly(odd: tuple[object, ...], share: float, *usual: object) -> Callable[[Rng, dict[str, Any]], Any]:
    return lambda rng, _data: rng.choice(odd) if rng.random() < share else rng.choice(usual)


def _compare(*constants: object) -> Callable[[Rng, dict[str, Any]], str]:
    return lambda rng, data: f"{data['name']} {rng.choice(_OPS)}{rng.choice(constants)}"


def _equals(rng: Rng, data: dict[str, Any]) -> str:
    return f"{data['name']} {rng.choice(('=', '!='))} '{rng.choice(_values(data))}'"


_typed_number = _mostly(NUMBERS, 0.6, 1, 6, 9.5, "6", "9", "3", 4999)
_CHOICE = Case(
    _choices,
    lambda rng, data: rng.choice(_values(data)),
    lambda rng, data: rng.choice((*_values(data), "v9")) if rng.random() < 0.3 else rng.choice(_values(data)),
    _equals,
    lambda _rng, data: data["choices"][0]["value"],
)
CASES: dict[str, Case] = {
    "number": Case(_number, _of("6", "7,5", "9.25", 8), _typed_number, _compare(0, 3, 7.5, -1)),
    "integer": Case(_integer, _of("6", "\u0967", 7), _typed_number, _compare(0, 3, 7.5, -1)),
    "slider": Case(
        _slider,
        _of(0, 4, -1),
        _of(0, 2.5, 3, -1, 4, 0.30000000000000004, 1.1, 7, "2,5"),
        _compare(0, 3, 7.5, -1),
    ),
    "yes_no": Case(
        lambda _rng, _texts: {},
        _of("yes", "no", True),
        _mostly((*WORDS, True, False, 1, 0, 1.0), 0.5, "yes", "no"),
        lambda rng, data: (
            f"{data['name']} {rng.choice(('=', '!='))} {rng.choice(('yes', 'no', 'true', 'false'))}"
        ),
        _of(True, False),
    ),
    "single_choice": _CHOICE,
    "multiple_choice": Case(
        _some_choices,
        lambda _rng, data: data["choices"][0]["value"],
        _some_values,
        lambda rng, data: f'{data["name"]} has "{rng.choice(_values(data))}"',
        _of(True, False),
    ),
    "date": Case(
        _date,
        _of("2001-12-31", "1984-05-17"),
        _mostly(DATES, 0.5, "2001-12-31"),
        _compare('"1984-05-17"', '"2001-12-31"'),
    ),
    "time": Case(_time, _of("22:15", "8:30 pm"), _of(*TIMES), _compare('"07:30"', '"22:15"')),
    "grid": replace(_CHOICE, settings=_grid),  # its rows are answered, each a single choice
    "heading": replace(_CHOICE, settings=lambda _rng, _texts: {}),  # never answered
}


class _Maker:
    """One form. A question's number is in its name, so that every name is another."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.languages = rng.sample(LANGUAGES, rng.randint(1, 3))
        self.earlier: list[dict[str, Any]] = []
        self.careful = False

    def texts(self, word: str) -> dict[str, str]:
        return {language: f"{word} \u2014 {language}" for language in self.languages}

    def form(self) -> dict[str, Any]:
        rng = self.rng
        questions = [self.question(place) for place in range(rng.randint(1, 9))]
        if questions[-1]["kind"] == "heading":
            questions.append(self.question(len(questions), "integer"))
        data: dict[str, Any] = {"languages": self.languages, "questions": questions}
        for name in ("title", "purpose", "intro"):
            if rng.random() < 0.5:
                data[name] = self.texts(name)
        if rng.random() < 0.5:
            data["consent"] = {"version": "1", "text": self.texts("consent")}
        data["eligibility"] = [self.eligibility(place) for place in range(rng.randint(0, 2))]
        data["eligibility_first"] = bool(data["eligibility"]) and rng.random() < 0.5
        return data

    def eligibility(self, place: int) -> dict[str, Any]:
        kind = self.rng.choice(("yes_no", "number", "integer"))
        data: dict[str, Any] = {"name": f"e{place}", "kind": kind, "label": self.texts("who")}
        if kind == "yes_no":
            return data | {"eligible": self.rng.random() < 0.5}
        return data | {"minimum": 3} | ({"maximum": 9} if self.rng.random() < 0.5 else {})

    def question(self, place: int, kind: str = "") -> dict[str, Any]:
        rng = self.rng
        kind = kind or rng.choice(tuple(KINDS))
        case, takes = CASES[kind], KINDS[kind].settings
        data: dict[str, Any] = {"name": f"q{place}", "kind": kind, "label": self.texts(f"question {place}")}
        if rng.random() < 0.3:
            data["help"] = self.texts("help")
        if "message" in takes and rng.random() < 0.2:
            data["message"] = self.texts("message")
        if self.earlier and rng.random() < 0.4:
            data["relevant"] = self.condition()
        data |= case.settings(rng, self.texts)
        for row in data.get("rows", ()):
            row["name"] = f"q{place}{row['name']}"
        if "missing" in takes and rng.random() < 0.3:
            data["required"] = False
        if "missing" in takes and ("relevant" in data or data.get("required") is False):
            data["missing"] = case.missing(rng, data)
            if "missing_indicator" in takes and rng.random() < 0.5:
                data["missing_indicator"] = f"m{place}"
        if "rows" in data:
            rows = [{"name": row["name"], "choices": data["choices"]} for row in data["rows"]]
            self.earlier += [row | {"kind": "single_choice"} for row in rows]
        elif kind != "heading":
            self.earlier.append(data)
        return data

    def condition(self) -> str:
        rng = self.rng
        parts = [self.comparison(rng.choice(self.earlier)) for _ in range(rng.randint(1, 3))]
        text = parts[0]
        for part in parts[1:]:
            text = rng.choice(
                ("{} and {}", "{} or {}", "not ({}) or {}", "({} and not {})", "{}  or\t( {} )")
            ).format(text, part)
        return text

    def comparison(self, other: dict[str, Any]) -> str:
        return CASES[other["kind"]].compare(self.rng, other)

    def response(self, question: dict[str, Any]) -> Any:
        case = CASES[question["kind"]]
        if self.careful:
            return case.good(self.rng, question)
        if self.rng.random() < 0.07:
            return self.rng.choice((None, "", "  ", "nonsense"))
        return case.odd(self.rng, question)


def form_case(seed: int, people: int = 4) -> dict[str, Any]:
    """A form, and several people's responses to it with all that Python says about each."""
    maker = _Maker(random.Random(seed))
    data = maker.form()
    form = read_form(data)
    return {"form": form.to_dict(), "people": [_person(maker, form) for _ in range(people)]}


def _person(maker: _Maker, form: Form) -> dict[str, Any]:
    maker.careful = maker.rng.random() < 0.5
    language = maker.rng.choice((*form.languages, "de-AT", "fr_FR.UTF-8", "xx"))
    chosen = form.language(language)
    asked = [*maker.earlier, *[item.question.to_dict() for item in form.eligibility]]
    given = {
        question["name"]: maker.response(question)
        for question in asked
        if maker.careful or maker.rng.random() < 0.93
    }
    pages = form.pages_for(given, language)
    return {
        "language": language,
        "chosen": chosen,
        "responses": given,
        "pages": [
            [page.name, [item.name for item in page.headings], [item.name for item in page.questions]]
            for page in pages
        ],
        "checked": {item.name: _checked(item, given) for page in pages for item in page.questions},
        "answers": _tried(lambda: form.answers(given, language)),
        "eligible": _tried(lambda: form.eligible(given, language)),
        "first": form.eligibility_first,
        "consent": None if (consent := form.consent(language)) is None else consent.text,
    }


def _checked(asked: Any, given: dict[str, Any]) -> Any:
    found = _tried(lambda: asked.check(given.get(asked.name)))
    rules = asked.question.rules
    seen = {"control": [asked.control, rules.several, rules.whole], "offered": asked.choices}
    return seen | (found if "problem" in found else found | {"shown": asked.shown(found["value"])})


def _tried(work: Any) -> dict[str, Any]:
    try:
        return {"value": work()}
    except AnswerError as error:
        return {"problem": [error.attribute, error.problem]}
