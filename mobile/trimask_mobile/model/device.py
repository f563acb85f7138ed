"""Everything the app keeps and sends, on top of the client's queue. Called from worker threads, never from the screen's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trimask_client import Endpoint, Entry, Queue, Transport, device_key
from trimask_client.fetch import fetch_linked, fetch_of_receipt
from trimask_client.records import FileDisk, Vault
from trimask_client.transport import H2Transport
from trimask_core.basics.clock import Clock, SystemClock
from trimask_core.basics.errors import ConfigError, TrimaskError, VerificationError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.form.font_coverage import app_languages
from trimask_core.form.form import Form
from trimask_core.study.definition import Study
from trimask_core.study.party import Web
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.institutions import Directory, Standing, load_directories
from trimask_core.submit.invitation import Invitation, Link
from trimask_core.submit.submission import read_receipt
from trimask_mobile.model.participation import Consent

CallState = Literal["busy", "done", "failed"]
Watch = Callable[[str, CallState], None]
_CONSENTS, _APP = "consents", "app"
_WHERE, _SETTINGS = "00", "01"
_KEYS = ("device.key", "device.key.wrapped")  # a computer's, a phone's (`phone.keystore`)


@dataclass(frozen=True)
class Opened:
    """A study this device has joined, and what it has of it. `expires_ms`: when its invitation ends, if it has one. `page`:
    the link to the study's page in a browser, with the invitation; empty if it has none."""

    study: Study
    form: Form
    draft: Mapping[str, Any] | None
    entry: Entry | None
    parties: tuple[Standing, ...] = ()
    expires_ms: int | None = None
    page: str = ""


def page_of(web: Web | None, study_id: bytes, invitation: Invitation | None) -> str:
    """The link to a study's page, on the first of its hosts, with the invitation; empty where it has none."""
    return "" if web is None else str(Link(web.hosts[0], study_id, invitation))


