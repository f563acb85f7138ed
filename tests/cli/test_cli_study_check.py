"""Weak targets: refused or named where a study is made, checked, shown and approved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_cli.study_file import bundled_definition, read_signed, write_signed
from trimask_core.explain.facts import strengths
from trimask_core.study.signed import SignedStudy

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err


def definition(folder: Path, *changes: tuple[str, str], suite: Any = "rows") -> Path:
    """The bundled definition with parts of its text replaced."""
    text = bundled_definition(suite)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "weak.toml"
    path.write_text(text)
    return path


WEAK_DELTA = ("delta = 1e-6", "delta = 0.5")
WEAK_EPSILON = ("epsilon = 4.0", "epsilon = 100.0")


def lines(result: Any) -> dict[str, dict[str, Any]]:
    return {item["what"]: item for item in json.loads(result.out)["checks"]}


def test_delta_above_one_in_n_is_refused(trimask: Run, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "study.json"
    command = ("study", "new", definition(tmp_path, WEAK_DELTA), "--keys", made / "keys", "--out", out)
    refused = trimask(*command)
    assert (refused.status, refused.err.count("\n"), refused.out) == (2, 1, "")
    for words in ("delta = 0.5", "1/2,048", "1,024 of its 2,048 people", "--allow-weak"):
        assert words in refused.err
    assert not out.exists()
    allowed = trimask(*command, "--allow-weak")
    assert allowed.status == 0
    assert "1,024 of its 2,048 people" in allowed.out
    assert out.exists()


def test_several_releases_are_named(trimask: Run, tmp_path: Path) -> None:
    several = ('suite = "moments"', 'several_releases = true\nsuite = "moments"')
    asked = trimask("study", "check", definition(tmp_path, several, suite="moments"))
    assert "Take several_releases out" in asked.out
    asked = trimask("study", "check", definition(tmp_path, suite="moments"))
    assert "several_releases" not in asked.out
    refused = trimask(
        "study", "check", definition(tmp_path, ("block_rows", "several_releases = true\nblock_rows"))
    )
    assert (refused.status, "collection.several_releases is for the moments suite" in refused.err) == (
        2,
        True,
    )


def test_weak_epsilon_is_named(trimask: Run, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "study.json"
    new = trimask(
        "study", "new", definition(tmp_path, ("epsilon = 4.0", "epsilon = 20.0")),
        "--keys", made / "keys", "--out", out,
    )  # fmt: skip
    assert new.status == 0
    for shown in (
        new,
        trimask("study", "show", out),
        trimask("study", "approve", out, "--keys", made / "keys" / "R1", "--yes"),
    ):
        assert "Towards everybody who sees what is published: weak." in " ".join(shown.out.split())
    told = json.loads(trimask("study", "show", out, "--json").out)["weaknesses"]
    assert [item["what"] for item in told] == ["strength", "collector_strength", "parties"]


def test_epsilon_100_is_named_in_the_moments_suite(trimask: Run, tmp_path: Path) -> None:
    checked = trimask("study", "check", definition(tmp_path, WEAK_EPSILON, suite="moments"), "--json")
    assert checked.status == 1
    weak = lines(checked)["strength"]
    assert (weak["state"], weak["number"]) == ("weak", 100)
    assert "near certainty" in weak["words"]


def test_check_of_a_study_names_the_collectors_number(trimask: Run, made: Path, tmp_path: Path) -> None:
    small = definition(tmp_path, ("block_rows = 1024 ", "block_rows = 128 "))
    out = tmp_path / "study.json"
    assert trimask("study", "new", small, "--keys", made / "keys", "--out", out).status == 0
    checked = trimask("study", "check", out, "--json")
    assert checked.status == 1
    found = lines(checked)
    study = read_signed(out).study
    assert study.protection.collector is not None
    promise = next(one for one in strengths(study) if one.towards == "collector")
    assert found["collector_strength"]["number"] == promise.guess
    assert "block_rows" in found["collector_strength"]["fix"]
    assert found["parties"]["number"] == 2
    assert {what for what, line in found.items() if line["state"] == "ok"} == {
        "claims", "noise", "guarantee", "delta", "strength", "record", "written", "shown",
    }  # fmt: skip
    shown = trimask(
        "study", "check", made / "study.json"
    )  # of three right providers, in blocks that are large enough
    assert shown.status == 1
    assert shown.out.count("ok ") == 9
    assert "what would help" in shown.out


def test_a_definition_without_weaknesses_is_ok(trimask: Run, tmp_path: Path) -> None:
    checked = trimask("study", "check", definition(tmp_path), "--json")
    assert checked.status == 0, checked.out
    assert json.loads(checked.out)["ok"]
    assert trimask("study", "check", definition(tmp_path, suite="moments")).status == 0


def test_a_definition_with_its_own_parties(trimask: Run, made: Path, tmp_path: Path) -> None:
    checked = trimask("study", "check", definition(tmp_path), "--keys", made / "keys", "--json")
    assert "Development" in lines(checked)["parties"]["words"]
    two = trimask("study", "check", definition(tmp_path, suite="moments"), "--right", "2", "--json")
    assert (two.status, lines(two)["parties"]["words"]) == (
        0,
        "It takes 2 institutions together to see answers.",
    )


def test_refused_weakness_is_listed_first_and_said(trimask: Run, tmp_path: Path) -> None:
    weak = definition(tmp_path, WEAK_DELTA, suite="moments")
    checked = trimask("study", "check", weak, "--json")
    assert checked.status == 1
    assert lines(checked)["delta"]["state"] == "refused"
    assert "refused" in trimask("study", "check", weak).out


def test_claims_that_do_not_hold_are_a_refused_line(trimask: Run, study_folder: Path) -> None:
    file = study_folder / "study.json"
    study = read_signed(file).study
    assert study.protection.public is not None
    boast = replace(study.protection, public=replace(study.protection.public, epsilon=1.0))
    write_signed(file, SignedStudy(replace(study, protection=boast)), replace=True)
    checked = trimask("study", "check", file, "--json")
    assert checked.status == 1
    assert lines(checked)["claims"]["state"] == "refused"
    assert "do not approve it" in lines(checked)["claims"]["words"]


@pytest.mark.parametrize("text", ["", "[privacy]\nepsilom = 1\n"])
def test_what_cannot_be_read_is_one_line(trimask: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    checked = trimask("study", "check", file)
    assert (checked.status, checked.err.count("\n"), checked.out) == (2, 1, "")


def test_a_study_with_a_page(trimask: Run, tmp_path: Path) -> None:
    from trimask_core.study.weaknesses import weaknesses

    keys, out = tmp_path / "keys", tmp_path / "study.json"
    assert trimask("keys", keys, "--https", "--base-port", "21000").status == 0
    definition = tmp_path / "study.toml"
    page = f'[web]\nhosts = ["https://survey.example"]\npage_sha256 = "{"ab" * 32}"\n'
    definition.write_text(trimask("study", "example").out + page, encoding="utf-8")
    assert trimask("study", "new", definition, "--keys", keys, "--out", out).status == 0
    shown = trimask("study", "show", out)
    assert "https://survey.example" in shown.out
    assert "could change the page" in " ".join(shown.out.split())
    as_json = json.loads(trimask("study", "show", out, "--json").out)
    assert as_json["web"] == {"hosts": ["https://survey.example"], "page_sha256": "ab" * 32}
    assert {party["role"]: party["https"] for party in as_json["parties"]}["R1"] == "https://127.0.0.1:21007"
    assert "page_host" not in {item.what for item in weaknesses(SignedStudy.from_json(out.read_text()).study)}
    checked = trimask("study", "check", definition)  # without cards: as if every party had a port
    assert checked.status in (0, 1)
    for bad, said in (
        ("http://survey.example", "must begin with https"),
        ("https://survey.example/", "no path"),
    ):
        definition.write_text(
            trimask("study", "example").out + page.replace("https://survey.example", bad), encoding="utf-8"
        )
        assert said in " ".join(trimask("study", "check", definition).err.split())


def test_a_study_with_a_page_needs_ports(trimask: Run, made: Path, tmp_path: Path) -> None:
    definition = tmp_path / "study.toml"
    page = f'[web]\nhosts = ["https://survey.example"]\npage_sha256 = "{"ab" * 32}"\n'
    definition.write_text(trimask("study", "example", "--suite", "rows").out + page, encoding="utf-8")
    refused = trimask("study", "new", definition, "--keys", made / "keys", "--out", tmp_path / "study.json")
    assert refused.status == 2
    assert "has no https port" in refused.err
