"""Withdrawal on a real cluster: also where one provider knows of it and another does not yet."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import numpy as np
import pytest

from trimask_client import Client, Queue, device_key
from trimask_core.basics.errors import ParameterError, Refused, VerificationError
from trimask_core.submit.submission import Receipt
from trimask_lab import Lab, exact_gram, some_people
from trimask_moments import open_moments
from trimask_proto.v1 import right_batches_pb2, right_batches_pb2_grpc
from trimask_terminal.device.program import main


def _erased(lab: Lab, role: str, submission_id: bytes) -> bool:
    sql = "SELECT payload FROM submissions WHERE submission_id = ?"
    return lab.query(role, sql, (submission_id,)) == [(None,)]


def test_a_row_withdrawn_after_it_was_counted_is_in_no_block_and_no_other_row_is_lost(lab: Lab) -> None:
    signed = lab.open_study()
    study = signed.study
    everybody = some_people(76, 1)
    with Client(signed) as client:
        first = [client.submit(answers) for answers in everybody[:52]]
        # Twenty-four are in a block; the others are checked and counted, and the collector goes on from there.
        lab.wait(study, lambda status: status.pooled_blocks == 1 and status.pending_rows == 28)
        ((planned,),) = lab.query(
            "collector", "SELECT submission_ids FROM blocks WHERE study_id = ?", (study.id,)
        )
        inside = next(sent for sent in first if sent.submission_id in planned)
        waiting = [number for number, sent in enumerate(first) if sent.submission_id not in planned]
        out = set(waiting[:2])
        gone, half = (first[number] for number in waiting[:2])
        for provider in (1, 2, 3):
            client.withdraw(gone.withdrawal_key, provider)
        client.withdraw(half.withdrawal_key, 1)  # R2 and R3 do not know of it yet
        later = [client.submit(answers) for answers in everybody[52:]]
        assert len(later) == 24
        # What R1 does not hold is not drawn.
        lab.wait(study, lambda status: status.pooled_blocks == 2)
        for provider in (2, 3):
            client.withdraw(half.withdrawal_key, provider)
        for role in ("R1", "R2", "R3"):
            assert _erased(lab, role, gone.submission_id)
            assert _erased(lab, role, half.submission_id)
        with pytest.raises(Refused) as caught:
            client.withdraw(inside.withdrawal_key, 2)  # it is in the block that was pooled
    assert caught.value.reason == "already_in_block"
    assert "cannot be found or removed" in str(caught.value)
    status = lab.close(study)
    assert status.published_rows == 74
    remaining = [answers for number, answers in enumerate(everybody) if number not in out]
    (dataset,) = lab.datasets(study)
    assert dataset.rows == 74
    found = dataset.gram(units="scaled").to_numpy()
    np.testing.assert_allclose(found, exact_gram(study, remaining), atol=1e-5)


def test_only_the_key_withdraws(lab: Lab) -> None:
    signed = lab.open_study()
    with Client(signed) as client:
        receipt = client.submit(some_people(1, 2)[0])
        for wrong in (bytes(32), receipt.submission_id * 2):
            client.withdraw(wrong, 1)  # withdraws what those would be the keys of: nothing
        assert not _erased(lab, "R1", receipt.submission_id)
        with pytest.raises(ParameterError):
            client.withdraw(receipt.submission_id, 1)
        word = client.withdraw(receipt.withdrawal_key, 1)
        assert client.withdraw(receipt.withdrawal_key, 1) == word
        with pytest.raises(VerificationError):
            word.verify(client.study, bytes(16))
    assert receipt.withdrawal_key.hex() not in repr(receipt)
    assert receipt.shown.withdrawal_key == b""
    receipt.shown.verify(signed.study)
    with pytest.raises(VerificationError, match="another submission"):
        Receipt.from_json(receipt.to_json().replace(receipt.withdrawal_key.hex(), "00" * 32)).verify(
            signed.study
        )


def test_only_the_collector_cancels(lab: Lab) -> None:
    planned, drawn = open_moments(lab).study, lab.open_study().study
    for study, name, code in (
        (planned, "R2", "PERMISSION_DENIED"),
        (planned, "collector", "PERMISSION_DENIED"),  # it has not signed it
        (drawn, "collector", "FAILED_PRECONDITION"),  # a drawn block is never cancelled
    ):
        request = right_batches_pb2.CancelBlockRequest(
            study_id=study.id, block_id=bytes(16), signature=bytes(64)
        )
        with lab.channel_as(name, to="R1") as channel, pytest.raises(grpc.RpcError) as caught:
            right_batches_pb2_grpc.RightBatchServiceStub(channel).CancelBlock(request)
        assert caught.value.code().name == code


def test_withdrawing_from_a_shell(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signed = lab.open_study()
    person = some_people(1, 3)[0]
    home, other = str(tmp_path / "device"), str(tmp_path / "other")
    queue = Queue(tmp_path / "device", device_key(tmp_path / "device" / "device.key"))
    study_id = queue.join(signed)
    first = queue.seal(study_id, person)
    assert main(["--home", home, "withdraw"]) == 0
    assert "Withdrawn before anything of it was sent" in capsys.readouterr().out
    assert not _erased(lab, "R1", first.submission_id)  # it was not even asked

    second = queue.seal(study_id, person)  # who has withdrawn may answer again
    queue.send()
    queue.close()
    assert (
        main(["--home", home, "receipt", second.submission_id.hex(), "--out", str(tmp_path / "receipt.json")])
        == 0
    )
    assert main(["--home", home, "receipt", second.submission_id.hex(), "--shown"]) == 0
    assert "withdrawal_key" not in capsys.readouterr().out
    (tmp_path / "study.json").write_text(signed.to_json(), encoding="utf-8")
    withdraw = ["--home", other, "withdraw", "--receipt", str(tmp_path / "receipt.json")]
    assert main([*withdraw, "--study", str(tmp_path / "study.json")]) == 0
    assert "all 3 providers have signed that it is erased" in capsys.readouterr().out
    assert all(_erased(lab, role, second.submission_id) for role in ("R1", "R2", "R3"))
    assert main(["--home", other, "status", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["submissions"]
    assert (entry["state"], entry["withdrawn_by"]) == ("withdrawn", ["R1", "R2", "R3"])
    queue.close()
