"""Which institutions this app knows, whose directories say so, and whether others are refused."""

from __future__ import annotations

from kivy.core.clipboard import Clipboard

from trimask_mobile.widgets.look import load_kv
from trimask_mobile.widgets.page import Page

__all__ = ["InstitutionsScreen"]


class InstitutionsScreen(Page):
    """A directory is pasted, its keeper's key compared by another way, and only then added."""

    def refresh(self) -> None:
        guide, ids = self.guide, self.ids
        say = guide.words.say
        books = [
            say("institutions.known", keeper=book.keeper, count=len(book.institutions))
            for book in guide.directories
        ]
        ids.known.text = "\n".join(books) or say("institutions.none")
        ids.unknown.options = [(False, say("institutions.show")), (True, say("institutions.refuse"))]
        ids.unknown.chosen = [guide.refuse_unknown]
        pasted = guide.pasted_directory
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
        ids.problem.text = guide.directory_problem
        ids.add.disabled = pasted is None

    def paste(self) -> None:
        """What was copied last."""
        self.guide.paste_directory(Clipboard.paste())


load_kv(__file__)
