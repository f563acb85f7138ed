"""The example in docs/device.md runs as it stands, and is as short as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.refusals import Reason

DOCS = Path(__file__).parents[2] / "docs" / "device.md"


def test_the_example_runs(
    device_lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    match = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    code = match[1]
    assert (
        sum(bool(line.strip()) and not line.startswith(("from", "import")) for line in code.splitlines())
        <= 10
    )
    signed = device_lab.open_study("Documentation")
    monkeypatch.chdir(tmp_path)
    Path("study.json").write_text(signed.to_json())
    names: dict[str, Any] = {"STUDY_ID": signed.study.id.hex()}
    exec(compile(code, str(DOCS), "exec"), names)  # noqa: S102 - our own documentation
    names["queue"].close()
    printed = capsys.readouterr().out
    assert "Documentation" in printed
    assert "Sent: all 3 providers have signed for it" in printed
    assert '"signature"' in printed


def test_refusals_named_as_final_are_final_and_the_others_are_a_click_away() -> None:
    text = DOCS.read_text(encoding="utf-8")
    (item,) = re.findall(
        r"^- any other reason that \[refusals.md\]\(refusals.md\) has under `never`: ([^:]+):",
        text,
        re.MULTILINE,
    )
    named = set(re.findall(r"`(\w+)`", item))
    assert len(named) >= 3
    assert all(Reason(name).final for name in named)
