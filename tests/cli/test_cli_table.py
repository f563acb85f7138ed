"""One's own CSV: whatever program wrote it is read, and what does not fit is listed at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_cli.study_file import bundled_definition
from trimask_cli.table.draft import draft_study, outward
from trimask_client.table import read_people, read_sheet
from trimask_core.basics.errors import ConfigError, SeveralProblems
from trimask_theory.planning.study_definition import load_definition

BUNDLED = load_definition(bundled_definition()).schema
HEADER = "systolic,age,bmi,salt,smoker,activity"
PERSON = "120,40,25.5,9,1,low"
EXPECTED = {"systolic": 120, "age": 40, "bmi": 25.5, "salt": 9, "smoker": True, "activity": "low"}


def _write(folder: Path, data: str | bytes) -> Path:
    path = folder / "own.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def _encoded(answers: dict[str, object]) -> list[float]:
    return BUNDLED.encode(answers)


@pytest.mark.parametrize(
    "data",
    [
        f"{HEADER}\n{PERSON}\n".encode("utf-16"),
        f"{HEADER}\n{PERSON}\n".encode("utf-16-le"),
        f"\ufeff{HEADER}\r\n{PERSON}\r\n".encode(),
        f"{HEADER},Größe\n{PERSON},klein\n".encode("latin-1"),
        f"{HEADER}\n{PERSON}\n".replace(",", "\t").encode(),
        f"{HEADER}\n{PERSON}\n".replace(",", ";").replace(".", ",").encode(),
        f"sep=;\n{HEADER}\n{PERSON}\n".replace(",", ";").encode(),
        b"systolic,age,bmi,salt,smoker,activity\n120.0,40.0,25.5,9.0,1.0,low\n\n",
    ],
    ids=[
        "utf-16",
        "utf-16 without mark",
        "utf-8 with mark",
        "latin-1",
        "tab",
        "semicolon",
        "excel",
        "pandas",
    ],
)
def test_repro_a_table_is_read_whatever_wrote_it(tmp_path: Path, data: bytes) -> None:
    (answers,) = read_people(_write(tmp_path, data), BUNDLED).answers
    assert _encoded(answers) == _encoded(dict(EXPECTED))


def test_repro_every_problem_is_listed_with_line_column_and_value(tmp_path: Path) -> None:
    lines = [
        HEADER.replace("bmi", "BMI") + ",age",
        PERSON + ",1",
        "12,40,25.5,9,maybe,lo,1",
        ",40,25.5,9,0.0,low,1",
    ]
    with pytest.raises(SeveralProblems) as caught:
        read_people(_write(tmp_path, "\n".join(lines)), BUNDLED)
    assert caught.value.problems[:-1] == (
        "header: there is no column 'bmi'; did you mean 'BMI'? Rename it",
        "header: 'age' is there more than once, in columns 2, 7; keep one",
        "line 3, column systolic, value '12': must be between 90 and 180",
        "line 3, column smoker, value 'maybe': answer yes or no",
        "line 3, column activity, value 'lo': is not one of low, medium, high; did you mean 'low'?",
        "line 4, column systolic, value '': an answer is needed",
    )
    assert "missing" in caught.value.problems[-1]


def test_twenty_problems_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    with pytest.raises(SeveralProblems) as caught:
        read_people(_write(tmp_path, "\n".join([HEADER, *["1,40,25,9,1,low"] * 23])), BUNDLED)
    assert caught.value.heading.endswith("23 problems, the first 20:")
    assert caught.value.problems[20:] == ("and 3 more",)


def test_a_line_with_a_cell_too_many_is_named(tmp_path: Path) -> None:
    with pytest.raises(SeveralProblems, match="line 2: 7 cells under 6 headers"):
        read_people(_write(tmp_path, f"{HEADER}\n{PERSON},x\n"), BUNDLED)


@pytest.mark.parametrize("data", [b"", b"a,b\n", b"\xff\xfe\x00"])
def test_what_is_no_table_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"own\.csv"):
        read_people(_write(tmp_path, data), BUNDLED)


FORM = """
title = "T"
purpose = "P"
contact = "C"
[privacy]
exact = true
[collection]
block_rows = 32
release_rows = 64
[[attributes]]
name = "smokes"
kind = "binary"
[[attributes]]
name = "cigarettes"
kind = "integer"
minimum = 0
maximum = 80
[[attributes]]
name = "mood"
kind = "categorical"
levels = ["1", "2", "very_good"]
[[attributes]]
name = "mood_missing"
kind = "binary"
[[attributes]]
name = "signs_cough"
kind = "binary"
[[attributes]]
name = "signs_fever"
kind = "binary"
[[attributes]]
name = "age"
kind = "integer"
minimum = 18
maximum = 99
[form]
languages = ["en"]
[[form.questions]]
name = "smokes"
kind = "yes_no"
label = "Do you smoke?"
[[form.questions]]
name = "cigarettes"
kind = "integer"
label = "How many?"
relevant = "smokes = yes"
missing = 0
[[form.questions]]
name = "mood"
kind = "single_choice"
label = "Mood"
required = false
missing = "1"
missing_indicator = "mood_missing"
choices = [
    { value = "1", label = "one" }, { value = "2", label = "two" }, { value = "very_good", label = "good" },
]
[[form.questions]]
name = "signs"
kind = "multiple_choice"
label = "Signs"
choices = [{ value = "cough", label = "Cough" }, { value = "fever", label = "Fever" }]
[[form.questions]]
name = "age"
kind = "date"
label = "Born on"
count = "age"
origin = "2026-01-01"
"""


def test_empty_cells_follow_the_form(tmp_path: Path) -> None:
    study = load_definition(FORM)
    table = (
        "smokes,cigarettes,mood,signs,age\n"
        "0.0,,NA,cough fever,1980-06-01\n"
        "1,12,very good,fever,45\n"
        "yes,3,2.0,cough,1990-01-01\n"
    )
    people = read_people(_write(tmp_path, table), study.schema, study.form)
    assert [study.schema.read(answers) for answers in people.answers] == [
        {"smokes": 0.0, "cigarettes": 0.0, "mood": "1", "mood_missing": 1.0, "signs_cough": 1.0, "signs_fever": 1.0,
         "age": 45.0},
        {"smokes": 1.0, "cigarettes": 12.0, "mood": "very_good", "mood_missing": 0.0, "signs_cough": 0.0,
         "signs_fever": 1.0, "age": 45.0},
        {"smokes": 1.0, "cigarettes": 3.0, "mood": "2", "mood_missing": 0.0, "signs_cough": 1.0, "signs_fever": 0.0,
         "age": 36.0},
    ]  # fmt: skip
    with pytest.raises(SeveralProblems, match="column cigarettes, value '': an answer is needed"):
        read_people(_write(tmp_path, table.replace("1,12", "1,")), study.schema, study.form)


OWN = "id;Größe (cm);weight;smoker;mood;city;visit;flag;always\n" + "".join(
    f"{i};{160 + i % 31},{i % 10};{'' if i % 7 == 0 else 48 + i % 50};{'Yes' if i % 3 else 'no'};"
    f"{['very good', 'so-so', 'bad'][i % 3]};c{i};2026-01-{i % 28 + 1:02d};{i % 2}.0;1\n"
    for i in range(60)
)


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_a_draft_fits_its_own_table(tmp_path: Path, trimask: Callable[..., Any], suite: str) -> None:
    table = _write(tmp_path, OWN.encode("latin-1"))
    done = trimask("study", "from-csv", table, "--out", tmp_path / "own.toml", "--suite", suite, "--json")
    assert done.status == 0, done.err
    told = json.loads(done.out)
    kinds = {item["name"]: item["kind"] for item in told["attributes"]}
    assert kinds == {
        "Grosse_cm": "continuous", "weight": "integer", "smoker": "binary", "mood": "categorical", "flag": "binary",
    }  # fmt: skip
    assert [item["header"] for item in told["left_out"]] == ["id", "city", "visit", "always"]
    study = load_definition(tmp_path / "own.toml")
    people = read_people(table, study.schema, study.form)
    assert len(people.answers) == 60
    assert sum(answers["weight_missing"] is True for answers in people.answers) == 9
    assert study.collection.suite == suite
    for answers in people.answers:
        study.schema.encode(answers)


@pytest.mark.parametrize("where", [(), ("--out", "-")])
def test_repro_a_draft_on_standard_output_says_what_it_left_out(
    tmp_path: Path, trimask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = trimask("study", "from-csv", _write(tmp_path, OWN.encode("latin-1")), *where)
    assert load_definition(done.out).schema.attributes
    assert [line.split("'")[1] for line in done.err.splitlines()] == ["id", "city", "visit", "always"]
    assert not (tmp_path / "-").exists()


def test_bounds_are_rounded_outward() -> None:
    assert outward(23, 78) == (20, 80)
    assert outward(0.113, 0.187) == (0.11, 0.19)
    assert outward(-3.2, 1000.1) == (-100, 1100)


def test_the_program_lists_problems_a_line_each(tmp_path: Path, trimask: Callable[..., Any]) -> None:
    (tmp_path / "study.toml").write_text(bundled_definition())
    table = _write(tmp_path, f"{HEADER}\n1,40,25,9,1,low\n120,1,25,9,1,low\n")
    done = trimask("demo", "--study", tmp_path / "study.toml", "--rows", table)
    assert done.status == 2
    assert [line for line in done.err.splitlines() if line.startswith("  line")] == [
        "  line 2, column systolic, value '1': must be between 90 and 180",
        "  line 3, column age, value '1': must be between 20 and 80",
    ]


@pytest.mark.parametrize(("people", "block"), [(20, 20), (300, 128), (1_500, 512), (20_190, 1024)])
def test_many_people_are_masked_in_larger_blocks(tmp_path: Path, people: int, block: int) -> None:
    table = _write(
        tmp_path, "weight,height\n" + "".join(f"{50 + i % 70},{150 + i % 9}.5\n" for i in range(people))
    )
    assert f"\nblock_rows = {block} " in draft_study(read_sheet(table), "rows").text


def test_repro_a_draft_of_a_few_people_says_so_and_does_not_contradict_itself(
    tmp_path: Path, trimask: Callable[..., Any]
) -> None:
    """Two people gave `block_rows = 2  # more than 4 columns`, which no later command took."""
    table = _write(tmp_path, "a,b,c\n1,2,yes\n3,4,no\n")
    done = trimask("study", "from-csv", table, "--suite", "rows", "--out", tmp_path / "own.toml")
    assert done.status == 0
    assert (
        "too few people: a block needs more people than the 4 columns of a row, and the table has 2"
        in done.err
    )
    assert "take the moments suite, without blocks" in done.err
    assert "trimask demo" not in done.out
    collection = load_definition(tmp_path / "own.toml").collection
    assert (collection.block_rows, collection.release_rows) == (32, 32)
    assert draft_study(read_sheet(table), "moments").too_few == ""


def test_repro_odd_headers_of_a_draft_are_found_again(tmp_path: Path) -> None:
    """`one`, `1st` and `%` became x_one, x_1st and x, which the same table was then said not to have: a KeyError."""
    lines = "".join(f"{i % 5},{i % 4},{i % 3},{i % 7},{i % 6}\n" for i in range(40))
    table = _write(tmp_path, f"one,1st,%,=SUM(A1),Größe (cm)\n{lines}")
    study = load_definition(draft_study(read_sheet(table)).text)
    names = [item.name for item in study.schema.attributes]
    assert names == ["x_one", "x_1st", "x", "SUM_A1", "Grosse_cm"]
    assert list(read_people(table, study.schema, study.form).answers[9].values()) == [4, 1, 0, 2, 3]


def test_repro_people_read_the_texts_of_the_table_not_its_levels(tmp_path: Path) -> None:
    """`<18` and `>30` were drafted as 18 and 30, and would have been asked so."""
    texts = ["<18", "18-30", ">30", "größer"]
    table = _write(tmp_path, "g,y\n" + "".join(f"{texts[i % 4]},{i % 9}\n" for i in range(40)))
    study = load_definition(draft_study(read_sheet(table)).text)
    assert study.form is not None
    (question, _) = study.form.parts
    assert {choice.value: choice.label["en"] for choice in question.choices} == {
        "18": "<18", "18_30": "18-30", "30": ">30", "grosser": "größer",
    }  # fmt: skip
    assert read_people(table, study.schema, study.form).answers[0]["g"] == "18"


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["13.04.2020", "1.5.2021"], "is a date, such as '13.04.2020': write it year-month-day"),
        (["2020-01-31 10:30:00", "2020-02-01"], "is a date, such as '2020-01-31 10:30:00'"),
        (["10:30", "22:15"], "is a time of day"),
        (
            ['"12,345"', "999"],
            "has numbers with marks between thousands, such as '12,345': write them without",
        ),
        (["12'345.5", "1'000"], "has numbers with marks between thousands"),
        (["<5", ">5"], "has '<5' and '>5', whose letters and digits are the same: rename one"),
        (["да", "no"], "has a text without a Latin letter or digit, 'да': rename it"),
    ],
)
def test_repro_a_column_left_out_says_what_it_seems_to_be(tmp_path: Path, cells: list[str], why: str) -> None:
    """Dates by day and numbers with marks were "different texts: group them"."""
    lines = "".join(f"{cells[i % len(cells)]},{i % 9}\n" for i in range(30))
    (left,) = draft_study(read_sheet(_write(tmp_path, f"odd,y\n{lines}"))).left_out
    assert left.header == "odd"
    assert why in left.why


def test_repro_points_between_thousands_are_not_taken_for_decimals(tmp_path: Path) -> None:
    """12.345 beside 0,5 was read as twelve and a bit."""
    table = _write(tmp_path, "income;y\n" + "".join(f"{10 + i}.345;0,{i}\n" for i in range(30)))
    (left,) = draft_study(read_sheet(table)).left_out
    assert left.why == "has '10.345' in a file with decimal commas: write 10345 or 10,345, whichever is meant"
    study = load_definition(
        'title = "t"\npurpose = "p"\ncontact = "c"\n[privacy]\nexact = true\n'
        "[collection]\nblock_rows = 8\nrelease_rows = 8\n"
        '[[attributes]]\nname = "income"\nkind = "continuous"\nminimum = 0\nmaximum = 100000\n'
    )
    with pytest.raises(SeveralProblems, match=r"column income: '10\.345' in a file with decimal commas"):
        read_people(table, study.schema)
    # Decimal points alone, or commas alone, are clear.
    for text in ("a;b\n12.345;0.5\n13.345;0.7\n", "a;b\n12,345;0,5\n13,345;0,7\n"):
        assert not read_sheet(_write(tmp_path, text)).unclear


def test_repro_columns_without_a_name_and_lines_too_long_are_told(tmp_path: Path) -> None:
    """The first column that pandas writes was dropped without a word, and so was a cell too many."""
    lines = "".join(f"{i},{i % 5},{i % 7}\n" for i in range(30))
    draft = draft_study(read_sheet(_write(tmp_path, f",a,b\n{lines}")))
    assert [(item.header, item.why) for item in draft.left_out] == [
        ("column 1", "has no name in the first line")
    ]
    with pytest.raises(
        ConfigError, match=r"line 32: 4 cells under 3 headers; quote cells that have ',' in them"
    ):
        draft_study(read_sheet(_write(tmp_path, f",a,b\n{lines}1,2,3,4\n")))


def test_a_draft_is_of_the_suite_that_serves_best_and_passes_its_own_check(
    tmp_path: Path, trimask: Callable[..., Any]
) -> None:
    """Two right providers and a collector; what is left to the owner is the purpose and whom to ask."""
    lines = "".join(f"{20 + i % 60},{60 + i % 41}.5,{'yes' if i % 3 else 'no'}\n" for i in range(400))
    own = tmp_path / "own.toml"
    assert (
        trimask("study", "from-csv", _write(tmp_path, f"age,weight,smoker\n{lines}"), "--out", own).status
        == 0
    )
    assert load_definition(own).collection.suite == "moments"
    unwritten = json.loads(trimask("study", "check", own, "--json").out)["checks"]
    assert [item["what"] for item in unwritten if item["state"] != "ok"] == ["placeholders"]
    text = own.read_text(encoding="utf-8")
    text = text.replace("Say in a sentence what the answers are for.", "How weight goes with age.")
    own.write_text(text.replace("who-asks@example.org", "weights@clinic.example"), encoding="utf-8")
    checked = trimask("study", "check", own)
    assert checked.status == 0, checked.out


def test_levels_that_differ_in_case_or_blanks_are_one_and_the_commonest_is_the_reference(
    tmp_path: Path,
) -> None:
    cells = ["city"] * 40 + ["City"] * 5 + ["open  land"] * 30 + ["Open land"] * 7 + ["village"] * 60
    table = _write(tmp_path, "place,x\n" + "".join(f"{cell},{i % 2}\n" for i, cell in enumerate(cells)))
    draft = draft_study(read_sheet(table))
    place = draft.attributes[0]
    assert place.levels == ("village", "city", "open_land")
    assert place.notes == (
        "taken as one level: 'City', 'city'",
        "taken as one level: 'Open land', 'open  land'",
    )
    study = load_definition(draft.text)
    read = [one["place"] for one in read_people(table, study.schema, study.form).answers]
    assert [read.count(level) for level in place.levels] == [60, 45, 37]


def test_levels_that_count_upwards_are_shown_in_their_order(tmp_path: Path) -> None:
    cells = ["18-30"] * 20 + ["31-50"] * 60 + ["51+"] * 30
    table = _write(tmp_path, "age,x\n" + "".join(f"{cell},{i % 2}\n" for i, cell in enumerate(cells)))
    study = load_definition(draft_study(read_sheet(table)).text)
    assert study.schema.attributes[0].levels == ("31_50", "18_30", "51")
    assert study.form is not None
    assert [choice.value for choice in study.form.questions[0].choices] == ["18_30", "31_50", "51"]


def test_a_draft_by_a_pilot_has_the_ball_that_its_plan_recommends(
    tmp_path: Path, trimask: Callable[..., Any]
) -> None:
    """Skewed answers fill little of their bounds: less noise, and what shrinking takes is corrected by the same file."""
    rng = np.random.default_rng(11)
    income = rng.lognormal(3, 0.7, 1500).round(1)
    years = (10 + income / 20 + rng.normal(0, 3, 1500)).clip(0, 40).round(1)
    lines = "".join(f"{a},{b}\n" for a, b in zip(years, income, strict=True))
    table, own = _write(tmp_path, f"years,income\n{lines}"), tmp_path / "own.toml"
    done = trimask("study", "from-csv", table, "--pilot", "--out", own)
    assert done.status == 0, done.err
    assert f"trimask study new {own} --keys KEYS --pilot {table}" in done.out
    definition = load_definition(own)
    assert definition.privacy.row_norm is not None
    low, high = definition.schema.attributes[1].bounds
    centre, scale = definition.schema.attributes[1].centre, definition.schema.attributes[1].scale
    assert centre is not None
    assert centre < (low + high) / 2
    assert scale is not None
    assert scale < (high - low) / 2
    plain = trimask("study", "from-csv", table).out
    assert "row_norm" not in plain
