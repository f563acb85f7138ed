"""`Gateway(study).submit_many(rows)`: submissions for many people, from an institution that has their answers.

The institution sees the rows, as it did before; collector and providers get what a person's own device would send. Rows
are masked, shared and sealed many at a time, and travel in one streaming call to each right provider in turn.

With a folder every batch is written down, sealed, before a part of it is sent, and again with what became of it: after a
crash the same bytes go on, so that nobody is counted twice.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import hmac
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from trimask_client.client import Client
from trimask_client.records import FileDisk, Vault, device_key
from trimask_client.transport import Endpoint, Unreachable
from trimask_core.basics.clock import Backoff
from trimask_core.basics.errors import ConfigError, InvitationError, Refused, VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.basics.refusals import Reason, Retry, read_reason
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation
from trimask_core.submit.submission import ProviderReceipt, Receipt, SealedSubmission, receipt_link
from trimask_proto.v1.submission_pb2 import SubmitManyRequest, SubmitManyResponse, SubmitRequest

SUBMIT_MANY_METHOD = "/trimask_proto.v1.SubmissionService/SubmitMany"
RECEIPTS_FILE, REFUSED_FILE = "receipts.csv", "refused.csv"
_BATCH = 256  # people written down, and sent, at a time
_TOGETHER = 64  # submissions a message
_MESSAGE_BYTES = 120_000  # below what a node takes by default; a larger submission is a message by itself
_PAUSES = Backoff(first=0.4, longest=10.0)  # seconds
_LONGEST_ASKED = 30.0
_KIND, _STATE = "sending", "00"  # one record


class SuiteGateway(Protocol):
    """Makes many people's submissions at once, to the bit as their own devices would."""

    def submissions(
        self,
        people: Sequence[Mapping[str, object]],
        source: RandomSource,
        sealing: Mapping[int, bytes] | None = None,
    ) -> list[SealedSubmission]:
        """A submission for each person's answers; `sealing` as in `build_submission`."""
        ...


def gateway_of(study: Study) -> SuiteGateway:
    """The gateway of a study's suite; `ConfigError` without numpy, which it needs."""
    try:
        from trimask_core.moments import gateway as moments
        from trimask_core.rows import gateway as rows
    except ModuleNotFoundError:
        raise ConfigError("submitting for many needs numpy: pip install 'trimask-client[numpy]'") from None
    return rows.Gateway(study) if study.suite.name == "rows" else moments.Gateway(study)


