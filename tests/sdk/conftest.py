"""Small real releases: studies signed by all parties, rows masked with a Haar matrix, manifests signed by the collector."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.rows import collusion
from trimask_core.rows.noise_columns import (
    CHECK_DIRECTIONS,
    default_noise_columns,
    least_tau,
    noise_columns_mu,
)
from trimask_core.rows.study import PUBLISHING_STEPS, RowsSettings, grid_exponent
from trimask_core.study.definition import Study
from trimask_core.study.derived import Derived
from trimask_core.study.guarantee import Guarantee, Neighbours, Protection
from trimask_core.study.party import Party
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy, approve
from trimask_core.submit.release_files import BOUND, COUNTED_FILE, Counted, CountedBlock, plan_hash

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80, unit="years"),
        Attribute("bmi", "continuous", 15, 45),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
        Attribute("sbp", "continuous", 80, 200, unit="mmHg"),
    ),
    derived=(Derived("log_bmi", "log", ("bmi",)),),
)
PROMISE = Guarantee(Neighbours("record", 1.0), "numerical", "a test's claim", "none", epsilon=1.0, delta=1e-6)


@dataclass(frozen=True)
class Signed:
    """A signed study, with the keys of the collector and the right providers."""

    signed: SignedStudy
    collector: SigningKey
    right: tuple[SigningKey, ...]

    @property
    def study(self) -> Study:
        """The study."""
        return self.signed.study


def _signed_study(schema: Schema = SCHEMA, sigma: float = 0.25, release_rows: int = 64) -> Signed:
    keys = {role: SigningKey.generate() for role in ("R1", "R2", "R3", "L1", "L2", "collector")}

    def party(role: str) -> Party:
        sealing = SealingKey.generate().public if role.startswith("R") else b""
        return Party(
            role, f"org {role}", "localhost:1", "localhost:2", f"{role}.test", keys[role].public, sealing
        )

    block_rows, failure, leakage = 32, 1e-9, 2.0**-20
    p2 = default_noise_columns(block_rows, failure)
    p1, norm = len(schema.columns), schema.row_norm
    exponent = grid_exponent(2 * norm / leakage, 3)
    sigma = math.ldexp(math.ceil(math.ldexp(sigma, -exponent)), exponent)
    promise = PROMISE if sigma else None
    sizes = 2 * block_rows - 1, p1, p2, norm, sigma
    tau = least_tau(*sizes, failure, CHECK_DIRECTIONS)
    study = Study(
        title="Blood pressure", purpose="a test", contact="nobody", created_ms=1, schema=schema,
        protection=Protection(norm, sigma, "sharp", promise, promise), release_rows=release_rows,
        suite=RowsSettings(
            block_rows=block_rows, noise_columns=p2,
            tau=tau, obfuscation_failure=failure,
            noise_columns_mu=noise_columns_mu(*sizes, tau, failure, CHECK_DIRECTIONS),
            publishing_steps=PUBLISHING_STEPS if sigma else 0,
            share_leakage=leakage, grid_exponent=exponent,
            unmasking=collusion.default_unmasking(3, 2), mask_seed=bytes(32),
        ),
        collector=party("collector"),
        right=tuple(party(f"R{k}") for k in (1, 2, 3)), left=tuple(party(f"L{j}") for j in (1, 2)),
        tls_roots="", owner_key=SigningKey.generate().public.hex(),
    )  # fmt: skip
    approved = SignedStudy(study, tuple(approve(study, key, 2) for key in keys.values()))
    return Signed(approved, keys["collector"], tuple(keys[f"R{k}"] for k in (1, 2, 3)))


def _people(rows: int, seed: int) -> pd.DataFrame:
    """Answers with a known model behind the blood pressure: see `TRUE_SBP` in the fit tests."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 81, rows)
    bmi = np.clip(rng.normal(27, 5, rows), 15, 45)
    smoker = rng.random(rows) < 0.3
    region = rng.choice(["north", "south", "west"], rows, p=[0.4, 0.35, 0.25])
    sbp = 90 + 0.5 * age + 0.4 * bmi + 6 * smoker - 3 * (region == "south") + 4 * (region == "west")
    sbp = np.clip(sbp + rng.normal(0, 8, rows), 80, 200)
    return pd.DataFrame({"age": age, "bmi": bmi, "smoker": smoker, "region": region, "sbp": sbp})


def _masked(
    X: NDArray[np.float64], sigma: float, rng: np.random.Generator, compact: bool
) -> NDArray[np.float64]:
    """Y = A (X + C) by its triangular factor: a Haar frame times R, or R alone when compact."""
    noisy = X + sigma * rng.standard_normal(X.shape)
    factor = np.linalg.qr(noisy, mode="r")
    if compact:
        return factor
    frame, r = np.linalg.qr(rng.standard_normal(X.shape))
    return frame * np.sign(np.diag(r)) @ factor


