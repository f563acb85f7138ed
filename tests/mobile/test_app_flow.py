"""The whole way by touch, against real institutions, with what a phone does not have made impossible to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimask_core.receipt import Receipt


def test_from_an_invitation_to_a_receipt(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    signed = mobile_lab.study()
    app = phone()
    app.open(mobile_lab.link(signed))
    seen = "\n".join(app.on("study")["texts"])
    for words in ("How do you sleep?", "Institute for Sleep Research", "City Hospital", "Data Trust North",
                  "University Library", "2048 people", "54.6 times", "one chance in 1 000 000"):  # fmt: skip
        assert words in seen
    app.consent()
    app.eligible()
    app.answer()
    review = app.on("review")["texts"]
    for words in (
        "1984-05-17",
        "7",
        "7.5 hours",
        "Yes",
        "4",
        "Once or twice a week",
        "Herbal tea",
        "No answer",
    ):
        assert words in review
    app.tap("Send")
    shown = app.see("Sent. Thank you!", screen="receipt")
    assert {"City Hospital", "Data Trust North", "University Library"} <= set(shown["texts"])
    assert any("signed by Ada Lovelace" in text for text in shown["texts"])
    (submission,) = mobile_lab.rows("R1", signed.study.id)
    assert mobile_lab.rows("R2", signed.study.id) == mobile_lab.rows("R3", signed.study.id) == [submission]
    assert submission.hex() in [text.replace(" ", "") for text in shown["texts"]]
    assert "h2.connection" in shown["modules"]
    assert not [name for name in shown["modules"] if not name.startswith("h2")]

    everywhere = app.do("everywhere")["texts"]
    assert "Sent. Thank you!" in everywhere
    assert not {"1984-05-17", "7.5 hours", "Once or twice a week"} & set(everywhere)  # not even out of sight

    app.tap("Save")
    app.see("Saved as")
    (saved,) = (app.home / "saved").glob("trimask-receipt-*.json")
    receipt = Receipt.from_json(saved.read_text())
    receipt.verify(signed.study)
    assert receipt.submission_id == submission
