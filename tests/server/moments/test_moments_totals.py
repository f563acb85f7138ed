"""Totals, noise, blinding and decoding, without I/O; and the ledger outside the store."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from trimask_core.basics.errors import ConfigError, Refused, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import Pairing, Sealing
from trimask_core.moments.field import P, pack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import MomentsSecret, build_report, share_payloads, split
from trimask_core.moments.totals import (
    AddedBatch,
    accepted_hash,
    decode,
    read_values,
    release_hash,
    release_noise,
    values_hash,
)
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_server.suites.moments.batch_check import read_shares, sum_accepted
from trimask_server.suites.moments.batch_store import KeptLedger, LedgerHead, add_noise, add_up, blind

STUDY = b"s" * 32
SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    (Derived("age2", "square", ("age",)),),
)
PEOPLE = [
    {"age": 20 + 3 * i, "smoker": i % 2, "region": ("north", "south", "west")[i % 3]} for i in range(12)
]
SECRETS = {k: MomentsSecret(bytes([k]) * 32) for k in (1, 2, 3)}


def expected_totals(layout: MomentsLayout) -> list[int]:
    rows = [layout.encode(person).z for person in PEOPLE]
    first = [sum(column) for column in zip(*rows, strict=True)]
    return first + [sum(z[j] * z[k] for z in rows) for j in range(layout.q) for k in range(j, layout.q)]


@pytest.mark.parametrize(("sigma", "kind"), [(0.0, "classical"), (2.5, "hybrid")])
def test_providers_values_add_up_to_the_totals_and_their_noise(sigma: float, kind: Sealing) -> None:
    layout, source = MomentsLayout.of(SCHEMA), DeterministicRandom("totals")
    parcels = [share_payloads(*split(build_report(layout, person, source), 3, source)) for person in PEOPLE]
    sides = {k: Pairing(secret.exchange_key(STUDY, kind), f"R{k}", STUDY) for k, secret in SECRETS.items()}
    delivered, plain, noise = [], [], []
    noises = release_noise([column.width for column in layout.columns], sigma, 1)
    for k, secret in SECRETS.items():
        shares = read_shares([parcel[k - 1] for parcel in parcels], k, 3, layout)
        halves = [
            sum_accepted(part, [True] * len(part), layout) for part in (shares[:5], shares[5:])
        ]  # two batches
        totals = add_up(layout, halves, len(PEOPLE), first=k == 1)
        noisy = add_noise(totals, noises, secret.noise(STUDY, b"release 1"))
        again = add_noise(totals, noises, secret.noise(STUDY, b"release 1"))
        assert noisy == again, "a repeat sends the same bytes"
        if sigma:
            assert noisy != add_noise(totals, noises, secret.noise(STUDY, b"release 2"))
        shifted = [total << each.shift for total, each in zip(totals, noises, strict=True)]
        noise.append([(a - b) % P for a, b in zip(noisy, shifted, strict=True)])
        plain.append(totals)
        own = sides[k]
        secrets = {
            other: own.secret(side.role, side.key.public, side.share(own.role, own.key.public))
            for other, side in sides.items()
            if other != k
        }
        delivered.append(blind(noisy, k, secrets, b"release 1"))
        assert delivered[-1] != noisy
    expected = expected_totals(layout)
    assert decode(plain) == expected
    shifted = [total << each.shift for total, each in zip(expected, noises, strict=True)]
    assert decode(delivered) == [a + b for a, b in zip(shifted, decode(noise), strict=True)]
    if not sigma:
        assert decode(delivered) == expected


def test_noise_has_the_deviation_of_each_entry() -> None:
    """4,000 draws of each entry. A sample variance is off by 12 % (5.4 deviations) with probability below 1e-7."""
    layout, draws = (
        MomentsLayout.of(Schema((Attribute("a", "integer", 0, 7), Attribute("b", "binary")))),
        4000,
    )
    a, b = (column.width for column in layout.columns)
    noises = release_noise([a, b], 3.0, 2)
    wanted = [3 * a / 2, 3 * b / 2, 3 * a * a / math.sqrt(2), 3 * a * b / 2, 3 * b * b / math.sqrt(2)]
    for noise, deviation in zip(noises, wanted, strict=True):
        assert deviation <= noise.deviation <= deviation * 1.004
        assert noise.sigma >= 256
    zeros = [0] * len(noises)
    samples = [
        decode([add_noise(zeros, noises, SECRETS[1].noise(STUDY, i.to_bytes(4, "big")))])
        for i in range(draws)
    ]
    for column, noise in zip(zip(*samples, strict=True), noises, strict=True):
        variance = sum(value * value for value in column) / draws
        assert variance == pytest.approx(noise.sigma**2 + 1 / 12, rel=0.12)


def test_hashes_tell_what_they_name_apart() -> None:
    ids = [bytes([i]) * 16 for i in range(3)]
    hashes = {
        accepted_hash(STUDY, b"b" * 16, ids, [True, True, False]),
        accepted_hash(STUDY, b"b" * 16, ids, [True, True, True]),
        accepted_hash(STUDY, b"c" * 16, ids, [True, True, True]),
        accepted_hash(STUDY, b"b" * 16, ids[::-1], [True, True, True]),
        accepted_hash(b"t" * 32, b"b" * 16, ids, [True, True, True]),
    }
    assert len(hashes) == 5
    batches = [AddedBatch(b"b" * 16, b"x" * 32, 3), AddedBatch(b"c" * 16, b"y" * 32, 2)]
    sets = {
        release_hash(STUDY, n, chosen) for n in (1, 2) for chosen in (batches, batches[:1], batches[::-1])
    }
    assert len(sets) == 6
    assert values_hash([1, 2], b"salt") != values_hash([1, 2], b"tlas")


def test_deliveries_of_another_length_or_with_large_values_are_refused() -> None:
    assert read_values(pack([1, 2]), 2) == [1, 2]
    with pytest.raises(VerificationError, match="2 values, not 1"):
        read_values(pack([1]), 2)
    with pytest.raises(VerificationError):
        read_values(P.to_bytes(8, "little"), 1)


def test_secrets_differ_by_study_and_show_nothing(tmp_path: Path) -> None:
    secret = SECRETS[1]
    assert secret.contribution(STUDY) != secret.contribution(b"t" * 32)
    assert secret.commitment(STUDY) != secret.contribution(STUDY)
    assert secret.exchange_key(STUDY).public != secret.exchange_key(b"t" * 32).public
    # Noise and salt: another one for every secret, study and delivery.
    what, other = b"w" * 32, b"o" * 32
    cases = [
        (SECRETS[1], STUDY, what),
        (SECRETS[2], STUDY, what),
        (SECRETS[1], other, what),
        (SECRETS[1], STUDY, other),
    ]
    assert len({one.noise(study, asked).read(32) for one, study, asked in cases}) == len(cases)
    assert len({one.salt(study, asked) for one, study, asked in cases}) == len(cases)
    assert "0101" not in repr(secret)
    with pytest.raises(ConfigError, match="missing"):
        MomentsSecret.load(tmp_path)
    (tmp_path / "moments.key").write_text("01" * 31)
    with pytest.raises(ConfigError, match="64 hexadecimal"):
        MomentsSecret.load(tmp_path)
    (tmp_path / "moments.key").write_text("01" * 32 + "\n")
    assert MomentsSecret.load(tmp_path).contribution(STUDY) == secret.contribution(STUDY)


def test_the_ledger_is_kept(tmp_path: Path) -> None:
    kept = KeptLedger(tmp_path, STUDY)
    with kept.locked() as ledger:
        assert (ledger.entries, ledger.head.entries) == ([], 0)
        ledger.append({"kind": "release", "number": 1})
        ledger.append({"kind": "answer", "id": "x"})
        head = ledger.head
    with kept.locked() as ledger:
        assert [entry["kind"] for entry in ledger.entries] == ["release", "answer"]
        assert ledger.head == head
        ledger.require(head)
        ledger.require(ledger.head_at(1))  # the store may be behind
        ledger.require(LedgerHead(0, b""))  # or know of nothing yet
        with pytest.raises(Refused, match="older than its store"):
            ledger.require(LedgerHead(1, b"d" * 32))  # but not have seen another ledger
    (file,) = (tmp_path / "moments").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    kept = KeptLedger(tmp_path, STUDY)
    with kept.locked() as ledger:
        ledger.append({"kind": "release", "number": 1})
    (file,) = (tmp_path / "moments").iterdir()
    with file.open("ab") as raw:
        raw.write(b'{"kind": "rel')
    with kept.locked() as ledger:
        assert len(ledger.entries) == 1
        ledger.append({"kind": "release", "number": 2})
    with kept.locked() as ledger:
        assert [entry["number"] for entry in ledger.entries] == [1, 2]


def test_an_older_or_altered_ledger_is_refused(tmp_path: Path) -> None:
    kept = KeptLedger(tmp_path, STUDY)
    with kept.locked() as ledger:
        ledger.append({"kind": "answer", "id": "a", "mu": 1.0})
        one = ledger.head
        ledger.append({"kind": "answer", "id": "b", "mu": 1.0})
        two = ledger.head
    (file,) = (tmp_path / "moments").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0])
    with kept.locked() as ledger:
        ledger.require(one)
        with pytest.raises(Refused, match="old copy"):
            ledger.require(two)
    file.write_bytes(lines[0].replace(b"1.0", b"0.1") + lines[1])
    with pytest.raises(VerificationError, match="entry 2"), kept.locked():
        pass
    file.write_bytes(lines[0] + lines[1].replace(b"1.0", b"0.1"))
    with kept.locked() as ledger, pytest.raises(Refused):
        ledger.require(two)
