"""Drafts for an ethics board: from the signed study alone, in both suites, and true of what the programs do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from trimask.simulation import drafted
from trimask_cli.study_file import bundled_definition
from trimask_core.explain import paperwork as module
from trimask_core.explain.paperwork import paperwork
from trimask_core.explain.sentences import LANGUAGES
from trimask_core.study.definition import SuiteName
from trimask_core.study.guarantee import Budget
from trimask_core.study.signed import SignedStudy
from trimask_terminal.program import main
from trimask_theory.planning.definition import PrivacyTarget
from trimask_theory.planning.study_definition import load_definition

ROOT = Path(__file__).parents[2]
KEYS: dict[str, str] = json.loads(
    (ROOT / "client/trimask_core/explain/words/paperwork.json").read_text(encoding="utf-8")
)
# What the table of holdings says, and the line of code that makes it so.
SHOWN = {
    "hold.right.what.rows": ("server/trimask_server/right/rows.py", "key.encrypt(payload, submission_id)"),
    "hold.right.when.rows": ("server/trimask_server/right/batches.py", "EraseBlock"),
    "hold.right.when.moments": ("server/trimask_server/suites/moments/batch_store.py", "erase_block_in"),
    "hold.right.what.more.moments": (
        "server/trimask_server/suites/moments/batch_store.py",
        "key.encrypt(pack(decision.total), batch_id)",
    ),
    "hold.right.when.more": ("server/trimask_server/runtime/host.py", "keep_closed_days"),
    "hold.right.when.unmasks": (
        "server/trimask_server/suites/rows/unmasking.py",
        "content = NULL, fixed = 1",
    ),
    "hold.days": ("server/trimask_server/settings/config.py", "keep_closed_days: float"),
    "hold.collector.what.rows": ("server/trimask_server/suites/rows/suite.py", "so encrypted"),
}


def _signed(suite: SuiteName, **changes: object) -> SignedStudy:
    return SignedStudy(replace(drafted(load_definition(bundled_definition(suite))), **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_the_pack_says_who_holds_what_and_what_is_promised(suite: SuiteName) -> None:
    signed = _signed(suite)
    made = paperwork(signed, formula="systolic ~ age")
    assert set(made) == {"consent.md", "data-management-plan.md", "dpia.md", "preregistration.md"}
    for text in made.values():
        assert signed.study.id.hex() in text
        assert "Not signed yet by" in text
        assert not re.search(r"\{\w+\}", text)
        assert not re.search(r"#\s*$", text, re.MULTILINE)
    for role in signed.study.parties:
        assert f"({role})" in made["dpia.md"]
        assert f"({role})" in made["data-management-plan.md"]
    assert "differential privacy" in made["dpia.md"]
    assert "Model: systolic ~ age" in made["preregistration.md"]
    assert ("masked rows" in made["data-management-plan.md"]) == (suite == "rows")
    assert ("batch" in made["data-management-plan.md"]) == (suite == "moments")


def test_what_depends_on_the_study_is_said_only_where_it_is_so() -> None:
    open_, invited = _signed("moments"), _signed("moments", admission="invited", admission_signer="owner")
    assert "which invitation" not in paperwork(open_)["dpia.md"]
    assert "which invitation" in paperwork(invited)["dpia.md"]
    token = paperwork(_signed("moments", access="token"))["data-management-plan.md"]
    assert "token of the owner's" in token
    whole = load_definition(bundled_definition("moments"))
    bought = replace(whole, privacy=PrivacyTarget(budget=Budget(1.0, 1e-6)))
    assert "bought from a budget" in paperwork(SignedStudy(drafted(bought)))["preregistration.md"]
    exact = load_definition(bundled_definition("rows")).changed(exact=True)
    assert "no differential-privacy guarantee" in paperwork(SignedStudy(drafted(exact)))["dpia.md"]


def test_a_consent_sheet_is_in_every_language_of_the_catalogue() -> None:
    signed = _signed("moments")
    sheets = {language: paperwork(signed, language)["consent.md"] for language in LANGUAGES}
    assert len(set(sheets.values())) == len(LANGUAGES)


def test_a_studys_own_words_are_no_markup() -> None:
    text = paperwork(_signed("moments", title="*a* | <b> # c"))["dpia.md"]
    assert "\\*a\\* \\| \\<b\\> \\# c" in text


def test_every_sentence_is_used_and_every_holding_has_its_line_of_code() -> None:
    source = Path(module.__file__).read_text(encoding="utf-8")
    literal = re.findall(
        r"[\"']((?:consent|data|dpia|draft|advice|fill|hold|prereg|unsigned|values|variable)[^\"' ]*)[\"']",
        source,
    )
    patterns = [re.sub(r"\\{.*?\\}", "[a-z_]+", re.escape(key)) for key in literal]
    assert not [key for key in KEYS if not any(re.fullmatch(pattern, key) for pattern in patterns)]
    for key, (file, line) in SHOWN.items():
        assert key in KEYS
        assert line in (ROOT / file).read_text(encoding="utf-8"), (key, file)


def test_the_command_writes_four_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.json"
    study.write_text(_signed("moments").to_json())
    assert main(["study", "paperwork", str(study), "--out", str(tmp_path / "papers")]) == 0
    assert "dpia.md: 2 lines to fill in" in capsys.readouterr().out
    assert len(list((tmp_path / "papers").iterdir())) == 4
    assert main(["study", "paperwork", str(study), "--out", str(tmp_path / "papers")]) == 2
    assert main(["study", "paperwork", str(study), "--out", str(tmp_path / "more"), "--language", "xx"]) == 2
