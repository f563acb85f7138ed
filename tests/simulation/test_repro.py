"""What the simulation and the fuzzers found, each in its smallest form."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.encoding import canonical_json
from trimask_core.basics.errors import ConfigError, Refused, StudyError, VerificationError
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import Receipt
from trimask_server.right.rows import RowStore
from trimask_server.runtime.metrics import Refusals
from trimask_server.settings.config import load_config
from trimask_server.store.data_keys import KeyRing, Vault, destroy_keys
from trimask_server.store.database import PROVIDER
from trimask_server.store.interface import Transaction
from trimask_server.store.sqlite import SqliteStore
from trimask_server.store.studies import StudyRegistry
from trimask_server.suites.moments.batch_store import BatchStore, KeptLedger, LedgerHead
from trimask_server.suites.moments.deliveries import _admit
from trimask_simulation.moments_people import make_moments_study
from trimask_simulation.people import make_study
from trimask_theory.gaussian import local_noise
from trimask_theory.moments.moments_question import MomentsQuestion


def test_repro_closed_study_stays_closed(tmp_path: Path) -> None:
    """A copy of the call that stops intake, arrived after EraseStudy, set a closed study back to closing."""

    async def run() -> None:
        database = SqliteStore(tmp_path / "right.sqlite3", PROVIDER)
        studies = StudyRegistry(database)
        signed = make_study()[0]
        await studies.register(signed, 1)
        await studies.set_state(signed.study.id, "closed")
        await studies.set_state(signed.study.id, "closing")
        assert studies.state(signed.study.id) == "closed"
        await studies.load()
        assert studies.state(signed.study.id) == "closed"
        database.close()

    asyncio.run(run())


def test_repro_counts_survive_a_full_disk(tmp_path: Path) -> None:
    """Counts that could not be written were forgotten."""

    class Full:
        async def write(self, function: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    async def run() -> None:
        database = SqliteStore(tmp_path / "right.sqlite3", PROVIDER)
        counts = Refusals({})
        counts.count("malformed")
        with pytest.raises(sqlite3.OperationalError):
            await counts.save(Full())  # type: ignore[arg-type]
        counts.count("malformed")
        await counts.save(database)
        assert (await Refusals.load(database)).as_dict() == {"malformed": 2}
        database.close()

    asyncio.run(run())


def test_repro_nothing_stays_between_cells(tmp_path: Path) -> None:
    """SQLite's secure_delete overwrites freed cells, but not the copies a page keeps when its rows move to another."""
    destroyed: set[bytes] = set()

    def live(tx: Transaction, label: int) -> None:
        """Keys come and go in any order, as those of blocks of many studies do."""
        order, scopes = random.Random(label), []
        for number in range(400):
            key = hashlib.sha512(f"{label} {number}".encode()).digest()
            scopes.append((key, f"block:{key[:16].hex()}"))
            tx.run(
                "INSERT INTO data_keys VALUES (?, ?, '0123456789abcdef', ?)",
                (b"s" * 32, scopes[-1][1], key[:60]),
            )
            if len(scopes) > 40:
                gone, scope = scopes.pop(order.randrange(len(scopes)))
                destroyed.add(gone[:60])
                destroy_keys(tx, b"s" * 32, [scope])

    async def run() -> None:
        for label in range(4):
            path = tmp_path / str(label) / "right.sqlite3"
            database = SqliteStore(path, PROVIDER)
            await database.write(lambda tx, label=label: live(tx, label))  # type: ignore[misc]
            await database.scrub()
            left = path.read_bytes() + path.with_name("right.sqlite3-wal").read_bytes()
            assert [key.hex() for key in destroyed if key in left] == []
            database.close()

    asyncio.run(run())
    assert len(destroyed) == 4 * 360


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 100_000])
def test_repro_deep_json_is_not_a_study(deep: bytes) -> None:
    """Deep nesting ran out of stack: an internal error with a traceback in the node's log."""
    with pytest.raises(StudyError, match="not a signed study"):
        SignedStudy.from_json(deep)
    with pytest.raises(VerificationError, match="not a receipt"):
        Receipt.from_json(deep.decode())


def test_repro_half_a_surrogate_pair_is_not_a_title() -> None:
    """Text that has no UTF-8 form has no id; that came out when the id was first asked for."""
    data = json.loads(make_study()[0].to_json())
    data["study"]["title"] = "\ud800"
    with pytest.raises(StudyError, match="not Unicode"):
        SignedStudy.from_json(json.dumps(data))


@pytest.mark.parametrize("odd", ["9e999", "NaN", "-Infinity"])
def test_repro_infinity_is_not_a_number_of_a_study(odd: str) -> None:
    """It ended in errors nobody had promised, in one place after the other."""
    text = make_study()[0].to_json()
    for name in ("created_ms", "tau", "approved_ms"):
        changed = re.sub(rf'"{name}": [^,\n]+', f'"{name}": {odd}', text, count=1)
        assert changed != text
        with pytest.raises(StudyError, match="is not a finite number"):
            SignedStudy.from_json(changed)


