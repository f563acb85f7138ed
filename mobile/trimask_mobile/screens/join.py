"""The screens of joining: an invitation, the study page, consent, eligibility, known institutions.

The study page says who asks, what for, where answers go, how well a person is hidden, who could see what. Consent is the
text, its version, a tick and a name. Eligibility answers stay on the device. Of institutions: which this app knows, whose
directories say so, and whether others are refused.
"""

from __future__ import annotations

from typing import Any

from kivy.core.clipboard import Clipboard
from kivy.graphics import Color, RoundedRectangle
from kivy.metrics import dp
from kivy.properties import BooleanProperty, ListProperty, ObjectProperty, StringProperty
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.widget import Widget

from trimask_core.study.guarantee import STEPS
from trimask_mobile.model.answering import CONSENT
from trimask_mobile.model.device import short_hash
from trimask_mobile.model.study_page_text import Story
from trimask_mobile.model.words import Catalogue, local_time
from trimask_mobile.theme import rgba
from trimask_mobile.widgets.basics import Stack, add_button
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page
from trimask_mobile.widgets.question import QuestionBox


class InvitationScreen(Page):
    """A field for the link; a scanner where the system has one."""

    # A callable that scans and hands over what it read, or None where there is no scanner.
    scan = ObjectProperty(None, allownone=True)

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        if ids.link.text != guide.studies.link_text:
            ids.link.text = guide.studies.link_text
        ids.link.invalid = bool(guide.studies.link_problem)
        ids.message.text = guide.studies.link_problem
        ids.busy.text = guide.shown.words.say("invitation.busy") if guide.shown.busy else ""
        ids.open.disabled = guide.shown.busy or not guide.studies.link_text.strip()

    def paste(self) -> None:
        """What was copied last."""
        self.guide.studies.type_link(Clipboard.paste().strip())

    def on_scan(self, _: object, scan: Any) -> None:
        """A button for the system's scanner, where there is one."""
        if scan is not None:
            text = self.guide.shown.words.say("invitation.scan")
            add_button(self.ids.ways, text, lambda: scan(self.guide.open_link))


class PromiseRow(Stack):
    """Towards whom, how strong in a word and on the scale, and what that means."""

    towards = StringProperty("")
    step = StringProperty("none")
    word = StringProperty("")
    text = StringProperty("")

    @staticmethod
    def filled(step: str, place: int) -> bool:
        """Whether the mark at this place of the scale, from 1, is filled."""
        return STEPS.index(step) >= place


class SeenRow(Stack):
    """Who, and what they could see."""

    who = StringProperty("")
    what = StringProperty("")


class Sentence(BoxLayout):
    """One of the first screen's."""

    text = StringProperty("")


class BrowserWay(Stack):
    """Who does better on the study's page, with its link and a button that opens it."""

    page = StringProperty("")
    browse = ObjectProperty(None)


# Heights of bars, from 0 to 1. The parts are drawn so that they look like nothing; they are a picture, not data.
YOURS = [0.3, 0.75, 0.5, 0.95, 0.4, 0.65]
PARTS = (
    [0.9, 0.2, 0.7, 0.35, 1.0, 0.15],
    [0.15, 0.85, 0.3, 0.6, 0.25, 0.95],
    [0.6, 0.4, 1.0, 0.1, 0.75, 0.45],
)
TOGETHER = [0.55, 0.6, 0.58, 0.63, 0.57, 0.6]


class Bars(Widget):
    """A few bars."""

    heights = ListProperty()
    colour = StringProperty("primary")

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.bind(pos=self._draw, size=self._draw, heights=self._draw)

    def _draw(self, *_: object) -> None:
        self.canvas.clear()
        if not self.heights:
            return
        step = self.width / len(self.heights)
        with self.canvas:
            Color(*rgba(self.colour))
            for i, height in enumerate(self.heights):
                RoundedRectangle(
                    pos=(self.x + i * step, self.y),
                    size=(step * 0.6, max(dp(2), self.height * height)),
                    radius=[dp(1)],
                )


class PictureRow(BoxLayout):
    """Bars and what they are."""

    heights = ListProperty()
    colour = StringProperty("primary")
    text = StringProperty("")
    detail = StringProperty("")


class Arrow(Widget):
    """Down."""


class SplitPicture(Stack):
    """You, the parts and who gets each, who mixes them, and what is left."""

    def __init__(self, story: Story, words: Catalogue, **values: Any) -> None:
        super().__init__(**values)
        self.add_widget(PictureRow(heights=YOURS, colour="primary", text=words.say("study.picture.you")))
        self.add_widget(Arrow())
        for number, name in enumerate(story.receivers, 1):
            part = words.say("study.picture.part", number=number)
            heights = PARTS[(number - 1) % len(PARTS)]
            self.add_widget(PictureRow(heights=heights, colour="edge", text=name, detail=part))
        self.add_widget(Arrow())
        self.add_widget(PictureRow(heights=TOGETHER, colour="success", text=story.result, detail=story.mixed))


