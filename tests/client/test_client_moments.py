"""`Client` in a study of the moments suite, from a file to what is published, against real nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trimask.data.connection import StudyStatus
from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_core.study.definition import Study
from trimask_core.submit.submission import Receipt
from trimask_patience import until


def closed(study: Study) -> StudyStatus:
    """Its status once everything is published."""
    until(lambda: owner.study_status(study).state == "closed")
    return owner.study_status(study)


@pytest.fixture(scope="module")
def opened(running: Any, make_study: Any) -> Any:
    """A moments study of the cluster's two right providers, without noise so that sums can be compared."""
    made = make_study(
        suite="moments", right=2, sigma=0.0, keys=running.cluster.folder, title="Moments", release_rows=4
    )
    owner.open_study(made.signed, running.cluster.folder / "owner")
    return made


def test_from_the_device_file_to_the_sums(running: Any, opened: Any, answers: Any, tmp_path: Path) -> None:
    path = tmp_path / "study.device.json"
    path.write_text(opened.signed.to_json())
    study = opened.study
    with Client(path, study_id=study.id) as client:
        taken_back = client.prepare(answers)
        receipt = client.send(taken_back)
        for k in (1, 2):
            word = client.withdraw(receipt.withdrawal_key, k)
            word.verify(study, taken_back.submission_id)
        with pytest.raises(Refused, match="withdrawn"):
            client.send(taken_back)
        kept = [client.submit({**answers, "age": age}) for age in (20, 40, 60)]
        again = client.prepare(answers)
        assert client.send(again) == client.send(again)  # the same bytes, the same receipt
    for one in kept:
        Receipt.from_json(one.to_json()).verify(study)
    owner.close_study(study, running.cluster.folder / "owner")
    status = closed(study)
    assert (status.published_rows, status.note) == (4, "")
    (file,) = (running.cluster.folder / "collector" / "data" / "datasets").glob(
        f"{study.id.hex()[:12]}-*/moments.json"
    )
    layout = study.moments.layout
    rows = [layout.encode({**answers, "age": age}).z for age in (20, 40, 60, 43)]
    assert json.loads(file.read_text())["first"] == [sum(values) for values in zip(*rows, strict=True)]
    with Client(opened.signed) as client, pytest.raises(Refused, match="cannot be found or removed"):
        client.withdraw(kept[0].withdrawal_key, 1)