def _counted(signed: Signed, rows: int, seed: int) -> Counted:
    """So many made-up submissions, in two blocks that every right provider has bound."""
    ids = [hashlib.sha256(f"{seed} {i}".encode()).digest()[:16] for i in range(rows)]
    half = (rows + 1) // 2
    blocks = ids[:half], ids[half:]
    made = [CountedBlock.of(bytes([k]) * 16, part) for k, part in enumerate(blocks) if part]
    plans = [plan_hash(signed.study.id, block.block_id, block.ids) for block in made]
    words = [b"".join(key.sign(BOUND, plan) for key in signed.right) for plan in plans]
    return Counted(tuple(replace(block, signatures=word) for block, word in zip(made, words, strict=True)))


def _write_release(
    folder: Path, signed: Signed, answers: pd.DataFrame, *, seed: int = 7, compact: bool = False, release: int = 1,
    previous: str | None = None, change: Callable[[dict[str, Any]], None] | None = None, key: SigningKey | None = None,
    change_counted: Callable[[Counted], Counted] = lambda counted: counted,
) -> Path:  # fmt: skip
    """A dataset folder. `change` edits the manifest before it is signed, `change_counted` the list of submissions; `key`
    signs in place of the collector."""
    study = signed.study
    X = np.array([study.schema.encode(row) for row in answers.to_dict("records")])
    Y = _masked(X, study.protection.sigma, np.random.default_rng(seed), compact)
    folder.mkdir(parents=True)
    names = [column.name for column in study.schema.columns]
    path = folder / "dataset.parquet"
    pq.write_table(pa.table({name: Y[:, j] for j, name in enumerate(names)}), path, row_group_size=100)
    content = path.read_bytes()
    listed = change_counted(_counted(signed, len(X), seed)).to_bytes()
    (folder / COUNTED_FILE).write_bytes(listed)
    promise = study.protection.public.to_dict() if study.protection.public else None
    data: dict[str, Any] = {
        "format": "trimask-manifest/1",
        "dataset_id": f"{study.id.hex()[:12]}-{release}",
        "study_id": study.id.hex(),
        "title": study.title,
        "release": release,
        "published_ms": 1_700_000_000_000,
        "rows": len(X),
        "stored_rows": len(Y),
        "columns": [
            {
                "name": c.name,
                "center": c.center,
                "half_range": c.half_range,
                "source": c.source,
                "level": c.level,
            }
            for c in study.schema.columns
        ],
        "sigma": study.protection.sigma,
        "guarantee": {"public": promise, "collector": promise},
        "collusion": collusion.report(study.rows.topology).to_dict(),
        "counts": {
            "blocks": 2,
            "rows": len(X),
            "failed_attempts": 0,
            "refusals": {"R1": {"bad_component": 1}},
            "sent_together": {"R1": 20, "R2": 21},
        },
        "files": [
            {"name": name, "bytes": len(held), "sha256": hashlib.sha256(held).hexdigest()}
            for name, held in (("dataset.parquet", content), (COUNTED_FILE, listed))
        ],
        "signed_study": json.loads(signed.signed.to_json()),
        "previous": previous,
    }
    if change is not None:
        change(data)
    raw = json.dumps(data, indent=1).encode()
    (folder / "manifest.json").write_bytes(raw)
    (folder / "manifest.sig").write_bytes((key or signed.collector).sign("manifest", raw))
    return folder


@pytest.fixture(scope="session")
def signed_study() -> Callable[..., Signed]:
    """Makes a signed study: `signed_study(schema=..., sigma=..., release_rows=...)`."""
    return _signed_study


@pytest.fixture(scope="session")
def schema() -> Schema:
    """The schema of the tests' study."""
    return SCHEMA


@pytest.fixture(scope="session")
def people() -> Callable[..., pd.DataFrame]:
    """Makes answers: `people(rows, seed)`."""
    return _people


@pytest.fixture(scope="session")
def write_release() -> Callable[..., Path]:
    """Writes a dataset folder: `write_release(folder, signed, answers, ...)`."""
    return _write_release


@pytest.fixture(scope="session")
def noisy(signed_study: Callable[..., Signed]) -> Signed:
    """A study with a little noise."""
    return signed_study()


@pytest.fixture(scope="session")
def exact(signed_study: Callable[..., Signed]) -> Signed:
    """The same in exact mode."""
    return signed_study(sigma=0.0)


@pytest.fixture(scope="session")
def noisy_folder(tmp_path_factory: pytest.TempPathFactory, noisy: Signed) -> Path:
    """A release of 400 rows with noise; tests must not write into it."""
    return _write_release(tmp_path_factory.mktemp("release") / "noisy", noisy, _people(400, 1))


@pytest.fixture(scope="session")
def exact_folder(tmp_path_factory: pytest.TempPathFactory, exact: Signed) -> Path:
    """A release of the same 400 rows without noise; tests must not write into it."""
    return _write_release(tmp_path_factory.mktemp("release") / "exact", exact, _people(400, 1))


@pytest.fixture
def unapproved(noisy: Signed) -> Signed:
    """The noisy study with one approval taken away."""
    return replace(noisy, signed=replace(noisy.signed, approvals=noisy.signed.approvals[1:]))


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    """What a test drew is closed: pyplot keeps figures, and warns of many."""
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
