"""The page's words: whole in every language, the app's own sentences where they say the same, and none that is not used."""

from __future__ import annotations

import json
import re

import pytest

from trimask_core.basics.refusals import Reason
from trimask_web import REPOSITORY, WEB

LANGUAGES = ("en", "de", "ar", "hi")
APP = REPOSITORY / "mobile" / "trimask_mobile" / "words"
# Where the page differs from the app: it has no list of studies, takes receipts of its own study, and is no app.
OWN = {
    "institutions.none", "institutions.wrong", "study.unknown",
    "problem.answered.advice", "problem.missing.advice", "problem.receipt.advice", "problem.receipt.text",
    "problem.receipt.title",
    "problem.unaccepted.advice", "receipt.code.text", "withdraw.cannot",
}  # fmt: skip
DEVICE = {"en": ("phone", "device"), "de": ("Telefon", "Gerät")}


def words(language: str) -> dict[str, str]:
    """A catalogue; the module is one JSON object, so that it is covered by the page's integrity like any other."""
    text = (WEB / "page" / "words" / f"{language}.js").read_text(encoding="utf-8")
    assert text.startswith("export default {")
    assert text.endswith("};\n")
    found: dict[str, str] = json.loads(text.removeprefix("export default ").removesuffix(";\n"))
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_whole(language: str) -> None:
    english, found = words("en"), words(language)
    assert set(found) == set(english)
    for key, text in found.items():
        assert text.strip(), key
        values = set(re.findall(r"\{\w+\}", text))
        assert values == set(re.findall(r"\{\w+\}", english[key])), key


@pytest.mark.parametrize("language", DEVICE)
def test_what_the_app_says_too_is_the_app_s_sentence(language: str) -> None:
    app = json.loads((APP / f"{language}.json").read_text(encoding="utf-8"))
    phone, device = DEVICE[language]
    for key, text in words(language).items():
        if key in app and key not in OWN:
            assert text == app[key].replace(phone, device), key


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
    """`no_budget` no page meets; a study without approvals is refused by the device itself, before any node does."""
    listed = re.search(
        r"const TOLD = \[(.*?)\]", (WEB / "page" / "problem.js").read_text(encoding="utf-8"), re.DOTALL
    )
    assert listed is not None
    told = {reason.told for reason in Reason if reason.told} - {"no_budget", "unapproved"}
    assert set(re.findall(r'"(\w+)"', listed[1])) == told
    for kind in told:
        assert {f"problem.{kind}.{part}" for part in ("title", "text", "advice")} <= set(words("en")), kind
