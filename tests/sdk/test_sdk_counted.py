"""counted.bin: whose submissions a dataset counts, checked when it is opened, in both suites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.sdk.moments_release import SignedMoments, moments_study, write_moments
from trimask import Dataset
from trimask.errors import VerificationError
from trimask_core.study.schema import Attribute, Schema
from trimask_core.submit.release_files import COUNTED_FILE, Counted, CountedBlock
from trimask_core.submit.submission import ProviderReceipt, Receipt, receipt_digest_message

Change = Callable[[Counted], Counted]
SCHEMA = Schema((Attribute("x", "continuous", -1, 1, step=0.01), Attribute("y", "binary")))
PEOPLE = [{"x": k / 100, "y": k % 2} for k in range(70)]


@pytest.fixture(scope="module")
def moments() -> SignedMoments:
    return moments_study(SCHEMA, 5.0)


def receipt_for(signed: SignedMoments, submission_id: bytes) -> Receipt:
    study, providers = signed.study, []
    for k in range(1, len(study.right) + 1):
        message = receipt_digest_message(study.id, submission_id, bytes(32), 7)
        signature = signed.keys[f"R{k}"].sign("receipt", message)
        providers.append(ProviderReceipt(f"R{k}", bytes(32), 7, signature))
    return Receipt(study.id, submission_id, tuple(providers))


def test_a_receipt_is_counted_refused_or_absent(tmp_path: Path, moments: SignedMoments) -> None:
    dataset = Dataset.open(write_moments(tmp_path / "d", moments, PEOPLE))
    assert dataset.counted.count == dataset.rows == 70
    found = {}
    for block in dataset.counted.blocks:
        for name in block:
            found[name] = dataset.standing(receipt_for(moments, name))
    assert sorted(found.values()) == ["counted"] * 70 + ["refused"] * 2
    assert dataset.standing(receipt_for(moments, bytes(16))) == "absent"
    forged = replace(receipt_for(moments, next(iter(found))), submission_id=bytes(16))
    with pytest.raises(VerificationError, match="the receipt of R1"):
        dataset.standing(forged)


def _other_id(counted: Counted) -> Counted:
    first, second = counted.blocks
    return Counted((replace(first, ids=bytes(16) + first.ids[16:]), second))


def _other_mark(counted: Counted) -> Counted:
    """Of one block the refused report counted, and a counted one refused: the number stays."""
    first, second = counted.blocks
    at = first.accepted.index(0)
    marks = bytearray(b"\1" * len(first))
    marks[(at + 1) % len(first)] = 0
    return Counted((replace(first, accepted=bytes(marks)), second))


def _no_refused(counted: Counted) -> Counted:
    return Counted(
        tuple(
            CountedBlock.of(
                block.block_id, [name for name, mark in zip(block, block.accepted, strict=True) if mark]
            )
            for block in counted.blocks
        )
    )


def _other_word(counted: Counted) -> Counted:
    """R1 has signed in the place of R2 too."""
    first, second = counted.blocks
    return Counted((first, replace(second, signatures=second.signatures[:64] * 2 + second.signatures[128:])))


def _no_words(counted: Counted) -> Counted:
    return Counted(tuple(replace(block, signatures=b"") for block in counted.blocks))


def _blocks_turned(counted: Counted) -> Counted:
    return Counted(counted.blocks[::-1])


@pytest.mark.parametrize("change", [_other_id, _other_mark, _no_refused, _blocks_turned])
def test_what_right_providers_did_not_sign_for_is_refused(
    change: Change, tmp_path: Path, moments: SignedMoments
) -> None:
    folder = write_moments(tmp_path / "d", moments, PEOPLE, change_counted=change)
    with pytest.raises(VerificationError, match="that the right providers signed for"):
        Dataset.open(folder)


def test_another_number_than_the_release_has_is_refused(tmp_path: Path, moments: SignedMoments) -> None:
    folder = write_moments(
        tmp_path / "d", moments, PEOPLE, change_counted=lambda counted: Counted(counted.blocks[:1])
    )
    with pytest.raises(VerificationError, match="submissions where the manifest says 70"):
        Dataset.open(folder)


def test_the_list_of_a_release_of_rows(
    noisy: Any, write_release: Callable[..., Path], people: Callable[..., pd.DataFrame], tmp_path: Path
) -> None:
    def write(name: str, change: Change = lambda counted: counted) -> Path:
        return write_release(tmp_path / name, noisy, people(100, 1), change_counted=change)

    dataset = Dataset.open(write("good"))
    assert dataset.counted.count == 100
    assert (dataset.save(tmp_path / "saved") / COUNTED_FILE).read_bytes() == dataset.counted.to_bytes()
    fewer = write("fewer", lambda counted: Counted(counted.blocks[:1]))
    with pytest.raises(VerificationError, match="counts 50 submissions where the manifest says 100"):
        Dataset.open(fewer)

    def with_refused(counted: Counted) -> Counted:
        return Counted((*counted.blocks, CountedBlock.of(b"z" * 16, [bytes(16)], [False])))

    with pytest.raises(VerificationError, match="which the rows suite has not"):
        Dataset.open(write("refused", with_refused))
    # A list that the collector alone would sign: somebody in the place of somebody else, or blocks nobody bound.
    with pytest.raises(VerificationError, match="the word of R1 on the block"):
        Dataset.open(write("other", _other_id))
    with pytest.raises(VerificationError, match="the word of R2 on the block"):
        Dataset.open(write("another's word", _other_word))
    with pytest.raises(VerificationError, match="without the word of every right provider"):
        Dataset.open(write("no words", _no_words))
    tampered = write("tampered")
    content = (tampered / COUNTED_FILE).read_bytes()
    (tampered / COUNTED_FILE).write_bytes(content[:-40] + bytes(16) + content[-24:])
    with pytest.raises(VerificationError, match=r"counted\.bin is not the file the manifest was signed for"):
        Dataset.open(tampered)
    (tampered / COUNTED_FILE).unlink()
    with pytest.raises(VerificationError, match=r"counted\.bin is missing"):
        Dataset.open(tampered)


def test_a_manifest_without_the_list_is_refused(
    noisy: Any, write_release: Callable[..., Path], people: Callable[..., pd.DataFrame], tmp_path: Path
) -> None:
    folder = write_release(tmp_path / "d", noisy, people(100, 1), change=lambda data: data["files"].pop())
    with pytest.raises(VerificationError, match=r"must name dataset\.parquet and counted\.bin"):
        Dataset.open(folder)
