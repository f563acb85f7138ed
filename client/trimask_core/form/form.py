"""A study's own form: what people are shown and asked, in every language, as a part of what is signed.

The form decides how questions become the schema's attributes, so nothing is left to an app: two apps that show the
same form send the same rows. Answers to eligibility questions never leave the device. There are no repeats. A condition
has to fit the questions it compares. `Asked` is a question as one person sees it, in a language; `AskedPage` what is
shown together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from trimask_core.basics.errors import AnswerError, StudyError
from trimask_core.form.kinds import KINDS, PLAIN, Control, Kind, Row, Value
from trimask_core.form.parse_input import CREATION, Unread
from trimask_core.form.question import SETTINGS, Choice, QuestionSettings
from trimask_core.form.texts import Texts, check_language, words
from trimask_core.study.schema import Schema

# What a question's own message is said for.
_LIMITS = ("between", "step", "dates", "outside", "times", "outside_time")


@dataclass(frozen=True)
class Question(QuestionSettings):
    """One question, whose settings fit its kind, and what becomes of an answer to it."""

    def __post_init__(self) -> None:
        where = f"form.questions.{self.name}"
        if self.kind not in KINDS:
            raise StudyError(f"{where}.kind must be one of {', '.join(KINDS)}")
        for name in SETTINGS:
            if getattr(self, name) not in (None, "", ()) and name not in self.rules.settings:
                rows = name == "missing_indicator" and "rows" in self.rules.settings
                hint = "give it to each row" if rows else "take it out"
                raise StudyError(f"{where}: a {self.kind} question has no {name}; {hint}")
        if self.minimum is not None and self.maximum is not None and not self.minimum < self.maximum:
            raise StudyError(f"{where}: minimum must be below maximum")
        self.rules.check_settings(self, where)
        if "missing" in self.rules.settings:
            self._check_missing(where)

    def _check_missing(self, where: str) -> None:
        if self.required and self.relevant is None:
            indicators = self.missing_indicator or any(row.missing_indicator for row in self.rows)
            if self.missing is not None or indicators:
                raise StudyError(f"{where} is always answered: take missing and missing_indicator out")
            return
        if self.missing is None:
            why = "has skip logic" if self.relevant is not None else "is optional"
            raise StudyError(
                f"{where} {why}: give missing, the value that stands in the row when there is no answer"
            )
        if not self.rules.may_stand(self, self.missing):
            raise StudyError(f"{where}.missing must be {self.rules.stands_for_missing}")

    @property
    def rules(self) -> Kind:
        """What its kind says."""
        return KINDS[self.kind]

    @property
    def parts(self) -> tuple[Question, ...]:
        """The questions that take an answer: itself, a grid's rows, or for a heading none."""
        return self.rules.parts(self)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes it fills, the indicator of a missing answer not among them."""
        return self.rules.attributes(self)

    def check(self, answer: object, language: str) -> Value | None:
        """The answer as a value, or `AnswerError` in this language; None for no answer to an optional question."""
        if answer is None or answer in ((), []) or (isinstance(answer, str) and not answer.strip()):
            if self.required:
                raise AnswerError(self.name, words(language, "needed"))
            return None
        try:
            return self.rules.read(self, answer, language)
        except Unread as unread:
            if self.message is not None and unread.reason in _LIMITS:
                raise AnswerError(self.name, self.message[language]) from None
            raise AnswerError(self.name, words(language, unread.reason, **unread.values)) from None

    def toggled(self, chosen: tuple[str, ...], value: str) -> tuple[str, ...]:
        """A multiple choice after one of its answers was pressed; an exclusive answer and the others deselect each other."""
        if value in chosen:
            return tuple(one for one in chosen if one != value)
        alone = {choice.value for choice in self.choices if choice.exclusive}
        kept = () if value in alone else tuple(one for one in chosen if one not in alone)
        return tuple(choice.value for choice in self.choices if choice.value in (*kept, value))

    def encode(self, value: Value | None) -> Row:
        """The attributes of a checked value; of None, the declared encoding of a missing answer."""
        filled: Row = {self.missing_indicator: value is None} if self.missing_indicator else {}
        if value is not None:
            return filled | self.rules.encode(self, value)
        if self.missing is None:
            raise AnswerError(self.name, "an answer is needed")
        return filled | dict.fromkeys(self.attributes, self.missing)


@dataclass(frozen=True)
class Asked:
    """A question in a language. `choices` are (value, label)."""

    question: Question
    language: str

    @property
    def name(self) -> str:
        """Under which its answer goes into the responses."""
        return self.question.name

    @property
    def kind(self) -> str:
        """What sort of answer it takes."""
        return self.question.kind

    @property
    def control(self) -> Control | None:
        """What it is answered with; None for a heading or a grid, which takes no answer itself."""
        return self.question.rules.control

    @property
    def required(self) -> bool:
        """Whether it must be answered."""
        return self.question.required

    @property
    def label(self) -> str:
        """The question."""
        return self.question.label[self.language]

    @property
    def help(self) -> str:
        """More words about it, or nothing."""
        return "" if self.question.help is None else self.question.help[self.language]

    @property
    def unit(self) -> str:
        """The unit, or nothing."""
        return "" if self.question.unit is None else self.question.unit[self.language]

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """What is offered; for yes_no the two words."""
        return self.question.rules.offered(self.question, self.language)

    def check(self, answer: object, language: str | None = None) -> Value | None:
        """`Question.check` in this person's language."""
        return self.question.check(answer, language or self.language)

    def shown(self, value: Value | None) -> str:
        """A checked value in words, as a review shows what was understood; empty for no answer."""
        return "" if value is None else self.question.rules.show(self.question, value, self.language)


