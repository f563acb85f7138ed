"""A release of the moments suite on disk: real encoding, whole totals, noise, masks, commitments and signatures."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trimask_core.basics.encoding import encode_bytes
from trimask_core.basics.randomness import DeterministicRandom, RoundedGaussian
from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.moments.field import P, draw, pack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.study import MomentsSettings
from trimask_core.moments.totals import (
    COMMITMENTS,
    TOTALS,
    AddedBatch,
    EntryNoise,
    accepted_hash,
    asked_hash,
    commitment_message,
    commitments_message,
    decode,
    release_hash,
    release_noise,
    values_hash,
)
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee, Neighbours, Protection
from trimask_core.study.party import Party
from trimask_core.study.schema import Schema
from trimask_core.study.signed import SignedStudy, approve
from trimask_core.submit.release_files import COUNTED_FILE, Counted, CountedBlock

PROMISE = Guarantee(Neighbours("record", 1.0), "proved", "a test's claim", "none", epsilon=1.0, delta=1e-6)


@dataclass(frozen=True)
class SignedMoments:
    """A signed study of the moments suite, with every party's key."""

    signed: SignedStudy
    keys: Mapping[str, SigningKey]

    @property
    def study(self) -> Study:
        """The study."""
        return self.signed.study


def moments_study(
    schema: Schema, sigma: float = 30.0, *, right: int = 2, honest: int = 1, ball_norm: float | None = None,
    release_rows: int = 64,
) -> SignedMoments:  # fmt: skip
    """A study all parties have signed."""
    roles = [*(f"R{k}" for k in range(1, right + 1)), "collector"]
    keys = {role: SigningKey.generate() for role in roles}

    def party(role: str) -> Party:
        sealing = SealingKey.generate().public if role.startswith("R") else b""
        return Party(
            role, f"org {role}", "localhost:1", "localhost:2", f"{role}.test", keys[role].public, sealing
        )

    promise = PROMISE if sigma else None
    norm = math.sqrt(MomentsLayout.of(schema, ball_norm).radius_squared) * (1 + 1e-12)
    study = Study(
        title="Blood pressure", purpose="a test", contact="nobody", created_ms=1, schema=schema,
        protection=Protection(norm, sigma, "analytic", promise, promise), release_rows=release_rows,
        suite=MomentsSettings(honest_providers=honest, ball_norm=ball_norm),
        collector=party("collector"), right=tuple(party(role) for role in roles[:-1]), left=(), tls_roots="",
        owner_key=SigningKey.generate().public.hex(),
    )  # fmt: skip
    approvals = tuple(
        approve(study, key, 2, b"" if role == "collector" else bytes([7]) * 32) for role, key in keys.items()
    )
    return SignedMoments(SignedStudy(study, approvals), keys)


def exact_totals(study: Study, people: Sequence[Mapping[str, Any]]) -> list[int]:
    """Sums of z, then of products, of the encoded rows."""
    layout = study.moments.layout
    Z = np.array([layout.encode(person).z for person in people], dtype=object)
    products = Z.T @ Z
    return [*Z.sum(axis=0), *(products[j, k] for j in range(layout.q) for k in range(j, layout.q))]


def entry_noises(study: Study) -> list[EntryNoise]:
    """Each total's grid, and the deviation of one provider's noise on it."""
    settings = study.moments
    widths = [column.width for column in settings.layout.columns]
    return release_noise(widths, settings.sigma, settings.honest_providers)


def deliveries(study: Study, totals: Sequence[int], source: DeterministicRandom) -> list[list[int]]:
    """What the providers send: shares of the totals, uniform but for their sum, each with its provider's noise."""
    shares = [[draw(source) for _ in totals] for _ in study.right[1:]]
    last = [(total - sum(parts)) % P for total, *parts in zip(totals, *shares, strict=True)]
    gaussian, noises = RoundedGaussian(source), entry_noises(study)
    return [
        [
            ((value << noise.shift) + (gaussian.sample(noise.sigma) if noise.sigma else 0)) % P
            for value, noise in zip(share, noises, strict=True)
        ]
        for share in [*shares, last]
    ]


