"""What the system can do for the app: a scanner, a share sheet, a place for files, the link it was opened with."""

from __future__ import annotations

import locale
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from kivy.utils import platform

from trimask_client.disk import write_private

__all__ = ["Desktop", "Platform", "decimal_keypad", "this_platform"]

Scan = Callable[[Callable[[str], None]], None]


class Platform(Protocol):
    """`scan` and `share` are None where the system has nothing of the kind.

    `sends_when_closed`: whether what waits is sent by a service while the app is closed; the screens promise it only there.
    """

    scan: Scan | None
    share: Callable[[str, str], None] | None
    sends_when_closed: bool

    def home(self, default: str) -> Path:
        """Where the app keeps its records."""
        ...

    def language(self) -> str:
        """The person's language, as a tag."""
        ...

    def save(self, name: str, text: str) -> str:
        """Write a file where the person finds it; where that is."""
        ...

    def listen(self, opened: Callable[[str], None]) -> None:
        """Be told of links the system opens with this app, the first of them at once."""
        ...


class Desktop:
    """A computer: no scanner, no share sheet; files go to the downloads."""

    scan: Scan | None = None
    share: Callable[[str, str], None] | None = None
    sends_when_closed = False

    def home(self, default: str) -> Path:
        return Path(os.environ.get("TRIMASK_APP_HOME") or default)

    def language(self) -> str:
        return (locale.getlocale()[0] or "en").replace("_", "-")

    def save(self, name: str, text: str) -> str:
        downloads = Path(os.environ.get("TRIMASK_APP_SAVED") or Path.home() / "Downloads")
        folder = downloads if downloads.is_dir() else Path.home()
        write_private(folder / name, text)
        return str(folder / name)

    def listen(self, opened: Callable[[str], None]) -> None:
        """A computer hands links over as an argument."""


class Android:
    """Intents, through pyjnius. The camera is another app's: this one asks for no permission to use it."""

    _REQUEST = 0x7EAD

    def __init__(self) -> None:
        from android import activity
        from jnius import autoclass

        self._bind = activity.bind
        self._intent = autoclass("android.content.Intent")
        self._string = autoclass("java.lang.String")
        self._locale = autoclass("java.util.Locale")
        self._activity = autoclass("org.kivy.android.PythonActivity").mActivity
        self._found: Callable[[str], None] = lambda _text: None
        scanner = self._scanner()
        self.scan: Scan | None = None
        if scanner.resolveActivity(self._activity.getPackageManager()) is not None:
            self.scan = self._scan
            self._bind(on_activity_result=self._scanned)
        self.share: Callable[[str, str], None] | None = self._share
        self.sends_when_closed = self._has_service(autoclass)

    def _has_service(self, autoclass: Callable[[str], Any]) -> bool:
        """Whether the package was built with its sending service (`services = Sending:...` in buildozer.spec)."""
        try:
            autoclass(f"{self._activity.getPackageName()}.ServiceSending")
        except Exception:  # noqa: BLE001 - Java raises what it likes
            return False
        return True

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

    def home(self, default: str) -> Path:
        """The app's private folder, which backups leave out (see buildozer.spec)."""
        return Path(default)

    def language(self) -> str:
        return str(self._locale.getDefault().toLanguageTag())

    def save(self, name: str, text: str) -> str:
        """The app's own folder on shared storage, which needs no permission."""
        folder = Path(self._activity.getExternalFilesDir(None).getAbsolutePath())
        write_private(folder / name, text)
        return str(folder / name)

    def listen(self, opened: Callable[[str], None]) -> None:
        def told(intent: Any) -> None:
            link = None if intent is None else intent.getDataString()
            if link:
                _on_screen(lambda: opened(link))

        self._bind(on_new_intent=told)
        told(self._activity.getIntent())


def decimal_keypad() -> None:
    """On a phone: digits with a decimal mark and a sign. Kivy's own "number" has digits alone."""
    if platform != "android":
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
    return Android() if platform == "android" else Desktop()
