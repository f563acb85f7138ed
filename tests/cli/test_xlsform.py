"""Importing XLSForms: what is carried over works as a study's form, and what is not is listed."""

from __future__ import annotations

import re
import tracemalloc
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from trimask_cli.xlsform import workbook
from trimask_cli.xlsform.kinds import CannotExpress, Limits, limits_of, relevance_of
from trimask_core.basics.errors import ConfigError
from trimask_terminal.program import main
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.study_definition import load_definition

Sheet = Sequence[Sequence[Any]]
SURVEY: Sheet = (
    ("type", "name", "label::English (en)", "label::Deutsch (de)", "hint::English (en)", "required", "relevant",
     "constraint", "constraint_message::English (en)", "parameters", "appearance", "calculation"),
    ("note", "hello", "Welcome.", "Willkommen."),
    ("integer", "age", "How old are you?", "Wie alt sind Sie?", "In years.", "yes", None,
     ". >= 18 and . < 100", "18 to 99, please."),
    ("decimal", "weight", "Your weight?", "Ihr Gewicht?", None, "true()", None, ". > 30 and . <= 250"),
    ("range", "mood", "How are you?", "Wie geht es?", None, "yes", None, None, None, "start=0 end=10 step=1"),
    ("select_one yes_no", "smoker", "Do you smoke?", "Rauchen Sie?", None, "yes"),
    ("integer", "cigarettes", "How many a day?", "Wie viele am Tag?", None, "yes", "${smoker} = 'yes'",
     ". >= 0 and . <= 80"),
    ("select_one region", "region", "Where do you live?", "Wo wohnen Sie?", None, "yes", None, None, None, None,
     "minimal"),
    ("select_multiple signs", "signs", "Any of these?", "Haben Sie eines davon?"),
    ("begin_group", "ill", "Illness", "Krankheit", None, None, "selected(${signs}, 'cough')"),
    ("date", "since", "Since when?", "Seit wann?", None, "yes", "${age} >= 18",
     ". >= date('2024-01-01') and . <= date('2024-12-31')"),
    ("end_group",),
    ("text", "remarks", "Anything else?", "Noch etwas?"),
    ("calculate", "bmi", None, None, None, None, None, None, None, None, None, "${weight} div 3"),
    ("begin_repeat", "child", "Child", "Kind"),
    ("integer", "child_age", "Its age?", "Sein Alter?", None, "yes", None, ". >= 0 and . <= 17"),
    ("end_repeat",),
    ("integer", "steps", "Steps a day?", None, None, "yes", "${age} > ${weight}"),
    ("image", "photo", "A photo", "Ein Bild"),
    ("deviceid", "device"),
)  # fmt: skip
CHOICES: Sheet = (
    ("list_name", "name", "label::English (en)", "label::Deutsch (de)", "media::image"),
    ("yes_no", "yes", "Yes", "Ja"),
    ("yes_no", "no", "No", "Nein"),
    ("region", 1, "North", "Norden"),
    ("region", 2, "South", "Süden", "south.png"),
    ("signs", "cough", "Cough", "Husten"),
    ("signs", "fever", "Fever", "Fieber"),
)
SETTINGS: Sheet = (("form_title", "default_language"), ("Health “check”", "Deutsch (de)"))


@pytest.fixture
def book(tmp_path: Path) -> Callable[..., Path]:
    def make(survey: Sheet, choices: Sheet = (), settings: Sheet = ()) -> Path:
        made = openpyxl.Workbook()
        made.remove(made.active)
        for title, rows in (("survey", survey), ("choices", choices), ("settings", settings)):
            if rows:
                sheet = made.create_sheet(title)
                for row in rows:
                    sheet.append(list(row))
        made.save(tmp_path / "form.xlsx")
        return tmp_path / "form.xlsx"

    return make


def _filled(path: Path, **bounds: tuple[float, float]) -> StudyDefinition:
    """The definition after its owner has filled in what the comments ask for."""
    text = path.read_text(encoding="utf-8")
    for name in ("epsilon", "delta", "block_rows", "release_rows"):
        text = text.replace(f"# {name} =", f"{name} =")
    for low, high in bounds.values():
        text = text.replace("# minimum =", f"minimum = {low}", 1).replace(
            "# maximum =", f"maximum = {high}", 1
        )
    return load_definition(text)


