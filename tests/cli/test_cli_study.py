"""`trimask study` without a network: from a definition to a study every party signed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_cli.study_file import bundled_definition, read_signed, write_signed
from trimask_core.basics.errors import ApprovalError
from trimask_core.rows import collusion
from trimask_core.study.signed import SignedStudy
from trimask_server.local.keys import NodePlace, make_authority, make_node
from trimask_theory.planning.planner import Target, standard_error
from trimask_theory.planning.study_definition import load_definition

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err
ROLES = ["R1", "R2", "R3", "L1", "L2", "collector"]


def answer(monkeypatch: pytest.MonkeyPatch, word: str) -> list[str]:
    """Type `word` at the next question; returns the questions asked."""
    asked: list[str] = []

    def typed(question: str) -> str:
        asked.append(question)
        return word

    monkeypatch.setattr("builtins.input", typed)
    return asked


def test_new_study_is_whole_and_unapproved(trimask: Run, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "study.json"
    result = trimask("study", "new", made / "study.toml", "--keys", made / "keys", "--out", out)
    assert result.status == 0
    signed = read_signed(out)
    assert list(signed.missing) == ROLES
    assert signed.study.id.hex() in result.out
    assert f"trimask study approve {out}" in result.out
    assert "(4, 1e-06)-differential privacy" in result.out
    assert signed.study.collector.tls_name == "collector.trimask.local"
    assert signed.study.tls_roots == (made / "keys" / "authority" / "ca.pem").read_text()


def test_new_study_is_never_written_over(trimask: Run, study_folder: Path) -> None:
    before = (study_folder / "study.json").read_bytes()
    result = trimask(
        "study", "new", study_folder / "study.toml", "--keys", study_folder / "keys",
        "--out", study_folder / "study.json",
    )  # fmt: skip
    assert result.status == 2
    assert "exists already" in result.err
    assert (study_folder / "study.json").read_bytes() == before


def test_new_study_from_cards_one_by_one(trimask: Run, made: Path, tmp_path: Path) -> None:
    cards = [made / "keys" / name / "node.json" for name in ("collector", "R2", "R1", "L1")]
    roots = made / "keys" / "authority" / "ca.pem"
    out = tmp_path / "study.json"
    owner = ("--owner", made / "keys" / "owner")
    result = trimask(
        "study", "new", made / "study.toml", "--party", *cards, "--roots", roots, *owner, "--out", out
    )
    assert result.status == 0
    assert [party.name for party in read_signed(out).study.right] == ["R1", "R2"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("R1", "R2", "L1"), "no card of the collector"),
        (("collector", "R1", "R3", "L1"), "no card of R2"),
        (("collector", "R1", "R1", "L1"), "another card of R1"),
        (("collector", "R1", "L1"), "two right providers"),
    ],
)
def test_cards_that_make_no_study(
    trimask: Run, made: Path, tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    cards = [made / "keys" / name / "node.json" for name in names]
    roots = made / "keys" / "authority" / "ca.pem"
    out = tmp_path / "study.json"
    result = trimask("study", "new", made / "study.toml", "--party", *cards, "--roots", roots, "--out", out)
    assert result.status == 2
    assert message in result.err
    assert not out.exists()


def test_new_without_parties_says_what_to_give(trimask: Run, made: Path, tmp_path: Path) -> None:
    result = trimask("study", "new", made / "study.toml", "--out", tmp_path / "study.json")
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "--keys DIR" in result.err


def test_card_of_another_form_is_refused(trimask: Run, made: Path, tmp_path: Path) -> None:
    card = tmp_path / "node.json"
    card.write_text('{"name": "R1"}')
    result = trimask("study", "new", made / "study.toml", "--party", card, "--roots", card)
    assert result.status == 2
    assert "is not a node's card" in result.err


def test_impossible_study_is_one_line_and_no_file(trimask: Run, made: Path, tmp_path: Path) -> None:
    definition = tmp_path / "narrow.toml"
    definition.write_text(
        bundled_definition().replace("block_rows = 1024 ", "noise_columns = 20\nblock_rows = 1024 ")
    )
    out = tmp_path / "study.json"
    result = trimask("study", "new", definition, "--keys", made / "keys", "--out", out)
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "Appendix A" in result.err
    assert not out.exists()


def test_every_party_approves_and_the_study_verifies(
    trimask: Run, study_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = study_folder / "study.json"
    for done, role in enumerate(ROLES, 1):
        asked = answer(monkeypatch, "y")
        result = trimask("study", "approve", file, "--keys", study_folder / "keys" / role)
        assert result.status == 0
        assert f"as {role}? [y/N]" in asked[0]
        assert f"as {role} (Development" in result.out
        assert len(read_signed(file).approvals) == done
    assert "Every party has approved." in result.out
    assert read_signed(file).verify() == read_signed(file).study


def test_approval_says_in_words_what_is_signed(trimask: Run, study_folder: Path) -> None:
    keys = study_folder / "keys" / "R1"
    result = trimask("study", "approve", study_folder / "study.json", "--keys", keys, "--yes")
    for words in (
        "Systolic blood pressure; Age; Body mass index",
        "at least 2048 people together",
        "(4, 1e-06)-differential privacy",
        "one component of every row",
        "removes the right mask of R1",
        "was recomputed on this machine",
    ):
        assert words in result.out


@pytest.mark.parametrize("word", ["", "n", "maybe"])
def test_not_agreeing_writes_nothing(
    trimask: Run, study_folder: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    before = (study_folder / "study.json").read_bytes()
    answer(monkeypatch, word)
    result = trimask("study", "approve", study_folder / "study.json", "--keys", study_folder / "keys" / "L1")
    assert result.status == 1
    assert (study_folder / "study.json").read_bytes() == before


def test_stranger_cannot_approve(trimask: Run, study_folder: Path, tmp_path: Path) -> None:
    make_node(tmp_path / "R9", NodePlace("R9", "a:1", "a:2"), make_authority())
    result = trimask("study", "approve", study_folder / "study.json", "--keys", tmp_path / "R9", "--yes")
    assert result.status == 2
    assert "not named in the study" in result.err


def test_study_that_promises_too_much_is_not_approved(trimask: Run, study_folder: Path) -> None:
    file = study_folder / "study.json"
    study = read_signed(file).study
    assert study.protection.public is not None
    boast = replace(study.protection, public=replace(study.protection.public, epsilon=1.0))
    write_signed(file, SignedStudy(replace(study, protection=boast)), replace=True)
    result = trimask("study", "approve", file, "--keys", study_folder / "keys" / "R1", "--yes")
    assert result.status == 2
    assert "do not approve it" in result.err
    assert not read_signed(file).approvals


def test_study_changed_after_an_approval_does_not_verify(trimask: Run, study_folder: Path) -> None:
    file = study_folder / "study.json"
    for role in ROLES:
        trimask("study", "approve", file, "--keys", study_folder / "keys" / role, "--yes")
    file.write_text(file.read_text().replace("daily habits", "nightly habits"))
    with pytest.raises(ApprovalError):
        read_signed(file).verify()
    result = trimask("study", "open", file, "--owner", study_folder / "keys" / "owner")
    assert result.status == 2
    assert "does not verify" in result.err


def test_show_in_words_and_as_json(trimask: Run, study_folder: Path) -> None:
    file = study_folder / "study.json"
    trimask("study", "approve", file, "--keys", study_folder / "keys" / "L2", "--yes")
    shown = trimask("study", "show", file)
    assert "Not approved yet by R1, R2, R3, L1, collector." in shown.out
    data = json.loads(trimask("study", "show", file, "--json").out)
    study = read_signed(file).study
    assert data["id"] == study.id.hex()
    assert data["approved_by"] == ["L2"]
    assert data["protection"]["sigma"] == study.protection.sigma
    assert data["columns"][:2] == ["one", "systolic"]
    assert study.rows.mask_seed == b""  # the seed of B_0 stays with the owner


def test_exact_study_warns(trimask: Run, made: Path, tmp_path: Path) -> None:
    text = bundled_definition().replace("epsilon = 4.0\ndelta = 1e-6", "exact = true")
    (tmp_path / "exact.toml").write_text(text)
    out = tmp_path / "study.json"
    result = trimask("study", "new", tmp_path / "exact.toml", "--keys", made / "keys", "--out", out)
    assert result.status == 0
    assert "NO DIFFERENTIAL PRIVACY" in result.out
    approval = trimask("study", "approve", out, "--keys", made / "keys" / "R1", "--yes")
    assert "NO DIFFERENTIAL PRIVACY" in approval.out


def test_damaged_study_file_is_one_line(trimask: Run, tmp_path: Path) -> None:
    file = tmp_path / "study.json"
    for text in ("", "{}", "[]", '{"study": {}, "approvals": []}'):
        file.write_text(text)
        result = trimask("study", "show", file)
        assert (result.status, result.err.count("\n")) == (2, 1)


def test_collusion_of_a_study(trimask: Run, made: Path) -> None:
    data = json.loads(trimask("study", "collusion", made / "study.json", "--json").out)
    topology = collusion.Topology(3, 2, ("R1", "R2", "L2"))
    assert data == json.loads(json.dumps(collusion.report(topology).to_dict()))
    shown = trimask("study", "collusion", made / "study.json")
    assert shown.status == 0
    assert collusion.report(topology).summary in shown.out


def test_collusion_of_numbers_and_a_suggestion(trimask: Run) -> None:
    data = json.loads(trimask("study", "collusion", "--right", "5", "--left", "2", "--json").out)
    assert (data["right"], data["left"], data["unmasking"]) == (5, 2, ["R2", "R3", "R4", "R1", "L2"])
    ring = json.loads(
        trimask("study", "collusion", "--right", "2", "--left", "2", "--unmasking", "R2", "R1", "--json").out
    )
    assert ring["single_breakers"] == ["R1", "R2"]
    better = json.loads(
        trimask("study", "collusion", "--right", "2", "--left", "2", "--suggest", "--json").out
    )
    assert better["single_breakers"] == []
    assert better["unmasking"] == list(collusion.suggest(2, 2).unmasking)
    shown = trimask("study", "collusion", "--right", "3", "--left", "1", "--suggest")
    assert "unmasking = [" in shown.out


@pytest.mark.parametrize("arguments", [[], ["--right", "3"], ["STUDY", "--right", "3", "--left", "2"]])
def test_collusion_needs_a_study_or_numbers(trimask: Run, made: Path, arguments: list[str]) -> None:
    given = [str(made / "study.json") if word == "STUDY" else word for word in arguments]
    result = trimask("study", "collusion", *given)
    assert (result.status, result.out) == (2, "")


def test_example_is_a_definition(trimask: Run) -> None:
    result = trimask("study", "example")
    assert load_definition(result.out) == load_definition(bundled_definition("moments"))


def test_bundled_study_is_informative(made: Path) -> None:
    study = read_signed(made / "study.json").study
    assert (study.attributes, study.rows.block_rows, study.release_rows) == (9, 1024, 2048)
    assert study.protection.sigma == pytest.approx(0.43, abs=0.005)  # what its comments say
    assert study.rows.noise_columns == 4128
    assert study.protection.collector is not None
    assert study.protection.collector.epsilon == pytest.approx(5.91, abs=0.01)
    target = Target(4.0, 1e-6, 9, 2048, row_norm=study.protection.row_norm)
    assert standard_error(target, study.protection.sigma) < target.coefficient / 4
