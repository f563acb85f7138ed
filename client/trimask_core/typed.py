"""What a person typed, read as a number, a date or a time of day. Pure: text and language in, value or reason out.

Both decimal marks are read in every language, digits of other scripts are read, and nothing is guessed: "1.000" is
1 to some and 1000 to others, so neither is taken. A reason is a sentence of `form_words` and the values in it.
"""

from __future__ import annotations

import re
from datetime import date

from trimask_core.writing import date_order, month_names, show_date, show_number

__all__ = ["Unread", "plain_digits", "read_date", "read_number", "read_time"]

# The zero of each script whose digits are read; nine more follow it. Latin digits wide and narrow, Arabic-Indic and its
# eastern form, Devanagari, Bengali, Gurmukhi, Gujarati, Odia, Tamil, Telugu, Kannada, Malayalam, Sinhala, Thai, Lao,
# Tibetan, Myanmar, Khmer, Mongolian.
_ZEROS = (
    0xFF10, 0x0660, 0x06F0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50,
    0x0ED0, 0x0F20, 0x1040, 0x17E0, 0x1810,
)  # fmt: skip
_DIGITS = {zero + digit: str(digit) for zero in _ZEROS for digit in range(10)}
# Marks of direction say nothing; minus signs are one; spaces and apostrophes that part thousands are one.
_SAME = dict.fromkeys((0x200E, 0x200F, 0x061C), "") | {0x2212: "-", 0x2019: "'"}
_SAME |= dict.fromkeys((0x00A0, 0x202F, 0x2009), " ")
_ARABIC_DECIMAL, _ARABIC_THOUSANDS = "\u066b", "\u066c"
_PLAIN = re.compile(r"[-+]?[0-9]+")
_ONE_MARK = re.compile(r"([-+]?)([0-9]*)([.,\u066b])([0-9]+)")
_GROUPED = re.compile(
    r"([-+]?)([0-9]{1,3}(?:([.,' \u066c])[0-9]{3})(?:\3[0-9]{3})*)(?:([.,\u066b])([0-9]+))?"
)
_NUMERIC_DATE = re.compile(r"([0-9]+)\s*[./\-\s]\s*([0-9]+)\s*[./\-\s]\s*([0-9]+)\.?")
_TIME = re.compile(r"([0-9]{1,2})\s*[:.hH]\s*([0-9]{2})(?:\s*([aApP])\.?\s?[mM]\.?)?")
_WORD = re.compile(r"[^0-9\s.,/\-]+")


class Unread(ValueError):
    """Typed text that is not accepted: `reason` is a key of `form_words`, `values` fill its sentence."""

    def __init__(self, reason: str, **values: str) -> None:
        super().__init__(reason)
        self.reason, self.values = reason, values


def plain_digits(text: str) -> str:
    """With Latin digits, and one sign for what is written in several ways."""
    return text.translate(_DIGITS | _SAME).strip()


def read_number(text: str, language: str, reason: str = "number") -> float:
    """The number, or `Unread`: `reason` where it is none, `ambiguous` or `thousands` with the reading."""
    plain = plain_digits(text)
    if len(plain) > 40:
        raise Unread(reason)
    if _PLAIN.fullmatch(plain):
        return float(plain)
    one = _ONE_MARK.fullmatch(plain)
    if one is not None:
        sign, whole, mark, part = one.groups()
        small = float(f"{sign}{whole or 0}.{part}")
        # Three digits after a mark that parts thousands elsewhere; 0.125 cannot be that, nor 1.0000, nor the Arabic mark.
        if len(part) == 3 and 1 <= len(whole) <= 3 and whole[0] != "0" and mark != _ARABIC_DECIMAL:
            raise _ambiguous(text.strip(), small, float(f"{sign}{whole}{part}"), language)
        return small
    grouped = _GROUPED.fullmatch(plain)
    if grouped is not None and grouped[3] != grouped[4]:
        whole = grouped[2].replace(grouped[3], "")
        value = float(f"{grouped[1]}{whole}.{grouped[5] or 0}")
        raise Unread("thousands", text=text.strip(), value=show_number(value, language))
    raise Unread(reason)


def _ambiguous(text: str, small: float, large: float, language: str) -> Unread:
    shown = show_number(small, language)
    mark = "," if "," in shown else "."
    # Three decimals that are all needed are written with a fourth.
    sure = f"{shown}0" if len(shown.partition(mark)[2]) == 3 else shown
    return Unread("ambiguous", text=text, small=shown, large=show_number(large, language), sure=sure)


def read_date(text: str, language: str) -> date:
    """The date: year-month-day, the language's own order, or with the month as a word."""
    plain = plain_digits(text)
    numbers = _NUMERIC_DATE.fullmatch(plain)
    if numbers is None:
        return _date_with_word(plain, language)
    first, second, third = numbers.groups()
    if len(first) == 4:
        return _day(first, second, third, language)
    if len(third) != 4:
        raise Unread("year") if max(map(len, (first, second, third))) <= 2 else _no_date(language)
    found = {"day": _try(third, second, first), "month": _try(third, first, second)}
    order = date_order(language)[0]
    if language != "en" and order in found:
        other = found[order]
        if other is None:
            raise _no_date(language)
        return other
    # English alone does not say which comes first, nor does a language whose year does.
    days = sorted({day for day in found.values() if day is not None})
    if not days:
        raise _no_date(language)
    if len(days) == 2:
        shown = [show_date(day, language) for day in days]
        raise Unread("two_dates", text=text.strip(), first=shown[0], second=shown[1], iso=days[0].isoformat())
    return days[0]


def _date_with_word(plain: str, language: str) -> date:
    numbers, named = re.findall(r"[0-9]+", plain), [word.casefold() for word in _WORD.findall(plain)]
    names = [name.casefold() for name in month_names(language)]
    # Three letters say which month, but for French June and July.
    months = {
        place
        for word in named
        for place, name in enumerate(names, 1)
        if name == word
        or (len(word) >= 3 and name.startswith(word) and sum(n.startswith(word) for n in names) == 1)
    }
    if len(numbers) != 2 or len(months) != 1:
        raise _no_date(language)
    year = next((number for number in numbers if len(number) == 4), None)
    if year is None:
        raise Unread("year")
    (day,) = [number for number in numbers if number is not year]
    return _day(year, str(months.pop()), day, language)


def _try(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _day(year: str, month: str, day: str, language: str) -> date:
    found = _try(year, month, day)
    if found is None:
        raise _no_date(language)
    return found


def _no_date(language: str) -> Unread:
    return Unread("date", example=show_date(date(2001, 12, 31), language))


def read_time(text: str) -> str:
    """The time of day as hours:minutes: 7:30, 07.30, 19h30, 7:30 pm."""
    found = _TIME.fullmatch(plain_digits(text))
    if found is None:
        raise Unread("time", example="23:30")
    hour, half = int(found[1]), (found[3] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise Unread("time", example="23:30")
        hour = hour % 12 + (12 if half == "p" else 0)
    if hour > 23 or int(found[2]) > 59:
        raise Unread("time", example="23:30")
    return f"{hour:02}:{found[2]}"
