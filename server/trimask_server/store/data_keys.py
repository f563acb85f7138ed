"""Data keys: one for what a study takes in, one for each block, one for each release's factor.

What is stored is encrypted under a data key (AES-256-GCM); data keys are in the database, wrapped by a master key of the
ring. Each is bound to its place: a wrapped key to its study and scope, a value to whatever names it, so that nothing
can be moved. Erasing something ends with destroying its data key.

A node's master keys for what it stores: a small file beside its other keys, never in the database or a backup.

Master keys wrap data keys (`data_keys`), nothing else. The newest active one wraps; retired ones only unwrap what they
wrapped before they were retired. A command (of a key management service, of a hardware module) may print them instead, for
every start: 64 hexadecimal digits a line, the first of which wraps. What is in the file then only unwraps.

Files of keys are written whole or not at all, never readable by others for an instant, their old bytes overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trimask_core.basics.errors import ConfigError, VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_server.store.interface import Transaction


def create_secret(path: Path, text: str) -> bool:
    """Write a file that is not there yet. Of two programs that do so at once the first one's stays; whether this did."""
    fresh = _write_beside(path, text)
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    _sync(path.parent)
    return True


def replace_secret(path: Path, text: str) -> None:
    """Put a text in a file's place, and zeros over what was there."""
    fresh = _write_beside(path, text)
    old = os.open(path, os.O_WRONLY) if path.exists() else None
    fresh.replace(path)
    _sync(path.parent)
    if old is not None:
        _overwrite(old)


def destroy_secret(path: Path) -> None:
    """Overwrite a file and remove it; fine if there is none."""
    if path.exists():
        _overwrite(os.open(path, os.O_WRONLY))
        path.unlink()
        _sync(path.parent)


