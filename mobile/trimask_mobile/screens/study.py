"""The study page: who asks, what for, where answers go, what is promised, who would have to collude."""

from __future__ import annotations

from kivy.properties import BooleanProperty

from trimask_mobile.widgets.basics import Text
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page
from trimask_mobile.widgets.picture import SplitPicture

__all__ = ["StudyScreen"]


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
        ids.who.text = story.asked_by
        ids.contact.text = words.say("study.contact", contact=story.contact)
        ids.purpose.text = story.purpose
        ids.way.text = story.way
        ids.promise.text = "\n\n".join(story.promise)
        ids.collusion.text = story.collusion
        ids.coalitions.clear_widgets()
        for group in story.coalitions:
            ids.coalitions.add_widget(Text(text=f"•  {group}"))
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