class Gateway:
    """Submits for many people to one study.

    Parameters
    ----------
    study : SignedStudy, str or Path
        The study with every party's signature, or its file; verified as by `Client`.
    study_id : bytes or str, optional
        The id the institution was given. Give it: then no other study, however well signed, is taken for this one.
    folder : str or Path, optional
        Where it is written down how far sending has come, with `receipts.csv` (a link a person, which can withdraw:
        whoever is handed it needs no other proof) and `refused.csv`. Without one a crash forgets who was submitted.
    attempts : int
        How often a provider is tried without any progress, with growing pauses, before an error is raised.
    timeout_seconds : float
        For the answer to one message.

    Examples
    --------
    >>> with Gateway("study.json", folder="sending") as gateway:
    ...     outcomes = list(gateway.submit_many(people))
    """

    def __init__(
        self,
        study: SignedStudy | str | Path,
        *,
        study_id: bytes | str | None = None,
        folder: str | Path | None = None,
        attempts: int = 6,
        timeout_seconds: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        from trimask_client.transport import H2Transport  # a device that never calls it needs no h2

        self._source = SystemRandom()
        self._client = Client(study, study_id=study_id, timeout_seconds=timeout_seconds)
        self.study = self._client.study
        try:
            self._maker = gateway_of(self.study)
        except ModuleNotFoundError:
            raise ConfigError(
                "submitting for many needs numpy: pip install 'trimask-client[numpy]'"
            ) from None
        self._transport = H2Transport()
        self._folder = None if folder is None else Path(folder)
        self._attempts, self._timeout, self._sleep = attempts, timeout_seconds, sleep
        self._message_bytes = _MESSAGE_BYTES

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections."""
        self._transport.close()
        self._client.close()

    def submit_many(
        self,
        rows: Iterable[Mapping[str, object]],
        invitations: Iterable[Invitation] = (),
        lines: Iterable[int] = (),
    ) -> Iterator[tuple[int, Receipt | Refused]]:
        """Submit a row a person; for each, in order, its line and every provider's receipt or one's refusal.

        After an error or a crash call it again, with the same folder and the same rows: it goes on where it was. What
        was begun and not finished is told again.

        Parameters
        ----------
        rows : iterable of mappings
            Each person's answers, by attribute; read a batch at a time.
        invitations : iterable of Invitation
            One a person, in the same order, where the study is for invited people.
        lines : iterable of int
            What rows are called in what is returned and in the files; 1, 2, 3, ... by default.

        Raises
        ------
        AnswerError
            An answer is missing or out of bounds. Its batch was not sent.
        Unreachable, Refused
            A provider could not be reached, or takes nothing for now; call again later.
        """
        with ExitStack() as held:
            ledger = _Ledger(self._folder, self.study.id, held)
            everybody = iter(zip(_or_count(lines), rows, strict=False))
            invited = iter(invitations)
            done = ledger.state.get("done", 0)
            for _ in range(0, done, _BATCH):  # what is finished is only compared
                batch = list(itertools.islice(everybody, _BATCH))
                list(itertools.islice(invited, len(batch)))
                ledger.pass_over(batch)
            ledger.require_same()
            self._client.refresh_keys()
            while batch := list(itertools.islice(everybody, _BATCH)):
                own = list(itertools.islice(invited, len(batch)))
                made, admissions = ledger.begun(batch) or self._prepared([row for _, row in batch], own)
                ledger.begin(made, admissions)
                outcomes = self._send(made, admissions)
                named = [(line, outcome) for (line, _), outcome in zip(batch, outcomes, strict=True)]
                ledger.note(self._client, named)
                yield from named
                ledger.finish(len(batch))
            ledger.complete()

    def _prepared(
        self, people: Sequence[Mapping[str, object]], own: Sequence[Invitation]
    ) -> tuple[list[SealedSubmission], list[bytes]]:
        invited = self.study.admission == "invited"
        if invited and len(own) < len(people):
            raise InvitationError(
                "this study is for invited people: give as many invitations as there are rows"
            )
        made = self._maker.submissions(people, self._source, self._client.sealing)
        if not invited:
            return made, [b""] * len(made)
        for invitation in own:
            invitation.verify(self.study.admits)
        return made, [one.admit(each).to_bytes() for one, each in zip(own, made, strict=True)]

    def _send(self, made: Sequence[SealedSubmission], admissions: Sequence[bytes]) -> list[Receipt | Refused]:
        """To one right provider after the other: what one refuses, the next is not sent."""
        refused: dict[int, Refused] = {}
        receipts: dict[int, list[ProviderReceipt]] = {place: [] for place in range(len(made))}
        for k in range(1, len(self.study.right) + 1):
            sending = {
                place: self._client.submit_request(one, k, admission)
                for place, (one, admission) in enumerate(zip(made, admissions, strict=True))
                if place not in refused
            }
            for place, outcome in self._deliver(k, sending).items():
                if isinstance(outcome, Refused):
                    refused[place] = outcome
                else:
                    receipts[place].append(outcome)
        found: list[Receipt | Refused] = []
        for place, one in enumerate(made):
            if place in refused:
                found.append(refused[place])
                continue
            receipt = self._client.receipt(one, receipts[place])
            receipt.verify(self.study)
            found.append(receipt)
        return found

    def _deliver(self, k: int, sending: Mapping[int, SubmitRequest]) -> dict[int, ProviderReceipt | Refused]:
        """What R_k says of each, asked until it has said something for good."""
        party = self.study.party(f"R{k}")
        endpoint = Endpoint(party.address, party.tls_name, self.study.tls_roots)
        outcomes: dict[int, ProviderReceipt | Refused] = {}
        failures = 0
        while left := {place: one for place, one in sending.items() if place not in outcomes}:
            before, asked = len(outcomes), 0
            error: Refused | Unreachable | None = None
            try:
                for place, outcome in self._exchange(k, endpoint, left):
                    if isinstance(outcome, Refused) and outcome.reason.retry is not Retry.NEVER:
                        error = outcome
                    elif isinstance(outcome, Refused) and outcome.reason is Reason.STUDY_CLOSED:
                        raise outcome
                    else:
                        outcomes[place] = outcome
            except Unreachable as failed:
                error = failed
            except Refused as failed:
                smaller = failed.reason is Reason.OVERSIZED_MESSAGE and len(left) > 1 < self._message_bytes
                if failed.reason.retry is Retry.NEVER and not smaller:
                    raise
                self._message_bytes //= 2 if smaller else 1
                error = failed
            if error is None:
                continue
            failures = 0 if len(outcomes) > before else failures + 1
            if failures >= self._attempts:
                error.add_note("The same call goes on where it was: give it the same folder and rows.")
                raise error
            asked = error.retry_after_ms or 0 if isinstance(error, Refused) else 0
            self._sleep(min(asked / 1000, _LONGEST_ASKED) + _PAUSES.pause(max(failures, 1), self._source))
        return outcomes

    def _exchange(
        self, k: int, endpoint: Endpoint, sending: Mapping[int, SubmitRequest]
    ) -> Iterator[tuple[int, ProviderReceipt | Refused]]:
        """One streaming call with all of them, a few a message."""
        groups = list(self._groups(sending))
        messages = (
            SubmitManyRequest(study_id=self.study.id, submissions=(sending[place] for place in group))
            for group in groups
        )
        answers = self._transport.exchange(
            endpoint, SUBMIT_MANY_METHOD, (one.SerializeToString() for one in messages), self._timeout
        )
        for group, answer in zip(groups, answers, strict=True):
            try:
                outcomes = SubmitManyResponse.FromString(answer).outcomes
            except DecodeError:
                raise VerificationError(f"R{k} answered with something that is not receipts") from None
            if len(outcomes) != len(group):
                raise VerificationError(f"R{k} answered {len(outcomes)} of {len(group)} submissions")
            for place, outcome in zip(group, outcomes, strict=True):
                if outcome.HasField("receipt"):
                    digest = hashlib.sha256(sending[place].sealed_component).digest()
                    receipt = outcome.receipt
                    yield place, ProviderReceipt(f"R{k}", digest, receipt.receive_time_ms, receipt.signature)
                else:
                    reason = read_reason(outcome.reason, "UNKNOWN")
                    yield (
                        place,
                        Refused(reason, outcome.message, retry_after_ms=outcome.retry_after_ms or None),
                    )

    def _groups(self, sending: Mapping[int, SubmitRequest]) -> Iterator[list[int]]:
        group: list[int] = []
        size = 0
        for place, request in sending.items():
            bytes_of = request.ByteSize() + 8
            if group and (len(group) == _TOGETHER or size + bytes_of > self._message_bytes):
                yield group
                group, size = [], 0
            group.append(place)
            size += bytes_of
        if group:
            yield group


def _or_count(lines: Iterable[int]) -> Iterator[int]:
    first = iter(lines)
    for line in first:
        yield line
        yield from first
        return
    yield from itertools.count(1)


class _Ledger:
    """How far a table has been sent: one encrypted record, in the place of the last, and the files people are shown.

    Rows are compared by a keyed hash over all of them, which goes when the last is sent.
    """

    def __init__(self, folder: Path | None, study_id: bytes, held: ExitStack) -> None:
        self._folder = folder
        self._vault: Vault | None = None
        self.state: dict[str, Any] = {}
        if folder is not None:
            disk = FileDisk(folder)
            if not held.enter_context(disk.lock("sending", wait=False)):
                raise ConfigError(f"{folder}: another program is sending from it")
            self._vault = Vault(disk, device_key(folder / "device.key"), SystemRandom())
            self.state = self._vault.get(_KIND, _STATE) or {}
        fresh = {
            "study": study_id.hex(),
            "key": SystemRandom().seed().hex(),
            "done": 0,
            "digest": "",
            "sizes": {},
        }
        self.state = self.state or fresh
        if self.state["study"] != study_id.hex():
            raise ConfigError(f"{folder} is of another study; give another folder")
        if self.state.get("complete"):
            raise ConfigError(
                f"{folder}: all {self.state['done']:,} rows were sent; give another folder for others"
            )
        self._digest = ""
        self._batch_digest = ""

    def _after(self, batch: Sequence[tuple[int, Mapping[str, object]]]) -> str:
        text = json.dumps([self._digest, [dict(row) for _, row in batch]], sort_keys=True, default=repr)
        return hmac.digest(bytes.fromhex(self.state["key"]), text.encode(), "sha256").hex()

    def pass_over(self, batch: Sequence[tuple[int, Mapping[str, object]]]) -> None:
        """Take finished rows into the hash."""
        self._digest = self._after(batch)

    def require_same(self) -> None:
        """Refuse other rows than those that sending was begun with."""
        if self._digest != self.state["digest"]:
            raise ConfigError(f"{self._folder}: the rows are others than those that sending was begun with")

    def begun(
        self, batch: Sequence[tuple[int, Mapping[str, object]]]
    ) -> tuple[list[SealedSubmission], list[bytes]] | None:
        """What was made of this batch before a crash."""
        self._batch_digest = self._after(batch)
        kept = self.state.get("batch")
        if kept is None:
            return None
        if kept["digest"] != self._batch_digest:
            raise ConfigError(f"{self._folder}: the rows are others than those that sending was begun with")
        study_id = bytes.fromhex(self.state["study"])
        for name, size in self.state["sizes"].items():  # what is noted again
            if self._folder is not None and (self._folder / name).exists():
                os.truncate(self._folder / name, size)
        made = [
            SealedSubmission(
                study_id,
                bytes.fromhex(one["id"]),
                tuple(base64.b64decode(part) for part in one["sealed"]),
                bytes.fromhex(one["key"]),
                tuple(bytes.fromhex(key_id) for key_id in one["key_ids"]),
            )
            for one in kept["made"]
        ]
        return made, [base64.b64decode(one["admission"]) for one in kept["made"]]

    def begin(self, made: Sequence[SealedSubmission], admissions: Sequence[bytes]) -> None:
        """Write a batch down before anything of it is sent."""
        if self._folder is None or self._vault is None or "batch" in self.state:
            return
        files = [self._folder / name for name in (RECEIPTS_FILE, REFUSED_FILE)]
        self.state["sizes"] = {file.name: file.stat().st_size if file.exists() else 0 for file in files}
        self.state["batch"] = {
            "digest": self._batch_digest,
            "made": [
                {
                    "id": one.submission_id.hex(),
                    "sealed": [base64.b64encode(part).decode() for part in one.sealed],
                    "key": one.withdrawal_key.hex(),
                    "key_ids": [key_id.hex() for key_id in one.key_ids],
                    "admission": base64.b64encode(admission).decode(),
                }
                for one, admission in zip(made, admissions, strict=True)
            ],
        }
        self._vault.put(_KIND, _STATE, self.state)

    def note(self, client: Client, outcomes: Sequence[tuple[int, Receipt | Refused]]) -> None:
        """Add to the files; on disk when this returns."""
        links = [
            (line, one.submission_id.hex(), receipt_link(client.study, one))
            for line, one in outcomes
            if isinstance(one, Receipt)
        ]
        refused = [(line, str(one.reason), str(one)) for line, one in outcomes if isinstance(one, Refused)]
        self._append(RECEIPTS_FILE, ("line", "submission", "receipt"), links)
        self._append(REFUSED_FILE, ("line", "reason", "message"), refused)

    def _append(self, name: str, header: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
        if self._folder is None or not rows:
            return
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", newline="") as file:
            if os.fstat(descriptor).st_size == 0:
                csv.writer(file).writerow(header)
            csv.writer(file).writerows(rows)
            file.flush()
            os.fsync(descriptor)

    def finish(self, count: int) -> None:
        """A batch is sent and noted."""
        self._digest = self._batch_digest
        self.state.pop("batch", None)
        self.state |= {"done": self.state["done"] + count, "digest": self._digest}
        if self._vault is not None:
            self._vault.put(_KIND, _STATE, self.state)

    def complete(self) -> None:
        """Everybody is."""
        self.state = {"study": self.state["study"], "done": self.state["done"], "complete": True}
        if self._vault is not None:
            self._vault.put(_KIND, _STATE, self.state)
