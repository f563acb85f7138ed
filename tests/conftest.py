"""Studies for tests: real keys, real approvals, small sizes. `make_study` is the one way to make them."""

from __future__ import annotations

import ctypes
import gc
import math
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import grpc
import pytest
from hypothesis import settings

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import MomentsSecret
from trimask_core.moments.study import MomentsSettings
from trimask_core.rows import collusion
from trimask_core.rows.noise_columns import (
    CHECK_DIRECTIONS,
    default_noise_columns,
    least_tau,
    noise_columns_mu,
)
from trimask_core.rows.study import PUBLISHING_STEPS, RowsSettings, grid_exponent
from trimask_core.study.definition import Study, SuiteName, SuiteSettings
from trimask_core.study.derived import Derived
from trimask_core.study.guarantee import Guarantee, Neighbours, Protection
from trimask_core.study.party import Party, admission_key, load_party, read_secret
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy, approve, needs_commitment
from trimask_golden import Golden
from trimask_postgres import LocalPostgres
from trimask_server.store.interface import Migration, Store
from trimask_server.store.postgres import PostgresStore
from trimask_server.store.sqlite import SqliteStore
from true_claims import DISCRETE, masked_epsilon, moments_epsilon, towards_right_providers

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80, label="Age", unit="years"),
        Attribute("bmi", "continuous", 15, 45),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    derived=(Derived("log_bmi", "log", ("bmi",)), Derived("age_bmi", "product", ("age", "bmi"))),
)
ANSWERS: Mapping[str, object] = {"age": 43, "bmi": 27.25, "smoker": True, "region": "south"}
FAILURE = 1e-9

# A run that a script starts in its background ignores Ctrl-C, and every process of a test would with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A gRPC asyncio server that is freed while a loop runs in another thread, or while Python ends, can crash the process.
_make_server = grpc.aio.server


def _kept_server(*given: Any, **named: Any) -> grpc.aio.Server:
    server = _make_server(*given, **named)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server._server))  # never freed
    return server


grpc.aio.server = _kept_server


@dataclass(frozen=True)
class MadeStudy:
    """A signed study with every party's private keys, by role."""

    signed: SignedStudy
    identities: Mapping[str, SigningKey] = field(repr=False)
    sealing: Mapping[str, SealingKey] = field(repr=False)
    secrets: Mapping[str, MomentsSecret] = field(repr=False, default_factory=dict)

    @property
    def study(self) -> Study:
        """The study."""
        return self.signed.study


class MakeStudy(Protocol):
    """What the `make_study` fixture is."""

    def __call__(
        self,
        *,
        suite: SuiteName = ...,
        schema: Schema = ...,
        right: int = ...,
        left: int | None = ...,
        block_rows: int = ...,
        sigma: float = ...,
        row_norm: float | None = ...,
        label: str = ...,
        keys: Path | None = ...,
        parties: Mapping[str, Party] | None = ...,
        **changes: Any,
    ) -> MadeStudy:
        """A study every party approved; `changes` are fields of `Study` or of its suite that replace what was worked out.

        Keys are drawn by `label`, or read from the folder `keys` that `trimask keys` wrote; `parties` replaces
        public cards by role.
        """
        ...


@dataclass(frozen=True)
class _Keys:
    identities: dict[str, SigningKey]
    sealing: dict[str, SealingKey]
    parties: dict[str, Party]
    tls_roots: str


def _draw_keys(roles: list[str], source: DeterministicRandom) -> _Keys:
    identities = {role: SigningKey.generate(source) for role in roles}
    sealing = {role: SealingKey.generate(source) for role in roles if role.startswith("R")}

    def party(role: str) -> Party:
        public = sealing[role].public if role in sealing else b""
        name = f"{role.lower()}.trimask.local"
        return Party(role, f"Org {role}", "localhost:1", "localhost:2", name, identities[role].public, public)

    return _Keys(identities, sealing, {role: party(role) for role in roles}, "")


def _read_keys(roles: list[str], folder: Path) -> _Keys:
    return _Keys(
        {role: SigningKey(read_secret(folder / role / "identity.key")) for role in roles},
        {
            role: SealingKey(read_secret(folder / role / "sealing.key"))
            for role in roles
            if role.startswith("R")
        },
        {role: load_party(folder / role / "node.json").sealing_as("classical") for role in roles},
        (folder / "authority" / "ca.pem").read_text(),
    )