@dataclass(frozen=True)
class AskedPage:
    """What is shown together: headings if a section begins, then one question, or a grid with its rows."""

    headings: tuple[Asked, ...]
    questions: tuple[Asked, ...]
    grid: Asked | None = None

    @property
    def name(self) -> str:
        """The grid's or the question's."""
        return (self.grid or self.questions[0]).name


def check_relevant(question: Question, earlier: Mapping[str, Question]) -> None:
    """Raise `StudyError` unless its condition compares earlier questions with values they can have."""
    if question.relevant is None:
        return
    where = f"form.questions.{question.name}.relevant"
    for comparison in question.relevant.comparisons:
        other = earlier.get(comparison.name)
        if other is None:
            raise StudyError(f"{where}: {comparison.name} is not an earlier question")
        if not other.rules.compares(other, comparison.op, comparison.value):
            raise StudyError(f"{where}: compare {comparison.name} with {other.rules.compared_with}")


@dataclass(frozen=True)
class Consent:
    """What a person agrees to. A new text is a new version."""

    version: str
    text: Texts


@dataclass(frozen=True)
class ConsentText:
    """The consent in the language it was read in; `hash` (SHA-256 of the text's UTF-8) is kept beside the signed name."""

    version: str
    language: str
    text: str

    @property
    def hash(self) -> bytes:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).digest()


@dataclass(frozen=True)
class Eligibility:
    """A question before the questions: yes_no with the answer wanted, or a number with limits. Never sent."""

    question: Question
    eligible: bool = True

    def met(self, value: Value | None) -> bool:
        """Whether this answer lets a person take part."""
        if self.question.kind == "yes_no":
            return value is self.eligible
        low, high = self.question.minimum, self.question.maximum
        # Limits here decide who takes part; they are not errors in an answer, so `check` does not know them.
        return (
            isinstance(value, (int, float))
            and (low is None or value >= low)
            and (high is None or value <= high)
        )

    @property
    def asked(self) -> Question:
        """The question without its limits: an answer outside them is a good answer."""
        return replace(self.question, minimum=None, maximum=None)


