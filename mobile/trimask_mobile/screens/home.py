"""The screens around studies: my studies, settings, the empty page before anything is read, a way that ended, removal.

Settings are text size and language and, for whom the device is, what else it can be told. Where the way ends: what
happened, what it means, what can be done. Before a study, or everything, is removed from this phone: what is lost.
"""

from __future__ import annotations

from typing import Any

from kivy.properties import ObjectProperty, StringProperty

from trimask_mobile.model.study_list import Item, spent_words
from trimask_mobile.model.submissions import receipt_name
from trimask_mobile.model.words import LANGUAGES
from trimask_mobile.theme import SCALES
from trimask_mobile.widgets.basics import Card, Note, Stack, StateCard, add_button
from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

_SIGNS = {
    "new": ("ring", "muted"),
    "draft": ("dot", "primary"),
    "waiting": ("clock", "warning"),
    "refused": ("cross", "error"),
    "damaged": ("cross", "error"),
    "sent": ("check", "success"),
    "withdrawing": ("clock", "warning"),
    "too_late": ("check", "success"),
    "withdrawn": ("check", "muted"),
}
_ACTIONS = {"new": "studies.begin", "draft": "studies.continue", "sent": "studies.receipt"}


class SpentCard(Card):
    """What all studies together can tell."""

    text = StringProperty("")


class Welcome(Stack):
    """Where nothing is there yet."""


class StudiesScreen(Page):
    """The list, or a welcome where it is empty."""

    _lines: Any = None
    _sure = b""  # the study whose draft a person has asked to delete, and is asked about

    def refresh(self) -> None:
        guide, words = self.guide, self.guide.shown.words
        shown = self.ids.shown
        now_ms = guide.shown.device.clock.now_ms()
        lines = [(item, item.words(words, now_ms)) for item in guide.submissions.items]
        if self._lines == (words.language, lines, self._sure):
            return  # what has the focus keeps it
        self._lines = (words.language, lines, self._sure)
        shown.clear_widgets()
        for item, text in lines:
            sign, colour = _SIGNS[item.state]
            card = StateCard(
                title=item.title,
                state=words.say(f"shelf.{item.state}"),
                text=text,
                sign=sign,
                colour=colour,
            )
            self._add_actions(card, item)
            shown.add_widget(card)
        spent = spent_words(guide.submissions.items, words)
        if spent:
            shown.add_widget(SpentCard(text=spent))
        if not guide.submissions.items:
            shown.add_widget(Welcome())

    def _add_actions(self, card: StateCard, item: Item) -> None:
        words = self.guide.shown.words
        buttons = card.ids.buttons
        if item.state == "draft" and item.study_id == self._sure:
            card.text = words.say("studies.delete.sure")
            add_button(buttons, words.say("studies.keep"), lambda: self._ask(b""))
            add_button(buttons, words.say("studies.delete"), lambda: self._delete(item), kind="danger")
            return
        studies = self.guide.studies
        does = words.say(_ACTIONS.get(item.state, "studies.details"))
        add_button(buttons, does, lambda: studies.show(item))
        if item.study_id and item.state != "draft":
            add_button(buttons, words.say("remove.one"), lambda: studies.ask_remove(item), kind="quiet")
        if item.state == "draft":
            add_button(buttons, words.say("studies.delete"), lambda: self._ask(item.study_id), kind="quiet")

    def _ask(self, study_id: bytes) -> None:
        self._sure = study_id
        self.refresh()

    def _delete(self, item: Item) -> None:
        self._sure = b""
        self.guide.studies.delete_draft(item)


class SettingsScreen(Page):
    """Both work at once, on this page too."""

    _shown: Any = None

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        ids.sizes.options = [(scale, f"{scale:.0%}".replace("%", " %")) for scale in SCALES]
        ids.sizes.chosen = [guide.shown.scale]
        ids.languages.options = [(tag, LANGUAGES.get(tag, tag)) for tag in guide.answering.languages]
        ids.languages.chosen = [
            guide.answering.language
            if guide.answering.language in guide.answering.languages
            else guide.shown.words.language
        ]
        # A respondent may choose how they read, and nothing that is the device's; nor may one who answers just now.
        own = guide.shown.mode == "own"
        ways = ([("institutions.title", guide.institutions.open_institutions)] if own else []) + (
            [("interviewer.title", guide.kiosk.open_interviewer), ("remove.all", guide.studies.ask_remove)]
            if own and guide.answering.participation is None
            else []
        )
        if self._shown != (guide.shown.words.language, [key for key, _ in ways]):
            self._shown = (guide.shown.words.language, [key for key, _ in ways])
            ids.ways.clear_widgets()
            for key, does in ways:
                add_button(ids.ways, guide.shown.words.say(key), does)


class StartingScreen(Page):
    """Shown for a moment."""


class ProblemScreen(Page):
    """No code numbers; the software's own words are below, for whoever helps."""

    def refresh(self) -> None:
        problem, words, ids = self.guide.shown.problem, self.guide.shown.words, self.ids
        if problem is None:
            return
        ids.head.text, ids.words.text, ids.advice.text = problem.said(words)
        studies = getattr(self.guide, "studies", None)  # none before there is a device
        opened = None if studies is None else studies.opened
        contact = problem.contact or ("" if opened is None else opened.study.contact)
        ids.contact.text = words.say("study.contact", contact=contact) if contact else ""
        ids.detail.text = words.say("problem.detail", detail=problem.detail) if problem.detail else ""
        self.bare = self.guide.shown.mode == "stuck"
        ids.studies.there = self.back = not self.bare
        ids.again.text = words.say("browser.open" if problem.page else "problem.again")
        ids.again.there = bool(problem.again or problem.page)

    def go_on(self) -> None:
        """To the study's page, where the problem is this app; else once more."""
        if self.guide.shown.problem.page:
            self.guide.shown.browse(self.guide.shown.problem.page)
        else:
            self.guide.again()


class RemoveScreen(Page):
    """Every loss is named; receipts can be saved before it."""

    saved = StringProperty("")
    tone = StringProperty("success")
    save = ObjectProperty(None, allownone=True)  # as the receipt's page has it
    _shown: Any = None

    def refresh(self) -> None:
        guide, ids, say = self.guide, self.ids, self.guide.shown.words.say
        loss = guide.studies.loss
        if loss is None:
            return
        ids.head.text = say("remove.one.title" if loss.study_id else "remove.all.title")
        ids.titles.text = "\n".join(loss.titles)
        told = loss.sentences(guide.shown.words) or [say("remove.nothing")]
        if self._shown != (told, loss.receipts):
            self._shown = (told, loss.receipts)
            ids.told.clear_widgets()
            for sentence in told:
                ids.told.add_widget(Note(tone="warning", text=sentence))
            ids.ways.clear_widgets()
            if loss.receipts:
                add_button(ids.ways, say("remove.save"), self.save_all)

    def save_all(self) -> None:
        """Each receipt to a file, one after the other: a phone asks where to for each."""
        say, left = self.guide.shown.words.say, list(self.guide.studies.loss.receipts)
        names: list[str] = []

        def failed(why: str) -> None:
            self.tone, self.saved = "error", say("receipt.unsaved", why=why)

        def saved(where: str = "") -> None:
            names.extend(filter(None, [where]))
            if names:
                self.tone, self.saved = "success", say("remove.saved", names=", ".join(names))
            if left:
                title, receipt = left.pop(0)
                name = receipt_name(receipt, title, self.guide.shown.words)
                self.save(name, receipt.to_json(), saved, failed)

        saved()


load_kv(__file__)
