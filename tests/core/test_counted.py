"""The list of counted submissions: what it says of one, and that no other bytes are taken for a list."""

from __future__ import annotations

import hashlib

import pytest

from trimask_core.basics.errors import VerificationError
from trimask_core.submit.release_files import Counted, CountedBlock

IDS = [hashlib.sha256(bytes([i])).digest()[:16] for i in range(9)]
FIRST, SECOND = b"a" * 16, b"b" * 16
LIST = Counted(
    (
        CountedBlock.of(FIRST, IDS[:5], signatures=b"s" * 128),
        CountedBlock.of(SECOND, IDS[5:8], [True, False, True]),
    ),
)


def test_what_it_says_of_each() -> None:
    read = Counted.from_bytes(LIST.to_bytes())
    assert read == LIST
    assert read.count == 7
    assert [read.standing(name) for name in IDS] == [
        *["counted"] * 6, "refused", "counted", "absent",
    ]  # fmt: skip
    assert [read.standing(name) for name in (bytes(16), b"\xff" * 16, b"")] == ["absent"] * 3
    assert list(read.blocks[0]) == sorted(IDS[:5])
    assert read.blocks[1].count == 2


def test_an_id_in_two_blocks_is_refused() -> None:
    twice = Counted((CountedBlock.of(FIRST, IDS[:2]), CountedBlock.of(SECOND, IDS[1:3], [True, False])))
    with pytest.raises(VerificationError, match="in two blocks"):
        Counted.from_bytes(twice.to_bytes())


WHOLE = LIST.to_bytes()
LOW, HIGH = sorted(IDS[:2])
WRONG = {
    "nothing": b"",
    "another format": WHOLE.replace(b"counted/2", b"counted/1"),
    "cut in the marks": WHOLE[:-2],
    "cut before the signatures": WHOLE[:-1],
    "signatures past the end": WHOLE[:-1] + b"\1",
    "cut in a head": WHOLE + b"c" * 19,
    "more than it says": WHOLE + b"c",
    "a number past the end": WHOLE + b"c" * 16 + b"\xff" * 4,
    "an empty block": WHOLE + b"c" * 16 + bytes(5),
    "a mark that is neither": WHOLE[:-2] + b"\2\0",
    "a block twice": Counted(LIST.blocks * 2).to_bytes(),
    "an id twice": Counted((CountedBlock(FIRST, LOW + LOW, b"\1\1"),)).to_bytes(),
    "out of order": Counted((CountedBlock(FIRST, HIGH + LOW, b"\1\1"),)).to_bytes(),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_bytes_are_refused(what: str) -> None:
    with pytest.raises(VerificationError, match=r"counted\.bin"):
        Counted.from_bytes(WRONG[what])
