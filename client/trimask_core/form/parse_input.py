"""What a person typed, read as a number, a date or a time of day, and how these are written in a language.

Pure tables and functions, so that the app and the page read and show the same: text and language in, value or reason out.
Both decimal marks are read in every language, digits of other scripts are read, and nothing is guessed: "1.000" is
1 to some and 1000 to others, so neither is taken. A reason is a sentence of `texts` and the values in it. Months have
names in the languages of `texts`; elsewhere a date is written year-month-day. `count_date` and `count_time` make the
number of an attribute of a date or a time.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

DatePart = Literal["day", "month", "year"]
_COMMA = frozenset([
    "af", "az", "be", "bg", "bs", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fi", "fr", "gl", "hr", "hu", "hy",
    "id", "is", "it", "ka", "kk", "lt", "lv", "mk", "nb", "nl", "nn", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sq",
    "sr", "sv", "tr", "uk", "uz", "vi",
])  # fmt: skip
# Places that write 7.5 where the language elsewhere writes 7,5.
_POINT = frozenset([
    "de-CH", "de-LI", "it-CH", "es-MX", "es-US", "es-PR", "es-DO", "es-GT", "es-HN", "es-NI", "es-PA", "es-PE", "es-SV",
])  # fmt: skip
_YEAR_FIRST = frozenset(["eu", "hu", "ja", "ko", "lt", "mn", "sv", "zh"])
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    "hi": "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
_DATES = {"en": "{day} {month} {year}", "de": "{day}. {month} {year}", "fr": "{day} {month} {year}",
          "es": "{day} de {month} de {year}", "ar": "{day} {month} {year}", "hi": "{day} {month} {year}"}  # fmt: skip


def decimal_comma(language: str) -> bool:
    """Whether numbers are written 7,5 in this language. Both marks are read in any."""
    return language.split("-")[0] in _COMMA and language not in _POINT


def show_number(value: float, language: str) -> str:
    """A number as a person writes it, without marks between thousands."""
    text = str(int(value)) if value == int(value) else f"{value:.10g}"
    return text.replace(".", ",") if decimal_comma(language) else text


def date_order(language: str) -> tuple[DatePart, DatePart, DatePart]:
    """In which order day, month and year stand."""
    if language == "en-US":
        return ("month", "day", "year")
    if language.split("-")[0] in _YEAR_FIRST:
        return ("year", "month", "day")
    return ("day", "month", "year")


def month_names(language: str) -> tuple[str, ...]:
    """The twelve months, or their numbers where the language's names are not here."""
    names = _MONTHS.get(language.split("-")[0])
    return tuple(names.split()) if names else tuple(f"{number:02}" for number in range(1, 13))


def show_date(day: date, language: str) -> str:
    """A date as a person reads it; unambiguous: no two dates look the same."""
    primary = language.split("-")[0]
    if primary not in _MONTHS:
        return day.isoformat()
    month = month_names(language)[day.month - 1]
    if language == "en-US":
        return f"{month} {day.day}, {day.year}"
    return _DATES[primary].format(day=day.day, month=month, year=day.year)


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
_UNFINISHED = re.compile(r"([-+]?[0-9]+)[.,\u066b]")
_ONE_MARK = re.compile(r"([-+]?)([0-9]*)([.,\u066b])([0-9]+)")
_GROUPED = re.compile(
    r"([-+]?)([0-9]{1,3}(?:([.,' \u066c])[0-9]{3})(?:\3[0-9]{3})*)(?:([.,\u066b])([0-9]+))?"
)
_NUMERIC_DATE = re.compile(r"([0-9]+)\s*[./\-\s]\s*([0-9]+)\s*[./\-\s]\s*([0-9]+)\.?")
_TIME = re.compile(r"([0-9]{1,2})\s*[:.hH]\s*([0-9]{2})(?:\s*([aApP])\.?\s?[mM]\.?)?")
_WORD = re.compile(r"[^0-9\s.,/\-]+")


class Unread(ValueError):
    """Typed text that is not accepted: `reason` is a key of `texts.SENTENCES`, `values` fill its sentence."""

    def __init__(self, reason: str, **values: str) -> None:
        super().__init__(reason)
        self.reason, self.values = reason, values


def plain_digits(text: str) -> str:
    """With Latin digits, and one sign for what is written in several ways."""
    return text.translate(_DIGITS | _SAME).strip()


def read_number(text: str, language: str, reason: str = "number") -> float:
    """The number, or `Unread`: `reason` where it is none, `ambiguous`, `thousands` or `unfinished` with a reading."""
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
    unfinished = _UNFINISHED.fullmatch(plain)
    if unfinished is not None:
        raise Unread("unfinished", text=text.strip(), value=show_number(float(unfinished[1]), language))
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


Count = Literal["days", "years", "age", "minutes", "hours"]
CREATION = "creation"  # as `origin`: the day the study was made, which replaces this word in the study
_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY = 24 * 60


def is_date(text: str) -> bool:
    """Whether a text is a date written year-month-day, and in no other form of ISO 8601."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def is_time(text: str) -> bool:
    """Whether a text is a time of day written hours:minutes, 00:00 to 23:59."""
    return _TIME_OF_DAY.fullmatch(text) is not None


def minutes(time: str) -> int:
    """Minutes after midnight."""
    return int(time[:2]) * 60 + int(time[3:])


def count_date(day: date, count: Count | None, origin: str) -> float:
    """Days or years after the origin, or whole years before it (age)."""
    start = date.fromisoformat(origin)
    if count == "age":
        return start.year - day.year - ((start.month, start.day) < (day.month, day.day))
    days = (day - start).days
    return days if count == "days" else days / 365.25


def count_time(time: str, count: Count | None, origin: str) -> float:
    """Minutes or hours after the origin, round the clock: with origin 12:00, 23:30 and 00:30 are an hour apart."""
    after = (minutes(time) - minutes(origin or "00:00")) % _DAY
    return after if count == "minutes" else after / 60
