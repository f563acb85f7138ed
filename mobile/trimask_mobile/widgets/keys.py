"""The app by keyboard alone: Tab and Shift-Tab, Enter and space, arrows, Escape (which is Android's back).

Kivy's own focus behaviour asks for a keyboard with every focus, which on a phone would raise the soft keyboard for a
button. Here only fields do that; the rest is a list, in the order things stand on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kivy.core.window import Window

from trimask_mobile.widgets.basics import Focusable
from trimask_mobile.widgets.page import Page

__all__ = ["Keys"]

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
