"""What only a phone has, without one: the arithmetic of its bars, its key store, its picker, its job."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from trimask_client import Queue, device_key
from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.records import RecordCipher
from trimask_mobile.phone import background, browser
from trimask_mobile.phone.documents import Documents
from trimask_mobile.phone.insets import Edges, covered
from trimask_mobile.phone.keystore import KeyStoreError, wrapped_device_key
from trimask_mobile.platforms import Platform


@pytest.mark.parametrize(
    ("view", "bars", "left_free"),
    [
        ((0, 0, 1080, 2400), Edges(0, 96, 0, 126), (0, 96, 0, 126)),  # Android 15: under the bars
        ((0, 96, 1080, 2178), Edges(0, 96, 0, 126), (0, 0, 0, 0)),  # before it: the system has left room
        ((0, 96, 1080, 2304), Edges(0, 96, 0, 126), (0, 0, 0, 126)),  # half of it
        ((0, 0, 1080, 2400), Edges(132, 0, 0, 0), (132, 0, 0, 0)),  # a cutout at the side
        ((0, 0, 1080, 2400), Edges(0, 1300, 0, 0), (0, 0, 0, 0)),  # nonsense while a window is resized
        ((0, 0, 0, 0), Edges(0, 96, 0, 126), (0, 0, 0, 0)),  # no window yet
    ],
)
def test_bars_count_as_far_as_they_lie_over_the_view(
    view: tuple[float, float, float, float], bars: Edges, left_free: tuple[float, ...]
) -> None:
    assert covered((1080, 2400), view, bars).padding == left_free
    assert covered((1080, 2400), view, bars, 0.5).padding == tuple(value / 2 for value in left_free)


class Wrapped:
    """A key store in memory: authenticated, under a key of its own, and broken if told so."""

    def __init__(self) -> None:
        self.cipher = RecordCipher(SystemRandom().seed(), SystemRandom())
        self.broken = ""

    def wrap(self, key: bytes) -> tuple[bytes, bytes]:
        if self.broken:
            raise KeyStoreError(self.broken)
        return b"iv", self.cipher.seal("key", key)

    def unwrap(self, iv: bytes, wrapped: bytes) -> bytes:
        if self.broken or iv != b"iv":
            raise KeyStoreError(self.broken)
        return self.cipher.open("key", wrapped)


def files(home: Path) -> set[str]:
    return {path.name for path in home.iterdir() if path.suffix != ".lock"}


def test_a_key_is_kept_wrapped_and_nowhere_else(tmp_path: Path) -> None:
    wrapper = Wrapped()
    key = wrapped_device_key(tmp_path, wrapper)
    assert wrapped_device_key(tmp_path, wrapper) == key
    assert files(tmp_path) == {"device.key.wrapped"}
    kept = tmp_path / "device.key.wrapped"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert key.hex() not in kept.read_text()


def test_a_plain_key_of_an_older_version_is_wrapped_and_goes(tmp_path: Path) -> None:
    old, wrapper = device_key(tmp_path / "device.key"), Wrapped()
    Queue(tmp_path, old).save_draft(b"\x01" * 32, {"hours": 1})
    key = wrapped_device_key(tmp_path, wrapper)
    assert key == old
    assert "device.key" not in files(tmp_path)
    assert Queue(tmp_path, wrapped_device_key(tmp_path, wrapper)).draft(b"\x01" * 32) == {"hours": 1}


def test_the_power_fails_between_wrapping_and_removing(tmp_path: Path) -> None:
    old, wrapper = device_key(tmp_path / "device.key"), Wrapped()
    text = (tmp_path / "device.key").read_text()
    wrapped_device_key(tmp_path, wrapper)
    (tmp_path / "device.key").write_text(text)
    assert wrapped_device_key(tmp_path, wrapper) == old
    assert "device.key" not in files(tmp_path)


def test_a_key_store_that_fails_at_first_leaves_the_file(tmp_path: Path) -> None:
    wrapper = Wrapped()
    wrapper.broken = "java.security.ProviderException"
    key = wrapped_device_key(tmp_path, wrapper)
    assert device_key(tmp_path / "device.key") == key
    assert files(tmp_path) == {"device.key"}
    wrapper.broken = ""
    assert wrapped_device_key(tmp_path, wrapper) == key  # and takes it over once it works


def test_a_key_store_that_gives_another_key_back_gets_no_only_copy(tmp_path: Path) -> None:
    wrapper = Wrapped()
    wrapper.unwrap = lambda _iv, _wrapped: bytes(32)  # type: ignore[method-assign]
    key = wrapped_device_key(tmp_path, wrapper)
    assert key != bytes(32)
    assert files(tmp_path) == {"device.key"}


def test_a_wrapped_key_that_cannot_be_opened_is_said_with_what_to_do(tmp_path: Path) -> None:
    wrapper = Wrapped()
    wrapped_device_key(tmp_path, wrapper)
    wrapper.broken = "android.security.keystore.KeyPermanentlyInvalidatedException"
    with pytest.raises(ConfigError, match=r"KeyPermanentlyInvalidated.*Delete the app's data"):
        wrapped_device_key(tmp_path, wrapper)
    assert files(tmp_path) == {"device.key.wrapped"}  # and no new key in its place
    (tmp_path / "device.key.wrapped").write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        wrapped_device_key(tmp_path, wrapper)


class Java:
    """Objects that note what they are called with. `classes` by name; what is not among them is no class."""

    def __init__(self, **classes: Any) -> None:
        self.classes = {name.replace("_", "."): found for name, found in classes.items()}

    def autoclass(self, name: str) -> Any:
        if name not in self.classes:
            raise LookupError(name)
        return self.classes[name]


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Java]:
    def put(**classes: Any) -> Java:
        made, module = Java(**classes), ModuleType("jnius")
        module.autoclass = made.autoclass  # type: ignore[attr-defined]
        module.cast = lambda _name, found: found  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "jnius", module)
        return made

    return put


class Intent:
    ACTION_CREATE_DOCUMENT, CATEGORY_OPENABLE, EXTRA_TITLE = "create", "openable", "title"
    ACTION_VIEW, CATEGORY_BROWSABLE = "view", "browsable"

    def __init__(self, action: str) -> None:
        self.said: list[Any] = [action]

    def setData(self, uri: Any) -> None:  # noqa: N802 - Java's names
        self.said.append(uri)

    def setSelector(self, intent: Any) -> None:  # noqa: N802
        self.said.append(intent)

    def addCategory(self, name: str) -> None:  # noqa: N802 - Java's names
        self.said.append(name)

    def setType(self, name: str) -> None:  # noqa: N802
        self.said.append(name)

    def putExtra(self, name: str, value: str) -> None:  # noqa: N802
        self.said.append(f"{name}={value}")

    def getData(self) -> Any:  # noqa: N802
        return SimpleNamespace(getLastPathSegment=lambda: "msf:31")


def picker(write: Callable[[bytes], None]) -> Any:
    """An activity whose picker has been asked, and whose files are written by `write`."""
    stream = SimpleNamespace(write=write, close=lambda: None)
    resolver = SimpleNamespace(openOutputStream=lambda _uri, _mode: stream, query=lambda *_: None)
    activity = SimpleNamespace(getContentResolver=lambda: resolver, asked=[])
    activity.startActivityForResult = lambda intent, request: activity.asked.append((intent.said, request))
    return activity


def test_a_receipt_goes_where_the_person_says(java: Callable[..., Java]) -> None:
    java(android_content_Intent=Intent, java_lang_String=str)
    written: list[bytes] = []
    activity, told, said = picker(written.append), [], []
    documents = Documents(
        activity, lambda on_activity_result: told.append(on_activity_result), lambda call: call()
    )
    documents.save("receipt.json", "{}", said.append, said.append)
    [(asked, request)] = activity.asked
    assert asked == ["create", "openable", "application/json", "title=receipt.json"]
    told[0](request + 1, -1, Intent(""))  # somebody else's answer
    assert (written, said) == ([], [])
    told[0](request, -1, Intent(""))
    assert (written, said) == ([b"{}\n"], ["msf:31"])
    told[0](request, -1, Intent(""))  # once
    assert len(written) == 1


def test_a_receipt_takes_no_other_s_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two respondents of one study and day have files of one name."""
    monkeypatch.setenv("TRIMASK_APP_SAVED", str(tmp_path))
    said: list[str] = []
    for text in ("one", "two", "three"):
        Platform().save("Receipt Sleep 2026-11-19.json", text, said.append, said.append)
    assert [Path(one).name for one in said] == [
        f"Receipt Sleep 2026-11-19{number}.json" for number in ("", " (2)", " (3)")
    ]
    assert [Path(one).read_text().strip() for one in said] == ["one", "two", "three"]


