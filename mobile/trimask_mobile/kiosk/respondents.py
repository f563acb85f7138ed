"""Several respondents on one device, each in a folder and under a key of their own.

What one of them does happens on a `Device` that knows nothing of the others', nor of the interviewer's own studies. After a
session only what is sealed stays, until institutions have accepted it; then the key is deleted and the folder with it. Who
asks for it has their receipt kept until they fetch it.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trimask_client.queue_entry import DONE
from trimask_client.records import FileDisk, Vault
from trimask_core.basics.errors import ConfigError, Refused, TrimaskError, VerificationError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Link
from trimask_mobile.model.device import Device
from trimask_mobile.model.study_page_text import party_name

# Nobody has touched the device for so long: whoever was answering has left it.
IDLE_MS = 600_000
_KIND, _RETURNED, _STUDIES, _COUNT = "respondents", "returned", "interviews", "interviewer"
_TALLY = "02"


@dataclass(frozen=True)
class Respondent:
    """What an interviewer is told: a study, a number nobody is known by, how far sending is, who refused it and why."""

    id: str
    title: str
    number: str
    state: Literal["waiting", "refused", "sent"]
    kept: bool
    next_ms: int | None = None
    causes: tuple[tuple[str, str], ...] = ()


def short_number(submission_id: bytes) -> str:
    """What a submission is known by between a respondent and an interviewer."""
    digits = submission_id.hex()[:8].upper()
    return f"{digits[:4]} {digits[4:]}"


class Respondents:
    """The respondents of this device; `device` is the interviewer's. Called from worker threads."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._root = device.home / "respondents"
        self._guard = threading.RLock()
        for kind in (_KIND, _RETURNED, _STUDIES, _COUNT):
            self._vault.tidy(kind)
        self._sweep()

    @property
    def _vault(self) -> Vault:
        return self._device.vault

    # Studies, kept so that interviews can be begun without a network

    def keep_study(self, signed: SignedStudy) -> None:
        """A study that was fetched."""
        self._vault.put(_STUDIES, signed.study.id.hex(), {"signed": signed.to_json()})

    def study(self, study_id: bytes) -> SignedStudy | None:
        """A study, if it was fetched before."""
        record = self._vault.get(_STUDIES, study_id.hex())
        return None if record is None else SignedStudy.from_json(record["signed"])

    def studies(self) -> dict[bytes, str]:
        """Titles of the studies fetched, by id."""
        return {
            bytes.fromhex(name): signed.study.title
            for name in self._vault.names(_STUDIES)
            if (signed := self.study(bytes.fromhex(name))) is not None
        }

    # A session

    def stage(self, link: str) -> str:
        """Note an invitation that is being taken out of the list, so that a crash neither loses it nor has it twice."""
        name = SystemRandom().read(8).hex()
        self._vault.put(_RETURNED, name, {"link": link})
        return name

    def unstage(self, name: str) -> None:
        """It is in a session now, or back in the list."""
        self._vault.delete(_RETURNED, name)

    def begin(self, link: Link) -> tuple[str, Device]:
        """A fresh respondent with this invitation; refused where their answers would be."""
        signed = self.study(link.study_id)
        if signed is None:
            signed = self._device.fetch(link)
            self.keep_study(signed)
        one = SystemRandom().read(8).hex()
        record = {
            "key": SystemRandom().seed().hex(), "link": str(link), "title": signed.study.title, "open": True, "spent": False,
            "kept": False, "counted": False, "touched_ms": self._device.clock.now_ms(), "state": "waiting", "number": "",
            "next_ms": None, "causes": [],
        }  # fmt: skip
        self._put(one, record)
        try:
            device = self._open(one, record)
            device.keep_settings(self._device.settings())
            device.know(refuse_unknown=bool(self._device.settings().get("refuse_unknown", False)))
            device.queue.check_open(device.queue.join(signed, link.study_id, link.invitation))
        except (TrimaskError, OSError) as error:
            if isinstance(error, Refused) and error.reason.final:
                self.spend(one)  # it is good for nobody
            self.erase(one)
            raise
        return one, device

    def resume(self) -> tuple[str, Device] | None:
        """The session that was under way when the app ended, if its respondent may still be there; others are erased."""
        found = None
        for one in self._names():
            record = self._record(one)
            if record is None or not record["open"]:
                continue
            idle = self._device.clock.now_ms() - record["touched_ms"]
            if found is None and 0 <= idle < IDLE_MS:
                found = one, self._open(one, record)
            else:
                self.end(one)
        return found

    def touch(self, one: str) -> None:
        """Somebody is answering."""
        self._change(one, touched_ms=self._device.clock.now_ms())

    def spend(self, one: str) -> None:
        """Their invitation is about to be shown to institutions: it is nobody else's any more."""
        self._change(one, spent=True)

    def choose(self, one: str, *, keep: bool) -> None:
        """Whether a receipt is kept here for them."""
        self._change(one, kept=keep)

    def end(self, one: str) -> None:
        """After a session: nothing stays but what is sealed and not accepted, or a receipt whose owner asked for that."""
        record = self._record(one)
        if record is None:
            return
        device = self._open(one, record)
        try:
            for study_id in device.queue.studies():
                device.queue.delete_draft(study_id)
                device.forget_consent(study_id)
            device.keep_where({})
            for entry in device.queue.entries():
                device.queue.let_go(entry.submission_id)
            if not device.queue.entries():
                self.erase(one)
                return
            self._change(one, open=False)
            self._settle(one, device)
        finally:
            device.close()

    # After it

    def fetch(self, one: str) -> Device:
        """The device of somebody who has come back for their receipt."""
        record = self._record(one)
        if record is None:
            raise ConfigError("this receipt is not here any more")
        self._change(one, open=True, touched_ms=self._device.clock.now_ms())
        return self._open(one, record)

    def lines(self) -> tuple[Respondent, ...]:
        """Everybody of whom something is still here."""
        return tuple(
            Respondent(
                one,
                record["title"],
                record["number"],
                record["state"],
                record["kept"],
                record["next_ms"],
                tuple((role, code) for role, code in record["causes"]),
            )
            for one in self._names()
            if (record := self._record(one)) is not None and not record["open"]
        )

    def next_ms(self) -> int | None:
        """When `send` next has something to do."""
        now = self._device.clock.now_ms()
        return min((one.next_ms or now for one in self.lines() if one.state == "waiting"), default=None)

    def send(self, *, now: bool) -> None:
        """Try what waits and is due; what institutions have accepted is removed."""
        for line in self.lines():
            record = self._record(line.id)
            if line.state != "waiting" or record is None:
                continue
            device = self._open(line.id, record)
            try:
                device.send(now=now)
                self._settle(line.id, device)
            finally:
                device.close()

    def sent(self) -> int:
        """How many submissions of sessions were accepted: a number, and of nobody in particular."""
        return int((self._vault.get(_COUNT, _TALLY) or {}).get("sent", 0))

    def returned(self) -> list[str]:
        """Invitations of sessions in which nothing was sent, to be used again."""
        with self._guard:
            records = [self._vault.get(_RETURNED, name) for name in self._vault.names(_RETURNED)]
        return [record["link"] for record in records if record is not None]

    def clear_returned(self) -> None:
        """They are in the list again."""
        with self._guard:
            for name in self._vault.names(_RETURNED):
                self._vault.delete(_RETURNED, name)

    # Erasing

    def erase(self, one: str) -> None:
        """Delete the key, then the folder. An invitation that was shown to nobody can be used again."""
        with self._guard:
            record = self._record(one)
            if (
                record is not None
                and record["open"]
                and not record["spent"]
                and Link.parse(record["link"]).invitation
            ):
                self._vault.put(_RETURNED, one, {"link": record["link"]})
            self._vault.delete(_KIND, one)
        self._remove(one)

    def erase_all(self) -> None:
        """Everything about interviews."""
        for one in self._names():
            self._change(one, spent=True)
            self.erase(one)
        self.clear_returned()
        for name in self._vault.names(_STUDIES):
            self._vault.delete(_STUDIES, name)
        self._vault.delete(_COUNT, _TALLY)

    def _remove(self, one: str) -> None:
        folder = self._root / one
        if folder.exists():
            with FileDisk(folder).lock("sending", wait=True):  # what is under way writes no more
                shutil.rmtree(folder)

    def _sweep(self) -> None:
        """Folders without a key: a crash came between the two."""
        if self._root.exists():
            known = set(self._names())
            for folder in self._root.iterdir():
                if folder.name not in known:
                    shutil.rmtree(folder, ignore_errors=True)

    # Inside

    def _open(self, one: str, record: dict[str, Any]) -> Device:
        return self._device.beside(self._root / one, bytes.fromhex(record["key"]))

    def _settle(self, one: str, device: Device) -> None:
        entries = device.queue.entries()
        states = {entry.state for entry in entries}
        waiting = [entry for entry in entries if entry.state in ("waiting", "withdrawing")]
        refused = [entry for entry in entries if entry.state in ("refused", "damaged")]
        record = self._record(one)
        if record is None:
            return
        if "sent" in states and not record["counted"]:
            self._vault.put(_COUNT, _TALLY, {"sent": self.sent() + 1})
            self._change(one, counted=True)
        if states <= set(DONE) and not record["kept"]:
            self.erase(one)
            return
        self._change(
            one,
            state="waiting" if waiting else "refused" if refused else "sent",
            number=short_number(entries[-1].submission_id),
            next_ms=min((entry.next_ms or 0 for entry in waiting), default=None) or None,
            causes=[
                [party_name(device.queue.client(entry.study_id).study, role), code]
                for entry in (waiting or refused)
                for role, code in entry.causes
            ],
        )

    def _names(self) -> list[str]:
        return self._vault.names(_KIND)

    def _record(self, one: str) -> dict[str, Any] | None:
        try:
            return self._vault.get(_KIND, one)
        except VerificationError:
            return None

    def _put(self, one: str, record: dict[str, Any]) -> None:
        with self._guard:
            self._vault.put(_KIND, one, record)

    def _change(self, one: str, **values: Any) -> None:
        """Unless it was erased meanwhile."""
        with self._guard:
            record = self._record(one)
            if record is not None:
                self._vault.put(_KIND, one, record | values)


def send_sessions(home: Path, key: bytes) -> bool:
    """Try what sessions have left on the device in `home`, all of it now; whether something still waits. Without an app."""
    try:
        device = Device(home, key=key)
        found = Respondents(device)
        found.send(now=True)
        device.close()
        return found.next_ms() is not None
    except (TrimaskError, OSError):
        return True  # there is nobody to tell; the app says it when it is opened