class _Watched:
    """A transport that says which address is being called; the screen shows it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.watch: Watch | None = None

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        watch = self.watch or (lambda _address, _state: None)
        watch(endpoint.address, "busy")
        try:
            answer = self._inner.call(endpoint, method, request, timeout_seconds)
        except TrimaskError:
            watch(endpoint.address, "failed")
            raise
        return answer  # not yet a receipt: the queue says when it has one

    def close(self) -> None:
        self._inner.close()


class Device:
    """One person's studies on this device, all of it encrypted under the device's key: `key`, what it gives, or a file's."""

    def __init__(
        self,
        home: Path,
        *,
        key: bytes | Callable[[], bytes | None] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        timeout_seconds: float = 15.0,
        institutions: Path | None = None,
    ) -> None:
        self.home = home
        self.clock = clock or SystemClock()
        self._timeout = timeout_seconds
        self._given, self._given_key = transport, key
        self._institutions = institutions or home / "institutions"
        self._transport = _Watched(transport or H2Transport())
        self._set_up()

    def _set_up(self) -> None:
        home = self.home
        given = self._given_key() if callable(self._given_key) else self._given_key
        key = given or device_key(home / _KEYS[0])
        self.queue = Queue(
            home,
            key,
            transport=self._transport,
            clock=self.clock,
            timeout_seconds=self._timeout,
        )
        self.vault = Vault(FileDisk(home / "survey"), key, SystemRandom())
        for kind in (_CONSENTS, _APP):
            self.vault.tidy(kind)
        self.directories = _directories(self._institutions)
        self.know(refuse_unknown=bool(self.settings().get("refuse_unknown", False)))

    def close(self) -> None:
        """Drop the connections."""
        self.queue.close()

    def beside(self, home: Path, key: bytes) -> Device:
        """Another person's device on this one: records and key of its own, the same clock, network and institutions."""
        return Device(
            home,
            key=key,
            transport=self._given,
            clock=self.clock,
            timeout_seconds=self._timeout,
            institutions=self._institutions,
        )

    # Institutions

    def know(self, *, refuse_unknown: bool) -> None:
        """Whether a study with an institution that no directory of this app names is refused, or only shown as such."""
        self.queue.know(self.directories, refuse_unknown=refuse_unknown)

    def add_directory(self, directory: Directory, *, refuse_unknown: bool) -> None:
        """Keep a directory whose keeper's key the person has compared; it takes the place of an older one of the same."""
        folder = self._institutions
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{directory.keeper_key.hex()[:16]}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(directory.to_json(), encoding="utf-8")
        fresh.replace(path)
        self.directories = _directories(self._institutions)
        self.know(refuse_unknown=refuse_unknown)

    # Studies

    def open_link(self, link: Link) -> bytes:
        """Fetch, check and keep the study of an invitation; its id."""
        signed = self.fetch(link)
        study_id = self.queue.join(signed, link.study_id, link.invitation)
        if self._entry(study_id) is None:
            self.queue.check_open(study_id)  # before anybody takes pains
        return study_id

    def contact(self, study_id: bytes) -> str:
        """Whom a study names for questions; empty where it was not joined."""
        try:
            return self.queue.client(study_id).study.contact
        except TrimaskError:
            return ""

    def fetch(self, link: Link) -> SignedStudy:
        """The study of an invitation, from where the link says; checked against it."""
        return fetch_linked(link, timeout_seconds=self._timeout)

    def open(self, study_id: bytes) -> Opened:
        """A joined study; its approvals are verified again."""
        client = self.queue.client(study_id)
        study = client.study
        form = study.form or Form.for_schema(study.schema)
        shown = app_languages(form)
        if shown:  # else the guide says so before a person begins; a receipt is shown all the same
            form = replace(form, languages=shown)
        invitation = client.invitation
        return Opened(
            study,
            form,
            self.queue.draft(study_id),
            self._entry(study_id),
            client.parties,
            None if invitation is None else invitation.expires_ms,
            page_of(study.web, study_id, invitation),
        )

    def _entry(self, study_id: bytes) -> Entry | None:
        """What was sent of a study; who has withdrawn may answer again."""
        entries = [
            entry
            for entry in self.queue.entries()
            if entry.study_id == study_id and entry.state != "withdrawn"
        ]
        return entries[-1] if entries else None

    # Removing

    def remove(self, study_id: bytes) -> None:
        """All there is of one study here. What was sent stays where it is, and cannot be withdrawn from here any more."""
        self.queue.forget(study_id)
        self.forget_consent(study_id)
        self.keep_where({})

    def remove_all(self) -> None:
        """All there is of any study, and the key it was encrypted under; type size, language and known institutions stay."""
        settings = self.settings()
        self.queue.forget_all()
        for name in self.vault.names(_CONSENTS):
            self.vault.delete(_CONSENTS, name)
        self.vault.delete(_APP, _WHERE)
        if not isinstance(self._given_key, bytes):
            self.vault.delete(_APP, _SETTINGS)
            for name in _KEYS:
                (self.home / name).unlink(missing_ok=True)
            self._set_up()
            self.keep_settings(settings)

    # Drafts, consent, where the person is

    def keep_consent(self, study_id: bytes, consent: Consent) -> None:
        """Keep what was signed, as long as the person takes part: it says what they agreed to."""
        self.vault.put(_CONSENTS, study_id.hex(), consent.to_record())

    def forget_consent(self, study_id: bytes) -> None:
        """Delete what somebody signed who then did not take part."""
        self.vault.delete(_CONSENTS, study_id.hex())

    def consent(self, study_id: bytes) -> Consent | None:
        """What was signed for a study."""
        record = self._get(_CONSENTS, study_id.hex())
        return None if record is None else Consent(**record)

    def keep_where(self, where: Mapping[str, Any]) -> None:
        """Which page is shown, to show it again after a crash."""
        self.vault.put(_APP, _WHERE, dict(where))

    def where(self) -> dict[str, Any]:
        """That page."""
        return self._get(_APP, _WHERE) or {}

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Type size and language."""
        self.vault.put(_APP, _SETTINGS, dict(settings))

    def settings(self) -> dict[str, Any]:
        """Type size and language."""
        return self._get(_APP, _SETTINGS) or {}

    def _get(self, kind: str, name: str) -> dict[str, Any] | None:
        try:
            return self.vault.get(kind, name)
        except VerificationError:
            return None  # a page to come back to, a type size: not worth refusing to start for

    # Sending

    def check_open(self, study_id: bytes) -> None:
        """`Refused` for what would be refused anyway, and the newest sealing keys, as far as the network is there."""
        self.queue.check_open(study_id)
        self.queue.refresh_keys(study_id)

    def import_receipt(self, text: str) -> Entry:
        """Keep a receipt of another device; its study is fetched from where the receipt says, if it is not here."""
        receipt = read_receipt(text)
        if receipt.study_id not in self.queue.studies():
            self.queue.join(fetch_of_receipt(text, timeout_seconds=self._timeout), receipt.study_id)
        return self.queue.import_receipt(receipt)

    def send(self, *, now: bool, watch: Watch | None = None) -> tuple[Entry, ...]:
        """Try what waits."""
        self._transport.watch = watch
        try:
            # A phone's job may not have ended yet.
            signed = None if watch is None else lambda address: watch(address, "done")
            return self.queue.send(now=now, wait=True, signed=signed)
        finally:
            self._transport.watch = None


def _directories(folder: Path) -> tuple[Directory, ...]:
    """The directory that comes with the app, if it does, and those put into the app's folder."""
    shipped = load_directories(Path(__file__).parent.parent / "institutions")
    try:
        return (*shipped, *load_directories(folder))
    except ConfigError:
        return shipped  # a damaged one makes nobody known; the app starts all the same


def short_hash(text: str) -> str:
    """The first digits of a text's hash, for people to compare."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
