"""A right provider's sealing keys: pending, then active, then expired, with an overlap for devices that hold the old one.

A study pins the key its provider had when it was made; devices that cannot ask seal to that one, the others to the
newest active one. After a key's end nothing new is accepted under it, but it still opens the rows that arrived in time,
until none of them is left; then it is destroyed (`forget_spent`). A payload sealed to an expired key is refused for good:
the device has no answers any more from which it could be sealed again, and must not draw new noise behind the person's
back. So the overlap must be longer than a device may stay offline.

The keys in use are replaced whole when their file changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trimask_core.basics.errors import ConfigError, ParameterError, Refused, VerificationError
from trimask_core.basics.randomness import RandomSource
from trimask_core.basics.refusals import Alarm, Reason
from trimask_core.crypto.sealing import SealingKey, sealing_key_id
from trimask_core.study.party import read_secret
from trimask_server.right.rows import oldest_row_ms
from trimask_server.runtime.context import NodeContext
from trimask_server.store.master_keys import destroy_secret, replace_secret

RING_FILE, SINGLE_FILE = "sealing.keys", "sealing.key"
_FORMAT = "trimask-sealing-keys/1"
KeyState = Literal["pending", "active", "expired"]


@dataclass(frozen=True)
class RingKey:
    """A key and its time. Without `expire_ms` it has no end yet."""

    key: SealingKey
    activate_ms: int = 0
    expire_ms: int | None = None

    def state(self, now_ms: int) -> KeyState:
        """Pending, active or expired."""
        if self.expire_ms is not None and now_ms >= self.expire_ms:
            return "expired"
        return "active" if now_ms >= self.activate_ms else "pending"


class SealingRing:
    """The keys, newest first. At least one."""

    def __init__(self, keys: Iterable[RingKey]) -> None:
        self.keys = tuple(sorted(keys, key=lambda item: item.activate_ms, reverse=True))
        if not self.keys:
            raise ConfigError(f"{RING_FILE} holds no key")

    def active(self, now_ms: int) -> list[RingKey]:
        """Those that devices may seal to, newest first."""
        return [item for item in self.keys if item.state(now_ms) == "active"]

    def accepting(self, now_ms: int) -> tuple[SealingKey, ...]:
        """Those that open what arrives now, newest first. A pending one does, too: another process may be ahead."""
        live = tuple(item.key for item in self.keys if item.state(now_ms) != "expired")
        return live or (self.keys[0].key,)

    def refuse_expired_id(self, key_id: bytes, now_ms: int) -> None:
        """Refuse a submission that names a key which has expired, or which this provider no longer has."""
        if not key_id:
            return
        named = [item for item in self.keys if sealing_key_id(item.key.public) == key_id]
        if not named or named[0].state(now_ms) == "expired":
            raise expired_key(named[0].expire_ms if named else None)

    def is_expired_for(self, sealed: bytes, info: bytes, now_ms: int) -> bool:
        """Whether something that no valid key opens was sealed to an expired one."""
        expired = [item for item in self.keys if item.state(now_ms) == "expired"]
        return _open_any(expired, sealed, info) is not None

    def open_held(self, sealed: bytes, info: bytes) -> bytes:
        """The plaintext of a row that arrived in time, even if its key has expired since."""
        plain = _open_any(self.keys, sealed, info)
        if plain is None:
            raise VerificationError(
                "a row held here opens with no key of this node; was a key removed by hand?"
            )
        return plain


def _open_any(keys: Iterable[RingKey], sealed: bytes, info: bytes) -> bytes | None:
    for item in keys:
        try:
            return item.key.open(sealed, info)
        except VerificationError:
            continue
    return None


def expired_key(expire_ms: int | None = None) -> Refused:
    """The refusal for a payload that arrived after its key expired."""
    when = "" if expire_ms is None else f" on {datetime.fromtimestamp(expire_ms / 1000, UTC):%Y-%m-%d}"
    return Refused(
        Reason.EXPIRED_KEY,
        f"it is sealed to a key that this provider retired{when}; get the new key, and answer again if the study is open",
    )


def load_ring(folder: Path) -> SealingRing:
    """The ring in `sealing.keys`, or the one key in `sealing.key` that a node begins with."""
    path = folder / RING_FILE
    try:
        if not path.exists():
            return SealingRing([RingKey(SealingKey(read_secret(folder / SINGLE_FILE)))])
        data = json.loads(path.read_text())
        if data["format"] != _FORMAT:
            raise ConfigError(f"{path} has format {data['format']!r}; this version reads {_FORMAT!r}")
        return SealingRing(_read_key(item) for item in data["keys"])
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename}: {error.strerror}; `trimask keys` makes it"
        ) from None
    except (ValueError, KeyError, TypeError, ParameterError):
        raise ConfigError(f"{path} is not a ring of sealing keys; restore it from your backup") from None


def _secret_key(text: str) -> SealingKey:
    return SealingKey(bytes.fromhex(text))


def _read_key(item: dict[str, Any]) -> RingKey:
    expire = item["expire_ms"]
    return RingKey(
        _secret_key(item["secret"]), int(item["activate_ms"]), None if expire is None else int(expire)
    )


def save_ring(folder: Path, ring: SealingRing) -> None:
    """Write the ring whole or not at all, readable by its owner alone; the single key's file is in it from then on."""
    body = {
        "format": _FORMAT,
        "keys": [
            {
                "secret": item.key.secret_bytes().hex(),
                "activate_ms": item.activate_ms,
                "expire_ms": item.expire_ms,
            }
            for item in ring.keys
        ],
    }
    replace_secret(folder / RING_FILE, json.dumps(body, indent=1))
    destroy_secret(folder / SINGLE_FILE)


