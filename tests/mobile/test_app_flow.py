"""The whole way by touch, against real institutions, by the very files that go into the Android package.

What a phone does not have (grpc, numpy, scipy, pandas, this project's servers) cannot be found by it.
"""

from __future__ import annotations

import re
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_android import run_job
from trimask_client import Queue, device_key
from trimask_core.submit.submission import Receipt, read_receipt
from trimask_mobile.model.participation import Participation


def test_from_an_invitation_to_a_receipt(
    mobile_lab: Any, phone: Callable[..., Any], staged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Drawn by the thread that asks for it: threads of the software's own kept 40 MB of frames, more on more cores.
    monkeypatch.setenv("LP_NUM_THREADS", "0")
    signed = mobile_lab.study(admission="invited")
    invitation = mobile_lab.link(signed, expires_ms=int(time.time() * 1000) + 3_600_000)
    edges = "0,96,0,126"  # as on Android 15, whose bars lie over the window
    app = phone(
        "--scanner", invitation, "--size", "720x1280", "--density", "2", "--edges", edges, sources=[staged]
    )
    app.on("studies")
    assert app.do("frame") == {"frame": [0, 96, 0, 126]}
    app.tap("Open an invitation")
    app.tap("Scan a QR code")
    first = "\n".join(app.on("study")["texts"])
    for words in ("How do you sleep?", "Institute for Sleep Research", "over 1024 people", "noise: medium", "Answer by",
                  "your network address"):  # fmt: skip
        assert words in first
    assert "Who could see what" not in first
    app.tap("More: who sees what, exact statements, institutions")
    seen = "\n".join(app.see("Who could see what")["texts"])
    for words in ("City Hospital", "Data Trust North", "University Library", "Medium", "times in 100"):
        assert words in seen
    app.consent()
    app.eligible()
    app.answer()
    review = app.on("review")["texts"]
    for words in (
        "17 May 1984",
        "7",
        "7.5 hours",
        "Yes",
        "4",
        "Once or twice a week",
        "Herbal tea",
        "No answer",
    ):
        assert words in review
    most = app.memory_mb
    app.tap("Send")
    shown = app.see("Sent. Thank you!", screen="receipt")
    assert {"City Hospital", "Data Trust North", "University Library"} <= set(shown["texts"])
    assert any("signed by Ada Lovelace" in text for text in shown["texts"])
    (submission,) = mobile_lab.rows("R1", signed.study.id)
    assert mobile_lab.rows("R2", signed.study.id) == mobile_lab.rows("R3", signed.study.id) == [submission]
    assert submission.hex() in [text.replace(" ", "") for text in shown["texts"]]
    assert shown["app_file"].startswith(str(staged))
    assert {name.partition(".")[0] for name in shown["modules"]} == {"h2"}
    assert app.do("importable", "numpy", "grpc", "scipy", "pandas", "h2") == {"found": ["h2"]}

    everywhere = app.do("everywhere")["texts"]
    assert "Sent. Thank you!" in everywhere
    assert not {"17 May 1984", "7.5 hours", "Once or twice a week"} & set(everywhere)  # not even out of sight

    app.tap("Save")
    app.see("Saved as")
    (saved,) = (app.home / "saved").iterdir()
    assert re.fullmatch(r"Receipt How do you sleep \d{4}-\d{2}-\d{2}\.json", saved.name)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    receipt = Receipt.from_json(saved.read_text())
    receipt.verify(signed.study)
    assert receipt.submission_id == submission

    # The code on the screen, read by another program, opens the receipt on another phone, which withdraws with it.
    app.tap("Show as a code for another device")
    app.do("show_text", "Withdraw my answers")
    assert max(most, app.memory_mb) < 180, (most, app.memory_mb)
    picture = app.home / "code.png"
    app.do("screenshot", str(picture))
    read = subprocess.run(["zbarimg", "-q", "--raw", picture], capture_output=True, text=True, check=True)
    assert read_receipt(read.stdout).submission_id == submission
    other = phone(home="other")
    other.open(read.stdout.strip())
    other.see("Sent. Thank you!", screen="receipt")
    other.tap("Withdraw my answers")
    other.tap("Withdraw")
    other.see("Withdrawn")
    assert [mobile_lab.rows(role, signed.study.id) for role in ("R1", "R2", "R3")] == [[], [], []]


def test_a_job_sends_what_the_app_left(mobile_lab: Any, staged: Path, tmp_path: Path) -> None:
    """The process that Android starts while the app is closed: comes again while an institution is away, and counts once."""
    signed = mobile_lab.study()
    key = device_key(tmp_path / "device.key")
    queue = Queue(tmp_path, key)
    queue.join(signed)
    form = signed.study.form
    assert form is not None
    part = Participation(signed.study.id, form, "", "en", "review", name="Ada Lovelace", agreed=True)
    part.responses = {
        "age": "1984-05-17", "wellbeing": 7.0, "sleep_hours": "7.5", "shift_work": "no", "exercise": "some",
    }  # fmt: skip
    submission = queue.seal(signed.study.id, part.answers()).submission_id
    with mobile_lab.down("R2"):
        assert run_job(staged, tmp_path) == "finish True"
    assert queue.entry(submission).received_by == ("R1", "R3")
    assert not (tmp_path / "device.key").exists()  # wrapped meanwhile, and the same key
    assert run_job(staged, tmp_path) == "finish False"
    assert Queue(tmp_path, key).entry(submission).state == "sent"
    assert [mobile_lab.rows(name, signed.study.id) for name in ("R1", "R2", "R3")] == [[submission]] * 3