@pytest.mark.parametrize("odd", ["7", "0.5", "null"])
def test_repro_a_tls_name_that_is_not_text_is_not_a_party(odd: str) -> None:
    """A number passed for a name."""
    text = make_study()[0].to_json()
    name = json.loads(text)["study"]["left"][1]["tls_name"]
    changed = text.replace(json.dumps(name), odd, 1)
    assert changed != text
    with pytest.raises(StudyError, match="tls_name must be text"):
        SignedStudy.from_json(changed)


def test_repro_config_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match=r"node\.toml is not TOML"):
        load_config(tmp_path / "node.toml", "right")


def _entry(number: int, *batches: bytes) -> dict[str, Any]:
    asked = hashlib.sha256(bytes([number]) + b"".join(batches)).hexdigest()
    return {
        "asked": asked, "release": number, "batches": [batch.hex() for batch in batches], "price": None,
        "accepted": asked, "values": asked, "seen": asked,
    }  # fmt: skip


def test_repro_a_second_release_is_delivered(tmp_path: Path) -> None:
    """A provider that had delivered one release refused every other one of the study, which never closed."""
    study = make_moments_study(2)[0].study
    first, second = _entry(1, b"a" * 16), _entry(2, b"b" * 16)
    with KeptLedger(tmp_path, study.id).locked() as ledger:
        ledger.append(first)
        assert _admit(study, ledger, first, ledger.head) == 0
        assert _admit(study, ledger, second, ledger.head) == 1
        for overlapping in (_entry(3, b"a" * 16), _entry(1, b"b" * 16)):
            with pytest.raises(Refused, match="delivered before"):
                _admit(study, ledger, overlapping, ledger.head)


def test_repro_a_delivery_half_written_is_not_a_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that took half of an entry: it was sent all the same, and forgotten when the file was next read."""
    kept = KeptLedger(tmp_path, b"s" * 32)
    with kept.locked() as ledger:
        ledger.append({"asked": "1"})
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[: len(data) // 2]))
    with kept.locked() as ledger, pytest.raises(OSError, match="No space left"):
        ledger.append({"asked": "2"})
    monkeypatch.undo()
    with kept.locked() as ledger:
        ledger.append({"asked": "3"})
    with kept.locked() as ledger:
        assert [entry["asked"] for entry in ledger.entries] == ["1", "3"]


def test_repro_a_repeat_does_not_take_the_ledgers_head_back(tmp_path: Path) -> None:
    """A repeated delivery that ended after a later one: the store then looked restored, and no release was made."""

    async def run() -> None:
        database = SqliteStore(tmp_path / "right.sqlite3", PROVIDER)
        vault = Vault(KeyRing.generate())
        store = BatchStore(database, vault, RowStore(database, vault))
        await store.release(b"s" * 32, 2, [], LedgerHead(2, b"two"))
        await store.release(b"s" * 32, 1, [], LedgerHead(1, b"one"))
        assert await store.head(b"s" * 32) == LedgerHead(2, b"two")
        database.close()

    asyncio.run(run())


@pytest.mark.parametrize("before", [7, None, [], "xyz"])
def test_repro_a_ledger_with_odd_links_is_refused(tmp_path: Path, before: Any) -> None:
    """A link that is no text came out as a TypeError: an internal error with a traceback."""
    path = tmp_path / "moments" / f"{bytes(32).hex()}.ledger"
    path.parent.mkdir()
    path.write_text(json.dumps({"before": before}) + "\n")
    with pytest.raises(VerificationError, match="cannot be read"), KeptLedger(tmp_path, bytes(32)).locked():
        pass


def _question(**price: float | None) -> bytes:
    whole = {"epsilon": None, "delta": None, "mu": None} | price
    return canonical_json({"kind": "sums", "columns": ["x"], "price": whole})


def test_repro_a_question_paid_in_epsilon_has_its_noise() -> None:
    """log delta was asked for and delta given: every such question ended in a math domain error."""
    study = make_moments_study(2)[0].study
    scale = MomentsQuestion.read(_question(epsilon=0.5, delta=1e-7), study).scale(1)
    assert local_noise.delta(0.5, scale) <= 1e-7 < local_noise.delta(0.5, 0.999 * scale)


@pytest.mark.parametrize("mu", [1e-300, 1e-15, 1e15, 1e300])
def test_repro_a_question_whose_noise_does_not_fit_is_refused(mu: float) -> None:
    """Noise (or a grid) beyond the field's size would have been answered with a sum that is none."""
    study = make_moments_study(2)[0].study
    with pytest.raises(Refused, match=r"does not fit|cannot be read"):
        MomentsQuestion.read(_question(mu=mu), study).require_room(study, 10)
    good = MomentsQuestion.read(_question(mu=0.1), study)
    good.require_room(study, 10)
    assert good.mu == 0.1
