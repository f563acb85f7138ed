"""`trimask receipt verify`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.submit.submission import ProviderReceipt, Receipt, build_submission, receipt_message
from trimask_terminal.exits import Exit
from trimask_terminal.program import main


@pytest.fixture
def files(make_study: Any, answers: Any, tmp_path: Path) -> tuple[Path, Path]:
    made = make_study()
    sealed = build_submission(made.study, answers, DeterministicRandom("receipt"))
    providers = []
    for k, part in enumerate(sealed.sealed, 1):
        message = receipt_message(made.study.id, sealed.submission_id, part, 1_700_000_000_000)
        signature = made.identities[f"R{k}"].sign("receipt", message)
        digest = hashlib.sha256(part).digest()
        providers.append(ProviderReceipt(f"R{k}", digest, 1_700_000_000_000, signature))
    receipt = Receipt(made.study.id, sealed.submission_id, tuple(providers), sealed.withdrawal_key)
    (tmp_path / "receipt.json").write_text(receipt.to_json())
    (tmp_path / "study.json").write_text(made.signed.to_json())
    return tmp_path / "receipt.json", tmp_path / "study.json"


def test_a_good_receipt(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    receipt, study = map(str, files)
    assert main(["receipt", "verify", receipt, "--study", study]) == 0
    out = capsys.readouterr().out
    assert "Verified: every right provider of “Blood pressure” signed for" in out
    assert "R2 (Org R2)  2023-11-14T22:13:20+00:00" in out
    assert "anybody who has this file can withdraw" in out
    assert main(["receipt", "verify", receipt, "--study", study, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["verified"], data["can_withdraw"], len(data["providers"])) == (True, True, 3)


def test_a_receipt_that_was_changed(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    receipt, study = files
    for old, new in (("1700000000000", "1700000000001"), ('"R3"', '"R2"')):
        changed = receipt.with_name("changed.json")
        changed.write_text(receipt.read_text().replace(old, new, 1))
        assert main(["receipt", "verify", str(changed), "--study", str(study)]) == Exit.UNTRUE
        assert capsys.readouterr().err.startswith("trimask: ")