@dataclass(frozen=True)
class Form:
    """The form. The first language is the default. `questions` are as written, `parts` those that take an answer."""

    languages: tuple[str, ...]
    questions: tuple[Question, ...]
    title: Texts | None = None
    purpose: Texts | None = None
    intro: Texts | None = None
    agreement: Consent | None = None
    eligibility: tuple[Eligibility, ...] = ()
    eligibility_first: bool = False
    """Whether eligibility is asked before the consent is shown, rather than after."""

    def __post_init__(self) -> None:
        if not self.languages or len(set(self.languages)) != len(self.languages):
            raise StudyError("form.languages must name one language at least, each once")
        for language in self.languages:
            check_language(language)
        if not self.questions:
            raise StudyError("form.questions: a form needs one question at least")
        names = [question.name for question in self.questions] + [e.question.name for e in self.eligibility]
        names += [row.name for question in self.questions for row in question.rows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise StudyError(f"form.questions.{twice[0]} is there twice")
        if self.questions[-1].kind == "heading":
            raise StudyError(f"form.questions.{self.questions[-1].name}: a heading stands before a question")
        earlier: dict[str, Question] = {}
        for question in self.questions:
            check_relevant(question, earlier)
            earlier |= {part.name: part for part in question.parts}

    @property
    def parts(self) -> tuple[Question, ...]:
        """The questions that take an answer, in order: a grid is its rows, a heading is none."""
        return tuple(part for question in self.questions for part in question.parts)

    # What an app asks of it

    def language(self, wanted: str | None) -> str:
        """The form's language nearest to the one wanted ("de-AT" -> "de"), else its first."""
        tag = (wanted or "").replace("_", "-").split(".")[0]
        for language in self.languages:
            if language.lower() == tag.lower():
                return language
        for language in self.languages:
            if tag and language.lower().split("-")[0] == tag.lower().split("-")[0]:
                return language
        return self.languages[0]

    def consent(self, language: str | None = None) -> ConsentText | None:
        """The consent to be shown and signed, if the form has one."""
        if self.agreement is None:
            return None
        chosen = self.language(language)
        return ConsentText(self.agreement.version, chosen, self.agreement.text[chosen])

    def eligibility_for(self, language: str | None = None) -> tuple[Asked, ...]:
        """The eligibility questions, in order."""
        return tuple(Asked(item.asked, self.language(language)) for item in self.eligibility)

    def eligible(self, responses: Mapping[str, object], language: str | None = None) -> bool:
        """Whether these answers let a person take part; `AnswerError` for one that is missing or is no answer."""
        chosen = self.language(language)
        checked = [
            (item, item.asked.check(responses.get(item.question.name), chosen)) for item in self.eligibility
        ]
        return all(item.met(value) for item, value in checked)

    def questions_for(
        self, responses: Mapping[str, object], language: str | None = None
    ) -> tuple[Asked, ...]:
        """The questions to answer now, in order: those whose condition holds with the answers given so far."""
        return tuple(asked for page in self.pages_for(responses, language) for asked in page.questions)

    def pages_for(
        self, responses: Mapping[str, object], language: str | None = None
    ) -> tuple[AskedPage, ...]:
        """`questions_for` as it is shown: with the headings before a question, and a grid's rows together."""
        chosen = self.language(language)
        values: dict[str, Value | None] = {}
        pages: list[AskedPage] = []
        headings: list[Asked] = []
        after_question = True
        for question in self.questions:
            here = question.relevant is None or question.relevant.holds(values)
            if question.kind == "heading":
                # A section whose questions were all skipped leaves no heading behind.
                headings = [] if after_question else headings
                headings += [Asked(question, chosen)] if here else []
            elif here:
                for part in question.parts:
                    try:
                        values[part.name] = part.check(responses.get(part.name), chosen)
                    except AnswerError:
                        continue  # not a good answer yet: as if not answered
                rows = tuple(Asked(part, chosen) for part in question.parts)
                grid = Asked(question, chosen) if question.kind == "grid" else None
                pages.append(AskedPage(tuple(headings), rows, grid))
                headings = []
            after_question = question.kind != "heading"
        return tuple(pages)

    def answers(
        self, responses: Mapping[str, object], language: str | None = None
    ) -> dict[str, bool | float | str]:
        """What `Client.submit` and `Queue.seal` take. An answer to a question that is not shown is left out."""
        chosen = self.language(language)
        known = {question.name for question in self.parts}
        unknown = sorted(set(responses) - known - {item.question.name for item in self.eligibility})
        if unknown:
            raise AnswerError(unknown[0], "is not asked by this form")
        values: dict[str, Value | None] = {}
        filled: dict[str, bool | float | str] = {}
        for question in self.parts:
            value: Value | None = None
            if question.relevant is None or question.relevant.holds(values):
                value = values[question.name] = question.check(responses.get(question.name), chosen)
            filled |= question.encode(value)
        return filled

    # How it fits the study

    def created(self, created_ms: int) -> Form:
        """The form with origin = "creation" replaced by the day of the study's creation (UTC)."""
        day = datetime.fromtimestamp(created_ms / 1000, UTC).date().isoformat()
        return replace(
            self,
            questions=tuple(
                replace(question, origin=day) if question.origin == CREATION else question
                for question in self.questions
            ),
        )

    @classmethod
    def for_schema(cls, schema: Schema, language: str = "en") -> Form:
        """The plain form of a study that has none: one question an attribute, in the schema's own words."""

        def texts(text: str) -> Texts:
            return Texts(((language, text),))

        questions = tuple(
            Question(
                attribute.name,
                PLAIN[attribute.kind],
                texts(attribute.label or attribute.name),
                unit=texts(attribute.unit) if attribute.unit else None,
                minimum=attribute.minimum,
                maximum=attribute.maximum,
                choices=tuple(Choice(level, texts(level)) for level in attribute.levels),
            )
            for attribute in schema.attributes
        )
        return cls((language,), questions)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form, which `trimask_core.form.file.read_form` reads: settings at their defaults are left out."""
        data: dict[str, Any] = {"languages": list(self.languages)}
        for name, texts in (("title", self.title), ("purpose", self.purpose), ("intro", self.intro)):
            if texts is not None:
                data[name] = texts.to_dict()
        if self.agreement is not None:
            data["consent"] = {"version": self.agreement.version, "text": self.agreement.text.to_dict()}
        if self.eligibility_first:
            data["eligibility_first"] = True
        if self.eligibility:
            data["eligibility"] = [
                item.question.to_dict()
                | ({"eligible": item.eligible} if item.question.kind == "yes_no" else {})
                for item in self.eligibility
            ]
        data["questions"] = [question.to_dict() for question in self.questions]
        return data