def test_a_picker_that_is_left_or_a_full_disk_writes_nothing_in_secret(java: Callable[..., Java]) -> None:
    java(android_content_Intent=Intent, java_lang_String=str)

    def full(_data: bytes) -> None:
        raise OSError("no space")

    activity, told = picker(full), []
    saved: list[str] = []
    failed: list[str] = []
    documents = Documents(
        activity, lambda on_activity_result: told.append(on_activity_result), lambda call: call()
    )
    documents.save("receipt.json", "{}", saved.append, failed.append)
    told[0](activity.asked[0][1], 0, None)
    assert (saved, failed) == ([], [])
    documents.save("receipt.json", "{}", saved.append, failed.append)
    told[0](activity.asked[1][1], -1, Intent(""))
    assert (saved, failed) == ([], ["OSError"])


def test_a_screen_reader_is_known_and_the_page_opens_in_a_browser(java: Callable[..., Java]) -> None:
    java(
        android_content_Intent=Intent,
        android_net_Uri=SimpleNamespace(fromParts=lambda *parts: parts, parse=lambda text: text),
    )
    started: list[Any] = []
    manager = SimpleNamespace(isTouchExplorationEnabled=lambda: True)
    activity = SimpleNamespace(
        getSystemService=lambda name: manager if name == "accessibility" else None,
        startActivity=started.append,
    )
    assert browser.reads_aloud(activity)
    manager.isTouchExplorationEnabled = lambda: False
    assert not browser.reads_aloud(activity)
    assert not browser.reads_aloud(SimpleNamespace(getSystemService=lambda _name: None))
    browser.browse(activity, "https://survey.example/s/x#y")
    (intent,) = started
    assert intent.said[:2] == ["view", "https://survey.example/s/x#y"]
    assert intent.said[2].said == ["view", "browsable", ("https", "", None)]  # what only browsers take


