"""The catalogue: whole in every language, the page's copy of it, where the app differs, and no sentence that is not used."""

from __future__ import annotations

import json
import re

import pytest

from trimask_cli.site.page import words as made
from trimask_core.basics.refusals import Reason
from trimask_web import REPOSITORY, WEB

LANGUAGES = ("en", "de", "ar", "hi")
APP = REPOSITORY / "mobile" / "trimask_mobile" / "words"
# Sentences of the app's own in place of the catalogue's, and why.
APPS_OWN = {
    "institutions.none": "an app knows institutions for all hosts",
    "institutions.wrong": "a directory is pasted, not opened as a file",
    "study.unknown": "an app, not a browser",
    "problem.answered.advice": "it has a list of studies",
    "problem.missing.advice": "it has a list of studies",
    "problem.receipt.advice": "it opens receipts of any study",
    "problem.receipt.text": "it opens receipts of any study",
    "problem.receipt.title": "it opens receipts of any study",
    "problem.unaccepted.advice": "it can keep answers that were refused",
    "receipt.code.text": "the code opens the app",
    "withdraw.cannot": "an app, not a page",
}


def words(language: str) -> dict[str, str]:
    """The page's catalogue; the module is one JSON object, so that it is covered by the page's integrity like any other."""
    text = made()[f"page/words/{language}.js"].decode()
    found: dict[str, str] = json.loads(text.partition("export default ")[2].removesuffix(";\n"))
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_whole(language: str) -> None:
    english, found = words("en"), words(language)
    assert set(found) == set(english)
    for key, text in found.items():
        assert text.strip(), key
        values = set(re.findall(r"\{\w+\}", text))
        assert values == set(re.findall(r"\{\w+\}", english[key])), key


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_app_says_the_same_but_for_sentences_that_must_differ(language: str) -> None:
    own = json.loads((APP / f"{language}.json").read_text(encoding="utf-8"))
    assert set(own) & set(words(language)) == set(APPS_OWN)
    assert all(own[key] != words(language)[key] for key in APPS_OWN)


def test_every_word_is_used_and_every_use_has_words() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted((WEB / "page").rglob("*.js"))
        if path.parent.name != "words"
    )
    named = set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)*)"', source))
    # Keys put together: `problem.${kind}.title`, count("when.minutes") and the like.
    patterns = [
        re.compile(re.sub(r"\\\$\\\{[^`]*?\\\}", "[a-z_]+", re.escape(text)))
        for text in re.findall(r"`((?:[a-z_.]|\$\{[^{}]*\})+)`", source)
    ]
    for key in words("en"):
        stem = re.sub(r"\.(one|many)$", "", key)
        used = key in named or stem in named or any(pattern.fullmatch(key) for pattern in patterns)
        assert used, f"{key} is said nowhere"


def test_a_refusal_has_its_own_texts_on_the_page() -> None:
    """Those that scripts/web_tables.py leaves to the page; a kind without texts would be shown as its key."""
    table = (WEB / "device" / "refusals.js").read_text(encoding="utf-8")
    told = set(re.findall(r'"(\w+)"\],', table))
    assert told == {reason.told for reason in Reason if reason.told} - {"no_budget", "unapproved"}
    for kind in told:
        assert {f"problem.{kind}.{part}" for part in ("title", "text", "advice")} <= set(words("en")), kind
