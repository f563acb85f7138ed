"""Rotation of sealing keys: pending, active, expired; what a device with the old key meets at each step."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Client
from trimask_client.queue import Queue
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import ConfigError, Refused, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SEALINGS, Sealing, SealingKey, seal, sealing_key_id
from trimask_core.study.party import load_party, read_secret
from trimask_server.right.sealing_keys import (
    RingKey,
    SealingRing,
    forget_spent,
    load_ring,
    rotate,
    save_ring,
)
from trimask_terminal.exits import Exit
from trimask_terminal.program import main

ANSWERS = {"hours": 7.5, "rested": True}
DAY = 24 * 3600 * 1000
INFO = b"info"


def only(ring: SealingRing, kind: Sealing) -> SealingRing:
    """Its keys of a kind."""
    return SealingRing(item for item in ring.keys if item.key.kind == kind)


BOTH = pytest.mark.parametrize("ring", SEALINGS, indirect=True)


@pytest.fixture
def ring(source: DeterministicRandom, request: pytest.FixtureRequest) -> SealingRing:
    """One key, rotated on day 100 with a day of waiting and thirty of overlap; its keys of one kind."""
    kind = getattr(request, "param", "classical")
    first = SealingRing([RingKey(SealingKey.generate(source, kind))])
    return only(rotate(first, 100 * DAY, DAY, 30 * DAY, source), kind)


@BOTH
def test_the_life_of_two_keys(ring: SealingRing) -> None:
    new, old = ring.keys
    states = {day: (new.state(day * DAY), old.state(day * DAY)) for day in (100, 101, 130, 131)}
    assert states == {
        100: ("pending", "active"),
        101: ("active", "active"),
        130: ("active", "active"),
        131: ("active", "expired"),
    }
    assert [item.key.public for item in ring.active(100 * DAY)] == [old.key.public]
    assert [item.key.public for item in ring.active(101 * DAY)] == [new.key.public, old.key.public]


@BOTH
def test_what_opens_when(ring: SealingRing) -> None:
    new, old = (item.key for item in ring.keys)
    for day in (100, 101, 130):
        assert ring.accepting(day * DAY) == (new, old)
        for key in (new, old):
            ring.refuse_expired_id(sealing_key_id(key.public), day * DAY)
    assert ring.accepting(131 * DAY) == (new,)
    late = seal(old.public, b"row", INFO)
    assert not ring.is_expired_for(late, INFO, 130 * DAY, new.kind)
    assert ring.is_expired_for(late, INFO, 131 * DAY, new.kind)
    assert not ring.is_expired_for(late[:-1] + bytes([late[-1] ^ 1]), INFO, 131 * DAY, new.kind)
    with pytest.raises(Refused, match="retired on 1970-05-12") as caught:
        ring.refuse_expired_id(sealing_key_id(old.public), 131 * DAY)
    assert caught.value.reason == "expired_key"
    assert (
        ring.open_held(late, INFO, new.kind) == b"row"
    )  # a row that came in time is masked with its block all the same
    with pytest.raises(VerificationError, match="opens with no key"):
        ring.open_held(bytes(60), INFO, new.kind)


def test_a_key_nobody_has_any_more(ring: SealingRing) -> None:
    with pytest.raises(Refused) as caught:
        ring.refuse_expired_id(sealing_key_id(SealingKey.generate().public), 0)
    assert caught.value.reason == "expired_key"
    ring.refuse_expired_id(b"", 0)  # a device that does not say is asked to do nothing new


def test_an_expired_key_goes_when_no_row_needs_it(ring: SealingRing) -> None:
    new, old = ring.keys
    publics = lambda found: [item.key.public for item in found.keys]  # noqa: E731
    both = [new.key.public, old.key.public]
    assert publics(forget_spent(ring, 130 * DAY, None)) == both  # not expired yet
    assert publics(forget_spent(ring, 131 * DAY, 130 * DAY)) == both  # a row came while it was taken
    assert publics(forget_spent(ring, 131 * DAY, 131 * DAY)) == both[:1]
    assert publics(forget_spent(ring, 131 * DAY, None)) == both[:1]


@BOTH
def test_the_file(tmp_path: Path, ring: SealingRing) -> None:
    first = ring.keys[1].key
    (tmp_path / "sealing.key").write_text(first.secret_bytes().hex() + "\n")
    assert [item.key.secret_bytes() for item in load_ring(tmp_path).keys] == [first.secret_bytes()]
    (tmp_path / "sealing-hybrid.key").write_text("ab" * 32 + "\n")
    assert [item.key.kind for item in load_ring(tmp_path).keys] == ["classical", "hybrid"]
    save_ring(tmp_path, ring)
    for name in ("sealing.key", "sealing-hybrid.key"):
        assert not (tmp_path / name).exists()  # or the old secret would outlive its key
    assert (tmp_path / "sealing.keys").stat().st_mode & 0o077 == 0
    again = load_ring(tmp_path)
    assert [(item.key.public, item.activate_ms, item.expire_ms) for item in again.keys] == [
        (item.key.public, item.activate_ms, item.expire_ms) for item in ring.keys
    ]
    newer = (tmp_path / "sealing.keys").read_text().replace(f'"{first.kind}"', '"other"')
    for broken in (
        newer,
        "{",
        "{}",
        '{"format": "trimask-sealing-keys/1", "keys": []}',
        '{"format": "x", "keys": []}',
    ):
        (tmp_path / "sealing.keys").write_text(broken)
        with pytest.raises(ConfigError):
            load_ring(tmp_path)


def test_one_new_key_at_a_time(ring: SealingRing) -> None:
    with pytest.raises(ConfigError, match="pending already"):
        rotate(ring, 100 * DAY, DAY, DAY)


async def _reload(node: Any) -> bool:
    found: bool = node.host.reload_keys()
    return found


def _rotate(lab: Any, name: str, *more: str) -> None:
    assert main(["node", "rotate-sealing-key", "--config", str(lab.folder / name / "node.toml"), *more]) == 0
    assert lab.on_loop(_reload(lab.node(name)))


def _expire(lab: Any, name: str) -> None:
    """As if the overlap were over."""
    key_ring = lab.node(name).key_ring
    key_ring.ring = SealingRing(
        dataclasses.replace(item, expire_ms=1) if item.expire_ms else item for item in key_ring.ring.keys
    )


def test_devices_before_during_and_after_a_rotation(own_lab: Any, capsys: Any, tmp_path: Path) -> None:
    signed = own_lab.open_study()
    study = signed.study
    pinned = read_secret(own_lab.folder / "R1" / "sealing.key")
    clock = ManualClock(1)
    key = bytes(32)
    with Client(signed) as offline:  # sealed while nobody could be asked
        early, late = offline.prepare(ANSWERS), offline.prepare(ANSWERS)
        lost = offline.prepare(ANSWERS)
        offline.upload(lost, 1)  # and its answer got lost
        _rotate(own_lab, "R1", "--pending", "0s", "--overlap", "7d")
        assert "Old key" in capsys.readouterr().out
        assert load_party(own_lab.folder / "R1" / "node.json").sealing_as(
            study.sealing
        ).sealing == own_lab.node("R1").key_ring.ring.newest(study.sealing, 1 << 62)
        offline.send(early)  # the study's own key, within the overlap
        with Client(signed) as online:
            online.submit(ANSWERS)
            newest = only(own_lab.node("R1").key_ring.ring, study.sealing).keys[0].key
            assert online.sealing == {1: newest.public, 2: study.right[1].sealing}
            assert newest.secret_bytes() != pinned
        queue = Queue(tmp_path / "queue", key, clock=clock)
        queue.join(signed)
        entry = queue.seal(study.id, ANSWERS)
        _expire(own_lab, "R1")
        with pytest.raises(Refused, match="answer again if the study is open") as caught:
            offline.upload(late, 1)
        assert caught.value.reason == "expired_key"
        unnamed = dataclasses.replace(late, key_ids=())  # a device that does not say which key
        with pytest.raises(Refused, match="retired") as caught:
            offline.upload(unnamed, 1)
        assert caught.value.reason == "expired_key"
        assert offline.upload(lost, 1).receive_time_ms  # it was taken in in time: the same receipt
        assert offline.upload(dataclasses.replace(lost, key_ids=()), 1).receive_time_ms
        # The queue stops, says why, and never draws the noise again.
        (tried,) = queue.send()
        assert tried.state == "refused"
        assert "retired" in tried.words(2)
        assert queue.send(now=True) == ()
        with pytest.raises(Refused, match="answered this study already"):
            queue.seal(study.id, ANSWERS)
        queue.discard(entry.submission_id)
        assert queue.refresh_keys(study.id)
        queue.close()
        again = Queue(tmp_path / "queue", key, clock=clock)  # the new key is remembered
        again.seal(study.id, ANSWERS)
        assert [item.state for item in again.send()] == ["sent"]
        again.close()
    assert own_lab.node("R1").context.refusals.as_dict()["expired_key"] == 3


def test_rows_under_two_keys_are_masked_together(own_lab: Any) -> None:
    signed = own_lab.open_study()
    with Client(signed) as client:
        for hour in range(20):
            client.submit({"hours": hour / 2, "rested": True})
    _rotate(own_lab, "R2", "--pending", "0s")
    with Client(signed) as client:
        for hour in range(12):
            client.submit({"hours": hour / 2, "rested": False})
    from trimask_cli import owner

    owner.close_study(signed.study, own_lab.folder / "owner")
    own_lab.until(lambda: owner.study_status(signed.study).published_rows == 32)


def test_a_key_that_is_not_signed_by_the_identity_is_not_used(own_lab: Any) -> None:
    signed = own_lab.open_study()
    context = own_lab.node("R1").context
    other = dataclasses.replace(context.keys, identity=own_lab.node("R2").context.keys.identity)
    object.__setattr__(context, "keys", other)  # no node does this
    with Client(signed) as client:
        assert set(client.refresh_keys()) == {2}
        assert client.refusals == {"bad_sealing_key": 1}


def test_a_ring_that_lost_a_key_is_refused(own_lab: Any) -> None:
    _rotate(own_lab, "R1")
    path = own_lab.folder / "R1" / "sealing.keys"
    whole = path.read_text()
    data = json.loads(whole)
    data["keys"] = data["keys"][2:]
    path.write_text(json.dumps(data))
    assert not own_lab.on_loop(_reload(own_lab.node("R1")))
    assert own_lab.node("R1").context.refusals.as_dict()["bad_key_file"] == 1
    assert len(own_lab.node("R1").key_ring.ring.keys) == 4


@pytest.mark.parametrize("words", ["30", "d", "-1d", "1w", ""])
def test_spans(words: str, capsys: Any) -> None:
    assert main(["node", "rotate-sealing-key", "--config", "x", f"--overlap={words}"]) == Exit.USAGE
    assert "such as 30d" in capsys.readouterr().err