def _make_study(
    *,
    suite: SuiteName = "rows",
    schema: Schema = SCHEMA,
    right: int = 3,
    left: int | None = None,
    block_rows: int = 16,
    sigma: float = 0.25,
    row_norm: float | None = None,
    label: str = "make_study",
    keys: Path | None = None,
    parties: Mapping[str, Party] | None = None,
    **changes: Any,
) -> MadeStudy:
    source = DeterministicRandom(label)
    left = {"rows": 2, "moments": 0}[suite] if left is None else left
    roles = [*(f"R{k}" for k in range(1, right + 1)), *(f"L{j}" for j in range(1, left + 1)), "collector"]
    held = _draw_keys(roles, source) if keys is None else _read_keys(roles, keys)
    given = {role: card.sealing_as("classical") for role, card in (parties or {}).items()}
    cards = {**held.parties, **given}
    parts = _rows_suite if suite == "rows" else _moments_suite
    settings, norm, sigma, towards_collector = parts(
        schema, right, left, block_rows, sigma, row_norm, source, changes
    )
    promises = [_promise(suite, schema, norm, sigma, rows) for rows in (2 * block_rows, block_rows)]
    values: dict[str, Any] = {
        "title": "Blood pressure",
        "purpose": "a test",
        "contact": "nobody",
        "created_ms": 1_700_000_000_000,
        "schema": schema,
        "protection": Protection(
            norm,
            sigma,
            "sharp",
            promises[0],
            promises[1] if towards_collector else None,
            right_providers=None
            if isinstance(settings, MomentsSettings)
            else towards_right_providers(norm, sigma, 2.0**settings.grid_exponent),
        )
        if sigma
        else Protection(norm, 0.0, "exact"),
        "release_rows": 2 * block_rows,
        "collector": cards["collector"],
        "right": tuple(cards[role] for role in roles[:right]),
        "left": tuple(cards[role] for role in roles[right:-1]),
        "tls_roots": held.tls_roots,
    }
    held.identities["owner"] = admission_key(keys / "owner") if keys else SigningKey.generate(source)
    values["owner_key"] = held.identities["owner"].public.hex()
    if changes.get("admission") == "invited":
        values["admission_signer"] = "owner"
    study = Study(**{**values, "suite": settings, **changes})
    held_secrets = {
        role: MomentsSecret(source.seed()) if keys is None else MomentsSecret.load(keys / role)
        for role in study.parties
        if needs_commitment(study, role)
    }
    approvals = tuple(
        approve(
            study,
            held.identities[role],
            study.created_ms + 1,
            held_secrets[role].commitment(study.id) if role in held_secrets else b"",
        )
        for role in study.parties
    )
    return MadeStudy(SignedStudy(study, approvals), held.identities, held.sealing, held_secrets)


def _promise(suite: SuiteName, schema: Schema, norm: float, sigma: float, rows: int) -> Guarantee:
    """What such noise gives, as a device works it out."""
    if suite == "rows":
        near = Neighbours("record", norm, 2 * norm)
        epsilon = masked_epsilon(sigma, rows, len(schema.columns), norm) if sigma else 1.0
    else:
        near = Neighbours("record", norm)
        epsilon = moments_epsilon(sigma, norm * norm) if sigma else 1.0
    grid = DISCRETE if suite == "rows" else None
    return Guarantee(
        near, "numerical", "a test's claim", "none", epsilon=epsilon, delta=1e-6, discrete_epsilon=grid
    )


_Parts = tuple[SuiteSettings, float, float, bool]
"""The suite's settings, R, sigma, and whether there is a guarantee of its own towards the collector."""


def _rows_suite(
    schema: Schema,
    right: int,
    left: int,
    block_rows: int,
    sigma: float,
    row_norm: float | None,
    source: DeterministicRandom,
    changes: dict[str, Any],
) -> _Parts:
    norm = schema.row_norm if row_norm is None else row_norm
    leakage = 2.0**-20
    exponent = grid_exponent(2 * norm / leakage, right)
    sigma = math.ldexp(math.ceil(math.ldexp(sigma, -exponent)), exponent)
    noise_columns = changes.get("noise_columns", default_noise_columns(block_rows, FAILURE))
    suite: dict[str, Any] = {
        "block_rows": block_rows,
        "noise_columns": noise_columns,
        "obfuscation_failure": FAILURE,
        "share_leakage": leakage,
        "grid_exponent": exponent,
        "unmasking": collusion.default_unmasking(right, left),
        "mask_seed": source.seed(),
    }
    if "tau" not in changes:
        rows, p1 = 2 * block_rows - 1, len(schema.columns)
        suite["tau"] = least_tau(rows, p1, noise_columns, norm, sigma, FAILURE, CHECK_DIRECTIONS)
    suite |= {"publishing_steps": PUBLISHING_STEPS if sigma else 0} | _taken(RowsSettings, changes)
    if "noise_columns_mu" not in suite:
        sizes = 2 * suite["block_rows"] - 1, len(schema.columns), suite["noise_columns"], norm, sigma
        mu = noise_columns_mu(*sizes, suite["tau"], suite["obfuscation_failure"], CHECK_DIRECTIONS)
        suite["noise_columns_mu"] = mu
    return RowsSettings(**suite), norm, sigma, True


