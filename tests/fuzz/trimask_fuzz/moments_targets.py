"""What is read in the moments suite: studies, shares, questions, a provider's kept ledger, and published totals."""

from __future__ import annotations

import functools
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from trimask.data.manifest import MOMENTS_FILE, TOTALS_FORMAT, Manifest, read_totals
from trimask_core.basics.encoding import canonical_json, encode_bytes
from trimask_core.basics.errors import Refused, StudyError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom, Stream
from trimask_core.moments.field import P, draw, pack
from trimask_core.moments.report import check_payload, form_of, payloads, read_share
from trimask_core.moments.totals import (
    COMMITMENTS,
    TOTALS,
    asked_hash,
    commitment_message,
    commitments_message,
    decode,
    values_hash,
)
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.release_files import COUNTED_FILE
from trimask_core.suites import collusion_of
from trimask_fuzz.target import JSON_WORDS, Target, promised
from trimask_server.suites.moments.batch_check import read_shares
from trimask_server.suites.moments.batch_store import KeptLedger
from trimask_simulation.moments_people import exact_totals, make_moments_study
from trimask_simulation.people import answers_of
from trimask_theory.moments.moments_question import MomentsQuestion

__all__ = ["MOMENTS_TARGETS"]

_RIGHT = 3
_PEOPLE = range(12)
_BATCH = bytes(16)


@promised(StudyError)
def _study(data: bytes) -> None:
    SignedStudy.from_json(data).verify()


@promised(VerificationError)
def _share(data: bytes) -> None:
    """What is in a parcel. A share that passes intake is one that can be added up: later it would stop a whole batch."""
    study = make_moments_study(_RIGHT)[0].study
    provider, payload = 1 + data[0] % _RIGHT if data else 1, data[1:]
    check_payload(form_of(study, provider), payload)
    layout = study.moments.layout
    elements = read_share(payload, provider, _RIGHT, layout.elements)
    assert read_shares([payload], provider, _RIGHT, layout).tolist() == [elements]
    assert all(0 <= element < P for element in elements)


@promised(Refused)
def _question(data: bytes) -> None:
    """What a collector asks in a researcher's name, up to the noise it is answered with."""
    study = make_moments_study(_RIGHT)[0].study
    question = MomentsQuestion.read(data, study)
    layout = study.moments.layout
    assert len(question.noises(layout, 1)) == len(question.cells(layout))


@promised(VerificationError)
def _ledger(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="trimask-fuzz-") as folder:
        path = Path(folder) / "moments" / f"{bytes(32).hex()}.ledger"
        path.parent.mkdir()
        path.write_bytes(data)
        kept = KeptLedger(Path(folder), bytes(32))
        with kept.locked() as ledger:
            before = len(ledger.entries)
            ledger.append({"asked": "more"})
        with kept.locked() as ledger:
            assert len(ledger.entries) == before + 1


@promised(VerificationError)
def _totals(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="trimask-fuzz-") as folder:
        path = Path(folder) / MOMENTS_FILE
        path.write_bytes(data)
        read_totals(path, _manifest())


def _study_seeds() -> list[bytes]:
    return [make_moments_study(right)[0].to_json().encode() for right in (2, 3)]


def _share_seeds() -> list[bytes]:
    study = make_moments_study(_RIGHT)[0].study
    made = payloads(study, answers_of(3), DeterministicRandom("fuzz"))
    return [bytes([place]) + payload for place, payload in enumerate(made)]


def _question_seeds() -> list[bytes]:
    prices = ({"epsilon": 0.5, "delta": 1e-7, "mu": None}, {"epsilon": None, "delta": None, "mu": 0.25})
    return [
        canonical_json({"kind": kind, "columns": columns, "price": price})
        for price in prices
        for kind, columns in (("moments", ["group_g1", "x"]), ("sums", ["x"]))
    ]


def _ledger_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory(prefix="trimask-fuzz-") as folder:
        kept = KeptLedger(Path(folder), bytes(32))
        with kept.locked() as ledger:
            for number in (1, 2):
                ledger.append(
                    {"asked": bytes([number]).hex(), "release": number, "batches": [], "price": None}
                )
        (path,) = Path(folder).rglob("*.ledger")
        return [b"", path.read_bytes(), path.read_bytes()[:-9]]


@functools.cache
def _manifest() -> Manifest:
    signed, keys = make_moments_study(_RIGHT)
    study = signed.study
    data = {
        "format": "trimask-manifest/1", "suite": "moments", "dataset_id": f"{study.id.hex()[:12]}-1",
        "study_id": study.id.hex(), "title": study.title, "release": 1, "published_ms": 1, "rows": len(_PEOPLE),
        "columns": [asdict(column) for column in study.schema.columns], "sigma": 0.0,
        "guarantee": {"public": None, "collector": None}, "collusion": collusion_of(study).to_dict(), "counts": {},
        "files": [{"name": name, "bytes": 1, "sha256": "0" * 64} for name in (MOMENTS_FILE, COUNTED_FILE)],
        "signed_study": json.loads(signed.to_json()), "previous": None, "batch_ids": [_BATCH.hex()],
    }  # fmt: skip
    body = json.dumps(data).encode()
    return Manifest.read(body, keys["collector"].identity.sign("manifest", body))


def _totals_seeds() -> list[bytes]:
    signed, keys = make_moments_study(_RIGHT)
    study = signed.study
    first, products = exact_totals(_PEOPLE)
    stream = Stream(bytes(32), b"fuzz")
    shares = [[draw(stream) for _ in (*first, *products)] for _ in range(_RIGHT - 1)]
    last = [(total - sum(parts)) % P for total, *parts in zip((*first, *products), *shares, strict=True)]
    asked, accepted, salt = asked_hash(study.id, 1, _BATCH), bytes(32), bytes(32)
    deliveries = []
    digests = [values_hash(values, salt) for values in (*shares, last)]
    seen = commitments_message(asked, accepted, len(_PEOPLE), digests)
    for number, (values, digest) in enumerate(zip((*shares, last), digests, strict=True), 1):
        message = commitment_message(asked, f"R{number}", accepted, len(_PEOPLE), digest)
        signature = keys[f"R{number}"].identity.sign(TOTALS, message)
        deliveries.append(
            {
                "role": f"R{number}", "values": encode_bytes(pack(values)), "salt": encode_bytes(salt),
                "values_hash": digest.hex(), "accepted_count": len(_PEOPLE), "signature": encode_bytes(signature),
                "commitments_signature": encode_bytes(keys[f"R{number}"].identity.sign(COMMITMENTS, seen)),
            }
        )  # fmt: skip
    assert decode([*shares, last]) == [*first, *products]
    body = {
        "format": TOTALS_FORMAT, "release": 1, "accepted": len(_PEOPLE), "accepted_hash": accepted.hex(),
        "columns": [column.name for column in study.moments.layout.columns], "first": first, "products": products,
        "deliveries": deliveries,
    }  # fmt: skip
    return [json.dumps(body).encode()]


MOMENTS_TARGETS: dict[str, Target] = {
    "moments_study": Target(_study, _study_seeds, JSON_WORDS),
    "moments_share": Target(_share, _share_seeds, (b"\xff" * 8, P.to_bytes(8, "little"), b"\x00" * 8)),
    "moments_question": Target(_question, _question_seeds, (*JSON_WORDS, b"1e-320", b"5e-324", b"1e308")),
    "moments_ledger": Target(_ledger, _ledger_seeds, (*JSON_WORDS, b'"before"', b"\n")),
    "moments_totals": Target(_totals, _totals_seeds, JSON_WORDS),
}
