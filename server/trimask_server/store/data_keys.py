"""Data keys: one for what a study takes in, one for each block, one for each release's factor.

What is stored is encrypted under a data key (AES-256-GCM); data keys are in the database, wrapped by a master key of the
ring. Each is bound to its place: a wrapped key to its study and scope, a value to whatever names it, so that nothing
can be moved. Erasing something ends with destroying its data key.

A store is given a fresh master key whether its node runs or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_server.store.database import open_store
from trimask_server.store.interface import Transaction
from trimask_server.store.master_keys import KeyRing

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeConfig, NodeRole


INTAKE = "intake"
_NONCE_BYTES = 12
_KEY_BYTES = 32


def block_scope(block_id: bytes) -> str:
    """The scope of a block's rows."""
    return f"block:{block_id.hex()}"


def release_scope(number: int) -> str:
    """The scope of a release's factor."""
    return f"release:{number}"


class DataKey:
    """Encrypts and decrypts what is stored under one scope."""

    __slots__ = ("_cipher", "_context", "_source")

    def __init__(self, secret: bytes, context: bytes, source: RandomSource) -> None:
        self._cipher = AESGCM(secret)
        self._context = context
        self._source = source

    def __repr__(self) -> str:
        return "DataKey(<secret>)"

    def encrypt(self, plain: bytes, name: bytes) -> bytes:
        """A value for the store, readable under the same name only."""
        nonce = self._source.read(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, self._context + name)

    def decrypt(self, stored: bytes, name: bytes) -> bytes:
        """A value from the store."""
        try:
            return self._cipher.decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], self._context + name)
        except InvalidTag:
            raise VerificationError("what is stored was altered, or moved from another place") from None


def _context(study_id: bytes, scope: str) -> bytes:
    return b"trimask-store/1\0" + len(study_id).to_bytes(2, "big") + study_id + scope.encode() + b"\0"


class Vault:
    """Data keys in the store's `data_keys` table. Its functions run inside transactions."""

    def __init__(self, ring: KeyRing, source: RandomSource | None = None) -> None:
        self.ring = ring
        self._source = source or SystemRandom()

    def __repr__(self) -> str:
        return f"Vault({self.ring!r})"

    def find(self, tx: Transaction, study_id: bytes, scope: str) -> DataKey | None:
        """The key of a scope; None if it was never made, or destroyed."""
        row = tx.row(
            "SELECT master_id, wrapped FROM data_keys WHERE study_id = ? AND scope = ?", (study_id, scope)
        )
        if row is None:
            return None
        context = _context(study_id, scope)
        return DataKey(self._unwrap(str(row[0]), row[1], context), context, self._source)

    def obtain(self, tx: Transaction, study_id: bytes, scope: str) -> DataKey:
        """The key of a scope, made if there is none."""
        found = self.find(tx, study_id, scope)
        if found is not None:
            return found
        secret, context = self._source.read(_KEY_BYTES), _context(study_id, scope)
        master_id, wrapped = self._wrap(secret, context)
        tx.run(
            "INSERT INTO data_keys (study_id, scope, master_id, wrapped) VALUES (?, ?, ?, ?)",
            (study_id, scope, master_id, wrapped),
        )
        return DataKey(secret, context, self._source)

    def rewrap(self, tx: Transaction) -> int:
        """Wrap again every key that is not under the active master key; how many."""
        active = self.ring.active.key_id
        rows = tx.rows(
            "SELECT study_id, scope, master_id, wrapped FROM data_keys WHERE master_id <> ?", (active,)
        )
        for study_id, scope, master_id, wrapped in rows:
            context = _context(study_id, scope)
            fresh_id, fresh = self._wrap(self._unwrap(master_id, wrapped, context), context)
            tx.run(
                "UPDATE data_keys SET master_id = ?, wrapped = ? WHERE study_id = ? AND scope = ?",
                (fresh_id, fresh, study_id, scope),
            )
        return len(rows)

    def _wrap(self, secret: bytes, context: bytes) -> tuple[str, bytes]:
        master = self.ring.active
        nonce = self._source.read(_NONCE_BYTES)
        return master.key_id, nonce + AESGCM(master.secret).encrypt(nonce, secret, b"wrap\0" + context)

    def _unwrap(self, master_id: str, wrapped: bytes, context: bytes) -> bytes:
        cipher = AESGCM(self.ring.secret(master_id))
        try:
            return cipher.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], b"wrap\0" + context)
        except InvalidTag:
            raise VerificationError("a data key was altered, or belongs to another store") from None


def destroy_keys(tx: Transaction, study_id: bytes, scopes: Sequence[str]) -> int:
    """Destroy data keys, inside the transaction that erases what they encrypt; `Store.scrub` finishes it on disk."""
    return tx.run_many(
        "DELETE FROM data_keys WHERE study_id = ? AND scope = ?", [(study_id, scope) for scope in scopes]
    )


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Destroy every data key of a study."""
    tx.run("DELETE FROM data_keys WHERE study_id = ?", (study_id,))
    return 0


@dataclass(frozen=True)
class Rotation:
    """What was done."""

    key_id: str
    rewrapped: int
    destroyed: int


async def rotate_storage_key(
    config: NodeConfig, role: NodeRole, ring: KeyRing, *, destroy_retired: bool = False
) -> Rotation:
    """Add a master key, wrap every data key under it, and destroy the older master keys if that is wanted.

    A running node looks at the file before it wraps, inside the transaction that writes the wrapped key. The file is
    changed first, so every transaction after the one below wraps under the new key, and no data key is left behind.
    """
    store = open_store(config, role)
    try:
        fresh = ring.add()
        rewrapped = await store.write(Vault(ring).rewrap)
        destroyed = ring.destroy_retired() if destroy_retired else 0
        await store.scrub()
    finally:
        store.close()
    return Rotation(fresh.key_id, rewrapped, destroyed)