class StudyLayers(Stack):
    """What is one touch away: who sees what, how well a person is hidden, where answers go, the exact statement."""

    exact = BooleanProperty(False)

    def __init__(self, guide: Any) -> None:
        super().__init__()
        self.guide = guide

    def fill(self) -> None:
        """The study's story; its exact statement where that is asked for."""
        guide, ids = self.guide, self.ids
        story, words = guide.studies.story, guide.shown.words
        opened = guide.studies.opened
        invited = opened is not None and opened.expires_ms is not None
        ids.once.text = words.say("study.once") if invited else ""
        ids.contact.text = words.say("study.contact", contact=story.contact)
        if opened is not None and opened.page and guide.shown.mode == "own" and not ids.browser.children:
            ids.browser.add_widget(BrowserWay(page=opened.page, browse=guide.shown.browse))
        ids.way.text = story.way
        ids.promise.text = story.promise
        ids.promises.clear_widgets()
        for promise in story.truth.promises:
            row = PromiseRow(towards=promise.towards, step=promise.step, word=promise.word)
            row.text = " ".join(promise.sentences)
            ids.promises.add_widget(row)
        ids.scale.text = story.truth.note
        ids.seen.clear_widgets()
        for who, what in story.truth.seen:
            ids.seen.add_widget(SeenRow(who=who, what=what))
        ids.notes.text = "\n\n".join(story.notes)
        ids.picture.clear_widgets()
        ids.picture.add_widget(SplitPicture(story, words))
        ids.unknown.text = story.unknown
        ids.exact.text = guide.studies.whole_story if self.exact else ""

    def toggle(self) -> None:
        """The whole statement, as the client has it."""
        self.exact = not self.exact
        self.fill()


class StudyScreen(Page):
    """A few sentences, and one touch away everything a person should be able to know before the first question."""

    more = BooleanProperty(False)

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        story, words = guide.studies.story, guide.shown.words
        if story is None:
            return
        ids.name.text = story.title
        ids.intro.text = story.intro
        opened = guide.studies.opened
        ends = None if opened is None else opened.expires_ms
        ids.by.text = "" if ends is None else words.say("study.by", when=local_time(ends, words.language))
        ids.purpose.text = story.purpose
        ids.who.text = words.say("study.asked", name=story.asked_by)
        ids.first.clear_widgets()
        for sentence in story.truth.first:
            ids.first.add_widget(Sentence(text=sentence))
        ids.strength.text = story.truth.strength
        if not self.more:
            ids.layers.clear_widgets()
            return
        if not ids.layers.children:
            ids.layers.add_widget(StudyLayers(guide))
        ids.layers.children[0].fill()

    def show_more(self) -> None:
        """And less."""
        self.more = not self.more
        self.refresh()


class ConsentScreen(Page):
    """Signed with a typed name, which stays on the device."""

    def refresh(self) -> None:
        part, ids, words = self.guide.answering.participation, self.ids, self.guide.shown.words
        if part is None:
            return
        consent = part.consent
        self.title = self.guide.studies.study_title
        ids.words.text = consent.text
        ids.version.text = words.say(
            "consent.version", version=consent.version, hash=short_hash(consent.text)
        )
        ids.agree.selected = part.agreed
        if ids.person.text != part.name:
            ids.person.text = part.name
        ids.missing.text = self.guide.answering.problems.get(CONSENT, "")
        self.progress = part.progress


class EligibilityScreen(Page):
    """All of these questions on one page: they are short."""

    _part: Any = None

    def refresh(self) -> None:
        part = self.guide.answering.participation
        if part is None:
            return
        asked = part.eligibility_questions
        self.title = self.guide.studies.study_title
        box = self.ids.questions
        if self._part is not part or [one.asked for one in box.children[::-1]] != list(asked):
            self._part = part
            box.clear_widgets()
            for question in asked:
                box.add_widget(
                    QuestionBox(question, part.eligibility.get(question.name), self.guide, heading="heading")
                )
        for one in box.children:
            one.problem = self.guide.answering.problems.get(one.asked.name, "")
        self.progress = part.progress


class InstitutionsScreen(Page):
    """A directory is pasted, its keeper's key compared by another way, and only then added."""

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        say = guide.shown.words.say
        books = [
            say("institutions.known", keeper=book.keeper, count=len(book.institutions))
            for book in guide.institutions.directories
        ]
        ids.known.text = "\n".join(books) or say("institutions.none")
        ids.unknown.options = [(False, say("institutions.show")), (True, say("institutions.refuse"))]
        ids.unknown.chosen = [guide.shown.refuse_unknown]
        pasted = guide.institutions.pasted_directory
        ids.pasted.text = (
            ""
            if pasted is None
            else say(
                "institutions.compare",
                keeper=pasted.keeper,
                count=len(pasted.institutions),
                key=" ".join(pasted.keeper_key.hex()[at : at + 4] for at in range(0, 64, 4)),
            )
        )
        ids.problem.text = guide.institutions.directory_problem
        ids.add.disabled = pasted is None

    def paste(self) -> None:
        """What was copied last."""
        self.guide.institutions.paste_directory(Clipboard.paste())


load_kv(__file__)
