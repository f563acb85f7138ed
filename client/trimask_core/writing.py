"""How numbers, dates and times of day are written in a language.

A pure table, so that the app and the page show a person the same. Months have names in the languages of
`form_words`; elsewhere a date is written year-month-day.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

__all__ = ["DatePart", "date_order", "decimal_comma", "month_names", "show_date", "show_number"]

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
