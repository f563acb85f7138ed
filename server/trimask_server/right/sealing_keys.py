"""A right provider's sealing keys: pending, then active, then expired, with an overlap for devices that hold the old one.

A study pins the key its provider had when it was made; devices that cannot ask seal to that one, the others to the
newest active one. After a key's end nothing new is accepted under it, but it still opens the rows that arrived in time,
until none of them is left; then it is destroyed (`forget_spent`). A payload sealed to an expired key is refused for good:
the device has no answers any more from which it could be sealed again, and must not draw new noise behind the person's
back. So the overlap must be longer than a device may stay offline.

The keys in use are replaced whole when their file changes.

Opening sealed components and signing their receipts happens in the event loop. A process beside it cost a third of all that
a submission costs, and the node's own process no less than opening them itself; a node that needs more than one process has
several workers. Receipts are given out only after the row is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trimask_core.basics.errors import ConfigError, ParameterError, Refused, VerificationError
from trimask_core.basics.randomness import RandomSource
from trimask_core.basics.refusals import Alarm, Reason
from trimask_core.crypto.keys import (
    DOES_NOT_OPEN,
    SEALINGS,
    PayloadForm,
    Sealing,
    SealingKey,
    SigningKey,
    component_info,
    sealing_key_id,
)
from trimask_core.study.party import read_secret
from trimask_core.submit.submission import receipt_digest_message
from trimask_core.suites import check_payload
from trimask_server.right.rows import oldest_row_ms
from trimask_server.runtime.context import NodeContext
from trimask_server.store.data_keys import destroy_secret, replace_secret


@dataclass(frozen=True)
class OpeningKeys:
    """A right provider's keys for the job, the newest sealing key first."""

    identity: SigningKey
    sealing: tuple[SealingKey, ...]

    def __repr__(self) -> str:
        return f"OpeningKeys({self.identity!r})"


@dataclass(frozen=True)
class Parcel:
    """A sealed component as received, the form it must have, and when it arrived."""

    study_id: bytes
    binding: bytes
    submission_id: bytes
    form: PayloadForm
    receive_time_ms: int
    sealed: bytes
    sealing: Sealing = "classical"

    def __repr__(self) -> str:
        return f"Parcel(submission_id={self.submission_id.hex()})"


@dataclass(frozen=True)
class Opened:
    """A component that opened and has the right form: its hash, and the receipt's signature for the time it arrived."""

    digest: bytes
    signature: bytes
    payload: bytes = field(repr=False)


def open_parcel(keys: OpeningKeys, parcel: Parcel) -> Opened:
    """Open, check, hash and sign; `VerificationError` if it does not open or is not a component."""
    info = component_info(parcel.binding, parcel.form.provider, parcel.submission_id)
    payload = _open(keys.sealing, parcel.sealed, info, parcel.sealing)
    check_payload(parcel.form, payload)
    digest = hashlib.sha256(parcel.sealed).digest()
    message = receipt_digest_message(parcel.study_id, parcel.submission_id, digest, parcel.receive_time_ms)
    return Opened(digest, keys.identity.sign("receipt", message), payload)


def _open(keys: Iterable[SealingKey], sealed: bytes, info: bytes, kind: Sealing) -> bytes:
    """With the keys of the study's kind alone: a study sealed hybrid takes in nothing that an X25519 key opens."""
    for key in keys:
        if key.kind == kind:
            with contextlib.suppress(VerificationError):
                return key.open(sealed, info)
    raise VerificationError(DOES_NOT_OPEN)


def _try_open(keys: OpeningKeys, parcel: Parcel) -> Opened | str:
    """The same, but return the problem as text instead of raising."""
    try:
        return open_parcel(keys, parcel)
    except VerificationError as error:
        return str(error)


_KEPT_BYTES, _KEPT_SECONDS = 32 << 20, 60.0
_AT_ONCE = 8  # opened without a turn for anything else: about a millisecond


async def open_all(keys: OpeningKeys, parcels: Sequence[Parcel]) -> list[Opened | str]:
    """Open many that came together; the problem as text in the place of one that does not open."""
    answers: list[Opened | str] = []
    for first in range(0, len(parcels), _AT_ONCE):
        answers += [_try_open(keys, parcel) for parcel in parcels[first : first + _AT_ONCE]]
        await asyncio.sleep(0)
    return answers


RING_FILE, SINGLE_FILE, HYBRID_FILE = "sealing.keys", "sealing.key", "sealing-hybrid.key"
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

    def newest(self, kind: Sealing, now_ms: int) -> bytes:
        """The public key of a kind for a card: the newest active one, or the newest; empty if there is none."""
        found = [item.key.public for item in (*self.active(now_ms), *self.keys) if item.key.kind == kind]
        return found[0] if found else b""

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

    def is_expired_for(self, sealed: bytes, info: bytes, now_ms: int, kind: Sealing) -> bool:
        """Whether something that no valid key opens was sealed to an expired one."""
        expired = [item for item in self.keys if item.state(now_ms) == "expired"]
        return _open_any(expired, sealed, info, kind) is not None

    def open_held(self, sealed: bytes, info: bytes, kind: Sealing) -> bytes:
        """The plaintext of a row that arrived in time, even if its key has expired since."""
        plain = _open_any(self.keys, sealed, info, kind)
        if plain is None:
            raise VerificationError(
                "a row held here opens with no key of this node; was a key removed by hand?"
            )
        return plain