def _moments_suite(
    schema: Schema,
    right: int,
    left: int,
    block_rows: int,
    sigma: float,
    row_norm: float | None,
    source: DeterministicRandom,
    changes: dict[str, Any],
) -> _Parts:
    settings = MomentsSettings(**{"ball_norm": row_norm, **_taken(MomentsSettings, changes)})
    norm = math.sqrt(MomentsLayout.of(schema, settings.ball_norm).radius_squared)
    return settings, norm, sigma, False


def _taken(kind: type[Any], changes: dict[str, Any]) -> dict[str, Any]:
    """What of the changes belongs to the suite."""
    return {item.name: changes.pop(item.name) for item in fields(kind) if item.name in changes}


# What is collected stays: looking through all of it for garbage, again and again, is a tenth of a run.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is looked for in what tests make."""
    gc.enable()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Sentences of tests/golden are written by the tests that hold them."""
    parser.addoption("--golden", action="store_true", help="write tests/golden as it is said now")


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> Golden:
    """Holds what refusals say to tests/golden."""
    return Golden(write=bool(pytestconfig.getoption("golden")))


@pytest.fixture(scope="session")
def make_study() -> MakeStudy:
    """Makes studies: `make_study(right=5, sigma=0.0, block_rows=32, tau=1.0, ...)`."""
    return _make_study


@pytest.fixture(scope="session")
def made_study() -> MadeStudy:
    """One study, three right and two left providers, with DP noise."""
    return _make_study()


@pytest.fixture(scope="session")
def moments_study() -> MadeStudy:
    """One study of the moments suite, two right providers, with noise."""
    return _make_study(suite="moments", right=2, sigma=30.0, label="moments_study")


@pytest.fixture(scope="session")
def signed_study(made_study: MadeStudy) -> SignedStudy:
    """That study with all its approvals."""
    return made_study.signed


@pytest.fixture(scope="session")
def study(made_study: MadeStudy) -> Study:
    """That study."""
    return made_study.study


@pytest.fixture(scope="session")
def answers() -> Mapping[str, object]:
    """Answers the study takes."""
    return ANSWERS


@pytest.fixture
def source(request: pytest.FixtureRequest) -> DeterministicRandom:
    """A repeatable source of its own for each test."""
    return DeterministicRandom(str(request.node.name))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalPostgres]:
    """A real PostgreSQL server for this run (one a worker under xdist). It does not wait for the disk."""
    with LocalPostgres(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def _postgres_databases() -> list[str]:
    """Addresses of databases that no test uses at the moment: emptying one is quicker than making one."""
    return []


@pytest.fixture
def postgres_url(postgres_server: LocalPostgres, _postgres_databases: list[str]) -> Iterator[str]:
    """An empty database on that server, the test's own while it runs."""
    free = _postgres_databases
    url = free.pop() if free else postgres_server.create_database(f"test_{secrets.token_hex(8)}")
    yield url
    postgres_server.empty_database(url)
    free.append(url)


STORES = ("sqlite", "postgresql")


class _Maker:
    """Opens the test's store; every call opens the same one."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place
        self._open: list[Store] = []

    def __call__(self, migrations: Sequence[Migration | str], schema: str = "trimask_r1") -> Store:
        store: Store
        if self.kind == "sqlite":
            store = SqliteStore(Path(self.place) / f"{schema}.sqlite3", migrations)
        else:
            store = PostgresStore(self.place, schema, migrations)
        self._open.append(store)
        return store

    def close(self) -> None:
        for store in self._open:
            store.close()
        self._open.clear()


@pytest.fixture(params=STORES)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_Maker]:
    """Opens stores of one kind after the other."""
    place = str(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    maker = _Maker(request.param, place)
    yield maker
    maker.close()
