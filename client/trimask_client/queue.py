"""The device's encrypted queue: sealed payloads that wait for the network, drafts and receipts.

The rules, which hold whenever the process is killed or the power fails:

- A payload is written once, under its submission id, and never again: not edited, not drawn again. It may be sent as
  often as needed, for the same bytes give the same receipt.
- Nothing is sent before its payload is on disk; a payload leaves the disk only after its receipt is on it.
- A withdrawal is on disk before anybody is asked; from then on its payload is never sent again.
- A draft is held, encrypted, from sealing until a first provider has accepted its part: answers are not lost to a refusal.
  The payload remembers which draft it came from, so a draft that a crash left behind is never sealed a second time. It can
  be taken up again only when its payload is discarded that was never tried or was refused for good: a provider that
  refuses a part does not have it, so the payload can be in no block, whatever became of its other parts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimask_client.client import Client
from trimask_client.fetch import refuse_closed, refuse_uninvited, refuse_used
from trimask_client.queue_entry import (
    PAUSES_MS,
    Entry,
    ask_providers,
    send_payload,
    sent_entry,
    waiting_entry,
    withdrawal_by_receipt,
    withdrawal_entry,
    withdrawal_of_entry,
)
from trimask_client.records import (
    DRAFTS,
    HELD,
    KINDS,
    PAYLOADS,
    PROGRESS,
    RECEIPTS,
    STUDIES,
    WITHDRAWALS,
    Disk,
    FileDisk,
    QueueRecords,
    Vault,
)
from trimask_client.transport import H2Transport, Transport
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError, InvitationError, Refused, StudyError, VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.institutions import Directory
from trimask_core.submit.invitation import Invitation
from trimask_core.submit.submission import Receipt

if TYPE_CHECKING:
    from trimask_core.basics.clock import Clock


_PENDING = ("waiting", "withdrawing")


class Queue:
    """The studies a device takes part in and what it has to send, kept encrypted on its disk.

    A device joins a study, seals answers when a person has given them, and calls `send` whenever it may have a network:
    at the start, when `next_ms` is due, when the network comes back. A crash at any point loses and doubles nothing.

    Parameters
    ----------
    folder : str, Path or Disk
        Where everything is kept.
    key : bytes
        The device's key, 32 bytes (`device_key` makes and reads one in a file).
    transport, source, timeout_seconds
        As for `Client`.
    clock : Clock, optional
        The system's by default.
    institutions : iterable of Directory
        The directories by which this device knows institutions.
    refuse_unknown : bool
        Join only studies of which these directories name every party.

    Examples
    --------
    >>> queue = Queue("queue", device_key("queue/device.key"))
    >>> study_id = queue.join("study.json")
    >>> entry = queue.seal(study_id, {"hours": 7.5, "active": True})
    >>> entry.state
    'waiting'
    >>> [entry.state for entry in queue.send()]
    ['sent']
    >>> queue.close()
    """

    def __init__(
        self,
        folder: str | Path | Disk,
        key: bytes,
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        source: RandomSource | None = None,
        timeout_seconds: float = 15.0,
        institutions: Iterable[Directory] = (),
        refuse_unknown: bool = False,
    ) -> None:
        self._institutions = tuple(institutions)
        self._refuse_unknown = refuse_unknown
        self._disk = FileDisk(Path(folder)) if isinstance(folder, (str, Path)) else folder
        self._source = source or SystemRandom()
        self._vault = Vault(self._disk, key, self._source)
        self._transport = transport or H2Transport()
        self._clock = clock or SystemClock()
        self._timeout = timeout_seconds
        self._clients: dict[bytes, Client] = {}
        self._records = QueueRecords(self._disk, self._vault)
        self._records.recover()

    def know(self, institutions: Iterable[Directory], *, refuse_unknown: bool) -> None:
        """Replace the directories, and set whether a study with a party in none of them may be joined."""
        self._institutions, self._refuse_unknown = tuple(institutions), refuse_unknown
        self._clients.clear()

    def close(self) -> None:
        """Drop the connections."""
        self._transport.close()
        self._clients.clear()

    # Studies and drafts

    def join(
        self,
        study: SignedStudy | str | Path,
        study_id: bytes | str | None = None,
        invitation: Invitation | None = None,
    ) -> bytes:
        """Check and keep a study.

        Parameters
        ----------
        study : SignedStudy, str or Path
            The study with every party's signature, or its file.
        study_id : bytes or str, optional
            The id it must have, from the invitation.
        invitation : Invitation, optional
            Kept with the study, for one that admits only people it invited.

        Returns
        -------
        bytes
            The study's id, by which the other methods take it.
        """
        if isinstance(study, (str, Path)):
            study = SignedStudy.from_json(Path(study).read_text(encoding="utf-8"))
        client = Client(
            study,
            study_id=study_id,
            invitation=invitation,
            institutions=self._institutions,
            refuse_unknown=self._refuse_unknown,
            transport=self._transport,
            source=self._source,
        )
        found = client.study.id
        record: dict[str, Any] = {"signed": study.to_json()}
        if invitation is not None:
            record["invitation"] = base64.b64encode(invitation.to_bytes()).decode()
        with self._disk.lock("records", wait=True):
            # An invitation that is here stays, also where the study is opened again without one.
            self._vault.put(STUDIES, found.hex(), self._records.study(found.hex()) | record)
        self._clients.pop(found, None)  # its invitation may have changed
        return found

    def studies(self) -> tuple[bytes, ...]:
        """The ids of the studies joined."""
        return tuple(bytes.fromhex(name) for name in self._vault.names(STUDIES))

    def client(self, study_id: bytes) -> Client:
        """The client of a joined study; its approvals are verified again."""
        if study_id not in self._clients:
            record = self._vault.get(STUDIES, study_id.hex())
            if record is None:
                raise StudyError("this device has not joined that study; join it first")
            signed = SignedStudy.from_json(record["signed"])
            invited = base64.b64decode(record.get("invitation", ""))
            self._clients[study_id] = Client(
                signed,
                study_id=study_id,
                invitation=_kept_invitation(study_id, invited),
                institutions=self._institutions,
                transport=self._transport,
                source=self._source,
                timeout_seconds=self._timeout,
            )
            known = record.get("sealing", {})
            self._clients[study_id].sealing = {int(k): bytes.fromhex(key) for k, key in known.items()}
        return self._clients[study_id]

    def save_draft(self, study_id: bytes, answers: Mapping[str, object]) -> None:
        """Keep answers that are not finished; one draft a study."""
        with self._disk.lock("records", wait=True):
            before = self._vault.get(DRAFTS, study_id.hex())
            draft_id = self._source.read(16).hex() if before is None else before["draft_id"]
            self._vault.put(DRAFTS, study_id.hex(), {"draft_id": draft_id, "answers": dict(answers)})

    def draft(self, study_id: bytes) -> dict[str, object] | None:
        """The draft of a study."""
        record = self._vault.get(DRAFTS, study_id.hex())
        return None if record is None else dict(record["answers"])

    def delete_draft(self, study_id: bytes) -> None:
        """Forget a draft."""
        with self._disk.lock("records", wait=True):
            self._vault.delete(DRAFTS, study_id.hex())

    # Sealing and sending

    def refresh_keys(self, study_id: bytes) -> bool:
        """Ask for the right providers' newest sealing keys, if the network is there; whether all answered.

        What is sealed from now on is sealed to them; what is sealed already is never sealed again.
        """
        client = self.client(study_id)
        found = client.refresh_keys()
        with self._disk.lock("records", wait=True):
            record = self._vault.get(STUDIES, study_id.hex())
            if record is not None:
                keys = {str(k): key.hex() for k, key in found.items()}
                self._vault.put(STUDIES, study_id.hex(), {**record, "sealing": keys})
        return len(found) == len(client.study.right)

    def check_open(self, study_id: bytes, *, again: bool = False) -> None:
        """`Refused` if answers would be: already_answered, no_invitation, invitation_expired or invitation_used from what is
        here, study_closed if the collector can be asked and says so, invitation_used if R1 says so. Worth asking before a
        person starts to answer."""
        client = self.client(study_id)
        self._refuse_here(client, again=again)
        refuse_closed(client.study, self._transport, self._timeout)
        if client.invitation is not None:
            refuse_used(client.study, client.invitation, self._transport, self._timeout)

    def _refuse_here(self, client: Client, *, again: bool) -> None:
        before = [entry for entry in self.entries() if entry.study_id == client.study.id]
        if not again and any(entry.state != "withdrawn" for entry in before):
            raise Refused(Reason.ALREADY_ANSWERED, "this device has answered this study already")
        refuse_uninvited(client.study, client.invitation, self._clock.now_ms())
        if client.invited and client.invited in {
            self._records.field(kind, entry.submission_id.hex(), "invited")
            for entry in before
            for kind in (PAYLOADS, RECEIPTS, WITHDRAWALS)
        }:
            # Right providers bind an invitation to one submission for ever, a withdrawn one too.
            raise Refused(Reason.INVITATION_USED, "this invitation was used on this device")

    def seal(
        self, study_id: bytes, answers: Mapping[str, object] | None = None, *, again: bool = False
    ) -> Entry:
        """Mask, split and seal answers into a payload, which waits to be sent.

        The draft is held until a first provider has accepted the payload; answers given without a draft are not kept.

        Parameters
        ----------
        study_id : bytes
            A study that was joined.
        answers : mapping, optional
            By attribute; the draft's by default.
        again : bool
            Answer a study a second time. Otherwise that is refused, since the guarantee is for one row a person.

        Returns
        -------
        Entry
            The submission, in the state "waiting".
        """
        client = self.client(study_id)
        with self._disk.lock("records", wait=True):
            self._refuse_here(client, again=again)
            draft = self._vault.get(DRAFTS, study_id.hex())
            if draft is not None and draft["draft_id"] in self._records.sealed_drafts():
                raise Refused(Reason.ALREADY_ANSWERED, "this draft is sealed already and waits to be sent")
            if answers is None:
                if draft is None:
                    raise StudyError("there is no draft of this study; give answers")
                answers = draft["answers"]
            sealed = client.prepare(answers)
            name = sealed.submission_id.hex()
            if draft is not None:
                self._vault.put(HELD, name, draft)
            self._vault.put(
                PAYLOADS,
                name,
                {
                    **sealed.to_record(),
                    "sealed_ms": self._clock.now_ms(),
                    "invitation": base64.b64encode(client.admission_of(sealed)).decode(),
                    "invited": client.invited,
                    "draft_id": None if draft is None else draft["draft_id"],
                },
            )
            if draft is not None:
                self._vault.delete(DRAFTS, study_id.hex())
        return self.entry(sealed.submission_id)

    def send(
        self, *, now: bool = False, wait: bool = False, signed: Callable[[str], None] | None = None
    ) -> tuple[Entry, ...]:
        """Send what waits and is due, withdrawals included.

        Parameters
        ----------
        now : bool
            Send all that waits, say because the network is back.
        wait : bool
            Where another program sends from this queue, let it finish first; otherwise that is an error.
        signed : callable, optional
            Called with the address of each provider whose receipt is verified and kept.

        Returns
        -------
        tuple of Entry
            What was tried, as it is now.
        """
        with self._disk.lock("sending", wait=wait) as mine:
            if not mine:
                raise ConfigError("another program is sending from this queue; let it finish")
            waiting = [entry for entry in self.entries() if entry.state in _PENDING]
            due = [entry for entry in waiting if now or self._due(entry)]
            return tuple(
                self._ask(entry.submission_id)
                if entry.state == "withdrawing"
                else self._send_one(entry, signed)
                for entry in due
            )

    def next_ms(self) -> int | None:
        """When `send` next has something to do; None if nothing waits."""
        waiting = [entry for entry in self.entries() if entry.state in _PENDING]
        return min((entry.next_ms or self._clock.now_ms() for entry in waiting), default=None)

    def entries(self) -> tuple[Entry, ...]:
        """Everything sealed on this device and not discarded: what was sent, what waits, what is withdrawn."""
        kinds = (RECEIPTS, PAYLOADS, WITHDRAWALS)
        names = dict.fromkeys(name for kind in kinds for name in self._vault.names(kind))
        return tuple(self.entry(bytes.fromhex(name)) for name in names)

    def entry(self, submission_id: bytes) -> Entry:
        """One submission."""
        name = submission_id.hex()
        try:
            record = self._vault.get(WITHDRAWALS, name)
            if record is not None:
                return withdrawal_entry(submission_id, record)
            record = self._vault.get(RECEIPTS, name)
            if record is not None:
                return sent_entry(record)
            payload = self._vault.get(PAYLOADS, name)
            if payload is None:
                raise Refused(Reason.UNKNOWN_SUBMISSION, "this device has no such submission")
            progress = self._records.progress(name)
            study = self.client(bytes.fromhex(payload["study_id"])).study
        except (VerificationError, StudyError) as error:
            return Entry(submission_id, b"", "", "damaged", why=str(error))
        return waiting_entry(submission_id, study, progress, held=name in self._vault.names(HELD))

    def discard(self, submission_id: bytes, *, forget: bool = False) -> None:
        """Give up a submission that is not sent. What providers have of it stays there, unused unless all have it.

        The draft it was sealed from, if it is still held and the payload can be in no block (never tried, or refused for
        good), is the study's draft again, to be changed and sealed again; with `forget` it goes as well.
        """
        name = submission_id.hex()
        with self._disk.lock("sending", wait=True), self._disk.lock("records", wait=True):
            if not forget:
                self._take_up(submission_id)
            for kind in (PAYLOADS, PROGRESS, HELD):
                self._vault.delete(kind, name)

    def let_go(self, submission_id: bytes) -> None:
        """Delete the draft that is held for a submission; its sealed payload stays, and is sent. For a device that somebody
        else keeps: a refusal then costs the answers, and nobody finds them on it."""
        self._records.release_draft(submission_id.hex())

    def _take_up(self, submission_id: bytes) -> None:
        entry, name = self.entry(submission_id), submission_id.hex()
        free = entry.state == "refused" or (
            entry.state == "waiting" and name not in self._vault.names(PROGRESS)
        )
        held = self._vault.get(HELD, name) if free else None
        if held is None:
            return
        if self._vault.get(DRAFTS, entry.study_id.hex()) is not None:
            raise ConfigError("there is another draft of this study; finish or delete it first")
        self._vault.put(DRAFTS, entry.study_id.hex(), held)

    def forget(self, study_id: bytes) -> None:
        """Forget all there is of a study here: draft, submissions, receipts, the study. What was sent stays where it is, and
        without its receipt nobody can withdraw it."""
        gone = [entry.submission_id.hex() for entry in self.entries() if entry.study_id == study_id]
        with self._disk.lock("sending", wait=True), self._disk.lock("records", wait=True):
            for name in gone:
                for kind in (PAYLOADS, PROGRESS, HELD, RECEIPTS, WITHDRAWALS):
                    self._vault.delete(kind, name)
            for kind in (DRAFTS, STUDIES):
                self._vault.delete(kind, study_id.hex())
        self._clients.pop(study_id, None)

    def forget_all(self) -> None:
        """Forget everything this queue has, what cannot be read any more too."""
        with self._disk.lock("sending", wait=True), self._disk.lock("records", wait=True):
            for kind in KINDS:
                for name in self._vault.names(kind):
                    self._vault.delete(kind, name)
        self._clients.clear()

    # Receipts

    def import_receipt(self, receipt: Receipt) -> Entry:
        """Keep a receipt made on another device, to withdraw with it here; its study must be joined.

        One that is here already stays as it is: an old copy brings nothing back that was withdrawn.
        """
        study, name = self.client(receipt.study_id).study, receipt.submission_id.hex()
        receipt.verify(study)
        with self._disk.lock("records", wait=True):
            if not any(name in self._vault.names(kind) for kind in (RECEIPTS, WITHDRAWALS, PAYLOADS)):
                record = {"receipt": receipt.to_json(), "title": study.title, "draft_id": None}
                self._vault.put(RECEIPTS, name, record)
        return self.entry(receipt.submission_id)

    # Withdrawing

    def withdraw(self, submission: bytes | Receipt) -> Entry:
        """Withdraw a submission of this device, or one by its receipt (its study must be joined).

        One that was never tried is forgotten, and nobody is asked. Otherwise every right provider is asked to erase it, now
        and with every `send` until all have signed that they did, or all say that it is too late.
        """
        submission_id = submission.submission_id if isinstance(submission, Receipt) else submission
        name = submission_id.hex()
        with self._disk.lock("sending", wait=True):
            with self._disk.lock("records", wait=True):
                if name not in self._vault.names(WITHDRAWALS):
                    record = self._withdrawal(submission)
                    self._vault.put(WITHDRAWALS, name, record)
                    for kind in (PAYLOADS, PROGRESS, RECEIPTS, HELD):
                        self._vault.delete(kind, name)
            entry = self.entry(submission_id)
            return self._ask(submission_id) if entry.state == "withdrawing" else entry

    def _withdrawal(self, submission: bytes | Receipt) -> dict[str, Any]:
        """The record of a new withdrawal; complete at once if nothing of the submission has left this device."""
        if isinstance(submission, Receipt):
            return withdrawal_by_receipt(self.client(submission.study_id).study, submission)
        entry, name = self.entry(submission), submission.hex()
        if entry.state == "damaged":
            raise Refused(Reason.UNKNOWN_SUBMISSION, f"it cannot be read ({entry.why}); discard it")
        payload = self._vault.get(PAYLOADS, name) or {}
        kept, tried = self._vault.get(RECEIPTS, name) or payload, name in self._vault.names(PROGRESS)
        return withdrawal_of_entry(self.client(entry.study_id).study, entry, payload, kept, tried=tried)

    def _ask(self, submission_id: bytes) -> Entry:
        name = submission_id.hex()
        record = self._vault.get(WITHDRAWALS, name)
        if record is not None:
            client = self.client(bytes.fromhex(record["study_id"]))
            self._records.save(
                WITHDRAWALS, name, ask_providers(client, record, self._clock.now_ms(), self._source)
            )
        return self.entry(submission_id)

    # Inside

    def _send_one(self, entry: Entry, signed: Callable[[str], None] | None) -> Entry:
        payload = self._vault.get(PAYLOADS, entry.submission_id.hex())
        if payload is None:
            return entry
        client = self.client(entry.study_id)
        send_payload(client, entry.submission_id, payload, self._records, self._clock, self._source, signed)
        return self.entry(entry.submission_id)

    def _due(self, entry: Entry) -> bool:
        if entry.next_ms is None:
            return True
        left = entry.next_ms - self._clock.now_ms()
        # A device's clock may be set back; no pause is longer than the longest.
        return left <= 0 or left > PAUSES_MS.longest


def _kept_invitation(study_id: bytes, data: bytes) -> Invitation | None:
    try:
        return Invitation.from_bytes(study_id, data) if data else None
    except InvitationError:
        return (
            None  # of an older format, which no provider takes any more; the study stays, to be joined again
        )