def rotate(
    ring: SealingRing, now_ms: int, pending_ms: int, overlap_ms: int, source: RandomSource | None = None
) -> SealingRing:
    """A new key, active after `pending_ms`; every other key without an end ends `overlap_ms` after that."""
    if any(item.state(now_ms) == "pending" for item in ring.keys):
        raise ConfigError("a new key is pending already; rotate again once it is active")
    begin = now_ms + pending_ms
    ended = [
        item if item.expire_ms is not None else RingKey(item.key, item.activate_ms, begin + overlap_ms)
        for item in ring.keys
    ]
    return SealingRing([RingKey(SealingKey.generate(source), begin), *ended])


def forget_spent(ring: SealingRing, now_ms: int, oldest_row_ms: int | None) -> SealingRing:
    """The ring without expired keys that no row still needs: all rows held came after such a key's end."""
    kept = [
        item
        for item in ring.keys
        if item.state(now_ms) != "expired"
        or (oldest_row_ms is not None and oldest_row_ms < (item.expire_ms or 0))
    ]
    return SealingRing(kept or ring.keys[:1])


class CurrentKeyRing:
    """The ring in use. `folder` is where its file is; None when the ring was given, not read."""

    def __init__(self, node: NodeContext, ring: SealingRing, folder: Path | None) -> None:
        self._node = node
        self._folder = folder
        self.ring = ring

    def reload(self) -> bool:
        """Reload the file; whether anything was new. An unusable file changes nothing."""
        node, held = self._node, self.ring
        if self._folder is None:
            return False
        try:
            fresh = load_ring(self._folder)
            # A row held here may need a key that is no longer in the file: better to refuse the file than to lose the row.
            gone = {item.key.public for item in held.keys if item.expire_ms is None} - {
                item.key.public for item in fresh.keys
            }
            if gone:
                raise ConfigError("sealing.keys lacks a key that was in use; restore it from your backup")  # noqa: TRY301
        except ConfigError as error:
            node.metrics.reloads.labels("refused").inc()
            node.refusals.count(Alarm.BAD_KEY_FILE)
            node.log.error("kept the old sealing keys: %s", error)  # noqa: TRY400 - the sentence says all
            return False
        before = [(item.key.public, item.activate_ms, item.expire_ms) for item in held.keys]
        if before == [(item.key.public, item.activate_ms, item.expire_ms) for item in fresh.keys]:
            return False
        self.ring = fresh
        node.metrics.reloads.labels("taken").inc()
        states = ", ".join(item.state(node.clock.now_ms()) for item in fresh.keys)
        node.log.info("loaded %d sealing keys: %s", len(fresh.keys), states)
        return True

    async def destroy_spent(self, now_ms: int) -> None:
        """Destroy expired keys that no row held here needs any more."""
        node, ring = self._node, self.ring
        if self._folder is None or all(item.state(now_ms) != "expired" for item in ring.keys):
            return
        kept = forget_spent(ring, now_ms, await node.database.read(oldest_row_ms))
        spent = len(ring.keys) - len(kept.keys)
        if not spent:
            return
        gone = {item.key.public for item in ring.keys} - {item.key.public for item in kept.keys}
        try:
            # From the file, not from memory: a rotation may have been written there a moment ago.
            on_disk = load_ring(self._folder)
            save_ring(self._folder, SealingRing(item for item in on_disk.keys if item.key.public not in gone))
        except OSError as error:
            node.log.warning(
                "%d expired sealing keys could be destroyed, but the key folder is not writable (%s): remove them from "
                "sealing.keys by hand",
                spent,
                error.strerror,
            )
            return
        self.ring = kept
        node.log.info("destroyed %d expired sealing keys that no row needs any more", spent)
