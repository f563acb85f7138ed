"""Typed numbers, dates and times of day: what is read, and what is refused with its reading."""

from __future__ import annotations

import unicodedata
from datetime import date

import pytest

from trimask_core.form.parse_input import (
    Unread,
    date_order,
    month_names,
    plain_digits,
    read_date,
    read_number,
    read_time,
    show_date,
    show_number,
)
from trimask_core.form.texts import SENTENCES, words


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7.5", 7.5), ("7,5", 7.5), (" 70 ", 70), ("-3", -3), ("+3", 3), ("\u22123,25", -3.25), (".5", 0.5),
        ("0.125", 0.125), ("0,125", 0.125), ("1.0000", 1), ("1000.000", 1000), ("1000", 1000), ("0012", 12),
        ("٧٫٥", 7.5), ("١٫٠٠٠", 1), ("۱۲", 12), ("७.५", 7.5), ("\u200f٤٢\u200f", 42), ("\uff11\uff12", 12),
    ],
)  # fmt: skip
def test_both_marks_and_digits_of_other_scripts_are_read(text: str, value: float) -> None:
    for language in ("en", "de", "ar", "hi"):
        assert read_number(text, language) == value


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        ("1.000", "en", "1.000 can mean 1 or 1000; write 1000 or 1"),
        ("1,000", "en", "1,000 can mean 1 or 1000; write 1000 or 1"),
        ("1.000", "de", "1.000 kann 1 oder 1000 heißen; schreiben Sie 1000 oder 1"),
        ("12.345", "en", "12.345 can mean 12.345 or 12345; write 12345 or 12.3450"),
        ("12,345", "de", "12,345 kann 12,345 oder 12345 heißen; schreiben Sie 12345 oder 12,3450"),
        ("-1.500", "en", "-1.500 can mean -1.5 or -1500; write -1500 or -1.5"),
        ("1.000,5", "en", "1.000,5 looks like 1000.5; write it without marks between the digits: 1000.5"),
        ("1.234.567", "en", "1.234.567 looks like 1234567; write it without marks between the digits: 1234567"),
        ("1 000", "fr", "1 000 semble être 1000 ; écrivez-le sans signe entre les chiffres : 1000"),
        ("1\u2019000", "es", "1\u2019000 parece 1000; escríbalo sin signos entre las cifras: 1000"),
        ("١٬٠٠٠", "fa", "١٬٠٠٠ looks like 1000; write it without marks between the digits: 1000"),
    ],
)  # fmt: skip
def test_thousands_are_refused_with_the_reading(text: str, language: str, said: str) -> None:
    with pytest.raises(Unread) as caught:
        read_number(text, language)
    assert words(language, caught.value.reason, **caught.value.values) == said


def test_what_is_advised_is_read() -> None:
    for text in ("1.000", "12.345", "999,125", "100.500", "-1,001"):
        with pytest.raises(Unread) as caught:
            read_number(text, "de")
        values = caught.value.values
        assert read_number(values["sure"], "de") == float(text.replace(",", "."))
        assert read_number(values["large"], "de") == float(text.replace(",", "").replace(".", ""))


@pytest.mark.parametrize(
    "text", ["", "x", "1e3", "nan", "inf", "1.2.3", "1,,5", "1.000.5", ".", "0x10", "1_000", "9" * 41]
)
def test_no_number(text: str) -> None:
    with pytest.raises(Unread) as caught:
        read_number(text, "en", "whole")
    assert caught.value.reason == "whole"


@pytest.mark.parametrize(("text", "whole"), [("7,", "7"), ("-12.", "-12"), ("٣٫", "3")])
def test_a_number_that_is_half_typed(text: str, whole: str) -> None:
    with pytest.raises(Unread) as caught:
        read_number(text, "de")
    assert (caught.value.reason, caught.value.values) == ("unfinished", {"text": text, "value": whole})
    assert read_number(whole, "de") == float(whole)