def _open_any(keys: Iterable[RingKey], sealed: bytes, info: bytes, kind: Sealing) -> bytes | None:
    with contextlib.suppress(VerificationError):
        return _open([item.key for item in keys], sealed, info, kind)
    return None


def expired_key(expire_ms: int | None = None) -> Refused:
    """The refusal for a payload that arrived after its key expired."""
    when = "" if expire_ms is None else f" on {datetime.fromtimestamp(expire_ms / 1000, UTC):%Y-%m-%d}"
    return Refused(
        Reason.EXPIRED_KEY,
        f"it is sealed to a key that this provider retired{when}; get the new key, and answer again if the study is open",
    )


def load_ring(folder: Path) -> SealingRing:
    """The ring in `sealing.keys`, or the key of each kind that a node begins with."""
    path = folder / RING_FILE
    try:
        if not path.exists():
            begin = [RingKey(SealingKey(read_secret(folder / SINGLE_FILE)))]
            if (folder / HYBRID_FILE).exists():
                begin.append(RingKey(SealingKey(read_secret(folder / HYBRID_FILE), "hybrid")))
            return SealingRing(begin)
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


def _read_key(item: dict[str, Any]) -> RingKey:
    expire, kind = item["expire_ms"], item.get("kind", "classical")
    if kind not in SEALINGS:
        raise ConfigError(f"{RING_FILE} has a key of kind {kind!r}, which this version does not know")
    key = SealingKey(bytes.fromhex(item["secret"]), kind)
    return RingKey(key, int(item["activate_ms"]), None if expire is None else int(expire))


def save_ring(folder: Path, ring: SealingRing) -> None:
    """Write the ring whole or not at all, readable by its owner alone; the first keys' files are in it from then on."""
    body = {
        "format": _FORMAT,
        "keys": [
            {
                "secret": item.key.secret_bytes().hex(),
                "kind": item.key.kind,
                "activate_ms": item.activate_ms,
                "expire_ms": item.expire_ms,
            }
            for item in ring.keys
        ],
    }
    replace_secret(folder / RING_FILE, json.dumps(body, indent=1))
    destroy_secret(folder / SINGLE_FILE)
    destroy_secret(folder / HYBRID_FILE)


def rotate(
    ring: SealingRing, now_ms: int, pending_ms: int, overlap_ms: int, source: RandomSource | None = None
) -> SealingRing:
    """A new key of each kind, active after `pending_ms`; every other key without an end ends `overlap_ms` after that."""
    if any(item.state(now_ms) == "pending" for item in ring.keys):
        raise ConfigError("a new key is pending already; rotate again once it is active")
    begin = now_ms + pending_ms
    ended = [
        item if item.expire_ms is not None else RingKey(item.key, item.activate_ms, begin + overlap_ms)
        for item in ring.keys
    ]
    fresh = [RingKey(SealingKey.generate(source, kind), begin) for kind in SEALINGS]
    return SealingRing([*fresh, *ended])


def forget_spent(ring: SealingRing, now_ms: int, oldest_row_ms: int | None) -> SealingRing:
    """The ring without expired keys that no row still needs: all rows held came after such a key's end."""
    kept = [
        item
        for item in ring.keys
        if item.state(now_ms) != "expired"
        or (oldest_row_ms is not None and oldest_row_ms < (item.expire_ms or 0))
    ]
    return SealingRing(kept or ring.keys[:1])


class JustOpened:
    """Payloads of rows that came a moment ago, so that the check which follows need not open them a second time.

    Each until it is asked for once, its person withdraws, or `_KEPT_SECONDS` have passed; the oldest go first beyond
    `_KEPT_BYTES`. In memory alone: whoever reads it finds the sealing keys and the rows' data keys there, too.
    """

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[float, bytes, bytes]] = {}  # until when, digest, payload; oldest first
        self._bytes = 0
        self._lock = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, info: bytes, digest: bytes, payload: bytes) -> None:
        """Keep the payload of a component that is on disk; `info` is what it was sealed for."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if info not in self._kept:
                self._kept[info] = (loop.time() + _KEPT_SECONDS, digest, payload)
                self._bytes += len(payload)
            while self._bytes > _KEPT_BYTES:
                self._drop(next(iter(self._kept)))
        if self._timer is None:
            self._timer = loop.call_later(_KEPT_SECONDS, self._sweep, loop)

    def take(self, info: bytes, digest: bytes) -> bytes | None:
        """The payload of a component of this hash, which is then no longer kept; None if it is not here."""
        with self._lock:
            if info not in self._kept:
                return None
            _, opened, payload = self._drop(info)
        return payload if digest == opened else None

    def forget(self, info: bytes) -> None:
        """Drop a payload, if it is here."""
        with self._lock:
            if info in self._kept:
                self._drop(info)

    def _drop(self, info: bytes) -> tuple[float, bytes, bytes]:
        found = self._kept.pop(info)
        self._bytes -= len(found[2])
        return found

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            while self._kept and self._first_due() <= loop.time():
                self._drop(next(iter(self._kept)))
            self._timer = loop.call_at(self._first_due(), self._sweep, loop) if self._kept else None

    def _first_due(self) -> float:
        return next(iter(self._kept.values()))[0]


class CurrentKeyRing:
    """The ring in use. `folder` is where its file is; None when the ring was given, not read."""

    def __init__(self, node: NodeContext, ring: SealingRing, folder: Path | None) -> None:
        self._node = node
        self._folder = folder
        self.ring = ring
        self.just_opened = JustOpened()
        self.checked_soon: set[str] = set()  # suites whose rows are read once, soon after they came

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