def test_a_whole_form(book: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "study.toml"
    assert main(["study", "import-xlsform", str(book(SURVEY, CHOICES, SETTINGS)), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    definition = _filled(out, steps=(0, 50000))
    assert definition.title == "Health “check”"
    form = definition.form
    assert form is not None
    assert form.languages == ("de", "en")  # the default language first
    assert form.intro is not None
    assert form.intro["en"] == "Welcome."
    kinds = {question.name: question.kind for question in form.questions}
    assert kinds == {
        "age": "integer", "weight": "number", "mood": "slider", "smoker": "yes_no", "cigarettes": "integer",
        "region": "single_choice", "signs": "multiple_choice", "since": "date", "steps": "integer", "ill": "heading",
    }  # fmt: skip
    by_name = {question.name: question for question in form.questions}
    assert (by_name["age"].minimum, by_name["age"].maximum) == (18, 99)  # < 100 is 99 for whole numbers
    assert by_name["age"].message is not None
    assert by_name["age"].message["en"] == "18 to 99, please."
    assert by_name["cigarettes"].relevant is not None
    assert by_name["cigarettes"].relevant.text == "smoker = yes"
    assert by_name["since"].relevant is not None
    assert by_name["since"].relevant.text == '(signs has "cough") and (age >= 18)'
    answers = form.answers(
        {
            "age": 30,
            "weight": "70,5",
            "mood": 4,
            "smoker": "nein",
            "region": "2",
            "signs": ["fever"],
            "steps": 9,
        }
    )
    assert answers == {
        "age": 30, "weight": 70.5, "mood": 4, "smoker": False, "cigarettes": 0, "cigarettes_missing": True,
        "region": "2", "signs_cough": False, "signs_fever": True, "signs_missing": False, "since": 0,
        "since_missing": True, "steps": 9,
    }  # fmt: skip
    ill = form.answers(
        {"age": 30, "weight": 70, "mood": 4, "smoker": "no", "region": "1", "signs": ["cough"], "steps": 9,
         "since": "2024-03-01"}
    )  # fmt: skip
    assert (ill["since"], ill["since_missing"]) == (60, False)
    lost = said.split("To check or fill in:")[0]
    for words in (
        "remarks: text: free text cannot be pooled",
        "bmi: calculate: calculations are not carried over",
        "repeat child: a person has one row",
        "steps: relevant '${age} > ${weight}'; it is now asked of everybody",
        "photo: image: there is no such question",
        "device: deviceid is about the device",
        "region: appearance (minimal)",
        "region, choice 2: media::image (south.png)",
    ):
        assert words in lost, words
    assert "child_age" not in said
    check = said.split("To check or fill in:")[1]
    for words in (
        "weight: its minimum itself (30) is now allowed",
        "steps: fill in minimum",
        "since: counted in days from 2024-01-01",
        "cigarettes: may go unanswered; its row then has 0 and cigarettes_missing = yes",
        "signs: may go unanswered; its row then has no and signs_missing = yes",
        "3 texts are missing in 'de'",
        "9 questions, 13 attributes",
    ):
        assert words in check, words


def test_nothing_usable(book: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = book(
        (("type", "name", "label"), ("text", "remarks", "Anything?"), ("integer", "1st", "No such name"))
    )
    assert main(["study", "import-xlsform", str(path), "--out", str(tmp_path / "study.toml")]) == 1
    assert "Nothing usable is left" in capsys.readouterr().out
    assert not (tmp_path / "study.toml").exists()


def test_one_language_and_odd_rows(book: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    survey = (
        ("type", "name", "label", "label::Klingon (x)", "required", "constraint"),
        ("integer", "age", "Age?", "العمر", "yes", ". >= 0 and . <= 9"),
        ("integer", "age", "Age again?", None, "yes", ". >= 0 and . <= 9"),
        ("select_one nowhere", "place", "Where?", None, "yes"),
        ("date", "born", "When?", None, "yes"),
        ("integer", "odd", "Odd?", None, "yes", "regex(., '1')"),
        ("select_one c or_other", "what", "What?", None, "yes"),
        ("range", "bad", "How?", None, "yes"),
    )
    choices = (("list_name", "name", "label"), ("c", "a b", "A"), ("c", "b", "B"))
    out = tmp_path / "study.toml"
    assert main(["study", "import-xlsform", str(book(survey, choices)), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for words in (
        "language 'Klingon (x)': not a language a form supports",
        "age: there are two questions of this name",
        "place: list nowhere has too few choices",
        "born: a date needs limits",
        "odd: constraint \"regex(., '1')\"",
        "what: a choice of list c has no label, or a name",
    ):
        assert words in said, words
    form = _filled(out, odd=(0, 5)).form
    assert form is not None
    assert [question.name for question in form.questions] == ["age", "odd", "bad"]
    assert form.languages == ("en",)


def test_what_is_not_an_xlsform(tmp_path: Path, book: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.xlsx").write_text("type,name")
    for path in (tmp_path / "text.xlsx", book((), (("list_name", "name"), ("a", "b")))):
        assert main(["study", "import-xlsform", str(path), "--out", str(tmp_path / "study.toml")]) == 2
        assert capsys.readouterr().err.startswith("trimask: ")


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        ("${a} > 3", "a > 3"),
        ("${s} = 'x' or ${a}<=-2.5", 's = "x" or a <= -2.5'),
        ("not(selected(${m}, 'u')) and (${y} = 'no')", 'not (m has "u") and (y = no)'),
        ("selected(${s}, 'x')", 's = "x"'),
        ("${d} >= '2024-01-01'", 'd >= "2024-01-01"'),
    ],
)
def test_relevance(expression: str, condition: str) -> None:
    kinds = {"a": "integer", "s": "single_choice", "m": "multiple_choice", "y": "yes_no", "d": "date"}
    assert relevance_of(expression, kinds) == condition


@pytest.mark.parametrize(
    "expression",
    [
        "${a} > ${a}", "${z} = 1", "${a} != ''", "count(${a}) > 1", "${m} = 'u'", "today() > 3", "${a} + 1 > 3",
        "selected(${a})", "${a}", "#",
    ],
)  # fmt: skip
def test_a_relevance_that_cannot_be_said_is_not_half_said(expression: str) -> None:
    with pytest.raises(CannotExpress):
        relevance_of(expression, {"a": "integer", "m": "multiple_choice"})


def test_limits() -> None:
    assert limits_of(". >= 0 and . <= 120") == Limits("0", "120")
    assert limits_of(".<5") == Limits("", "5", below=True)
    assert limits_of("(. > -1.5)") == Limits("-1.5", "", above=True)
    for text in (". = 3", ". >= 1 or . <= 2", ". >= 1 and . >= 2", "${a} > 3", ""):
        with pytest.raises(CannotExpress):
            limits_of(text)


# What a workbook from anywhere may try.


def _altered(path: Path, out: Path, change: Callable[[str, bytes], bytes], **more: bytes) -> Path:
    """A workbook with parts changed, and others added."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
        for name, content in more.items():
            new.writestr(f"xl/{name}.xml", content)
    return out


def _as_it_is(_name: str, content: bytes) -> bytes:
    return content


def _refused(path: Path, words: str) -> None:
    """Refused in a moment's memory: less than a tenth of what the bomb would unpack to."""
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match=words):
            workbook.read_workbook(path)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_an_archive_that_unpacks_to_gigabytes_is_refused_unopened(
    book: Callable[..., Path], tmp_path: Path
) -> None:
    made = book(SURVEY, CHOICES)
    bomb = tmp_path / "bomb.xlsx"
    with (
        zipfile.ZipFile(made) as old,
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
        with new.open("xl/media/padding.xml", "w") as part:
            for _ in range(80):
                part.write(bytes(1 << 20))
    assert bomb.stat().st_size < 1 << 20
    _refused(bomb, "unpacks to")
    many = _altered(made, tmp_path / "many.xlsx", _as_it_is, **{f"p{i}": b"<x/>" for i in range(1001)})
    _refused(many, "1,?0\\d\\d parts")


def test_entities_are_not_expanded(book: Callable[..., Path], tmp_path: Path) -> None:
    laughs = b"<!DOCTYPE a [<!ENTITY l0 'ha'>" + b"".join(
        b"<!ENTITY l%d '%s'>" % (i, b"&l%d;" % (i - 1) * 10) for i in range(1, 9)
    )

    def change(name: str, content: bytes) -> bytes:
        if name != "xl/workbook.xml":
            return content
        return laughs + b"]>" + content.replace(b"survey", b"&l8;")

    _refused(_altered(book(SURVEY), tmp_path / "laughs.xlsx", change), "defines entities in xl/workbook.xml")
    secret = b"<!DOCTYPE a [<!ENTITY file SYSTEM 'file:///etc/hostname'>]>"
    outside = _altered(
        book(SURVEY),
        tmp_path / "outside.xlsx",
        lambda name, content: secret + content if "sheet1" in name else content,
    )
    _refused(outside, "defines entities")


def test_a_sheet_that_says_it_has_a_million_rows_or_has_too_many(
    book: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbook, "_MOST_ROWS", 60)

    def far(name: str, content: bytes) -> bytes:
        if "sheet1" not in name:
            return content
        said = re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:XFD1048576"', content)
        return said.replace(
            b"</sheetData>", b'<row r="1048576"><c r="XFD1048576" t="n"><v>1</v></c></row></sheetData>'
        )

    _refused(_altered(book(SURVEY), tmp_path / "far.xlsx", far), "more than 60 rows")
    said = _altered(
        book(SURVEY),
        tmp_path / "said.xlsx",
        lambda _, content: re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:XFD1048576"', content),
    )
    assert len(workbook.read_workbook(said).survey) == len(SURVEY) - 1  # only its word was large
    _refused(book([("type", "name"), *[("note", f"n{i}") for i in range(61)]]), "more than 60 rows")


@pytest.mark.parametrize("junk", [b"", b"PK", b"no archive at all", b"PK\3\4" + bytes(40)])
def test_what_is_no_workbook_is_said_to_be_none(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk.xlsx"
    path.write_bytes(junk)
    with pytest.raises(ConfigError, match=r"not an \.xlsx workbook"):
        workbook.read_workbook(path)
    broken = tmp_path / "broken.xlsx"
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook><unclosed>")
        archive.writestr("[Content_Types].xml", "<Types><unclosed>")
    with pytest.raises(ConfigError, match=r"not an \.xlsx workbook"):
        workbook.read_workbook(broken)


def test_repro_a_file_that_was_edited_is_not_overwritten(
    book: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study.toml"
    out.write_text("edited")
    assert main(["study", "import-xlsform", str(book(SURVEY, CHOICES, SETTINGS)), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert out.read_text() == "edited"
