"""The app in a process of its own, in a real window, doing what it is told line by line on standard input.

A test never imports Kivy (its window is one a process, for ever); it starts this program, and may kill it. Every command
is a JSON object on a line, every answer too. Touches and keys go in where the system's would.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import queue
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("--home", type=Path, required=True)
parser.add_argument("--size", default="360x640")
parser.add_argument("--density", default="1")
parser.add_argument("--block", default="")
parser.add_argument("--link", default="")
parser.add_argument("--scanner", default="", help="what a scanner would read; none is offered without it")
parser.add_argument(
    "--edges", default="0,0,0,0", help="the system's bars over the window: left, top, right, bottom"
)
parser.add_argument("--timeout", type=float, default=15.0)
args = parser.parse_args()

BLOCKED = set(filter(None, args.block.split(",")))


class Absent:
    """A finder that finds everything but what a phone does not have: importing that fails as if it were not installed."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in BLOCKED else self._inner.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


sys.meta_path[:] = [Absent(finder) for finder in sys.meta_path]

width, height = (int(side) for side in args.size.split("x"))
os.environ.update(
    SDL_VIDEODRIVER="offscreen",
    KIVY_NO_ARGS="1",
    KIVY_LOG_MODE="PYTHON",
    KIVY_NO_FILELOG="1",
    KIVY_HOME=str(args.home / "kivy"),
    KIVY_METRICS_DENSITY=args.density,
    KIVY_METRICS_FONTSCALE="1",
    KIVY_DPI=str(round(160 * float(args.density))),
    KIVY_CLIPBOARD="dummy",
    TRIMASK_APP_HOME=str(args.home / "app"),
    TRIMASK_APP_SAVED=str(args.home / "saved"),
)
(args.home / "saved").mkdir(parents=True, exist_ok=True)

from kivy.config import Config  # noqa: E402

Config.set("graphics", "width", str(width))
Config.set("graphics", "height", str(height))
Config.set("graphics", "multisamples", "0")
Config.set("graphics", "maxfps", "60")
Config.set("input", "mouse", "mouse,disable_multitouch")

from kivy.base import EventLoop  # noqa: E402
from kivy.core.clipboard import Clipboard  # noqa: E402
from kivy.core.window import Window  # noqa: E402
from kivy.graphics.opengl import GL_RGB, GL_UNSIGNED_BYTE, glReadPixels  # noqa: E402
from kivy.metrics import dp  # noqa: E402
from kivy.tests.common import UnitTestTouch  # noqa: E402
from kivy.uix.label import Label  # noqa: E402
from kivy.uix.widget import Widget  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "support"))
from trimask_mobile.app import SurveyApp  # noqa: E402
from trimask_mobile.model.device import Device  # noqa: E402
from trimask_mobile.phone.insets import Edges  # noqa: E402
from trimask_mobile.platforms import Platform  # noqa: E402
from trimask_mobile.theme import rgba  # noqa: E402
from trimask_mobile.widgets.basics import Focusable  # noqa: E402
from trimask_patience import patience  # noqa: E402

KEYS = {
    "tab": 9, "enter": 13, "space": 32, "escape": 27, "up": 273, "down": 274, "right": 275, "left": 276, "backspace": 8,
    "end": 279,
}  # fmt: skip


class TestPlatform(Platform):
    """A computer, with a scanner if asked for."""

    def __init__(self) -> None:
        if args.scanner:
            self.scan = lambda found: found(args.scanner)

    def language(self) -> str:
        return "en"

    def edges(self, width: float) -> Edges:  # noqa: ARG002
        return Edges(*map(float, args.edges.split(",")))


def visible(widget: Any) -> bool:
    while widget is not None and widget is not Window:
        if widget.opacity == 0 or widget.height <= 0 or widget.width <= 0:
            return False
        widget = widget.parent if widget.parent is not widget else None
    return True


