"""Keys from short secrets."""

from __future__ import annotations

from trimask_core.crypto.records import STRETCH_COST, stretch


def test_it_is_scrypt() -> None:
    """RFC 7914, section 12: the first 32 bytes of the second vector."""
    found = stretch("password", b"NaCl", (10, 8, 16))
    assert found.hex() == "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
    assert stretch("password", b"NaC1", (10, 8, 16)) != found
    assert stretch("passwort", b"NaCl", (10, 8, 16)) != found
    assert 128 << STRETCH_COST[0] << 3 >= 32 << 20  # bytes of memory: 128 N r
