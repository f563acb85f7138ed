"""The window: screens over the guide, keys, and the clock that sends what is due.

There is one screen at a time, made when it is shown. The one before it goes, with whatever a person had on it: memory is
scarce on phones, and nothing that was answered stays in a widget out of sight.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kivy.app import App
from kivy.clock import Clock
from kivy.core.clipboard import Clipboard
from kivy.core.window import Window
from kivy.uix.boxlayout import BoxLayout

from trimask_core.basics.errors import TrimaskError
from trimask_mobile.model.device import Device
from trimask_mobile.model.navigation import Guide
from trimask_mobile.model.problem import Stuck
from trimask_mobile.model.worker import Workers
from trimask_mobile.platforms import Platform, this_platform
from trimask_mobile.screens.after import ReceiptScreen, SendingScreen, WithdrawScreen
from trimask_mobile.screens.answer import QuestionScreen, ReviewScreen
from trimask_mobile.screens.home import (
    ProblemScreen,
    RemoveScreen,
    SettingsScreen,
    StartingScreen,
    StudiesScreen,
)
from trimask_mobile.screens.join import (
    ConsentScreen,
    EligibilityScreen,
    InstitutionsScreen,
    InvitationScreen,
    StudyScreen,
)
from trimask_mobile.screens.kiosk import HandedScreen, InterviewerScreen, InterviewingScreen, PinScreen
from trimask_mobile.theme import rgba
from trimask_mobile.widgets.look import look
from trimask_mobile.widgets.page import Keys, Page

SCREENS: dict[str, type[Page]] = {
    "starting": StartingScreen, "studies": StudiesScreen, "invitation": InvitationScreen, "study": StudyScreen,
    "consent": ConsentScreen, "eligibility": EligibilityScreen, "question": QuestionScreen, "review": ReviewScreen,
    "sending": SendingScreen, "receipt": ReceiptScreen, "withdraw": WithdrawScreen, "settings": SettingsScreen,
    "institutions": InstitutionsScreen, "problem": ProblemScreen, "remove": RemoveScreen,
    "interviewer": InterviewerScreen, "pin": PinScreen, "interviewing": InterviewingScreen, "handed": HandedScreen,
}  # fmt: skip
TICK_SECONDS = 5.0
M_MMAP_THRESHOLD = -3  # malloc.h


def _post(call: Callable[[], None]) -> None:
    Clock.schedule_once(lambda _: call())


class SurveyApp(App):
    """The app. `link` is the invitation it was opened with, if any; `device` makes the device of a folder."""

    title = "Trimask"

    def __init__(
        self,
        link: str = "",
        *,
        platform: Platform | None = None,
        device: Callable[[Path], Device] | None = None,
        **values: Any,
    ) -> None:
        super().__init__(**values)
        self._link, self._platform = link, platform or this_platform()
        self._make_device = device or self._own_device
        self._device: Device | None = None
        self._drawing = False
        self._mode = "own"
        self.page: Page | None = None

    def _own_device(self, home: Path) -> Device:
        return Device(home, key=lambda: self._platform.key(home))

    def build(self) -> BoxLayout:
        """The first screen; nothing is read from disk here but the device's key."""
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(
                M_MMAP_THRESHOLD, 1 << 16
            )  # glibc: what a screen drew is given back with it
        Window.clearcolor = rgba("ground")
        Window.softinput_mode = "below_target"  # the soft keyboard does not cover the field
        self.workers = Workers(_post)
        self.keys = Keys(lambda: self.page, lambda: bool(self.guide.back()))
        Window.bind(on_touch_down=self._touched, on_key_down=self._touched, on_textinput=self._touched)
        # Android draws an app under its bars; the pages begin beside them.
        self._frame = BoxLayout()
        Window.bind(size=self._inset)
        self._begin()
        return self._frame

    def _begin(self) -> None:
        """The device, and the way over it; or the page that says why not."""
        language = self._platform.language()
        try:
            self._device = self._make_device(self._platform.home(self.user_data_dir))
        except (OSError, TrimaskError) as error:
            self.guide: Any = Stuck(error, language, self._again)
            self._draw()
            return
        self.guide = Guide(self._device, self.workers, self._changed, language)
        shown, platform = self.guide.shown, self._platform
        shown.sends_when_closed = platform.sends_when_closed
        shown.reads_aloud, shown.browse = platform.reads_aloud, platform.browse
        self._draw()

    def _again(self) -> None:
        """Once more from the beginning, where the device could not be read."""
        self._begin()
        if self._device is not None:
            self.on_start()

    def _inset(self, *_: object) -> None:
        """The system's bars come, go and turn with the phone."""
        self._frame.padding = self._platform.edges(Window.width).padding

    def on_start(self) -> None:
        """The window is there: read, and go where the person was."""
        self._platform.entered()
        self._inset()
        if self._device is None:
            return
        self._platform.listen(self.guide.open_link)
        self.guide.start(self._link)
        Clock.schedule_interval(self._tick, TICK_SECONDS)

    def on_pause(self) -> bool:
        """Everything is on disk already; what is to be sent, the system sends where it can."""
        self._platform.left(waiting=self._device is not None and self._waits())
        return True

    def _waits(self) -> bool:
        """Whether anything is to be sent. Being sealed at this moment counts: it is on disk before a job begins."""
        try:
            return bool(self.guide.something_waits())
        except (TrimaskError, OSError):
            return True

    def on_resume(self) -> None:
        """Perhaps the network is back."""
        self._platform.entered()
        self._inset()
        if self._device is not None:
            self.guide.tick()

    def on_stop(self) -> None:
        """Finish writing."""
        self.keys.unbind()
        self.workers.stop()
        if self._device is not None:
            self._device.close()

    def _tick(self, _: float) -> None:
        self._inset()
        self.guide.tick()

    def _touched(self, *_: object) -> bool:
        self.guide.kiosk.touched()
        return False

    def _changed(self) -> None:
        """Once a frame at most, however much has changed."""
        if not self._drawing:
            self._drawing = True
            Clock.schedule_once(self._draw)

    def _draw(self, _: float = 0.0) -> None:
        self._drawing = False
        guide = self.guide
        if (look.words, look.scale) != (guide.shown.words.words, guide.shown.scale):
            gc.collect()
            gc.disable()  # a widget that dies while all are told of a change is told too, and is not there
            look.words, look.scale = guide.shown.words.words, guide.shown.scale
            gc.enable()
        if self._mode == "session" != guide.shown.mode:
            Clipboard.copy("")  # what a respondent has copied is not the next one's
        self._mode = guide.shown.mode
        if self.page is None or self.page.guide is not guide or self.page.name != guide.shown.screen:
            self._show(guide.shown.screen)
        else:
            self.page.refresh()

    def _show(self, name: str) -> None:
        if self.page is not None:
            self.page.blur()
            self.page.take_apart()
        self._frame.clear_widgets()
        # Widgets refer to each other: what was shown goes now, and once nothing of it is waited for, not some time.
        gc.collect()
        Clock.schedule_once(lambda _: gc.collect(), 0.2)
        self.page = SCREENS[name](guide=self.guide)
        for what in ("scan", "save", "share"):  # what the system offers, for those who have a use for it
            if hasattr(self.page, what):
                setattr(self.page, what, getattr(self._platform, what))
        self.page.refresh()
        self._frame.add_widget(self.page)
