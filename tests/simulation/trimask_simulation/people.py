"""A study in which every row can be told from the second moments, and the people who answer it.

Person i ticks one of GROUPS boxes and has a power of four in x. The sum of x over a box, which is an entry of the Gram
matrix, is then a number whose base-4 digits say how often each of its people is in the release: 0 lost, 2 doubled.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.moments.report import MomentsSecret
from trimask_core.rows import collusion
from trimask_core.rows.noise_columns import (
    CHECK_DIRECTIONS,
    default_noise_columns,
    least_tau,
    noise_columns_mu,
)
from trimask_core.rows.study import RowsSettings, grid_exponent
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Protection
from trimask_core.study.party import Party
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy, approve

__all__ = ["PEOPLE", "Keys", "answers_of", "make_study", "multiplicities", "party_card", "person_of"]

GROUPS, DIGITS = 6, 7
PEOPLE = GROUPS * DIGITS
_TOP = 4 ** (DIGITS - 1)
_SCHEMA = Schema(
    (
        Attribute("group", "categorical", levels=tuple(f"g{g}" for g in range(GROUPS))),
        Attribute("x", "continuous", -1, 1),
    )
)
RIGHT, LEFT, BLOCK_ROWS = 3, 2, 9
_FAILURE = 1e-9


@dataclass(frozen=True)
class Keys:
    """A party's private keys."""

    identity: SigningKey
    sealing: SealingKey | None
    moments: MomentsSecret | None = None


def party_card(role: str, keys: Keys) -> Party:
    """What everybody knows of a party."""
    sealing = b"" if keys.sealing is None else keys.sealing.public
    return Party(role, role, f"{role}:1", f"{role}:2", role.lower(), keys.identity.public, sealing)


def answers_of(person: int) -> dict[str, object]:
    """What a person answers."""
    group, digit = divmod(person, DIGITS)
    return {"group": f"g{group}", "x": 4**digit / _TOP}


def person_of(answers: Mapping[str, object]) -> int:
    """Who answered so."""
    return next(person for person in range(PEOPLE) if answers_of(person) == dict(answers))


def multiplicities(gram: NDArray[np.float64]) -> list[int]:
    """How often each person is in rows with this Gram matrix; `AssertionError` if it is of no such rows."""
    found: list[int] = []
    for group in range(GROUPS):
        scaled = float(gram[1 + group, 1 + GROUPS]) * _TOP
        number = round(scaled)
        assert abs(scaled - number) < 0.25, f"the Gram matrix is not of these people: {scaled}"
        for _ in range(DIGITS):
            number, digit = divmod(number, 4)
            found.append(digit)
        assert number == 0, "more rows than there are people"
        count = float(gram[1 + group, 1 + group])
        assert abs(count - sum(found[-DIGITS:])) < 1e-3, "the boxes and the digits differ"
    return found


@functools.cache
def make_study(right: int = RIGHT) -> tuple[SignedStudy, dict[str, Keys]]:
    """The study of so many right providers, approved by everybody, and the keys. From four on components have tags."""
    source = DeterministicRandom("simulated study")
    rights = [f"R{k}" for k in range(1, right + 1)]
    lefts = [f"L{j}" for j in range(1, LEFT + 1)]
    roles = [*rights, *lefts, "collector"]
    keys = {
        role: Keys(SigningKey.generate(source), SealingKey.generate(source) if role in rights else None)
        for role in [*roles, "owner"]
    }

    norm, leakage = _SCHEMA.row_norm, 2.0**-20
    noise_columns = default_noise_columns(BLOCK_ROWS, _FAILURE)
    sizes = 2 * BLOCK_ROWS - 1, len(_SCHEMA.columns), noise_columns, norm, 0.0
    tau = least_tau(*sizes, _FAILURE, CHECK_DIRECTIONS)
    study = Study(
        title="Simulated", purpose="every row can be told", contact="nobody", created_ms=1,
        schema=_SCHEMA, protection=Protection(norm, 0.0, "exact"),
        suite=RowsSettings(
            block_rows=BLOCK_ROWS, noise_columns=noise_columns,
            tau=tau, noise_columns_mu=noise_columns_mu(*sizes, tau, _FAILURE, CHECK_DIRECTIONS), publishing_steps=0,
            obfuscation_failure=_FAILURE, share_leakage=leakage,
            grid_exponent=grid_exponent(2 * norm / leakage, right),
            unmasking=collusion.default_unmasking(right, LEFT), mask_seed=source.seed(),
        ),
        release_rows=2 * BLOCK_ROWS,
        collector=party_card("collector", keys["collector"]),
        right=tuple(party_card(role, keys[role]) for role in rights),
        left=tuple(party_card(role, keys[role]) for role in lefts),
        tls_roots="", owner_key=keys["owner"].identity.public.hex(),
    )  # fmt: skip
    approvals = tuple(approve(study, keys[role].identity, 2) for role in study.parties)
    return SignedStudy(study, approvals), keys
