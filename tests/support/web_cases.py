"""Signed studies and submissions for tests/vectors and the device in the browser, from repeatable randomness.

Everything a device draws comes from one `Recorded` source, the private keys that seal among it, in the order of the
browser's library: payloads, withdrawal key, then one private key for each right provider.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from moments_cases import random_answers, random_effects, random_schema
from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.basics.randomness import RandomSource, Stream
from trimask_core.crypto.keys import (
    SEALINGS,
    Sealing,
    SealingKey,
    SigningKey,
    component_info,
    hpke_seal,
    hybrid_seal,
    sealing_key_id,
)
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import contribution_hash
from trimask_core.moments.study import MomentsSettings
from trimask_core.rows.collusion import default_unmasking
from trimask_core.rows.noise_columns import (
    CHECK_DIRECTIONS,
    default_noise_columns,
    least_tau,
    noise_columns_mu,
)
from trimask_core.rows.study import PUBLISHING_STEPS, RowsSettings, grid_exponent
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Guarantee, Neighbours, Protection
from trimask_core.study.party import Party, Web
from trimask_core.study.schema import Schema
from trimask_core.study.signed import SignedStudy, approve, needs_commitment
from trimask_core.study.weight import Weight
from trimask_core.submit.submission import WITHDRAWAL_KEY_BYTES, SealedSubmission, submission_id_of
from trimask_core.suites import payloads_of
from true_claims import DISCRETE, masked_epsilon, moments_epsilon, towards_right_providers

__all__ = ["Made", "Recorded", "made_study", "random_case", "submission"]

FAILURE = 1e-9
CREATED = 1_700_000_000_000


class Recorded:
    """A repeatable source that keeps what was read from it."""

    def __init__(self, label: str) -> None:
        self._stream = Stream(hashlib.sha256(label.encode()).digest(), b"web cases")
        self.reads: list[bytes] = []

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self.reads.append(data)
        return data

    def seed(self) -> bytes:
        return self.read(32)


@dataclass(frozen=True)
class Made:
    """A signed study, and the keys of its parties, and of its owner, by role."""

    signed: SignedStudy
    identities: Mapping[str, SigningKey] = field(repr=False)
    sealing: Mapping[str, SealingKey] = field(repr=False)

    @property
    def study(self) -> Study:
        """The study."""
        return self.signed.study


def made_study(
    label: str,
    schema: Schema,
    *,
    suite: str = "rows",
    right: int = 3,
    left: int = 2,
    block_rows: int = 24,
    sigma: float = 0.5,
    row_norm: float | None = None,
    budget: Budget | None = None,
    invited: bool = False,
    web: bool = False,
    several: bool = False,
    kind: Sealing = "classical",
    **changes: Any,
) -> Made:
    """A study that every party has signed; what it promises is what its noise gives. `row_norm`: R, or the ball's."""
    source = Recorded(label)
    left = left if suite == "rows" else 0
    roles = [*(f"R{k}" for k in range(1, right + 1)), *(f"L{j}" for j in range(1, left + 1)), "collector"]
    identities = {role: SigningKey.generate(source) for role in [*roles, "owner"]}
    sealing = {role: SealingKey.generate(source, kind) for role in roles if role.startswith("R")}
    cards = {
        role: Party(
            role, f"Institution {role}", "localhost:1", "localhost:2", f"{role.lower()}.example",
            identities[role].public, sealing[role].public if role in sealing else b"",
            https=f"https://{role.lower()}.example:8443" if web else "",
        )
        for role in roles
    }  # fmt: skip
    sigma = 0.0 if budget is not None else sigma
    make = _rows if suite == "rows" else _moments
    settings, protection = make(schema, right, left, block_rows, sigma, row_norm, budget, source)
    if isinstance(settings, MomentsSettings):
        settings = replace(settings, several_releases=several)
    given: dict[str, Any] = {
        "title": f"Study {label}", "purpose": "Zwölf Boxkämpfer jagen Viktor: 你好, \U0001f44b",
        "contact": "owner@example.org", "created_ms": CREATED, "schema": schema, "protection": protection, "suite": settings,
        "release_rows": 2 * block_rows, "collector": cards["collector"],
        "right": tuple(cards[role] for role in roles[:right]), "left": tuple(cards[role] for role in roles[right:-1]),
        "tls_roots": "", "owner_key": identities["owner"].public.hex(), "sealing": kind,
    }  # fmt: skip
    if invited:
        given |= {"admission": "invited", "admission_signer": "owner"}
    if web:
        given["web"] = Web(("https://survey.example",), "ab" * 32)
    study = Study(**given | changes)
    approvals = [
        approve(
            study,
            identities[role],
            CREATED + 1,
            contribution_hash(source.seed()) if needs_commitment(study, role) else b"",
        )
        for role in study.parties
    ]
    return Made(SignedStudy(study, tuple(approvals)), identities, sealing)


