"""Submissions that a `Client` has begun and not every right provider has accepted, so that the next call goes on with them.

An invitation is bound to the first submission it comes with: a second one would be refused where the first was accepted, and
neither would be counted. With a folder they outlive the process, encrypted under a key of that folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from trimask_client.records import FileDisk, Vault, device_key
from trimask_core.basics.errors import InvitationError
from trimask_core.basics.randomness import RandomSource
from trimask_core.submit.invitation import Invitation
from trimask_core.submit.submission import SealedSubmission

_KIND = "unfinished"


class Unfinished:
    """What is unfinished of one study under one invitation, or without one; in memory, the last of it alone."""

    def __init__(
        self,
        study_id: bytes,
        invitation: Invitation | None,
        folder: str | Path | None,
        source: RandomSource,
    ) -> None:
        self._study_id, self.folder = study_id, folder
        self._invited = "" if invitation is None else invitation.key.public.hex()
        self._last: dict[str, Any] | None = None
        self._disk = None if folder is None else FileDisk(Path(folder))
        self._vault: Vault | None = None
        if folder is not None and self._disk is not None:
            self._vault = Vault(self._disk, device_key(Path(folder) / "device.key", source), source)

    def __repr__(self) -> str:
        return "Unfinished(<secret>)"

    def begin(self, answers: Mapping[str, object], make: Callable[[], SealedSubmission]) -> SealedSubmission:
        """The unfinished submission of these answers, or a new one, kept before this returns: of two programs that begin at
        once, one makes it. `InvitationError` if there is one of other answers under the invitation."""
        with nullcontext() if self._disk is None else self._disk.lock("unfinished", wait=True):
            for record in self._records():
                if record["answers"] == _digest(answers):
                    return self._submission(record)
                if self._invited:
                    raise InvitationError(
                        "an earlier submission under this invitation may have been accepted; submit the same answers "
                        "again, or call resume() to go on with it"
                    )
            made = make()
            self._keep(answers, made)
            return made

    def all(self) -> list[SealedSubmission]:
        """Everything unfinished."""
        return [self._submission(record) for record in self._records()]

    def _keep(self, answers: Mapping[str, object], submission: SealedSubmission) -> None:
        record = {
            "study_id": self._study_id.hex(),
            "invited": self._invited,
            "answers": _digest(answers),
            "submission_id": submission.submission_id.hex(),
            "sealed": [base64.b64encode(part).decode() for part in submission.sealed],
            "withdrawal_key": submission.withdrawal_key.hex(),
            "key_ids": [key_id.hex() for key_id in submission.key_ids],
        }
        if self._vault is None:
            self._last = record
        else:
            self._vault.put(_KIND, submission.submission_id.hex(), record)

    def drop(self, submission: SealedSubmission) -> None:
        """Forget one that every provider has accepted, or one has refused for good."""
        if self._vault is not None:
            self._vault.delete(_KIND, submission.submission_id.hex())
        elif self._last is not None and self._last["submission_id"] == submission.submission_id.hex():
            self._last = None

    def _records(self) -> list[dict[str, Any]]:
        if self._vault is None:
            return [] if self._last is None else [self._last]
        found = [self._vault.get(_KIND, name) or {} for name in self._vault.names(_KIND)]
        ours = (self._study_id.hex(), self._invited)
        return [record for record in found if (record.get("study_id"), record.get("invited")) == ours]

    def _submission(self, record: Mapping[str, Any]) -> SealedSubmission:
        return SealedSubmission(
            self._study_id,
            bytes.fromhex(record["submission_id"]),
            tuple(base64.b64decode(part) for part in record["sealed"]),
            bytes.fromhex(record["withdrawal_key"]),
            tuple(bytes.fromhex(key_id) for key_id in record["key_ids"]),
        )


def _digest(answers: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(dict(answers), sort_keys=True, default=repr).encode()).hexdigest()