def test_sending_when_closed_is_promised_only_where_the_job_is_built_in(java: Callable[..., Java]) -> None:
    java()
    assert not background.has_job()
    java(org_trimask_survey_SendingJob=object)
    assert background.has_job()


def test_a_job_says_whether_to_come_again(
    java: Callable[..., Java], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process of its own is started, but for the key store: an empty queue is over, one that cannot be read is not."""
    said: list[bool] = []
    java(org_trimask_survey_SendingJob=SimpleNamespace(finish=said.append))
    wrapper = Wrapped()
    monkeypatch.setattr(background, "AndroidKeyStore", lambda: wrapper)
    monkeypatch.setattr(background.time, "sleep", lambda _seconds: None)
    monkeypatch.setenv("ANDROID_PRIVATE", os.fspath(tmp_path))
    background.main()
    assert said == [False]
    assert json.loads((tmp_path / "device.key.wrapped").read_text())["iv"] == b"iv".hex()
    wrapper.broken = "gone"
    with pytest.raises(ConfigError):
        background.main()
    assert said == [False, True]


def test_the_app_waits_for_a_job_that_still_sends(tmp_path: Path) -> None:
    queue = Queue(tmp_path, bytes(32))
    with queue._disk.lock("sending", wait=True):  # another process's, as flock sees it
        with pytest.raises(ConfigError, match="another program"):
            queue.send()
        assert background.send_what_waits(queue)  # a job has another turn
    assert queue.send(wait=True) == ()


_LOGS = """
import logging, sys, types

class SurveyApp:
    def __init__(self, link): pass
    def run(self):
        import kivy.logger
        logging.getLogger("hpack.hpack").debug("a header of a request")
        logging.getLogger("trimask.app").warning("what has to be seen")

sys.modules["trimask_mobile.app"] = types.SimpleNamespace(SurveyApp=SurveyApp)
from trimask_mobile.__main__ import main
main()
"""


def test_what_libraries_say_to_debug_them_is_nowhere(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KIVY_")}
    ran = subprocess.run(
        [sys.executable, "-c", _LOGS],
        env=kept | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "what has to be seen" in ran.stderr
    said = [ran.stdout, ran.stderr, *(file.read_text("utf-8") for file in tmp_path.rglob("*.txt"))]
    assert not any("a header" in text for text in said)


def test_the_tests_have_no_window_toolkit_in_their_process() -> None:
    """Kivy takes over the logging of a process that imports it: all of a run's, at the level of debugging."""
    assert "kivy" not in sys.modules