def _counted(release: int, people: int) -> Counted:
    """Two batches of made-up reports: all of the people, and two that were refused."""
    ids = [hashlib.sha256(f"{release} {i}".encode()).digest()[:16] for i in range(people + 2)]
    marks = [i not in (0, people) for i in range(people + 2)]
    half = len(ids) // 2
    return Counted(
        (
            CountedBlock.of(bytes([release, 1]) * 8, ids[:half], marks[:half]),
            CountedBlock.of(bytes([release, 2]) * 8, ids[half:], marks[half:]),
        )
    )


def write_moments(
    folder: Path, signed: SignedMoments, people: Sequence[Mapping[str, Any]], *, seed: str = "7", release: int = 1,
    previous: str | None = None, change: Callable[[dict[str, Any]], None] | None = None,
    change_manifest: Callable[[dict[str, Any]], None] | None = None, key: SigningKey | None = None,
    change_counted: Callable[[Counted], Counted] | None = None,
) -> Path:  # fmt: skip
    """A dataset folder. `change` edits moments.json and `change_manifest` the manifest before it is signed;
    `change_counted` the list of submissions after the providers have signed for it."""
    study, source, count = signed.study, DeterministicRandom(f"release {seed}"), len(people)
    layout = study.moments.layout
    counted = _counted(release, count)
    batches = [
        AddedBatch(
            block.block_id,
            accepted_hash(study.id, block.block_id, list(block), [mark == 1 for mark in block.accepted]),
            block.count,
        )
        for block in counted.blocks
    ]
    sent = deliveries(study, exact_totals(study, people), source)
    accepted = release_hash(study.id, release, batches)
    asked = asked_hash(study.id, release, b"".join(batch.batch_id for batch in batches))
    totals = decode(sent)
    listed = []
    salts = [source.read(32) for _ in sent]
    hashes = [values_hash(values, salt) for values, salt in zip(sent, salts, strict=True)]
    seen = commitments_message(asked, accepted, count, hashes)
    for k, (values, salt, committed) in enumerate(zip(sent, salts, hashes, strict=True), 1):
        message = commitment_message(asked, f"R{k}", accepted, count, committed)
        listed.append(
            {
                "role": f"R{k}",
                "values": encode_bytes(pack(values)),
                "salt": encode_bytes(salt),
                "values_hash": committed.hex(),
                "accepted_count": count,
                "signature": encode_bytes(signed.keys[f"R{k}"].sign(TOTALS, message)),
                "commitments_signature": encode_bytes(signed.keys[f"R{k}"].sign(COMMITMENTS, seen)),
            }
        )
    body: dict[str, Any] = {
        "format": "trimask-moments/1",
        "release": release,
        "accepted": count,
        "accepted_hash": accepted.hex(),
        "columns": [column.name for column in layout.columns],
        "first": totals[: layout.q],
        "products": totals[layout.q :],
        "deliveries": listed,
    }
    if change is not None:
        change(body)
    content = json.dumps(body).encode()
    folder.mkdir(parents=True)
    (folder / "moments.json").write_bytes(content)
    if change_counted is not None:
        counted = change_counted(counted)
    (folder / COUNTED_FILE).write_bytes(counted.to_bytes())
    promise = study.protection.public.to_dict() if study.protection.public else None
    data: dict[str, Any] = {
        "format": "trimask-manifest/1",
        "suite": "moments",
        "dataset_id": f"{study.id.hex()[:12]}-{release}",
        "study_id": study.id.hex(),
        "title": study.title,
        "release": release,
        "published_ms": 1_700_000_000_000,
        "rows": count,
        "batch_ids": [batch.batch_id.hex() for batch in batches],
        "columns": [
            {name: getattr(c, name) for name in ("name", "center", "half_range", "source", "level")}
            for c in study.schema.columns
        ],
        "sigma": study.protection.sigma,
        "guarantee": {"public": promise, "collector": promise},
        "collusion": {"sentence": "both together"},
        "counts": {"batches": 2, "rows": count, "refusals": {}},
        "files": [
            {"name": name, "bytes": len(held), "sha256": hashlib.sha256(held).hexdigest()}
            for name, held in (("moments.json", content), (COUNTED_FILE, counted.to_bytes()))
        ],
        "signed_study": json.loads(signed.signed.to_json()),
        "previous": previous,
    }
    if change_manifest is not None:
        change_manifest(data)
    raw = json.dumps(data, indent=1).encode()
    (folder / "manifest.json").write_bytes(raw)
    (folder / "manifest.sig").write_bytes((key or signed.keys["collector"]).sign("manifest", raw))
    return folder
