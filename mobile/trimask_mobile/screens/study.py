"""The study page: who asks, what for, where answers go, how well a person is hidden, who could see what."""

from __future__ import annotations

from kivy.properties import BooleanProperty, StringProperty
from kivy.uix.boxlayout import BoxLayout

from trimask_core.plain_truth import STEPS
from trimask_mobile.model.catalogue import local_time
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page
from trimask_mobile.widgets.picture import SplitPicture

__all__ = ["StudyScreen"]


class PromiseRow(BoxLayout):
    """Towards whom, how strong in a word and on the scale, and what that means."""

    towards = StringProperty("")
    step = StringProperty("none")
    word = StringProperty("")
    text = StringProperty("")

    @staticmethod
    def filled(step: str, place: int) -> bool:
        """Whether the mark at this place of the scale, from 1, is filled."""
        return STEPS.index(step) >= place


class SeenRow(BoxLayout):
    """Who, and what they could see."""

    who = StringProperty("")
    what = StringProperty("")


class StudyScreen(Page):
    """Everything a person should know before the first question."""

    exact = BooleanProperty(False)

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        story, words = guide.story, guide.words
        if story is None:
            return
        ids.name.text = story.title
        ids.intro.text = story.intro
        ends = None if guide.opened is None else guide.opened.expires_ms
        ids.by.text = "" if ends is None else words.say("study.by", when=local_time(ends, words.language))
        ids.once.text = "" if ends is None else words.say("study.once")
        ids.who.text = story.asked_by
        ids.contact.text = words.say("study.contact", contact=story.contact)
        ids.purpose.text = story.purpose
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
        ids.exact.text = guide.whole_story if self.exact else ""

    def toggle(self) -> None:
        """The whole statement, as the client has it."""
        self.exact = not self.exact
        self.refresh()


load_kv(__file__)
