"""What every screen is: a header, a column that scrolls, a footer with what to do next.

The app can be used by keyboard alone: Tab and Shift-Tab, Enter and space, arrows, Escape (which is Android's back).
Kivy's own focus behaviour asks for a keyboard with every focus, which on a phone would raise the soft keyboard for a
button. Here only fields do that; the rest is a list, in the order things stand on the page.

A respondent chooses whether their receipt stays on the interviewer's device until they fetch it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kivy.clock import Clock
from kivy.core.window import Window
from kivy.metrics import dp
from kivy.properties import BooleanProperty, NumericProperty, ObjectProperty, StringProperty
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.relativelayout import RelativeLayout
from kivy.uix.widget import Widget

from trimask_client import Entry
from trimask_mobile.kiosk.respondents import short_number
from trimask_mobile.widgets.basics import Column, Focusable, Footer, Stack
from trimask_mobile.widgets.look import load_kv


class Page(RelativeLayout):
    """One screen. `guide` is the model; `refresh` brings the widgets to what it says."""

    name = StringProperty("")
    title = StringProperty("")
    back = BooleanProperty(True)
    bare = BooleanProperty(False)  # without a way to the settings
    progress = NumericProperty(-1.0)
    guide = ObjectProperty(None)
    column = ObjectProperty(None, allownone=True)
    footer = ObjectProperty(None, allownone=True)

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.bind(size=self._arrange)
        if self.footer is not None:
            self.footer.bind(height=self._arrange)
        Clock.schedule_once(self._arrange)

    def refresh(self) -> None:
        """The model has changed."""

    def take_apart(self, widget: Widget | None = None) -> None:
        """When it is left: a button that is still being released keeps nothing but itself, and that whole."""
        whole = widget or self
        children = [] if isinstance(whole, Focusable) else list(whole.children)
        if children:
            whole.clear_widgets()
        for child in children:
            self.take_apart(child)

    def enter(self) -> None:
        """Enter, pressed in a field or nowhere: the page's main action."""
        for widget in self._reachable(self.footer):
            if getattr(widget, "kind", "") == "primary" and not widget.disabled:
                widget.activate()
                return

    # Layout

    def add_widget(self, widget: Widget, *args: Any, **more: Any) -> None:
        """A screen's kv names a column and a footer; they go where the page has room for them."""
        if isinstance(widget, Column):
            self.column = widget
            self.ids.scroll.add_widget(widget)
        elif isinstance(widget, Footer):
            self.footer = widget
            self.ids.foot.add_widget(widget)
        else:
            super().add_widget(widget, *args, **more)

    def _arrange(self, *_: object) -> None:
        """A footer that would leave too little to scroll (landscape, large type) scrolls with the rest."""
        footer, column = self.footer, self.column
        if footer is None or column is None or footer.parent is None:
            return  # there is none, or the page is being left
        wanted = column if footer.height > 0.24 * self.height else self.ids.foot
        if footer.parent is not wanted:
            footer.parent.remove_widget(footer)
            wanted.add_widget(footer)

    def to_top(self) -> None:
        """Where a page is read from."""
        self.ids.scroll.scroll_y = 1

    def show_bottom(self) -> None:
        """Where something was added below: once it has its place."""
        Clock.schedule_once(lambda _: setattr(self.ids.scroll, "scroll_y", 0), 0.05)

    def scroll_by(self, step: int) -> None:
        """Arrow keys where nothing has the focus."""
        scroll = self.ids.scroll
        hidden = self.column.height - scroll.height
        if hidden > 0:
            scroll.scroll_y = min(1.0, max(0.0, scroll.scroll_y - step * dp(64) / hidden))

    # Focus

    def _reachable(self, widget: Widget | None) -> Iterator[Any]:
        if widget is None or widget.disabled or widget.opacity == 0:
            return
        yield widget
        for child in reversed(widget.children):
            yield from self._reachable(child)

    @property
    def focusables(self) -> list[Any]:
        """Everything the keyboard can reach, in the order it stands."""
        return [widget for widget in self._reachable(self) if isinstance(widget, Focusable)]

    @property
    def focused(self) -> Any:
        """What has the keyboard."""
        return next((widget for widget in self.focusables if widget.focused), None)

    def focus_next(self, step: int) -> None:
        """The next or previous in order, from the end to the beginning again."""
        order = self.focusables
        if not order:
            return
        now = self.focused
        at = (0 if step > 0 else -1) if now is None else (order.index(now) + step) % len(order)
        self.blur()
        order[at].focused = True
        self.show_focused()

    def blur(self) -> None:
        """Nothing has the focus: after a touch, the ring goes."""
        for widget in self._reachable(self):
            if isinstance(widget, Focusable) and widget.focused:
                widget.focused = False

    def show_focused(self) -> None:
        """Scroll to what has the focus."""
        now = self.focused
        if now is not None and self.column is not None and self.column.height > self.ids.scroll.height:
            parent = now.parent
            while parent is not None and parent is not self and parent is not self.column:
                parent = parent.parent
            if parent is self.column:
                self.ids.scroll.scroll_to(now, padding=dp(24), animate=False)

    def on_touch_down(self, touch: Any) -> bool:
        for widget in self.focusables:
            if widget.focused and not widget.takes_text:
                widget.focused = False
        return bool(super().on_touch_down(touch))


TAB, ENTERS, SPACE, ESCAPE = 9, (13, 271), 32, 27
ARROWS = {273: -1, 276: -1, 274: 1, 275: 1}


class Keys:
    """Bound after the window's own keyboard, so it is asked first, whatever field is being typed in."""

    def __init__(self, page: Callable[[], Page | None], back: Callable[[], bool]) -> None:
        self._page, self._back = page, back
        Window.bind(on_key_down=self._down)

    def unbind(self) -> None:
        """Listen no longer."""
        Window.unbind(on_key_down=self._down)

    def _down(
        self, _: object, key: int, __: int = 0, ___: str | None = None, modifiers: Any = (), *____: object
    ) -> bool:
        page = self._page()
        if page is None:
            return False
        if key == ESCAPE:
            return self._back()
        if key == TAB:
            page.focus_next(-1 if "shift" in modifiers else 1)
            return True
        at: Focusable | None = page.focused
        if key in ENTERS:
            if at is None or at.takes_text:
                page.enter()
            else:
                at.activate()
            return True
        if at is None or at.takes_text:
            if at is None and key in ARROWS:
                page.scroll_by(ARROWS[key])
                return True
            return False
        if key == SPACE:
            at.activate()
            return True
        if key in ARROWS:
            if not at.arrow(ARROWS[key]):
                page.focus_next(ARROWS[key])
            page.show_focused()
            return True
        return False


class KeepRow(Stack):
    """A tick, and what it means."""

    kept = BooleanProperty(False)
    text = StringProperty("")
    guide = ObjectProperty(None)


def offer_to_keep(box: BoxLayout, guide: Any, entry: Entry | None) -> None:
    """The choice in a box of its own, in a session with a submission to keep; else an empty box."""
    if entry is None or guide.shown.mode != "session":
        box.clear_widgets()
        return
    row = box.children[0] if box.children else KeepRow(guide=guide)
    if not box.children:
        box.add_widget(row)
    row.kept = guide.kiosk.keep_receipt
    row.text = guide.shown.words.say("session.keep.text", number=short_number(entry.submission_id))


load_kv(__file__)
