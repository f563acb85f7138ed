"""A phone to hold in a test, and a real cluster for it to talk to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import grpc
import pytest

from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.party import admission_key
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation, Link
from trimask_lab import Lab
from trimask_mobile.model.device import Device
from trimask_mobile.model.participation import Participation
from trimask_patience import patience
from trimask_proto.v1.study_pb2 import GetStudyResponse
from trimask_server.local.cluster import ThreadCluster
from trimask_server.local.keys import issue_certificate, make_authority

ROOT = Path(__file__).absolute().parents[2]
NAMES = {
    "collector": "Institute for Sleep Research",
    "R1": "City Hospital",
    "R2": "Data Trust North",
    "R3": "University Library",
    "L1": "Patients' Association",
    "L2": "Statistics Office",
}
AT_REVIEW = {
    "age": "1984-05-17", "wellbeing": 7.0, "sleep_hours": "7.5", "shift_work": "no", "exercise": "some",
}  # fmt: skip
# What a phone does not have.
BLOCKED = (
    "grpc,numpy,scipy,pandas,pyarrow,matplotlib,aiohttp,trimask,trimask_cli,trimask_server,trimask_theory"
)


class Phone:
    """The app in its own process. `home` survives it, as a phone's storage does."""

    def __init__(self, home: Path, *options: str, sources: Sequence[Path] = ()) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._log = (home / "driver.log").open("ab")
        path = os.pathsep.join(str(folder) for folder in sources or (ROOT / "client", ROOT / "mobile"))
        self.home = home
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "tests/mobile/driver.py"),
                "--home",
                str(home),
                "--block",
                BLOCKED,
                *options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "LANG": "C.UTF-8"},
        )

    @property
    def memory_mb(self) -> float:
        """What it holds of the machine's memory once garbage is collected (when that happens is up to Python, and was 30 MB
        of 183 in one run), but for the drawing in software that a phone does not need."""
        self.do("collect")
        found, name = 0.0, ""
        for line in Path(f"/proc/{self.process.pid}/smaps").read_text().splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                name = words[5] if len(words) > 5 else ""
            elif words[0] == "Rss:" and not any(one in name for one in ("libLLVM", "_dri.so")):
                found += int(words[1]) / 1024
        return found

    def __enter__(self) -> Phone:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()  # the driver stops the app as its window's cross would
        try:
            self.process.wait(patience(20))
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()
        self._log.close()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def do(self, command: str, *args: Any, **more: Any) -> Any:
        """One command of the driver's."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"do": command, "args": args, "more": more}) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the app died:\n" + (self.home / "driver.log").read_text()[-3000:])
        answer = json.loads(line)
        assert "failed" not in answer, f"{answer['failed']}; the page shows {answer.get('texts')}"
        return answer

    def see(self, text: str, screen: str = "") -> Any:
        """Wait for a text."""
        return self.do("wait", text=text, screen=screen)

    def on(self, screen: str) -> Any:
        """Wait for a screen."""
        return self.do("wait", screen=screen)

    def tap(self, text: str) -> Any:
        return self.do("tap", text)

    def key(self, key: str, *modifiers: str) -> Any:
        return self.do("key", key, *modifiers)

    def write(self, field: str, text: str) -> Any:
        """Tap a field and type."""
        self.tap(field)
        return self.do("type", text)

    def date(self, day: str, month: str, year: str) -> Any:
        """A day, a month from the list, a year."""
        self.write("day", day)
        self.tap("Month")
        self.tap(month)
        return self.write("year", year)

    # Whole stretches of the way

    def open(self, link: str) -> None:
        """From my studies to the study page."""
        self.on("studies")
        self.tap("Open an invitation")
        self.write("link", link)
        self.tap("Open")

    def consent_open(self) -> None:
        """From the study page to the consent."""
        self.on("study")
        self.tap("Take part")
        self.on("consent")

    def consent(self) -> None:
        """From the study page to eligibility."""
        self.consent_open()
        self.tap("I have read this and agree")
        self.write("name", "Ada Lovelace")
        self.tap("Sign and continue")
        self.on("eligibility")

    def eligible(self) -> None:
        """From eligibility to the first question."""
        self.tap("Yes")
        self.write("weeks_ill", "0")
        self.tap("Next")
        self.on("question")

    def answer(self) -> None:
        """All eight questions, and a ninth that appears; to the review."""
        self.see("When were you born?")
        self.date("17", "May", "1984")
        self.tap("Next")
        self.see("How well have you felt")
        self.do("slide", 0.7)
        self.tap("Next")
        self.see("How long do you sleep")
        self.write("sleep_hours", "7.5")
        self.tap("Next")
        self.see("Do you work in shifts?")
        self.tap("Yes")
        self.tap("Next")
        self.see("How many night shifts")
        self.write("night_shifts", "4")
        self.tap("Next")
        self.see("How much do you exercise?")
        self.tap("Once or twice a week")
        self.tap("Next")
        self.see("What do you take")
        self.tap("Herbal tea")
        self.tap("Next")
        self.see("How much caffeine")
        self.tap("Next")
        self.on("review")

    def interviewed(self, *, begun: bool = False) -> None:
        """From the interviewer's page to the respondent's review."""
        if not begun:
            self.tap("Next respondent")
        self.see("This device is the interviewer's", screen="handed")
        self.tap("Begin")
        self.consent()
        self.eligible()
        self.answer()

    def to_review(self, link: str) -> None:
        """The whole way to the review."""
        self.open(link)
        self.consent()
        self.eligible()
        self.answer()


class MobileLab(Lab):
    """Named institutions, and the sleep study; in the rows suite where there are left providers."""

    def __init__(self, folder: Path, right: int = 3, left: int = 2) -> None:
        super().__init__(folder, right, left, organisations=NAMES)
        text = files("trimask_cli").joinpath("data/sleep-and-wellbeing.toml").read_text()
        self.definition = re.sub(r"suite = .*", "block_rows = 1024", text) if left else text

    def study(self, *, without: str = "", open_it: bool = True, **changes: Any) -> SignedStudy:
        """A study all (but one) have signed."""
        if open_it and not without:
            return self.open_study(self.definition, **changes)
        return self.new_study(self.definition, without=without, **changes)

    def link(self, signed: SignedStudy, expires_ms: int | None = None) -> str:
        """The link of an open study, or one with an invitation."""
        study = signed.study
        invitation = None
        if expires_ms is not None:
            invitation = Invitation(study.id, bytes(16), expires_ms).signed_with(
                admission_key(self.folder / "owner")
            )
        return str(Link(study.collector.address, study.id, invitation))

    def invitations(self, signed: SignedStudy, count: int) -> list[str]:
        """Links for so many people."""
        study, ends = signed.study, int(time.time() * 1000) + 3_600_000
        key = admission_key(self.folder / "owner")
        drawn = (Invitation.draw(study.id, ends, SystemRandom()).signed_with(key) for _ in range(count))
        return [str(Link(study.collector.address, study.id, one)) for one in drawn]

    @contextlib.contextmanager
    def served(self, signed: SignedStudy) -> Iterator[str]:
        """A collector that hands out a study it should not; the link to it."""
        answer = GetStudyResponse(signed_study=signed.to_json().encode()).SerializeToString()
        handler = grpc.unary_unary_rpc_method_handler(lambda _request, _context: answer)
        pool = ThreadPoolExecutor(1)
        server = grpc.server(pool)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("trimask_proto.v1.StudyService", {"GetStudy": handler}),)
        )
        certificate = issue_certificate(make_authority(), "collector.trimask.local")
        credentials = grpc.ssl_server_credentials([(certificate.private_key, certificate.certificate)])
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        try:
            yield str(Link(f"127.0.0.1:{port}", signed.study.id))
        finally:
            server.stop(None).wait()
            pool.shutdown()

    @contextlib.contextmanager
    def down(self, *roles: str) -> Iterator[None]:
        """Some providers cannot be reached."""
        for role in roles:
            self.cluster.stop(role)
        try:
            yield
        finally:
            for role in roles:
                self.cluster.start(role)

    @contextlib.contextmanager
    def hanging(self, role: str) -> Iterator[None]:
        """A provider takes connections and says nothing: a call to it is under way until its deadline."""
        host, _, port = self.parties[role].address.rpartition(":")
        self.cluster.stop(role)
        listener = socket.create_server((host, int(port)))
        try:
            yield
        finally:
            listener.close()
            self.cluster.start(role)


@pytest.fixture(scope="module")
def mobile_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MobileLab]:
    lab = MobileLab(tmp_path_factory.mktemp("institutions"))
    with ThreadCluster(lab.folder) as lab.cluster:
        yield lab


@pytest.fixture
def phone(tmp_path: Path) -> Iterator[Callable[..., Phone]]:
    """Starts the app on this test's phone; what is still running at the end is stopped."""
    started: list[Phone] = []

    def start(*options: str, home: str = "phone", sources: Sequence[Path] = ()) -> Phone:
        started.append(Phone(tmp_path / home, *options, sources=sources))
        return started[-1]

    yield start
    for one in started:
        one.__exit__()


@pytest.fixture
def at_review(tmp_path: Path, phone: Callable[..., Phone]) -> Callable[..., Phone]:
    """Starts the app on a phone whose owner has filled in the form and left on the review page."""

    def start(signed: SignedStudy, invitation: Invitation | None = None) -> Phone:
        study = signed.study
        assert study.form is not None
        device = Device(tmp_path / "phone" / "app")
        device.queue.join(signed, study.id, invitation)
        part = Participation(study.id, study.form, "", "en", "review", name="Ada Lovelace", agreed=True)
        part.responses = dict(AT_REVIEW)
        device.queue.save_draft(study.id, part.to_record())
        device.keep_consent(study.id, part.sign(int(time.time() * 1000)))
        device.keep_where({"screen": "review", "study": study.id.hex(), "link": ""})
        device.close()
        app = phone()
        app.on("review")
        return app

    return start


@pytest.fixture(scope="session")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What goes into the Android package."""
    folder = tmp_path_factory.mktemp("stage") / "android"
    subprocess.run([ROOT / "scripts" / "stage-android", folder], check=True)
    return folder
