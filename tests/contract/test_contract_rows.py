"""A right provider's rows over both stores: once, in one block, encrypted, and gone when erased."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from trimask_core.basics.errors import ConfigError, Refused, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.submit.invitation import Admission
from trimask_core.submit.release_files import plan_hash, split_ids
from trimask_postgres import LocalPostgres
from trimask_server.right import rows as right_rows
from trimask_server.right.row_intake import WithdrawalStore
from trimask_server.right.rows import RowStore
from trimask_server.store.data_keys import KeyRing, Vault
from trimask_server.store.database import PROVIDER

STUDY, BLOCK = b"s" * 32, b"b" * 16
IDS = [bytes([i]) * 16 for i in range(20)]
MARKER = b"SEALED-PAYLOAD-MARKER"


def payload(submission_id: bytes) -> bytes:
    """Larger than PostgreSQL keeps in line, and not to be compressed away."""
    return MARKER + submission_id + DeterministicRandom(submission_id.hex()).read(6000)


async def open_rows(store: Any, ring: KeyRing | None = None, ids: list[bytes] = IDS) -> RowStore:
    await store.write(
        lambda tx: tx.run(
            "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '{}', 'open', 0)"
            " ON CONFLICT DO NOTHING",
            (STUDY,),
        )
    )
    rows = RowStore(store, Vault(ring or KeyRing.generate()))
    await asyncio.gather(*(rows.insert(STUDY, name, payload(name), 7) for name in ids))
    return rows


def admitted(name: bytes, invitation: bytes, expires_ms: int = 100) -> Admission:
    """As it is when both of its signatures are verified."""
    return Admission(STUDY, name, invitation * 32, expires_ms, b"", (), b"")


def test_many_at_once_are_answered_each_for_itself(make_store: Any) -> None:
    """`insert_all`: one transaction, in which a refused submission binds no invitation and costs no other its place."""

    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store, ids=IDS[:1])
        sent = [
            (IDS[0], b"a", admitted(IDS[0], b"0")),  # here since 7, of other bytes
            (IDS[1], b"b", admitted(IDS[1], b"1")),
            (IDS[2], b"c", admitted(IDS[2], b"1")),  # with the invitation of the last
            (IDS[1], b"b", admitted(IDS[1], b"2")),  # a repeat in the same message binds nothing more
            (IDS[1], b"x", admitted(IDS[1], b"3")),
            (IDS[3], b"d", admitted(IDS[3], b"4", expires_ms=5)),
            (IDS[4], b"e", admitted(IDS[4], b"5")),
        ]
        batch = [(name, data, hashlib.sha256(data).digest(), admission) for name, data, admission in sent]
        for now_ms in (20, 21):
            answers = await rows.insert_all(STUDY, now_ms, batch)
            assert [str(getattr(one, "reason", one)) for one in answers] == [
                "conflicting_submission", "20", "invitation_used", "20",
                "conflicting_submission", "invitation_expired", "20",
            ]  # fmt: skip
        bound = await store.read(lambda tx: tx.rows("SELECT invitation_id FROM invitations ORDER BY 1"))
        assert [bytes(one)[:1] for (one,) in bound] == [b"1", b"5"]
        await store.write(lambda tx: tx.run("UPDATE studies SET state = 'closing'"))
        late = [*batch[:2], (IDS[5], b"f", hashlib.sha256(b"f").digest(), admitted(IDS[5], b"6"))]
        answers = await rows.insert_all(STUDY, 22, late)
        assert [str(getattr(one, "reason", one)) for one in answers] == [
            "conflicting_submission", "20", "study_closed",
        ]  # fmt: skip
        assert await store.read(lambda tx: tx.row("SELECT count(*) FROM invitations")) == (2,)

    asyncio.run(course())


def refused(reason: str) -> Any:
    return pytest.raises(Refused, match=reason)


def test_rows_are_taken_in_once(make_store: Any) -> None:
    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store)
        again = await asyncio.gather(*(rows.insert(STUDY, name, payload(name), 9) for name in IDS))
        assert again == [7] * 20, "a repeat is told when the first came"
        with refused("other bytes"):
            await rows.insert(STUDY, IDS[0], b"other", 8)
        with refused("other bytes"):
            await rows.refuse_conflict(STUDY, IDS[0], b"other")
        assert [name for _, name, *_ in await rows.pending(STUDY, 0, 100)] == IDS
        first = await rows.pending(STUDY, 0, 7)
        assert [name for _, name, *_ in await rows.pending(STUDY, first[-1][0], 7)] == IDS[7:14]
        await store.write(lambda tx: tx.run("UPDATE studies SET state = 'closing'"))
        assert await rows.insert(STUDY, IDS[0], payload(IDS[0]), 9) == 7
        with refused("no more"):
            await rows.insert(STUDY, b"n" * 16, b"new", 9)
        with refused("no more"):  # also for a process that has not seen the study before
            await RowStore(store, Vault(KeyRing.generate())).insert(b"t" * 32, b"n" * 16, b"new", 9)

    asyncio.run(course())


def test_each_row_of_a_group_is_answered_for_itself(make_store: Any) -> None:
    """What comes at once is written by a few statements; a copy, a conflict and a closed study are still told apart."""
    closed, ids = b"c" * 32, [bytes([250, i]) * 8 for i in range(150)]

    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store)
        await store.write(
            lambda tx: tx.run(
                "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '{}', 'open', 0)",
                (closed,),
            )
        )
        await rows.insert(closed, IDS[0], b"while it was open", 7)
        await store.write(
            lambda tx: tx.run("UPDATE studies SET state = 'closing' WHERE study_id = ?", (closed,))
        )
        calls = {
            "new": [rows.insert(STUDY, name, payload(name), 20) for name in ids],
            "copies": [rows.insert(STUDY, name, payload(name), 21) for name in ids[-20:]],
            "repeats": [rows.insert(STUDY, name, payload(name), 22) for name in IDS],
            "conflicts": [rows.insert(STUDY, name, b"other", 23) for name in (ids[3], IDS[3])],
            "late": [rows.insert(closed, name, payload(name), 24) for name in ids[:3]],
            "in time": [rows.insert(closed, IDS[0], b"while it was open", 25)],
        }
        flat = await asyncio.gather(
            *(call for some in calls.values() for call in some), return_exceptions=True
        )
        answers = iter(flat)
        found = {kind: [next(answers) for _ in some] for kind, some in calls.items()}
        assert found["new"] == [20] * 150
        assert found["copies"] == [20] * 20  # of the last ones, so that both are in one group
        assert found["repeats"] == [7] * 20
        assert [getattr(item, "reason", item) for item in found["conflicts"]] == [
            "conflicting_submission"
        ] * 2
        assert [getattr(item, "reason", item) for item in found["late"]] == ["study_closed"] * 3
        assert found["in time"] == [7]
        assert [name for _, name, *_ in await rows.pending(STUDY, 0, 500)] == IDS + ids
        await rows.assign(STUDY, BLOCK, ids)
        with refused("another plan"):
            await rows.start(STUDY, BLOCK, plan_hash(STUDY, BLOCK, b"".join(ids[1:])))
        plan = plan_hash(STUDY, BLOCK, b"".join(ids))
        assert dict(await rows.start(STUDY, BLOCK, plan)) == {name: payload(name) for name in ids}

    asyncio.run(course())


def test_rows_are_bound_to_one_block_all_or_none(make_store: Any) -> None:
    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store)
        await rows.assign(STUDY, BLOCK, IDS[:10])
        await rows.assign(STUDY, BLOCK, IDS[:10])
        for block, ids, words in (
            (BLOCK, IDS[:9], "other rows"),
            (b"c" * 16, IDS[9:12], "another block"),
            (b"c" * 16, [IDS[12], b"n" * 16], "does not hold"),
        ):
            with refused(words):
                await rows.assign(STUDY, block, ids)
        assert [name for _, name, *_ in await rows.pending(STUDY, 0, 100)] == IDS[10:]
        # Another process of the same node reads them too.
        other = RowStore(make_store(PROVIDER), rows.vault)
        for reader in (rows, other):
            assert await reader.start(STUDY, BLOCK) == [(name, payload(name)) for name in IDS[:10]]
        with refused("no plan"):
            await rows.start(STUDY, b"c" * 16)
        with refused("no plan"):
            await rows.erase_block(STUDY, b"c" * 16)

    asyncio.run(course())


def test_front_ends_that_share_a_store_take_rows_in_side_by_side(make_store: Any) -> None:
    async def course() -> None:
        ring = KeyRing.generate()
        fronts = [await open_rows(make_store(PROVIDER), ring, []) for _ in range(2)]
        times = await asyncio.gather(
            *(fronts[i % 2].insert(STUDY, IDS[i // 2], payload(IDS[i // 2]), i) for i in range(40))
        )
        assert [times[i] == times[i + 1] for i in range(0, 40, 2)] == [True] * 20
        await fronts[0].assign(STUDY, BLOCK, IDS)
        assert await fronts[1].start(STUDY, BLOCK) == [(name, payload(name)) for name in IDS]

    asyncio.run(course())


def _everything(maker: Any, server: Callable[[], LocalPostgres]) -> Callable[[], bytes]:
    """Every byte of the database's files, as they are on disk."""
    if maker.kind == "sqlite":
        return lambda: b"".join(path.read_bytes() for path in Path(maker.place).iterdir() if path.is_file())

    def read() -> bytes:
        with psycopg.connect(maker.place, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            paths = connection.execute(
                "SELECT pg_relation_filepath(c.oid) FROM pg_class c WHERE pg_relation_filepath(c.oid) IS NOT NULL"
            ).fetchall()
        return b"".join((server().data / path).read_bytes() for (path,) in paths)

    return read


def test_what_was_erased_is_in_no_file(make_store: Any, request: pytest.FixtureRequest) -> None:
    files = _everything(make_store, lambda: request.getfixturevalue("postgres_server"))

    async def course() -> None:
        store = make_store(PROVIDER)
        # The search finds a payload that is stored as it came, in every store.
        await store.write(
            lambda tx: tx.run(
                "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms)"
                " VALUES (?, ?, ?, ?, 1)",
                (STUDY, b"o" * 16, payload(b"o" * 16), hashlib.sha256(payload(b"o" * 16)).digest()),
            )
        )
        assert payload(b"o" * 16)[:60] in files()
        rows = await open_rows(store)
        wrapped = dict(await store.read(lambda tx: tx.rows("SELECT scope, wrapped FROM data_keys")))
        assert not any(payload(name)[:60] in files() for name in IDS), "they are stored encrypted"
        await rows.assign(STUDY, BLOCK, IDS[:10])
        wrapped |= dict(await store.read(lambda tx: tx.rows("SELECT scope, wrapped FROM data_keys")))
        assert len(wrapped) == 2
        assert all(key in files() for key in wrapped.values()), "the search finds a wrapped key"
        assert await rows.erase_block(STUDY, BLOCK) == 10
        assert await rows.erase_block(STUDY, BLOCK) == 10
        with refused("erased"):
            await rows.start(STUDY, BLOCK)
        assert wrapped.pop(f"block:{BLOCK.hex()}") not in files()
        assert wrapped["intake"] in files()
        assert len(await rows.pending(STUDY, 0, 100)) == 11
        assert await rows.erase_pending(STUDY) == 11
        assert wrapped["intake"] not in files()
        assert (
            await store.read(lambda tx: tx.rows("SELECT 1 FROM submissions WHERE payload IS NOT NULL")) == []
        )
        assert await store.read(lambda tx: tx.rows("SELECT 1 FROM data_keys")) == []
        if make_store.kind == "sqlite":
            assert MARKER not in files()
        # The ids remain, so that none of them can come a second time with other bytes.
        with refused("other bytes"):
            await rows.insert(STUDY, IDS[0], b"other", 2)

    asyncio.run(course())


def test_a_block_that_is_erased_is_not_written_again(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch of moments is told twice: a write a row for nothing. One with a row that came since is."""
    used_up: list[int] = []
    use_up = right_rows._use_up

    def noted(tx: Any, study_id: bytes, block_id: bytes, ids: Any) -> None:
        used_up.append(len(ids))
        use_up(tx, study_id, block_id, ids)

    monkeypatch.setattr(right_rows, "_use_up", noted)

    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store)
        await rows.assign(STUDY, BLOCK, IDS[:10])
        assert [await rows.erase_block(STUDY, BLOCK) for _ in range(3)] == [10, 10, 10]
        assert used_up == []
        await store.write(
            lambda tx: tx.run("UPDATE submissions SET payload = ? WHERE submission_id = ?", (b"back", IDS[0]))
        )
        assert await rows.erase_block(STUDY, BLOCK) == 10
        assert used_up == [10]
        assert (
            await store.read(
                lambda tx: tx.rows(
                    "SELECT 1 FROM submissions WHERE block_id = ? AND payload IS NOT NULL", (BLOCK,)
                )
            )
            == []
        )

    asyncio.run(course())


def test_repro_erasing_an_unknown_block_takes_no_row_out_of_another(make_store: Any) -> None:
    """It moved the row to the block that it erased; the other block's plan, and its hash, stayed as they were."""

    async def course() -> None:
        rows = await open_rows(make_store(PROVIDER))
        plan = plan_hash(STUDY, BLOCK, b"".join(IDS[:10]))
        await rows.assign(STUDY, BLOCK, IDS[:10])
        with refused("another block"):
            await rows.erase_block(STUDY, b"c" * 16, [IDS[3], IDS[15]])
        assert len(await rows.start(STUDY, BLOCK, plan)) == 10
        assert len(await rows.pending(STUDY, 0, 100)) == 10, "nothing of a refused erasure is done"
        # Rows of an erased block are nowhere any more: a block that a restored collector planned of them goes, too.
        await rows.erase_block(STUDY, BLOCK)
        await rows.erase_block(STUDY, b"c" * 16, [IDS[3], IDS[15]])
        assert await rows.ids_of(STUDY, BLOCK) == IDS[:10]
        assert len(await rows.pending(STUDY, 0, 100)) == 9

    asyncio.run(course())


def test_repro_masking_begins_with_the_rows_of_the_plan_alone(make_store: Any) -> None:
    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store)
        await rows.assign(STUDY, BLOCK, IDS[:10])
        take = "UPDATE submissions SET block_id = ? WHERE submission_id = ?"
        await store.write(lambda tx: tx.run(take, (b"c" * 16, IDS[3])))
        for plan in (None, plan_hash(STUDY, BLOCK, b"".join(IDS[:10]))):
            with refused("does not hold"):
                await rows.start(STUDY, BLOCK, plan)
        assert await store.read(lambda tx: tx.rows("SELECT state FROM blocks")) == [("bound",)]

    asyncio.run(course())


def test_a_stored_row_cannot_be_moved_or_altered(make_store: Any) -> None:
    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store)
        await rows.assign(STUDY, BLOCK, IDS[:2])
        swap = (
            "UPDATE submissions SET payload = (SELECT payload FROM submissions WHERE submission_id = ?)"
            " WHERE submission_id = ?"
        )
        await store.write(lambda tx: tx.run(swap, (IDS[1], IDS[0])))
        with pytest.raises(VerificationError, match="altered, or moved"):
            await rows.start(STUDY, BLOCK)
        await store.write(lambda tx: tx.run("UPDATE data_keys SET scope = 'moved' WHERE scope = 'intake'"))
        await store.write(
            lambda tx: tx.run(
                "UPDATE data_keys SET scope = 'intake' WHERE scope = ?", (f"block:{BLOCK.hex()}",)
            )
        )
        with pytest.raises(VerificationError, match="data key was altered"):
            await rows.assign(STUDY, b"c" * 16, IDS[2:4])

    asyncio.run(course())