class Driver:
    """The commands, one method each."""

    def __init__(self, app: SurveyApp) -> None:
        self.app = app
        self.drawn = 0.0
        # Drawing in software is most of what a test costs: a few frames a second are drawn, and those that are looked at.
        Window.bind(on_draw=lambda *_: self._spare())

    def _spare(self) -> bool:
        if time.monotonic() < self.drawn + 0.3:
            return True  # handled: this frame is not drawn, and asks to be drawn again
        self.drawn = time.monotonic()
        return False

    def draw(self) -> None:
        """Frames until what is in the window is what is on the screen."""
        self.pump(3)
        self.drawn = 0.0
        Window.canvas.ask_update()
        self.pump(1)

    def pump(self, frames: int = 4) -> None:
        for _ in range(frames):
            EventLoop.idle()

    def rest(self) -> None:
        """Frames until nothing moves: a message that comes or goes shifts what is below it over some frames."""
        before: Any = None
        self.pump(2)
        for _ in range(40):
            self.pump(1)
            page = self.app.page
            now = [page.name, page.ids.scroll.scroll_y, [(*w.pos, *w.size) for w in page.focusables]]
            if now == before:
                return
            before = now

    # Looking

    def labels(self) -> list[Any]:
        return [
            widget for widget in self.app.page.walk(restrict=True)
            if isinstance(widget, Label) and widget.text.strip() and visible(widget)
        ]  # fmt: skip

    def texts(self) -> list[str]:
        fields = [
            w.text for w in self.app.page.walk(restrict=True) if getattr(w, "takes_text", False) and w.text
        ]
        return [label.text for label in self.labels()] + fields

    def state(self) -> dict[str, Any]:
        guide = self.app.guide
        at = self.app.page.focused
        return {
            "screen": guide.shown.screen,
            "shown": self.app.page.name,
            "texts": self.texts(),
            "focused": None if at is None else self.name(at),
            "scale": guide.shown.scale,
            "modules": [name for name in list(sys.modules) if name.partition(".")[0] in {*BLOCKED, "h2"}],
            "app_file": sys.modules["trimask_mobile"].__file__,
            "scroll": self.app.page.ids.scroll.scroll_y,
        }

    def wait(self, text: str = "", screen: str = "", gone: str = "", seconds: float = 30.0) -> dict[str, Any]:
        """Frames until a text or a screen is there (or a text is gone)."""
        begun = time.monotonic()
        while True:
            EventLoop.idle()
            found = self.texts()
            if (
                any(text in one for one in found)
                and screen in ("", self.app.page.name)
                and not (gone and any(gone in one for one in found))
            ):
                self.rest()
                return self.state()
            if time.monotonic() > begun + patience(seconds):
                return self.state() | {"failed": f"no {text or screen or gone!r} in {seconds} s"}

    def wait_step(self, text: str, state: str, seconds: float = 30.0) -> dict[str, Any]:
        """Frames until a step of sending is in a state."""
        begun = time.monotonic()
        while time.monotonic() < begun + patience(seconds):
            EventLoop.idle()
            rows = [w for w in self.app.page.walk(restrict=True) if type(w).__name__ == "StepRow"]
            if any(row.text == text and row.state == state for row in rows):
                return self.state()
        return self.state() | {"failed": f"{text} is not {state}"}

    def show_text(self, text: str) -> dict[str, Any]:
        """Scroll to a text."""
        self.show(next(label for label in self.labels() if text in label.text))
        return self.state()

    def name(self, widget: Any) -> str:
        own = getattr(widget, "label", "") or getattr(widget, "text", "")
        return own or next((one.text for one in widget.walk(restrict=True) if isinstance(one, Label)), "")

    def find(self, text: str, which: int = 0) -> Any:
        """What can be touched and is called so; a part of its name will do where nothing is called just so."""
        widgets = [w for w in self.app.page.focusables if visible(w)]
        for match in (lambda w: self.name(w) == text, lambda w: text in self.name(w)):
            found = [w for w in widgets if match(w)]
            if found:
                return found[which]
        raise LookupError(f"nothing to touch is called {text!r}; there are {[self.name(w) for w in widgets]}")

    # Doing

    def scrolls(self, widget: Any) -> bool:
        """Whether it is in what scrolls."""
        while widget is not None and widget is not self.app.page.column and widget is not self.app.page:
            widget = widget.parent
        return widget is self.app.page.column

    def show(self, widget: Any) -> None:
        page = self.app.page
        if self.scrolls(widget) and page.column.height > page.ids.scroll.height:
            for _ in range(3):  # while a layout is pending, a scroll view puts off where it is told to go
                page.ids.scroll.scroll_to(widget, padding=dp(8), animate=False)
                self.pump(1)

    def touch(self, x: float, y: float, to: tuple[float, float] | None = None) -> None:
        touch = UnitTestTouch(x, y)
        touch.touch_down()
        # A scroll view waits 55 ms for a drag before it hands the touch on; a release before that would come 200 ms later.
        handed_on, waiting = time.monotonic() + 0.08, True
        while (
            waiting
        ):  # the last frame begins after that time: on a busy machine a frame may take longer than all of it
            waiting = time.monotonic() < handed_on
            EventLoop.idle()
        if to is not None:
            for step in range(1, 6):
                touch.touch_move(x + (to[0] - x) * step / 5, y + (to[1] - y) * step / 5)
                self.pump(1)
        touch.touch_up()
        self.rest()

    def tap(self, text: str, which: int = 0) -> dict[str, Any]:
        widget = self.find(text, which)
        self.show(widget)
        self.touch(*widget.to_window(*widget.center))
        return self.state()

    def slide(self, share: float) -> dict[str, Any]:
        """Drag the slider's thumb from the middle to a share of its way."""
        widget = next(w for w in self.app.page.focusables if type(w).__name__ == "Slide")
        self.show(widget)
        x, y = widget.to_window(*widget.center)
        left = widget.to_window(widget.x + widget.inset, widget.y)[0]
        self.touch(x, y, (left + share * (widget.width - 2 * widget.inset), y))
        return self.state()

    def key(self, key: str, *modifiers: str) -> dict[str, Any]:
        code = KEYS[key]
        letter = {"space": " "}.get(key)
        if not Window.dispatch("on_key_down", code, 0, letter, list(modifiers)) and letter:
            Window.dispatch("on_textinput", letter)
        Window.dispatch("on_key_up", code, 0)
        self.rest()
        return self.state()

    def type(self, text: str) -> dict[str, Any]:
        if len(text) > 80:  # a phone's keyboard hands over what was pasted in one piece, and a link is long
            Window.dispatch("on_textinput", text)
            text = ""
        for letter in text:
            if letter == " ":
                self.key("space")
            elif not Window.dispatch("on_key_down", ord(letter), 0, letter, []):
                Window.dispatch("on_textinput", letter)
        self.pump(3)
        return self.state()

    def clear(self, field_name: str) -> dict[str, Any]:
        self.tap(field_name)
        return self.clear_focused()

    def clear_focused(self) -> dict[str, Any]:
        """Empty the field that has the focus, by keys alone."""
        self.key("end")
        for _ in range(len(self.app.page.focused.text)):
            self.key("backspace")
        return self.state()

    def clipboard(self, text: str) -> dict[str, Any]:
        Clipboard.copy(text)
        return self.state()

    def size(self, width: int, height: int, scale: float = 0.0) -> dict[str, Any]:
        if scale:
            self.app.guide.shown.choose_scale(scale)
        Window.size = (width, height)
        self.pump(3)
        self.rest()
        return self.state()

    def hurry(self) -> dict[str, Any]:
        """As if the time of the next attempt had come."""
        self.app.guide.submissions.try_now()
        return self.state()

    def settle(self) -> dict[str, Any]:
        """Frames until every change is on disk."""
        done = threading.Event()
        for _ in range(3):  # a change made while one was written is written after it
            done.clear()
            self.app.workers.records(lambda: None, lambda _: done.set(), lambda _: done.set())
            while not done.is_set():
                EventLoop.idle()
        return self.state()

    def screenshot(self, path: str) -> dict[str, Any]:
        self.draw()
        made = Path(Window.screenshot(name=str(Path(path).with_suffix("")) + "-.png"))
        made.replace(path)
        return {"path": path}

    def importable(self, *names: str) -> dict[str, Any]:
        """Which of these could be imported."""
        return {"found": [name for name in names if find_spec(name) is not None]}

    def everywhere(self) -> dict[str, Any]:
        """Every text in any widget there is, shown or not, once what nobody refers to is gone."""
        self.pump(3)
        gc.collect()
        widgets = [one for one in gc.get_objects() if issubclass(type(one), Widget)]
        return {"texts": [w.text for w in widgets if getattr(w, "text", "")]}

    # Measuring

    def collect(self) -> dict[str, Any]:
        """What nobody refers to is gone, and returned to the system: Python and the allocator do it when they come to it."""
        self.pump(3)
        gc.collect()
        with contextlib.suppress(AttributeError):  # glibc has it
            ctypes.CDLL(None).malloc_trim(0)
        return {}

    def pixels(self, colour: str) -> dict[str, Any]:
        """How many pixels of the window have a colour of the theme's."""
        self.draw()
        wanted = bytes(round(255 * part) for part in rgba(colour))[:3]
        data = glReadPixels(0, 0, *Window.size, GL_RGB, GL_UNSIGNED_BYTE)
        return {"count": sum(data[i : i + 3] == wanted for i in range(0, len(data), 3))}

    def spoil(self, how: str) -> dict[str, Any]:
        """Break the layout on purpose, to see that `measure` sees it."""
        if how == "small":
            widget = self.app.page.focusables[-1]
            widget.size_hint, widget.size = (None, None), (dp(40), dp(40))
        else:
            label = next(one for one in self.labels() if one.height > dp(30))
            label.size_hint_y, label.height = None, dp(10)
        self.pump(1)
        return {}

    def frame(self) -> dict[str, Any]:
        """Where the page shown lies in the window: left, top, right, bottom, from the window's own edges."""
        page = self.app.page
        left, bottom = page.to_window(*page.pos)
        right, top = page.to_window(page.right, page.top)
        return {"frame": [left, Window.height - top, Window.width - right, bottom]}

    def measure(self) -> dict[str, Any]:
        """What is wrong with the layout of the page shown, as sentences; nothing, if nothing is."""
        page, wrong = self.app.page, []
        scroll = page.ids.scroll
        widgets = [w for w in page.walk(restrict=True) if isinstance(w, Focusable) and visible(w)]
        for widget in widgets:
            name = self.name(widget)
            if min(widget.width, widget.height) < dp(48) - 0.5:
                wrong.append(f"{name!r} is {widget.width:.0f} x {widget.height:.0f}: too small to touch")
            self.show(widget)
            left, bottom = widget.to_window(*widget.pos)
            right, top = widget.to_window(widget.right, widget.top)
            low, high = 0.0, float(Window.height)
            if self.scrolls(widget):
                low = scroll.to_window(*scroll.pos)[1]
                high = low + scroll.height
            if left < -0.5 or right > Window.width + 0.5:
                wrong.append(f"{name!r} reaches from {left:.0f} to {right:.0f} of {Window.width}")
            if (bottom < low - 0.5 or top > high + 0.5) and top - bottom <= high - low:
                wrong.append(
                    f"{name!r} cannot be scrolled into view: {bottom:.0f}..{top:.0f} of {low:.0f}..{high:.0f}"
                )
        if scroll.height < 0.3 * Window.height:
            wrong.append(f"only {scroll.height:.0f} of {Window.height} are left to scroll in")
        for label in self.labels():
            w, h = label.texture_size
            if w > label.width + 1.5 or h > label.height + 1.5:
                wrong.append(
                    f"{label.text[:40]!r} is cut: {w} x {h} in {label.width:.0f} x {label.height:.0f}"
                )
            # Addresses and numbers may be broken anywhere; words may not.
            room = label.text_size[0] or label.width
            words = filter(str.isalpha, label.text.split())
            wide = [word for word in words if label._label.get_extents(word)[0] > room + 1]
            wrong += [f"{word!r} is wider than its line" for word in wide]
        # What scrolls passes behind what does not, so each is compared with its like.
        boxes = [(*w.to_window(*w.pos), w.width, w.height, self.scrolls(w), self.name(w)) for w in widgets]
        for i, (x, y, w, h, scrolls, name) in enumerate(boxes):
            for x2, y2, w2, h2, scrolls2, other in boxes[i + 1 :]:
                apart = x >= x2 + w2 - 1 or x2 >= x + w - 1 or y >= y2 + h2 - 1 or y2 >= y + h - 1
                if scrolls == scrolls2 and not apart:
                    wrong.append(f"{name!r} and {other!r} overlap")
        return {"wrong": wrong, "controls": [box[-1] for box in boxes], "screen": page.name}


def main() -> None:
    app = SurveyApp(
        args.link, platform=TestPlatform(), device=lambda home: Device(home, timeout_seconds=args.timeout)
    )
    app._run_prepare()
    driver = Driver(app)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    out = sys.stdout
    while True:
        EventLoop.idle()
        try:
            line = lines.get_nowait()
        except queue.Empty:
            continue
        if line is None:
            break
        command = json.loads(line)
        try:
            answer = getattr(driver, command["do"])(*command.get("args", []), **command.get("more", {}))
        except LookupError as error:
            answer = {"failed": str(error)}
        out.write(json.dumps(answer) + "\n")
        out.flush()
    app.stop()


main()
