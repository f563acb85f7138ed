"""Random forms with random responses, and what Python makes of them: what the page's form has to make of them too."""

from __future__ import annotations

import random
from typing import Any, get_args

from trimask_core.basics.errors import AnswerError
from trimask_core.form.file import read_form
from trimask_core.form.form import Form
from trimask_core.form.question import Kind

__all__ = ["form_case"]

LANGUAGES = ("en", "de", "fr", "es", "ar", "hi", "en-US", "pt-BR", "hu", "de-CH", "zh", "sv")
KINDS: tuple[str, ...] = get_args(Kind)
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


# What a person gives who makes no mistakes.
GOOD = {
    "number": ("6", "7,5", "9.25", 8), "integer": ("6", "\u0967", 7), "slider": (0, 4, -1), "yes_no": ("yes", "no", True),
    "date": ("2001-12-31", "1984-05-17"), "time": ("22:15", "8:30 pm"),
}  # fmt: skip


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
        kind = kind or rng.choice(KINDS)
        data: dict[str, Any] = {"name": f"q{place}", "kind": kind, "label": self.texts(f"question {place}")}
        if rng.random() < 0.3:
            data["help"] = self.texts("help")
        if kind not in ("heading", "grid") and rng.random() < 0.2:
            data["message"] = self.texts("message")
        if self.earlier and rng.random() < 0.4:
            data["relevant"] = self.condition()
        if kind == "heading":
            return data
        data |= self.settings(place, kind)
        if rng.random() < 0.3:
            data["required"] = False
        if "relevant" in data or data.get("required") is False:
            data["missing"] = self.missing(data)
            if kind != "grid" and rng.random() < 0.5:
                data["missing_indicator"] = f"m{place}"
        self.earlier += (
            [
                {"name": row["name"], "kind": "single_choice", "choices": data["choices"]}
                for row in data["rows"]
            ]
            if kind == "grid"
            else [data]
        )
        return data

    def settings(self, place: int, kind: str) -> dict[str, Any]:
        rng = self.rng
        if kind in ("number", "integer"):
            unit = {"unit": self.texts("unit")} if rng.random() < 0.3 else {}
            low = rng.choice((-5, 0, 0.5 if kind == "number" else 1))
            return unit | {
                "minimum": low,
                "maximum": rng.choice((10, 12.5 if kind == "number" else 20, 5000)),
            }
        if kind == "slider":
            step = rng.choice((1, 0.5, 0.1, 0.25))
            return {"minimum": -1, "maximum": 4, "step": step}
        if kind == "date":
            data: dict[str, Any] = {"count": rng.choice(("days", "years", "age")), "origin": "2003-06-15"}
            data |= (
                {"minimum": -40000, "maximum": 40000} if rng.random() < 0.7 else {"minimum": 0, "maximum": 30}
            )
            data |= {"earliest": "1950-01-01"} if rng.random() < 0.4 else {}
            return data | ({"latest": "2010-12-31"} if rng.random() < 0.4 else {})
        if kind == "time":
            data = {
                "count": rng.choice(("minutes", "hours")),
                "origin": rng.choice(("00:00", "12:00", "06:30")),
            }
            data |= {"minimum": 0, "maximum": 1440} if rng.random() < 0.7 else {"minimum": 2, "maximum": 11}
            if rng.random() < 0.4 and data["origin"] != "06:30":
                data |= {"earliest": "20:00", "latest": "23:30"}
            return data
        if kind == "yes_no":
            return {}
        choices = [{"value": f"v{n}", "label": self.texts(f"choice {n}")} for n in range(rng.randint(2, 4))]
        if kind == "multiple_choice" and rng.random() < 0.5:
            choices[-1]["exclusive"] = True
        rows = [{"name": f"q{place}r{n}", "label": self.texts(f"row {n}")} for n in range(rng.randint(1, 3))]
        return {"choices": choices} | ({"rows": rows} if kind == "grid" else {})

    def missing(self, data: dict[str, Any]) -> Any:
        if data["kind"] in ("yes_no", "multiple_choice"):
            return self.rng.random() < 0.5
        if data["kind"] in ("single_choice", "grid"):
            return data["choices"][0]["value"]
        return 3.0

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
        rng, name, kind = self.rng, other["name"], other["kind"]
        if kind in ("multiple_choice", "single_choice"):
            value = rng.choice(other["choices"])["value"]
            return (
                f'{name} has "{value}"'
                if kind == "multiple_choice"
                else f"{name} {rng.choice(('=', '!='))} '{value}'"
            )
        if kind == "yes_no":
            return f"{name} {rng.choice(('=', '!='))} {rng.choice(('yes', 'no', 'true', 'false'))}"
        op = rng.choice(("=", "!=", "<", "<=", ">", ">="))
        if kind == "date":
            return f'{name} {op} "{rng.choice(("1984-05-17", "2001-12-31"))}"'
        if kind == "time":
            return f'{name} {op} "{rng.choice(("07:30", "22:15"))}"'
        return f"{name}{op}{rng.choice((0, 3, 7.5, -1))}"

    def response(self, question: dict[str, Any]) -> Any:
        rng, kind = self.rng, question["kind"]
        if self.careful and kind in GOOD:
            return rng.choice(GOOD[kind])
        if self.careful and kind == "multiple_choice":
            return question["choices"][0]["value"]
        if not self.careful and rng.random() < 0.07:
            return rng.choice((None, "", "  ", "nonsense"))
        if kind == "slider":
            return rng.choice((0, 2.5, 3, -1, 4, 0.30000000000000004, 1.1, 7, "2,5"))
        if kind in ("number", "integer"):
            return rng.choice(NUMBERS) if rng.random() < 0.6 else rng.choice((1, 6, 9.5, "6", "9", "3", 4999))
        if kind == "yes_no":
            return rng.choice((*WORDS, True, False)) if rng.random() < 0.5 else rng.choice(("yes", "no"))
        if kind == "date":
            return rng.choice(DATES) if rng.random() < 0.5 else "2001-12-31"
        if kind == "time":
            return rng.choice(TIMES)
        values = [choice["value"] for choice in question["choices"]]
        if kind == "multiple_choice":
            some = rng.sample(values, rng.randint(0, len(values)))
            return rng.choice((some, " ".join(some), [*some, "v9"] if rng.random() < 0.1 else some))
        return rng.choice((*values, "v9")) if not self.careful and rng.random() < 0.3 else rng.choice(values)


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
    return found if "problem" in found else found | {"shown": asked.shown(found["value"])}


def _tried(work: Any) -> dict[str, Any]:
    try:
        return {"value": work()}
    except AnswerError as error:
        return {"problem": [error.attribute, error.problem]}
