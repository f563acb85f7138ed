"""Researchers' tokens: random, shown once, kept as SHA-256, for one study, scoped, expiring, revocable.

A token has 256 bits from the operating system, so a plain hash is enough: there is nothing to guess. Tokens are read
from the store at every call, so that a revocation holds at once at every process that shares it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Any

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import RandomSource
from trimask_core.basics.refusals import Reason
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.interface import Store, Transaction

OWNER = "owner"  # signs in to the console, and can close the study there
SCOPES = ("datasets", "releases", OWNER)
PREFIX = "trimask_"  # so that a scan for leaked secrets, or a person, recognises it
_BYTES = 32
_COLUMNS = "token_hash, study_id, name, scopes, create_time_ms, expire_time_ms, revoke_time_ms"


@dataclass(frozen=True)
class Token:
    """A token as the collector knows it."""

    hash: bytes
    study_id: bytes
    name: str
    scopes: tuple[str, ...]
    create_time_ms: int
    expire_time_ms: int
    revoke_time_ms: int

    @property
    def id(self) -> str:
        """How it is named: the first 16 digits of its hash."""
        return self.hash.hex()[:16]


@dataclass(frozen=True)
class TokenStore:
    """The collector's tokens."""

    database: Store
    audit: AuditLog

    async def create(
        self,
        study_id: bytes,
        name: str,
        scopes: tuple[str, ...],
        now_ms: int,
        expire_time_ms: int,
        source: RandomSource,
    ) -> tuple[str, Token]:
        """A new token: what to send, and what is kept of it."""
        if not scopes or not set(scopes) <= set(SCOPES) or len(set(scopes)) != len(scopes):
            raise Refused(Reason.MALFORMED, f"scopes must be among {', '.join(SCOPES)}, each once")
        if not name.strip() or len(name) > 80 or not name.isprintable():
            raise Refused(Reason.MALFORMED, "name must say who the token is for, in 80 characters at most")
        if not now_ms < expire_time_ms < 1 << 62:
            raise Refused(Reason.MALFORMED, "expire_time_ms must be in the future")
        secret = source.read(_BYTES)
        token = Token(
            hashlib.sha256(secret).digest(),
            study_id,
            name.strip(),
            tuple(sorted(scopes)),
            now_ms,
            expire_time_ms,
            0,
        )

        def write(tx: Transaction) -> None:
            tx.run(
                f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0)",  # noqa: S608 - names only
                (token.hash, study_id, token.name, ",".join(token.scopes), now_ms, expire_time_ms),
            )
            self.audit.append(
                tx, "token_made", study=study_id.hex(), token=token.id, scopes=list(token.scopes),
                expires_ms=expire_time_ms,
            )  # fmt: skip

        await self.database.write(write)
        return PREFIX + base64.urlsafe_b64encode(secret).decode().rstrip("="), token

    async def list(self, study_id: bytes) -> list[Token]:
        """A study's tokens, oldest first."""
        rows = await self.database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS} FROM tokens WHERE study_id = ? ORDER BY create_time_ms, token_hash",  # noqa: S608
                (study_id,),
            )
        )
        return [_token(row) for row in rows]

    async def revoke(self, study_id: bytes, token_id: str, now_ms: int) -> None:
        """Revoke a token. Revoking it twice has no further effect."""
        found = [token for token in await self.list(study_id) if token.id == token_id]
        if not found:
            raise Refused(Reason.UNKNOWN_NAME, f"this study has no token {token_id!r}; list them")

        def write(tx: Transaction) -> None:
            ended = tx.run(
                "UPDATE tokens SET revoke_time_ms = ? WHERE token_hash = ? AND revoke_time_ms = 0",
                (now_ms, found[0].hash),
            )
            if ended:
                self.audit.append(tx, "token_revoked", study=study_id.hex(), token=token_id)

        await self.database.write(write)

    async def check(self, header: str, now_ms: int) -> Token:
        """The token in an `authorization` header; refused unless it was made here, is not revoked and has not expired."""
        word, _, text = header.partition(" ")
        body = text.removeprefix(PREFIX).strip() if word.lower() == "bearer" else "?"
        try:
            secret = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise Refused(
                Reason.BAD_TOKEN, f"send the token as `authorization: Bearer {PREFIX}...`"
            ) from None
        digest = hashlib.sha256(secret).digest()
        row = await self.database.read(
            lambda tx: tx.row(f"SELECT {_COLUMNS} FROM tokens WHERE token_hash = ?", (digest,))  # noqa: S608
        )
        if row is None or row[6]:
            raise Refused(
                Reason.BAD_TOKEN, "this token was not made here, or is revoked; ask the study's owner"
            )
        token = _token(row)
        if token.expire_time_ms <= now_ms:
            raise Refused(Reason.BAD_TOKEN, "this token has expired; ask the study's owner for another")
        return token


def _token(row: tuple[Any, ...]) -> Token:
    digest, study_id, name, scopes, *times = row
    return Token(digest, study_id, name, tuple(scopes.split(",")), *times)


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase the tokens that no longer open anything. Tokens for datasets stay, as the datasets do, and can be revoked."""
    for token_hash, scopes, revoked in tx.rows(
        "SELECT token_hash, scopes, revoke_time_ms FROM tokens WHERE study_id = ?", (study_id,)
    ):
        if revoked or "datasets" not in str(scopes).split(","):
            tx.run("DELETE FROM tokens WHERE token_hash = ?", (token_hash,))
    return 0
