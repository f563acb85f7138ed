"""The ledger from a shell: ask, look, be refused, ask again, end; over real gRPC, on a study whose devices clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_cli.study_file import write_signed
from trimask_client import Client
from trimask_core.errors import Refused
from trimask_core.identity import verify
from trimask_terminal.device.program import main as device_main
from trimask_terminal.program import main

DEFINITION = """
title = "Numbers"
purpose = "An exact study whose devices clip"
contact = "nobody@example.org"
[privacy]
exact = true
[privacy.budget]
epsilon = 1
delta = 1e-6
mu = 1
[privacy.clipping]
[[privacy.clipping.columns]]
name = "x"
centre = 1
deviation = 0.5
[[privacy.clipping.columns]]
name = "y"
centre = 2
deviation = 0.25
[collection]
block_rows = 24
release_rows = 48
[[attributes]]
name = "x"
kind = "continuous"
minimum = -10
maximum = 10
[[attributes]]
name = "y"
kind = "continuous"
minimum = 0
maximum = 4
"""


def test_a_budget_is_spent_seen_and_ended_from_a_shell(
    release_lab: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signed = release_lab.open_study(DEFINITION)
    study = signed.study
    rng = np.random.default_rng(3)
    people = [{"x": float(x), "y": float(y)} for x, y in rng.normal((1, 2), (0.5, 0.25), (47, 2))]
    people.append({"x": -10.0, "y": 4.0})  # far outside: on the ball's edge when it leaves the device
    with Client(signed) as device:
        assert "moved by this device towards what is common (x 1, y 2)" in device.explain()
        for answers in people:
            device.submit(answers)
    file, owner = tmp_path / "study.json", str(release_lab.owner)
    write_signed(file, signed.without_seed(), replace=False)

    def trimask(*arguments: str, status: int = 0) -> tuple[str, str]:
        assert main(arguments) == status
        shown = capsys.readouterr()
        return shown.out, shown.err

    def budget() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(trimask("study", "budget", str(file), "--json")[0])
        return found

    assert (budget()["state"], budget()["left"]["mu"]) == ("collecting", 1.0)
    release_lab.close(study)

    ask = ("release", "ask", str(file))
    out = tmp_path / "answer.json"
    paid = ("--mu", "0.6", "--owner", owner)
    trimask(*ask, "sum", "--method", "clipped", *paid, "--out", str(out))
    document = json.loads(out.read_text())
    answer = document["answer"]
    verify(
        study.collector.identity,
        "release-answer",
        document["signed"].encode(),
        bytes.fromhex(document["signature"]),
        "x",
    )
    assert json.loads(document["signed"]) == answer
    assert answer["parameters"]["clipped_columns"] == ["x", "y"]
    # What devices sent is summed, the outlier at the ball's edge; 6 standard deviations of the noise: 4e-9.
    columns = study.schema.columns
    rows = np.array([study.encode(person) for person in people])
    truth = [sum(c.center + c.half_range * rows[:, i + 1]) for i, c in enumerate(columns[1:])]
    noise = np.array(answer["parameters"]["noise"])
    assert (np.abs(np.array(answer["values"]["sum"]) - truth) <= 6 * noise).all()
    # Elliptical noise for the declared ranges would be 4 times as much.
    assert noise[0] < 20 / 0.6

    # The same request again is the same answer; a file that is there is not written over, and nothing is asked.
    again = json.loads(
        trimask(*ask, "sum", "--method", "clipped", *paid, "--json", "--request-id", answer["request_id"])[0]
    )
    assert (again["signed"], again["replayed"]) == (document["signed"], True)
    assert "exists already" in trimask(*ask, "sum", *paid, "--out", str(out), status=2)[1]
    assert "no column 'z'" in trimask(*ask, "sum", "z", "--mu", "0.1", "--owner", owner, status=4)[1]
    refused = trimask(*ask, "sum", "x", "--mu", "0.9", "--owner", owner, status=4)[1]
    assert "left: epsilon = 1.0 with delta = 1e-06 and mu = 0.8. At most mu = 0.8 would fit" in refused
    assert len(budget()["entries"]) == 1

    # The other purse, and every other question.
    pair = ("--delta", "1e-8", "--owner", owner)
    for question in (
        ("ols", "y", "one", "x", "--epsilon", "0.1"),
        ("projection", "--reduced-dim", "2", "--epsilon", "0.1"),
    ):
        assert "request id" in trimask(*ask, *question, *pair)[0]
    trimask(*ask, "pca", "1", "--method", "exponential", "--epsilon", "0.1", "--owner", owner)
    assert "paid with --epsilon" in trimask(*ask, "projection", *paid, status=2)[1]
    shown = budget()
    assert (shown["spent"]["epsilon"], shown["left"]["epsilon"]) == (0.3, 0.7)
    assert [entry["state"] for entry in shown["entries"]] == ["answered"] * 4
    text = trimask("study", "budget", str(file))[0]
    assert "Budget, answering from 48 rows: epsilon 1.0, delta 1e-06, mu 1.0" in text
    assert "left   epsilon 0.7" in text

    # A participant sees the same, from the device.
    with Client(signed) as device:
        seen = device.budget()
    assert seen.left == "epsilon 0.7, delta 9.8e-07, mu 0.8"
    assert [(mechanism, cost) for _, mechanism, cost, _ in seen.entries][:2] == [
        ("sum", "mu 0.6"),
        ("least_squares_noisy_gram", "epsilon 0.1, delta 1e-08"),
    ]
    home = ("--home", str(tmp_path / "device"))
    device_file = tmp_path / "device.json"
    write_signed(device_file, signed, replace=False)
    assert device_main([*home, "join", str(device_file), "--id", study.id.hex()]) == 0
    assert device_main([*home, "budget"]) == 0
    assert "Left: epsilon 0.7, delta 9.8e-07, mu 0.8." in capsys.readouterr().out

    # Ending asks for a word, erases, and is for good.
    end = ("study", "end-releases", str(file), "--owner", owner)
    assert "give --yes" in trimask(*end, status=2)[1]
    assert budget()["state"] == "answering"
    assert "erased" in trimask(*end, "--yes")[0]
    assert budget()["state"] == "closed"
    refused = trimask(*ask, "sum", "x", "--mu", "0.1", "--owner", owner, status=4)[1]
    assert "answers have ended" in refused
    assert json.loads(
        trimask(*ask, "sum", "--method", "clipped", *paid, "--json", "--request-id", answer["request_id"])[0]
    )["replayed"]


def test_a_study_without_a_budget_has_none_to_show(release_lab: Any) -> None:
    with (
        Client(release_lab.new_study()) as device,
        pytest.raises(Refused, match="publishes a dataset") as caught,
    ):
        device.budget()
    assert caught.value.reason == "no_budget"
