"""How a date or a time of day becomes the number of an attribute."""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

__all__ = ["CREATION", "Count", "count_date", "count_time", "is_date", "is_time", "minutes"]

Count = Literal["days", "years", "age", "minutes", "hours"]
CREATION = "creation"  # as `origin`: the day the study was made, which replaces this word in the study
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY = 24 * 60


def is_date(text: str) -> bool:
    """Whether a text is a date written year-month-day, and in no other form of ISO 8601."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def is_time(text: str) -> bool:
    """Whether a text is a time of day written hours:minutes, 00:00 to 23:59."""
    return _TIME.fullmatch(text) is not None


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
