"""Files of keys: whole, nobody else's, and overwritten when they are replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trimask_server.store.data_keys import create_secret, destroy_secret, replace_secret


def bytes_of(descriptor: int) -> bytes:
    """What is left of a file that has no name any more."""
    return os.pread(descriptor, 1 << 16, 0)


def test_the_first_of_two_stays(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert create_secret(path, "first")
    assert not create_secret(path, "second")
    assert path.read_text() == "first"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["keys"]


def test_what_is_replaced_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    replace_secret(path, "the old key")  # also where there is none yet
    held = os.open(path, os.O_RDONLY)
    replace_secret(path, "the new key")
    assert path.read_text() == "the new key"
    assert bytes_of(held) == bytes(len("the old key"))
    os.close(held)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["keys"]


def test_what_is_destroyed_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    destroy_secret(path)  # nothing there: nothing to do
    create_secret(path, "a key")
    held = os.open(path, os.O_RDONLY)
    destroy_secret(path)
    assert bytes_of(held) == bytes(len("a key"))
    os.close(held)
    assert not path.exists()


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    create_secret(path, "the old key")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_secret(path, "the new key")
    assert path.read_text() == "the old key"
    assert [item.name for item in tmp_path.iterdir()] == ["keys"]
