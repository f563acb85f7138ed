"""Which answers a question takes: an answer as a value, or what is wrong with it in the person's language.

Texts are read as a person typed them (`typed`); numbers, true and false and lists are taken as they are.
"""

from __future__ import annotations

import math
from datetime import date

from trimask_core.errors import AnswerError
from trimask_core.form_words import words
from trimask_core.question_settings import NUMBERS, QuestionSettings, Value
from trimask_core.typed import Unread, read_date, read_number, read_time
from trimask_core.writing import show_date, show_number

__all__ = ["check_answer"]

_TRUE, _FALSE = {"yes", "true", "1"}, {"no", "false", "0"}
_LIMITS = ("between", "step", "dates", "outside", "times", "outside_time")


def check_answer(question: QuestionSettings, answer: object, language: str) -> Value | None:
    """`Question.check`."""
    if answer is None or answer in ((), []) or (isinstance(answer, str) and not answer.strip()):
        if question.required:
            raise _wrong(question, language, "needed")
        return None
    try:
        if question.kind in NUMBERS:
            return _number(question, answer, language)
        match question.kind:
            case "yes_no":
                return _yes_no(question, answer, language)
            case "date":
                return _date(question, answer, language)
            case "time":
                return _time(question, answer, language)
            case "single_choice":
                if answer not in [choice.value for choice in question.choices]:
                    raise _wrong(question, language, "choose")
                return str(answer)
            case "multiple_choice":
                return _several(question, answer, language)
            case _:
                raise AnswerError(question.name, f"a {question.kind} takes no answer itself")
    except Unread as unread:
        raise _wrong(question, language, unread.reason, **unread.values) from None


def _number(question: QuestionSettings, answer: object, language: str) -> float:
    reason = "whole" if question.kind == "integer" else "number"
    if isinstance(answer, bool) or not isinstance(answer, (int, float, str)):
        raise Unread(reason)
    try:
        value = read_number(answer, language, reason) if isinstance(answer, str) else float(answer)
    except OverflowError:
        raise Unread(reason) from None
    if not math.isfinite(value):
        raise Unread(reason)
    low, high = question.minimum, question.maximum
    if low is not None and high is not None and not low <= value <= high:
        raise Unread("between", low=show_number(low, language), high=show_number(high, language))
    if question.kind == "integer" and value != int(value):
        raise Unread("whole")
    if question.step is not None and low is not None:
        steps = (value - low) / question.step
        if abs(steps - round(steps)) > 1e-6:
            raise Unread("step", low=show_number(low, language), step=show_number(question.step, language))
        # The slider's own arithmetic may be a last bit off the mark.
        value = min(low + round(steps) * question.step, math.inf if high is None else high)
    return value


def _yes_no(question: QuestionSettings, answer: object, language: str) -> bool:
    word = str(answer).strip().lower()
    if word in _TRUE or word == words(language, "yes").lower():
        return True
    if word in _FALSE or word == words(language, "no").lower():
        return False
    raise _wrong(question, language, "yes_no")


def _several(question: QuestionSettings, answer: object, language: str) -> tuple[str, ...]:
    given = answer.split() if isinstance(answer, str) else answer
    offered = [choice.value for choice in question.choices]
    if not isinstance(given, (list, tuple, set, frozenset)) or not set(given) <= set(offered):
        raise _wrong(question, language, "choose_some")
    chosen = tuple(choice for choice in question.choices if choice.value in given)
    alone = [choice for choice in chosen if choice.exclusive]
    if alone and len(chosen) > 1:
        raise _wrong(question, language, "exclusive", choice=alone[0].label[language])
    return tuple(choice.value for choice in chosen)


def _date(question: QuestionSettings, answer: object, language: str) -> str:
    day = answer if isinstance(answer, date) else read_date(str(answer), language)
    text = date(day.year, day.month, day.day).isoformat()
    if (question.earliest and text < question.earliest) or (question.latest and text > question.latest):
        if question.earliest and question.latest:
            ends = [
                show_date(date.fromisoformat(end), language) for end in (question.earliest, question.latest)
            ]
            raise Unread("dates", low=ends[0], high=ends[1])
        raise Unread("outside")
    if not _counted_within(question, text):
        raise Unread("outside")
    return text


def _time(question: QuestionSettings, answer: object, language: str) -> str:  # noqa: ARG001 - as the others
    text = read_time(str(answer))
    at = question.counted(text)
    # In the order that the count has: with origin 12:00, from 22:00 to 02:00 is one night.
    early = question.earliest and at < question.counted(question.earliest)
    late = question.latest and at > question.counted(question.latest)
    if early or late:
        if question.earliest and question.latest:
            raise Unread("times", low=question.earliest, high=question.latest)
        raise Unread("outside_time")
    if not _counted_within(question, text):
        raise Unread("outside_time")
    return text


def _counted_within(question: QuestionSettings, text: str) -> bool:
    low, high = question.minimum, question.maximum
    return low is None or high is None or low <= question.counted(text) <= high


def _wrong(question: QuestionSettings, language: str, key: str, **values: str) -> AnswerError:
    if question.message is not None and key in _LIMITS:
        return AnswerError(question.name, question.message[language])
    return AnswerError(question.name, words(language, key, **values))
