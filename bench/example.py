"""A study of 20 attributes to measure with, and people to answer it."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np

from trimask_cli.owner import sign as approval
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.study.party import Party
from trimask_core.study.signed import SignedStudy, approve
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

__all__ = ["ATTRIBUTES", "YES_NO", "answers", "definition", "offline_study", "sign"]

ATTRIBUTES = 20
_CONTINUOUS, _INTEGER, YES_NO = 12, 4, 4  # each fills one column, and the ones column is one more


def definition(
    block_rows: int, release_rows: int, noise_columns: int | None = None, suite: str = "rows"
) -> str:
    """The study as TOML; `noise_columns` None leaves their number to the default. Other suites have no blocks."""
    wide = "" if noise_columns is None else f"noise_columns = {noise_columns}\n"
    blocks = f"block_rows = {block_rows}\n" if suite == "rows" else ""
    head = (
        f'title = "Speed {secrets.token_hex(4)}"\npurpose = "Timing."\ncontact = "bench@example.org"\n'
        "[privacy]\nepsilon = 1.0\ndelta = 1e-6\n"
        f'[collection]\nsuite = "{suite}"\n{blocks}release_rows = {release_rows}\n{wide}'
    )
    parts = [head]
    for i in range(ATTRIBUTES):
        kind, bounds = "binary", ""
        if i < _CONTINUOUS + _INTEGER:
            kind = "continuous" if i < _CONTINUOUS else "integer"
            bounds = "minimum = 0\nmaximum = 100\n"
        parts.append(f'[[attributes]]\nname = "a{i}"\nkind = "{kind}"\n{bounds}')
    return "\n".join(parts)


def answers(rng: np.random.Generator) -> dict[str, object]:
    """What one person answers."""
    found: dict[str, object] = {}
    for i in range(ATTRIBUTES):
        if i < _CONTINUOUS:
            found[f"a{i}"] = float(rng.uniform(0, 100))
        else:
            found[f"a{i}"] = int(rng.integers(0, 101 if i < _CONTINUOUS + _INTEGER else 2))
    return found


def offline_study(block_rows: int, noise_columns: int | None = None) -> SignedStudy:
    """An approved study whose parties exist on paper alone: enough for what a device computes."""
    names = ["collector", "R1", "R2", "R3", "R4", "L1", "L2"]
    keys = {name: SigningKey.generate() for name in names}
    parties = {
        name: Party(
            name, name, "127.0.0.1:1", "127.0.0.1:2", f"{name.lower()}.trimask.local", key.public,
            *((SealingKey.generate().public, "", SealingKey.generate(kind="hybrid").public) if name.startswith("R") else ()),
        )
        for name, key in keys.items()
    }  # fmt: skip
    study = create_study(
        load_definition(definition(block_rows, block_rows, noise_columns)),
        parties["collector"],
        [parties[name] for name in names if name.startswith("R")],
        [parties[name] for name in names if name.startswith("L")],
        "",
        SystemClock().now_ms(),
        SystemRandom(),
        bytes(32),
    )
    signed = SignedStudy(study)
    for key in keys.values():
        signed = signed.with_approval(approve(study, key, study.created_ms))
    return signed


def sign(signed: SignedStudy, folder: Path) -> SignedStudy:
    """With the approval of every node that has keys below `folder`."""
    for role in signed.study.parties:
        signed = signed.with_approval(approval(signed.study, folder / role, signed.study.created_ms))
    return signed
