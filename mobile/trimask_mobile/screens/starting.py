"""Before anything is read: a calm empty page."""

from __future__ import annotations

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["StartingScreen"]


class StartingScreen(Page):
    """Shown for a moment."""


load_kv(__file__)