def test_a_rotated_ring_reads_and_writes(make_store: Any, tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()

    async def course() -> None:
        store = make_store(PROVIDER)
        ring = KeyRing.open(folder)
        rows = await open_rows(store, ring)
        await rows.assign(STUDY, BLOCK, IDS[:5])
        # Another program rotates the file and the store while this one runs.
        other = KeyRing.open(folder)
        fresh = other.add()
        assert await store.write(Vault(other).rewrap) == 2
        assert await store.write(Vault(other).rewrap) == 0
        assert other.destroy_retired() == 1
        assert await rows.start(STUDY, BLOCK) == [(name, payload(name)) for name in IDS[:5]]
        await rows.assign(STUDY, b"c" * 16, IDS[5:])
        masters = await store.read(lambda tx: tx.rows("SELECT DISTINCT master_id FROM data_keys"))
        assert masters == [(fresh.key_id,)]
        stranger = RowStore(store, Vault(KeyRing.generate()))
        with pytest.raises(ConfigError, match=fresh.key_id):
            await stranger.start(STUDY, BLOCK)

    asyncio.run(course())


def test_ids_of_odd_length_are_refused() -> None:
    with pytest.raises(Refused, match="16 bytes"):
        split_ids(bytes(17))


def test_news_are_what_came_or_went_since_the_last(make_store: Any) -> None:
    async def course() -> None:
        store = make_store(PROVIDER)
        rows = await open_rows(store, ids=IDS[:2])
        newest, studies = await rows.news(0)
        assert studies == [STUDY]
        assert await rows.news(newest) == (newest, [])
        await rows.insert(STUDY, IDS[2], b"c", 7)
        later, studies = await rows.news(newest)
        assert later > newest
        assert studies == [STUDY]
        assert await rows.news(later + 1000) == (later, [STUDY]), (
            "a store that was set back: everything may be new"
        )
        await WithdrawalStore(store).withdraw(STUDY, IDS[2], 9)
        last, studies = await rows.news(later)
        assert studies == [STUDY], "who lists what came learns that it went"
        await rows.insert(STUDY, IDS[3], b"d", 7)
        await rows.assign(STUDY, BLOCK, [IDS[3]])
        assert (await rows.news(last))[1] == [], "what is in a block waits no more"

    asyncio.run(course())
