"""A right provider's own secret for the moments suite: one file beside its other keys, outside the store and its backups.

Everything that must never be drawn a second time is derived from it and from what it is for: the contribution to a study's
challenge key, the exchange key between right providers, and the noise of a release. So a node restored from a backup
sends the same bytes again, and nothing else: docs/theory/verified-moments.md#one-challenge and
docs/theory/verified-moments.md#noise-once.
"""

from __future__ import annotations

from pathlib import Path

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SEED_BYTES, Stream, derive_key
from trimask_core.crypto.sealing import SealingKey
from trimask_core.moments.check import contribution_hash

FILE_NAME = "moments.key"


class MomentsSecret:
    """32 bytes, and what is derived from them for one study."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SEED_BYTES:
            raise ConfigError(f"{FILE_NAME} must hold {SEED_BYTES} bytes, as 64 hexadecimal digits")
        self._secret = secret

    def __repr__(self) -> str:
        return "MomentsSecret(<secret>)"

    @classmethod
    def load(cls, keys: Path) -> MomentsSecret:
        """From a node's folder of keys."""
        path = keys / FILE_NAME
        try:
            secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            raise ConfigError(
                f"{path} is missing: a right provider needs it for studies of the moments suite; "
                "restore it with the other keys, or make new keys for a new node"
            ) from None
        except ValueError:
            secret = b""
        if len(secret) != SEED_BYTES:
            raise ConfigError(f"{path} must hold 64 hexadecimal digits")
        return cls(secret)

    def contribution(self, study_id: bytes) -> bytes:
        """This provider's part of a study's challenge key."""
        return derive_key(self._secret, b"moments contribution" + study_id)

    def commitment(self, study_id: bytes) -> bytes:
        """What its approval of the study commits to."""
        return contribution_hash(self.contribution(study_id))

    def exchange_key(self, study_id: bytes) -> SealingKey:
        """What the other right providers of a study seal to, and agree on blinding with."""
        return SealingKey(derive_key(self._secret, b"moments exchange" + study_id))

    def noise(self, study_id: bytes, what: bytes) -> Stream:
        """The noise of `what` (a hash naming it), the same at every repeat."""
        return Stream(derive_key(self._secret, b"moments noise" + study_id), b"moments noise" + what)

    def salt(self, study_id: bytes, what: bytes) -> bytes:
        """The salt of the commitment to `what`."""
        return derive_key(self._secret, b"moments salt" + study_id + what)
