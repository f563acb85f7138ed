"""The window: screens over the guide, keys, and the clock that sends what is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kivy.app import App
from kivy.clock import Clock
from kivy.core.window import Window
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.screenmanager import NoTransition, ScreenManager

from trimask_core.errors import TrimaskError
from trimask_mobile.model.device import Device
from trimask_mobile.model.guide import Guide
from trimask_mobile.model.worker import Workers
from trimask_mobile.platforms import Platform, this_platform
from trimask_mobile.screens.consent import ConsentScreen
from trimask_mobile.screens.eligibility import EligibilityScreen
from trimask_mobile.screens.institutions import InstitutionsScreen
from trimask_mobile.screens.invitation import InvitationScreen
from trimask_mobile.screens.problem import ProblemScreen
from trimask_mobile.screens.question import QuestionScreen
from trimask_mobile.screens.receipt import ReceiptScreen
from trimask_mobile.screens.review import ReviewScreen
from trimask_mobile.screens.sending import SendingScreen
from trimask_mobile.screens.settings import SettingsScreen
from trimask_mobile.screens.starting import StartingScreen
from trimask_mobile.screens.studies import StudiesScreen
from trimask_mobile.screens.study import StudyScreen
from trimask_mobile.screens.withdraw import WithdrawScreen
from trimask_mobile.theme import rgba
from trimask_mobile.widgets.keys import Keys
from trimask_mobile.widgets.look import look
from trimask_mobile.widgets.page import Page

__all__ = ["SurveyApp"]

SCREENS = (
    StartingScreen, StudiesScreen, InvitationScreen, StudyScreen, ConsentScreen, EligibilityScreen, QuestionScreen,
    ReviewScreen, SendingScreen, ReceiptScreen, WithdrawScreen, SettingsScreen, InstitutionsScreen,
    ProblemScreen,
)  # fmt: skip
TICK_SECONDS = 5.0


def _post(call: Callable[[], None]) -> None:
    Clock.schedule_once(lambda _: call())


class SurveyApp(App):
    """The app. `link` is the invitation it was opened with, if any."""

    title = "Trimask"

    def __init__(
        self, link: str = "", *, platform: Platform | None = None, device: Device | None = None, **values: Any
    ) -> None:
        super().__init__(**values)
        self._link, self._platform = link, platform or this_platform()
        self._device = device
        self._drawing = False

    def build(self) -> BoxLayout:
        """Make every screen once; nothing is read from disk here."""
        Window.clearcolor = rgba("ground")
        Window.softinput_mode = "below_target"  # the soft keyboard does not cover the field
        if self._device is None:
            home = self._platform.home(self.user_data_dir)
            self._device = Device(home, key=self._platform.key(home))
        self.workers = Workers(_post)
        self.guide = Guide(self._device, self.workers, self._changed, self._platform.language())
        self.guide.sends_when_closed = self._platform.sends_when_closed
        look.words = self.guide.words.words
        self.manager = ScreenManager(transition=NoTransition())
        for screen in SCREENS:
            self.manager.add_widget(screen(guide=self.guide))
        self.manager.get_screen("invitation").scan = self._platform.scan
        receipt = self.manager.get_screen("receipt")
        receipt.save, receipt.share = self._platform.save, self._platform.share
        self.keys = Keys(lambda: self.page, self.guide.back)
        # Android draws an app under its bars; the pages begin beside them.
        self._frame = BoxLayout()
        self._frame.add_widget(self.manager)
        Window.bind(size=self._inset)
        return self._frame

    def _inset(self, *_: object) -> None:
        """The system's bars come, go and turn with the phone."""
        self._frame.padding = self._platform.edges(Window.width).padding

    def on_start(self) -> None:
        """The window is there: read, and go where the person was."""
        self._platform.entered()
        self._inset()
        self._platform.listen(self.guide.open_link)
        self.guide.start(self._link)
        Clock.schedule_interval(self._tick, TICK_SECONDS)

    def on_pause(self) -> bool:
        """Everything is on disk already; what is to be sent, the system sends where it can."""
        self._platform.left(waiting=self._waits())
        return True

    def _waits(self) -> bool:
        """Whether anything is to be sent. Being sealed at this moment counts: it is on disk before a job begins."""
        if self.guide.sending is not None:
            return True
        try:
            return self.guide.device.queue.next_ms() is not None
        except (TrimaskError, OSError):
            return True

    def on_resume(self) -> None:
        """Perhaps the network is back."""
        self._platform.entered()
        self._inset()
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

    @property
    def page(self) -> Page:
        """The screen shown."""
        return self.manager.current_screen

    def _changed(self) -> None:
        """Once a frame at most, however much has changed."""
        if not self._drawing:
            self._drawing = True
            Clock.schedule_once(self._draw)

    def _draw(self, _: float = 0.0) -> None:
        self._drawing = False
        guide = self.guide
        look.words = guide.words.words
        look.scale = guide.scale
        if guide.participation is None:
            for screen in self.manager.screens:
                screen.forget()
        moved = self.manager.current != guide.screen
        page = self.manager.get_screen(guide.screen)
        page.refresh()
        if moved:
            self.page.blur()
            page.to_top()
            self.manager.current = guide.screen