def _rows(
    schema: Schema, right: int, left: int, block_rows: int, sigma: float, row_norm: float | None,
    budget: Budget | None, source: RandomSource,
) -> tuple[RowsSettings, Protection]:  # fmt: skip
    norm, p1 = row_norm or schema.row_norm, len(schema.columns)
    leakage = 2.0**-20
    exponent = grid_exponent(2 * norm / leakage, right)
    sigma = math.ldexp(math.ceil(math.ldexp(sigma, -exponent)), exponent)
    columns = default_noise_columns(block_rows, FAILURE)
    rows = 2 * block_rows - 1
    tau = least_tau(rows, p1, columns, norm, sigma, FAILURE, CHECK_DIRECTIONS)
    settings = RowsSettings(
        block_rows=block_rows,
        noise_columns=columns,
        tau=tau,
        noise_columns_mu=noise_columns_mu(rows, p1, columns, norm, sigma, tau, FAILURE, CHECK_DIRECTIONS),
        publishing_steps=PUBLISHING_STEPS if sigma else 0,
        obfuscation_failure=FAILURE,
        share_leakage=leakage,
        grid_exponent=exponent,
        unmasking=default_unmasking(right, left),
        mask_seed=source.seed(),
    )
    if not sigma:
        return settings, Protection(norm, 0.0, "exact")
    promises = [
        Guarantee(
            Neighbours("record", norm, 2 * norm), "numerical", "a case's claim", "none",
            epsilon=masked_epsilon(sigma, count, p1, norm), delta=1e-6, discrete_epsilon=DISCRETE,
        )
        for count in (2 * block_rows, block_rows)
    ]  # fmt: skip
    towards = towards_right_providers(norm, sigma, 2.0**exponent)
    return settings, Protection(norm, sigma, "sharp", promises[0], promises[1], right_providers=towards)


def _moments(
    schema: Schema, right: int, _left: int, _block_rows: int, sigma: float, row_norm: float | None,
    budget: Budget | None, _source: RandomSource,
) -> tuple[MomentsSettings, Protection]:  # fmt: skip
    norm = math.sqrt(MomentsLayout.of(schema, row_norm).radius_squared)
    settings = MomentsSettings(honest_providers=1, ball_norm=row_norm)
    if not sigma:
        return settings, Protection(norm, 0.0, "exact", budget=budget)
    claim = Guarantee(
        Neighbours("record", norm), "numerical", "a case's claim", "none",
        epsilon=moments_epsilon(sigma, norm * norm), delta=1e-6,
    )  # fmt: skip
    return settings, Protection(norm, sigma, "sharp", claim)