def _write_beside(path: Path, text: str) -> Path:
    fresh = path.with_name(f".{path.name}.{SystemRandom().read(6).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            _give_to_owner(file.fileno(), path)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        fresh.unlink()  # a half-written file of keys is of no use
        raise
    return fresh


def _give_to_owner(descriptor: int, path: Path) -> None:
    """A file that root makes belongs to whom the one before it did, or its folder: the node's user could not read it."""
    if os.geteuid() == 0:
        before = (path if path.exists() else path.parent).stat()
        os.fchown(descriptor, before.st_uid, before.st_gid)


def _overwrite(descriptor: int) -> None:
    try:
        os.pwrite(descriptor, bytes(os.fstat(descriptor).st_size), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


FILE_NAME = "storage.keys"
MasterKeyState = Literal["active", "retired"]
_FORMAT = "trimask-storage-keys/1"
_KEY_BYTES = 32
_COMMAND_SECONDS = 60


@dataclass(frozen=True)
class MasterKey:
    """One 32-byte key, its name and its state."""

    key_id: str
    state: MasterKeyState
    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls, source: RandomSource) -> MasterKey:
        """A fresh, active key."""
        return cls(source.read(8).hex(), "active", source.read(_KEY_BYTES))


class KeyRing:
    """Master keys, oldest first. With a path, the file is looked at again whenever it may have changed; keys that a command
    `printed` come after it, and wrap."""

    def __init__(
        self, keys: Iterable[MasterKey], path: Path | None = None, printed: tuple[MasterKey, ...] = ()
    ) -> None:
        self._keys = tuple(keys)
        self._path = path
        self._printed = printed
        self._read_at = _stamp(path)
        if not any(key.state == "active" for key in self._all()):
            raise ConfigError(f"{path or 'the ring'} has no active storage key")

    def __repr__(self) -> str:
        return f"KeyRing({[key.key_id for key in self._all()]})"

    def _all(self) -> tuple[MasterKey, ...]:
        if not self._printed:
            return self._keys
        return (*(replace(key, state="retired") for key in self._keys), *self._printed)

    @classmethod
    def generate(cls, source: RandomSource | None = None) -> KeyRing:
        """A ring of one fresh key, in memory."""
        return cls([MasterKey.generate(source or SystemRandom())])

    @classmethod
    def open(cls, folder: Path, command: Sequence[str] = ()) -> KeyRing:
        """The ring in a node's key folder; made if there is none and no `command` prints it."""
        path = folder / FILE_NAME
        if command:
            return cls(_read(path) if path.exists() else (), path, _printed_by(command))
        if not path.exists():
            try:
                create_secret(path, cls.generate()._text())
            except OSError as error:
                raise ConfigError(
                    f"{path} is missing and cannot be made ({error.strerror}); make it once, as the node's user, with "
                    "`trimask node init`"
                ) from None
        return cls(_read(path), path)

    @property
    def keys(self) -> tuple[MasterKey, ...]:
        """Every key, as the file has them now."""
        stamp = _stamp(self._path)
        if self._path is not None and stamp != self._read_at:
            gone = stamp is None and self._printed
            self._keys, self._read_at = () if gone else tuple(_read(self._path)), stamp
        return self._all()

    @property
    def active(self) -> MasterKey:
        """The key that wraps."""
        return [key for key in self.keys if key.state == "active"][-1]

    def secret(self, key_id: str) -> bytes:
        """The key of that name."""
        for key in self.keys:
            if key.key_id == key_id:
                return key.secret
        raise ConfigError(
            f"the store was written with storage key {key_id}, which is not in {self._path or 'the ring'}; "
            f"put back the {FILE_NAME} that belongs to this store (all workers of a node share one)"
        )

    def add(self, source: RandomSource | None = None) -> MasterKey:
        """Put a fresh key into the file as the one that wraps, and retire the others; a printed one wraps already."""
        if self._printed:
            return self.active
        fresh = MasterKey.generate(source or SystemRandom())
        self._replace([*(replace(key, state="retired") for key in self.keys), fresh])
        return fresh

    def destroy_retired(self) -> int:
        """Take every retired key out of the file, for ever; how many. What they alone wrap can never be read again."""
        if self._printed:
            gone = len(self.keys) - len(self._printed)
            destroy_secret(self._path or Path(FILE_NAME))
            return gone
        kept = [key for key in self.keys if key.state == "active"]
        gone = len(self.keys) - len(kept)
        if gone:
            self._replace(kept)
        return gone

    def _replace(self, keys: Iterable[MasterKey]) -> None:
        self._keys = tuple(keys)
        if self._path is None:
            return
        replace_secret(self._path, self._text())
        self._read_at = _stamp(self._path)

    def _text(self) -> str:
        keys = [{"id": key.key_id, "state": key.state, "key": key.secret.hex()} for key in self._keys]
        return json.dumps({"format": _FORMAT, "keys": keys}, indent=1) + "\n"


def _printed_by(command: Sequence[str]) -> tuple[MasterKey, ...]:
    """The master keys that a command prints, the one that wraps last. What it prints is in no message."""
    said = f"storage_key_command {command[0]!r}"
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except OSError as error:
        raise ConfigError(f"{said} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{said} has not ended after {_COMMAND_SECONDS} s") from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ConfigError(f"{said} ended with status {done.returncode}: {''.join(why)[:200]}")
    try:
        secrets = [bytes.fromhex(line) for line in done.stdout.decode("ascii").split()]
    except ValueError:
        secrets = []
    if not secrets or any(len(secret) != _KEY_BYTES for secret in secrets):
        raise ConfigError(f"{said} must print storage keys, 64 hexadecimal digits a line, and nothing else")
    keys = [
        MasterKey(hashlib.sha256(b"trimask storage key" + secret).hexdigest()[:16], "retired", secret)
        for secret in reversed(secrets)
    ]
    return (*keys[:-1], replace(keys[-1], state="active"))


def _stamp(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _read(path: Path) -> list[MasterKey]:
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="ascii"))
        keys = [
            MasterKey(str(item["id"]), item["state"], bytes.fromhex(item["key"])) for item in data["keys"]
        ]
        whole = data["format"] == _FORMAT and all(
            key.state in get_args(MasterKeyState) and len(key.secret) == _KEY_BYTES for key in keys
        )
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        whole, keys = False, []
    if not whole:
        raise ConfigError(
            f"{path} is not a ring of storage keys; put back the file that belongs to this store"
        )
    return keys


INTAKE = "intake"
_NONCE_BYTES = 12


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


AFTER_RESTORE = "DELETE FROM data_keys"  # what they encrypt may have been published since


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Destroy every data key of a study."""
    tx.run("DELETE FROM data_keys WHERE study_id = ?", (study_id,))
    return 0
