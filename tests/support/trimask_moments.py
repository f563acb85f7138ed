"""Studies of the moments suite on a lab's cluster, and what their releases must be."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trimask_client import Client
from trimask_core.crypto.keys import SEALINGS
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import MomentsSecret
from trimask_core.moments.study import MomentsSettings
from trimask_core.study.definition import Study
from trimask_core.study.derived import Derived
from trimask_core.study.guarantee import Budget, Guarantee, Neighbours, Protection
from trimask_core.study.party import admission_key
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy, approve, needs_commitment
from trimask_lab import Lab
from true_claims import moments_epsilon

__all__ = ["SCHEMA", "exact_totals", "moments_people", "moments_study", "open_moments", "submit_all"]

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80),
        Attribute("bmi", "continuous", 15.0, 45.0),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    (Derived("age2", "square", ("age",)),),
)


def moments_people(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Answers to the questions of `SCHEMA`."""
    return [
        {
            "age": 18 + (7 * i) % 63,
            "bmi": 15.0 + (3 * i % 300) / 10,
            "smoker": i % 2,
            "region": ("north", "south", "west")[i % 3],
        }
        for i in range(first, first + count)
    ]


def moments_study(
    lab: Lab,
    schema: Schema = SCHEMA,
    *,
    sigma: float = 0.0,
    release_rows: int = 40,
    honest: int = 1,
    ball_norm: float | None = None,
    several: bool = False,
    budget: Budget | None = None,
    **changes: Any,
) -> SignedStudy:
    """A study of all the lab's right providers, approved by everybody, not yet open."""
    layout = MomentsLayout.of(schema, ball_norm, changes.get("weight"))
    kind = changes.pop("sealing", SEALINGS[0])
    norm = math.nextafter(math.sqrt(layout.radius_squared), math.inf)
    promise = Guarantee(
        Neighbours("record", norm),
        "proved",
        "a test's claim",
        "none",
        epsilon=moments_epsilon(sigma, norm * norm) if sigma else 1.0,
        delta=1e-6,
    )
    study = Study(
        title="Moments",
        purpose="a test",
        contact="nobody@example.org",
        created_ms=int(time.time() * 1000),
        schema=schema,
        protection=Protection(
            norm, sigma, "analytic" if sigma else "exact", promise if sigma else None, None, budget
        ),
        suite=MomentsSettings(honest_providers=honest, ball_norm=ball_norm, several_releases=several),
        release_rows=release_rows,
        collector=lab.parties["collector"],
        right=tuple(lab.parties[f"R{k}"].sealing_as(kind) for k in range(1, lab.right + 1)),
        sealing=kind,
        left=(),
        tls_roots=(lab.folder / "authority" / "ca.pem").read_text(),
        owner_key=admission_key(lab.owner).public.hex(),
        **changes,
    )
    signed = SignedStudy(study)
    for role in study.parties:
        commitment = b""
        if needs_commitment(study, role):
            commitment = MomentsSecret.load(lab.folder / role).commitment(study.id)
        signed = signed.with_approval(approve(study, lab.key(role), 1, commitment))
    return signed


def open_moments(lab: Lab, schema: Schema = SCHEMA, **settings: Any) -> SignedStudy:
    """The same, open."""
    signed = moments_study(lab, schema, **settings)
    lab.open(signed)
    return signed


def submit_all(signed: SignedStudy, people: Iterable[Mapping[str, object]]) -> None:
    """Each person's answers from a device."""
    with Client(signed) as client:
        for answers in people:
            client.submit(answers)


def exact_totals(study: Study, people: Sequence[Mapping[str, object]]) -> tuple[list[int], list[int]]:
    """Sums of z and of products of the encoded rows, weighted where the study is, in whole numbers."""
    layout = study.moments.layout
    rows, q = [layout.encode(person).counted for person in people], layout.q + 1
    every = [sum(row[j] * row[k] for row in rows) for j in range(q) for k in range(j, q)]
    totals = every[-layout.totals :]  # without the number of people, which is public
    return totals[: layout.firsts], totals[layout.firsts :]
