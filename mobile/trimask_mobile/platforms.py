"""What the system can do for the app: a scanner, a share sheet, a place for files, the link it was opened with."""

from __future__ import annotations

import locale
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trimask_client.records import write_private
from trimask_mobile.phone import background, browser
from trimask_mobile.phone.documents import Documents
from trimask_mobile.phone.insets import Edges, bars_over_view, dark_icons
from trimask_mobile.phone.keystore import AndroidKeyStore, wrapped_device_key

Scan = Callable[[Callable[[str], None]], None]
TextCallback = Callable[[str], None]


class Platform:
    """A computer: files go to the downloads. What a phone has and a computer has not is nothing here.

    `scan` and `share` are None where the system has nothing of the kind. `sends_when_closed`: whether the system sends what
    waits while the app is closed; the screens promise it only there.
    """

    scan: Scan | None = None
    share: Callable[[str, str], None] | None = None
    sends_when_closed = False

    def home(self, default: str) -> Path:
        """Where the app keeps its records."""
        return Path(os.environ.get("TRIMASK_APP_HOME") or default)

    def language(self) -> str:
        """The person's language, as a tag."""
        return (locale.getlocale()[0] or "en").replace("_", "-")

    def reads_aloud(self) -> bool:
        """Whether a service is on that reads the screen aloud: it cannot read this app."""
        return False

    def browse(self, address: str) -> None:
        """Open an address in a browser, also where links to it open this app."""
        import webbrowser

        webbrowser.open(address)

    def key(self, home: Path) -> bytes | None:  # noqa: ARG002
        """The device's key, where the system keeps it better than a file does; None: the file's."""
        return None

    def save(self, name: str, text: str, saved: TextCallback, failed: TextCallback) -> None:
        """Write a file where the person finds it, now or when they have said where; then where that is, or why not."""
        downloads = Path(os.environ.get("TRIMASK_APP_SAVED") or Path.home() / "Downloads")
        path = _free(downloads if downloads.is_dir() else Path.home(), name)
        try:
            write_private(path, text)
        except OSError as error:
            failed(error.strerror or "?")
        else:
            saved(str(path))

    def listen(self, opened: TextCallback) -> None:
        """Be told of links the system opens with this app, the first of them at once. A computer hands them over as an
        argument."""

    def edges(self, width: float) -> Edges:  # noqa: ARG002
        """How far the system's own bars lie over a window of that width."""
        return Edges()

    def left(self, *, waiting: bool) -> None:
        """The app is not in front any more, where it goes on; `waiting`: something is to be sent."""

    def entered(self) -> None:
        """The app is in front, and sends itself."""


class Android(Platform):
    """Intents, through pyjnius. The camera is another app's: this one asks for no permission to use it."""

    _REQUEST = 0x7EAD

    def __init__(self) -> None:
        from android import activity
        from android.runnable import run_on_ui_thread
        from jnius import autoclass

        self._bind = activity.bind
        self._intent = autoclass("android.content.Intent")
        self._string = autoclass("java.lang.String")
        self._locale = autoclass("java.util.Locale")
        self._activity = autoclass("org.kivy.android.PythonActivity").mActivity
        self._found: Callable[[str], None] = lambda _text: None
        scanner = self._scanner()
        if scanner.resolveActivity(self._activity.getPackageManager()) is not None:
            self.scan = self._scan
            self._bind(on_activity_result=self._scanned)
        self.share = self._share
        self.sends_when_closed = background.has_job()
        self._documents = Documents(self._activity, self._bind, _on_screen)
        run_on_ui_thread(dark_icons)(self._activity)

    def _scanner(self) -> Any:
        intent = self._intent("com.google.zxing.client.android.SCAN")
        intent.putExtra("SCAN_MODE", "QR_CODE_MODE")
        return intent

    def _scan(self, found: Callable[[str], None]) -> None:
        self._found = found
        self._activity.startActivityForResult(self._scanner(), self._REQUEST)

    def _scanned(self, request: int, result: int, intent: Any) -> None:
        if request == self._REQUEST and result == -1 and intent is not None:
            text = intent.getStringExtra("SCAN_RESULT")
            _on_screen(lambda: self._found(text or ""))

    def _share(self, title: str, text: str) -> None:
        intent = self._intent(self._intent.ACTION_SEND)
        intent.setType("text/plain")
        intent.putExtra(self._intent.EXTRA_SUBJECT, self._string(title))
        intent.putExtra(self._intent.EXTRA_TEXT, self._string(text))
        self._activity.startActivity(self._intent.createChooser(intent, self._string(title)))

    def home(self, default: str) -> Path:  # noqa: ARG002
        """The app's private folder, which backups leave out (see buildozer.spec); a job finds it as ANDROID_PRIVATE."""
        return Path(self._activity.getFilesDir().getAbsolutePath())

    def key(self, home: Path) -> bytes | None:
        return wrapped_device_key(home, AndroidKeyStore())

    def language(self) -> str:
        return str(self._locale.getDefault().toLanguageTag())

    def reads_aloud(self) -> bool:
        return browser.reads_aloud(self._activity)

    def browse(self, address: str) -> None:
        browser.browse(self._activity, address)

    def save(self, name: str, text: str, saved: TextCallback, failed: TextCallback) -> None:
        """Where the person says, in the system's own picker."""
        self._documents.save(name, text, saved, failed)

    def edges(self, width: float) -> Edges:
        return bars_over_view(self._activity, width)

    def left(self, *, waiting: bool) -> None:
        if self.sends_when_closed and waiting:
            background.schedule(self._activity)

    def entered(self) -> None:
        if self.sends_when_closed:
            background.cancel(self._activity)

    def listen(self, opened: TextCallback) -> None:
        def told(intent: Any) -> None:
            link = None if intent is None else intent.getDataString()
            if link:
                _on_screen(lambda: opened(link))

        self._bind(on_new_intent=told)
        told(self._activity.getIntent())


def _free(folder: Path, name: str) -> Path:
    """Where nothing is yet: a receipt takes no other's place, such as that of the respondent before."""
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{Path(name).stem} ({number}){Path(name).suffix}", number + 1
    return path


def _on_android() -> bool:
    from kivy.utils import platform  # loaded where the app runs: Kivy takes over logging

    return bool(platform == "android")


def decimal_keypad() -> None:
    """On a phone: digits with a decimal mark and a sign. Kivy's own "number" has digits alone."""
    if not _on_android():
        return
    from jnius import autoclass
    from kivy.clock import Clock

    decimal = 0x2 | 0x1000 | 0x2000  # InputType: class number, signed, decimal
    activity = autoclass("org.kivy.android.PythonActivity").mActivity
    Clock.schedule_once(lambda _: activity.changeKeyboard(decimal))


def _on_screen(call: Callable[[], None]) -> None:
    """Android calls from its own thread."""
    from kivy.clock import Clock

    Clock.schedule_once(lambda _: call())


def this_platform() -> Platform:
    """Where the app is running."""
    return Android() if _on_android() else Platform()