def submission(study: Study, answers: Mapping[str, object], source: RandomSource) -> SealedSubmission:
    """`build_submission` with the sealing keys' randomness from the source as well."""
    payloads = payloads_of(study).payloads(study, answers, source)
    key = source.read(WITHDRAWAL_KEY_BYTES)
    submission_id = submission_id_of(study.id, key)
    drawn = [source.read(64 if study.sealing == "hybrid" else 32) for _ in payloads]

    def sealed_to(k: int, public: bytes, payload: bytes, random: bytes) -> bytes:
        info = component_info(study.binding, k, submission_id)
        if study.sealing == "hybrid":
            return hybrid_seal(public, payload, info, random)
        return hpke_seal(public, payload, info, ephemeral=X25519PrivateKey.from_private_bytes(random))

    sealed = tuple(
        sealed_to(k, party.sealing, payload, random)
        for k, (party, payload, random) in enumerate(zip(study.right, payloads, drawn, strict=True), 1)
    )
    key_ids = tuple(sealing_key_id(party.sealing) for party in study.right)
    return SealedSubmission(study.id, submission_id, sealed, key, key_ids)


def random_case(number: int) -> dict[str, Any]:
    """A study of either suite and one person's answers, with all that a device sends; JSON-ready."""
    random = Random(number)
    while True:
        try:
            made = _random_study(random, f"random {number}")
            break
        except ImpossibleStudy:
            continue  # a ball that no row fits, bounds too near: another study
    study, source = made.study, Recorded(f"submission {number}")
    answers = random_answers(random, study.schema)
    for attribute in study.schema.attributes:  # as forms and files give them
        value = answers[attribute.name]
        if attribute.kind == "binary":
            answers[attribute.name] = random.choice([bool(value), value, "yes" if value else "No"])
        elif attribute.kind != "categorical" and random.random() < 0.2:
            answers[attribute.name] = str(value)
    sent = submission(study, answers, source)
    return {
        "signed": made.signed.to_json(),
        "answers": answers,
        "randomness": b"".join(source.reads).hex(),
        "submission_id": sent.submission_id.hex(),
        "sealed": [part.hex() for part in sent.sealed],
        "key_ids": [key_id.hex() for key_id in sent.key_ids],
    }


def _random_weight(random: Random, schema: Schema, steps: int) -> Weight | None:
    """By anything that can be one, or none."""
    choices = [item for item in (*schema.attributes, *schema.derived) if item.kind in ("categorical", "bins")]
    numbers = [
        item
        for item in schema.attributes
        if item.kind in ("continuous", "integer")
        and item.bounds[0] > 0
        and item.bounds[1] <= 9000 * item.bounds[0]
    ]
    made = random.choice([None, *choices, *numbers])
    if made is None:
        return None
    return Weight(made.name, tuple(random.uniform(0.1, 9.0) for _ in made.levels), steps)


def _random_study(random: Random, label: str) -> Made:
    schema = random_effects(random) if random.random() < 0.5 else random_schema(random)
    more = random_schema(random)  # up to eight attributes
    if random.random() < 0.5:
        names = {attribute.name: f"b{place}" for place, attribute in enumerate(more.attributes)}
        schema = Schema(
            (*schema.attributes, *(replace(item, name=names[item.name]) for item in more.attributes)),
            schema.derived,
        )
    if random.random() < 0.5:
        norm = random.uniform(1.1, 3.0) if random.random() < 0.5 else None
        return made_study(
            label,
            schema,
            suite="moments",
            right=random.randint(2, 4),
            sigma=random.choice([0.0, 40.0]),
            row_norm=norm,
            weight=_random_weight(random, schema, random.choice([16, 100, 1024])),
            kind=random.choice(SEALINGS),
        )
    schema = replace(schema, ones=random.random() < 0.8)
    settings: dict[str, Any] = {"sigma": random.choice([0.0, 0.25, 3.0])}
    if random.random() < 0.4:
        settings["row_norm"] = random.uniform(0.4, 1.0) * schema.row_norm
    if schema.ones:
        settings["weight"] = _random_weight(random, schema, 0)
    right, left = random.choice([(2, 1), (3, 1), (3, 2), (4, 2), (5, 3)])
    return made_study(
        label,
        schema,
        right=right,
        left=left,
        block_rows=len(schema.columns) + random.randint(1, 12),
        kind=random.choice(SEALINGS),
        **settings,
    )
