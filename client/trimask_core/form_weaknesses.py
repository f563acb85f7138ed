"""Checks of a study's texts for its owner before anybody signs: texts that cannot be shown, or are missing.

Placeholders, texts that stand untranslated in another language, and characters that a way of taking part cannot show.
Like `study_weaknesses`, a `refuse` finding stops `trimask study new` unless --allow-weak is given; a `name` finding is only
reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from trimask_core.form import Form
from trimask_core.showing import app_cannot_show, app_languages, form_texts
from trimask_core.study import Study
from trimask_core.study_weaknesses import Finding, Severity, Weakness

__all__ = ["FILL_IN", "form_findings"]

FILL_IN = ("Untitled", "Say in a sentence what the answers are for.", "who-asks@example.org")
"""What `import-xlsform` and drafts leave for the owner to write."""
# In capitals: "todo" is a Spanish word.
_PLACEHOLDER = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX+|(?i:lorem ipsum|insert \w+ here))\b|\[\s*(?:\.\.\.|…)\s*\]|\?\?\?"
)
_ONLY_DOTS = re.compile(r"[\s.…_-]*")
_CUT_OFF = re.compile(r"(?:\.\.\.|…)\s*$")
_MANY_WORDS = 4
_SHOWN_AT_ONCE = 3


def form_findings(study: Study) -> tuple[Finding, ...]:
    """Every check of a study's texts, weak or not."""
    form = study.form or Form.for_schema(study.schema)
    return (_written(study, form), *_translated(form), *_shown(study, form))


def _written(study: Study, form: Form) -> Finding:
    top = [("title", study.title), ("purpose", study.purpose), ("contact", study.contact)]
    found = [
        f"{where} ({text[:40]!r})" for where, text in top if text.strip() in FILL_IN or _placeholder(text)
    ]
    for where, texts in form_texts(form):
        for language, text in texts.pairs:
            # A question may end in dots that its answers complete; a consent may not.
            cut_off = where == "form.consent.text" and _CUT_OFF.search(text)
            if _placeholder(text) or cut_off:
                found.append(f"{where} in {language!r} ({text[-40:]!r})")
    if not found:
        return Finding("written", "No text is a placeholder.")
    return _weak("placeholders", found, "Still a placeholder", "Write it, or take it out.")


def _placeholder(text: str) -> bool:
    return _PLACEHOLDER.search(text) is not None or _ONLY_DOTS.fullmatch(text) is not None


def _translated(form: Form) -> Iterator[Finding]:
    """A text of several words that is the same in two languages; or all texts, however short."""
    if len(form.languages) < 2:
        return
    texts = list(form_texts(form))
    found = []
    for first, second in combinations(form.languages, 2):
        if first.split("-")[0] == second.split("-")[0]:
            continue  # British and American English may well be alike
        same = [where for where, text in texts if text[first].strip() == text[second].strip()]
        if len(same) == len(texts):
            found.append(f"everything is the same in {first!r} and {second!r}")
        else:
            long = [w for w, text in texts if w in same and len(text[first].split()) >= _MANY_WORDS]
            found += [f"{where} is the same in {first!r} and {second!r}" for where in long]
    if found:
        yield _weak(
            "untranslated",
            found,
            "Not translated",
            "Translate it, or take the language out of form.languages.",
        )
    else:
        yield Finding("translated", "No text stands untranslated in another language.")


def _shown(study: Study, form: Form) -> Iterator[Finding]:
    page = (
        "the page in a browser shows it"
        if study.web
        else "a page in a browser would show it: name one under [web]"
    )
    nobody = not app_languages(form) and study.web is None
    for language in form.languages:
        unshown = app_cannot_show(form, language)
        if unshown is None:
            yield Finding("shown", f"In {language!r} the app and the page can show every text.")
            continue
        letters = " ".join(f"{one} (U+{ord(one):04X})" for one in unshown.characters[:_SHOWN_AT_ONCE])
        more = len(unshown.characters) - _SHOWN_AT_ONCE
        letters += f" and {more} others" if more > 0 else ""
        reason = "it is written from right to left" if unshown.right_to_left else f"its font has no {letters}"
        where = "" if unshown.right_to_left and not unshown.where else f", first in {unshown.where}"
        severity: Severity = "name" if unshown.is_script and not nobody else "refuse"
        fix = (
            "Nothing, if people take part by the page; the app offers other languages, or refuses before it asks anything."
            if severity == "name"
            else "Give a language that the app can show, or a page under [web]."
            if unshown.is_script
            else "Write it in other characters."
        )
        why = f"In {language!r} the app cannot show this form: {reason}{where}; {page}."
        yield Finding("shown", why, Weakness("unshown", float(len(unshown.characters)), why, fix, severity))


def _weak(what: str, found: list[str], words: str, fix: str) -> Finding:
    more = f"; and {len(found) - _SHOWN_AT_ONCE} more" if len(found) > _SHOWN_AT_ONCE else ""
    why = f"{words}: {'; '.join(found[:_SHOWN_AT_ONCE])}{more}."
    return Finding(what, why, Weakness(what, float(len(found)), why, fix, "refuse"))
