"""The ring of master keys: made once, private, rotated whole."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trimask_core.basics.errors import ConfigError
from trimask_server.store.data_keys import FILE_NAME, KeyRing


def test_it_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        rings = list(threads.map(lambda _: KeyRing.open(tmp_path), range(8)))
    assert len({ring.active.secret for ring in rings}) == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_no_secret_is_shown(tmp_path: Path) -> None:
    ring = KeyRing.open(tmp_path)
    shown = repr(ring) + repr(ring.keys) + repr(ring.active)
    assert ring.active.key_id in shown
    assert ring.active.secret.hex() not in shown
    assert repr(ring.active.secret)[2:-1] not in shown


def test_rotation_is_seen_by_a_ring_that_is_open(tmp_path: Path) -> None:
    mine, other = KeyRing.open(tmp_path), KeyRing.open(tmp_path)
    old = mine.active
    fresh = other.add()
    assert mine.active == fresh
    assert mine.secret(old.key_id) == old.secret
    assert [key.state for key in mine.keys] == ["retired", "active"]
    assert other.destroy_retired() == 1
    assert other.destroy_retired() == 0
    with pytest.raises(ConfigError, match=rf"{old.key_id}.*put back"):
        mine.secret(old.key_id)
    assert old.secret.hex() not in (tmp_path / FILE_NAME).read_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        json.dumps(
            {"format": "trimask-storage-keys/1", "keys": [{"id": "a", "state": "new", "key": "00" * 32}]}
        ),
        json.dumps(
            {"format": "trimask-storage-keys/1", "keys": [{"id": "a", "state": "active", "key": "00"}]}
        ),
        json.dumps({"format": "other/1", "keys": [{"id": "a", "state": "active", "key": "00" * 32}]}),
    ],
)
def test_what_is_not_a_ring_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(ConfigError, match="not a ring of storage keys"):
        KeyRing.open(tmp_path)
    assert (tmp_path / FILE_NAME).read_text() == text


def test_a_ring_needs_an_active_key(tmp_path: Path) -> None:
    retired = {"id": "a", "state": "retired", "key": "00" * 32}
    (tmp_path / FILE_NAME).write_text(json.dumps({"format": "trimask-storage-keys/1", "keys": [retired]}))
    with pytest.raises(ConfigError, match="no active"):
        KeyRing.open(tmp_path)