def test_digits_agree_with_unicode() -> None:
    """Every character that is read as a digit is that digit by Unicode's own table."""
    others = {letter for code in range(0x3A, 0x110000) if (letter := chr(code)).isdecimal()}
    read = {letter for letter in others if plain_digits(letter) != letter}
    assert len(read) == 190
    assert all(unicodedata.decimal(letter) == int(plain_digits(letter)) for letter in read)


@pytest.mark.parametrize(
    ("text", "language", "day"),
    [
        ("2001-12-31", "de", date(2001, 12, 31)),
        ("31.12.2001", "de", date(2001, 12, 31)),
        ("3/4/2001", "de", date(2001, 4, 3)),
        ("3/4/2001", "en-US", date(2001, 3, 4)),
        ("3/4/2001", "en-GB", date(2001, 4, 3)),
        ("13/4/2001", "en", date(2001, 4, 13)),
        ("4/13/2001", "en", date(2001, 4, 13)),
        ("4/4/2001", "en", date(2001, 4, 4)),
        ("3 April 2001", "en", date(2001, 4, 3)),
        ("Apr 3, 2001", "en", date(2001, 4, 3)),
        ("3. März 2001", "de", date(2001, 3, 3)),
        ("3 de dic de 2001", "es", date(2001, 12, 3)),
        ("1 août 1999", "fr", date(1999, 8, 1)),
        ("٣١/١٢/٢٠٠١", "ar", date(2001, 12, 31)),
        ("३१-१२-२००१", "hi", date(2001, 12, 31)),
    ],
)
def test_dates_by_language(text: str, language: str, day: date) -> None:
    assert read_date(text, language) == day


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        ("3/4/2001", "en", "3/4/2001 can mean 4 March 2001 or 3 April 2001; write the month as a word, or 2001-03-04"),
        ("3.4.01", "de", "bitte das Jahr mit allen vier Ziffern schreiben"),
        ("3 April 01", "en", "write the year with all four digits"),
        ("31.2.2001", "de", "bitte ein Datum angeben, etwa 31. Dezember 2001"),
        ("12/31/2001", "fr", "donnez une date, par exemple 31 décembre 2001"),
        ("jui 3 2001", "fr", "donnez une date, par exemple 31 décembre 2001"),
        ("yesterday", "pl", "give a date such as 2001-12-31"),
    ],
)  # fmt: skip
def test_dates_that_are_not_taken(text: str, language: str, said: str) -> None:
    with pytest.raises(Unread) as caught:
        read_date(text, language)
    assert words(language, caught.value.reason, **caught.value.values) == said


@pytest.mark.parametrize("language", ["en", "en-US", "de", "fr", "es", "pl", "ja"])
def test_a_date_that_is_shown_is_read(language: str) -> None:
    for month in range(1, 13):
        day = date(1980, month, 7)
        assert read_date(show_date(day, language), language) == day
    assert len(set(month_names(language))) == 12
    assert sorted(date_order(language)) == ["day", "month", "year"]


@pytest.mark.parametrize(
    ("text", "time"),
    [("7:30", "07:30"), ("23.05", "23:05"), ("19h30", "19:30"), ("7:30 pm", "19:30"), ("12:00 a.m.", "00:00"),
     ("12:15PM", "12:15"), ("٠٧:٣٠", "07:30"), ("00:00", "00:00")],
)  # fmt: skip
def test_times_of_day(text: str, time: str) -> None:
    assert read_time(text) == time


@pytest.mark.parametrize(
    "text", ["", "7", "24:00", "7:60", "13:00 pm", "0:10 am", "7:3", "730", "7:30 m", "7:30:00"]
)
def test_no_time_of_day(text: str) -> None:
    with pytest.raises(Unread, match="time"):
        read_time(text)


def test_numbers_are_written_by_language() -> None:
    assert [show_number(7.5, tag) for tag in ("en", "de", "de-CH", "es", "es-MX", "hi")] == [
        "7.5", "7,5", "7.5", "7,5", "7.5", "7.5",
    ]  # fmt: skip


def test_every_language_has_every_sentence() -> None:
    tables = list(SENTENCES.values())
    assert all(table.keys() == tables[0].keys() for table in tables)
