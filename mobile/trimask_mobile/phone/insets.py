"""Where the system's bars and the camera's cutout lie over the window: from Android 15 on an app is drawn under them.

On older systems the view already begins below the bars. So what counts is not how large a bar is, but how far it reaches
into the view; and that is right on every version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_INSETS_TYPE_API = 30  # android.view.WindowInsets.Type, android.view.WindowInsetsController
_LIGHT_BARS = 0x8 | 0x10  # WindowInsetsController.APPEARANCE_LIGHT_STATUS_BARS | ..._LIGHT_NAVIGATION_BARS


@dataclass(frozen=True)
class Edges:
    """Pixels at each edge."""

    left: float = 0
    top: float = 0
    right: float = 0
    bottom: float = 0

    @property
    def padding(self) -> tuple[float, float, float, float]:
        """In the order of Kivy's layouts."""
        return (self.left, self.top, self.right, self.bottom)


def covered(
    window: tuple[float, float], view: tuple[float, float, float, float], bars: Edges, scale: float = 1.0
) -> Edges:
    """How far `bars` (distances from the window's edges) reach into a view (x, y, width, height), times `scale`.

    `scale`: pixels of ours for one of the view's. A bar that would cover more than half of the view is none: a window in
    the middle of being resized has no sensible insets, and a page must stay in sight.
    """
    x, y, width, height = view
    if width <= 0 or height <= 0:
        return Edges()

    def within(reach: float, size: float) -> float:
        return scale * reach if 0 < reach <= size / 2 else 0

    return Edges(
        within(bars.left - x, width),
        within(bars.top - y, height),
        within(x + width - (window[0] - bars.right), width),
        within(y + height - (window[1] - bars.bottom), height),
    )


def bars_over_view(activity: Any, width: float) -> Edges:
    """The same of the running app, in pixels of a window `width` wide; nothing before the window is there."""
    from jnius import autoclass

    decor = activity.getWindow().getDecorView()
    insets = decor.getRootWindowInsets()
    view = autoclass("org.libsdl.app.SDLActivity").getContentView()
    if insets is None or view is None or view.getWidth() == 0:
        return Edges()
    if autoclass("android.os.Build$VERSION").SDK_INT >= _INSETS_TYPE_API:
        types = autoclass("android.view.WindowInsets$Type")
        found = insets.getInsets(types.systemBars() | types.displayCutout())
        bars = Edges(found.left, found.top, found.right, found.bottom)
    else:
        bars = Edges(
            insets.getSystemWindowInsetLeft(),
            insets.getSystemWindowInsetTop(),
            insets.getSystemWindowInsetRight(),
            insets.getSystemWindowInsetBottom(),
        )
    where = [0, 0]
    view.getLocationInWindow(where)  # pyjnius writes an array's new contents back into the list
    return covered(
        (decor.getWidth(), decor.getHeight()),
        (where[0], where[1], view.getWidth(), view.getHeight()),
        bars,
        width / view.getWidth(),
    )


def dark_icons(activity: Any) -> None:
    """Clock and buttons in dark, for our ground is light and the bars are transparent. On Android's own thread."""
    from jnius import autoclass

    if autoclass("android.os.Build$VERSION").SDK_INT >= _INSETS_TYPE_API:
        controller = activity.getWindow().getInsetsController()
        if controller is not None:
            controller.setSystemBarsAppearance(_LIGHT_BARS, _LIGHT_BARS)
