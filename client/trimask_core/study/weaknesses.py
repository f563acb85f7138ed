"""What in a study is weak: one list for its owner, for operators who approve it, and for devices.

None of these makes a study impossible (`Study` refuses those): these are valid settings that promise little, and texts that
cannot be shown or are missing (placeholders, texts that stand untranslated in another language, characters that a way of
taking part cannot show). A `refuse` weakness is one that nobody intends, and `trimask study new` makes such a study only
with --allow-weak; a `name` weakness is somebody's choice, and is stated wherever the study is shown. Every line is computed
from the study itself, without a statistics library, so that a phone finds the same as its owner.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from trimask_core.explain.facts import strengths
from trimask_core.explain.sentences import strength_lines
from trimask_core.form.font_coverage import app_cannot_show, app_languages, form_texts
from trimask_core.form.form import Form
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_core.study.party import check_origin
from trimask_core.suites import collusion_of, moments_collusion

Severity = Literal["refuse", "name"]
_ENOUGH_PARTIES = 3
_LARGEST_DESIGN_EFFECT = 2.0
"""Above it more than half of the people are lost to the weights, at worst."""


@dataclass(frozen=True)
class Weakness:
    """`what` is a stable word for it, `number` the weak one; `why` and `fix` are sentences."""

    what: str
    number: float
    why: str
    fix: str
    severity: Severity = "name"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; infinity is null."""
        return {
            "what": self.what,
            "number": self.number if math.isfinite(self.number) else None,
            "why": self.why,
            "fix": self.fix,
            "severity": self.severity,
        }


@dataclass(frozen=True)
class Finding:
    """One check: `words` say what was found, `weakness` is there unless it is all right."""

    what: str
    words: str
    weakness: Weakness | None = None


def weaknesses(study: Study) -> tuple[Weakness, ...]:
    """All that is weak, what `study new` refuses first."""
    weak = [found.weakness for found in findings(study) if found.weakness is not None]
    return tuple(sorted(weak, key=lambda item: item.severity != "refuse"))


def findings(study: Study) -> tuple[Finding, ...]:
    """Every check that applies to this study, weak or not."""
    return tuple(found for check in _CHECKS for found in [check(study)] if found is not None)


def _weak(weakness: Weakness) -> Finding:
    return Finding(weakness.what, weakness.why, weakness)


def _noise(study: Study) -> Finding | None:
    """Exact studies."""
    if study.protection.sigma:
        return Finding("noise", "Noise is added to what is published.")
    rows = isinstance(study.suite, RowsSettings)
    if study.protection.budget is not None:
        return Finding("noise", "Nothing leaves without noise, and nobody holds the exact sums.")
    why = "No noise is added: what is published shows sums of squares and products exactly, from which single people may "
    why += "be found out" + (
        "."
        if rows
        else ", and a collector whose program was changed could bring all the others in a release itself."
    )
    fix = "Give epsilon and delta under [privacy] in place of exact = true, or a [privacy.budget]."
    return _weak(Weakness("noise", 0.0, why, fix))


def _guarantee(study: Study) -> Finding | None:
    if not study.protection.sigma:
        return None
    if study.protection.public is not None:
        return Finding("guarantee", "What the noise is for is stated.")
    why = "There is noise, but the study does not say what it promises."
    return _weak(
        Weakness("guarantee", 0.0, why, "Make the study with `trimask study new`, which states it.", "refuse")
    )


def _delta(study: Study) -> Finding | None:
    protection, people = study.protection, study.release_rows
    promises = (protection.public, protection.collector, protection.budget)
    stated = [item.delta for item in promises if item is not None and item.delta is not None]
    if not stated:
        return None
    delta = max(stated)
    if delta <= 1 / people:
        return Finding("delta", f"delta = {delta:g} is not above 1/N = 1/{people:,}.")
    why = (
        f"delta = {delta:g} is above 1/N = 1/{people:,}: a release that lays {math.floor(min(delta, 1) * people):,} of its "
        f"{people:,} people open would keep such a promise."
    )
    fix = f"Give a delta well below {1 / people:.2g}, such as {10.0 ** math.floor(math.log10(1 / people) - 1):g}."
    return _weak(Weakness("delta", delta, why, fix, "refuse"))


def _strength(study: Study) -> Finding | None:
    """Towards everybody, on the one scale; the collector's own is another line."""
    if study.protection.budget is not None:
        fix = "Give a smaller budget, and ask fewer or coarser questions."
    else:
        fix = "Give a smaller epsilon, and a larger release_rows, which keeps the precision."
    return _strength_towards(study, ("public", "everybody"), "strength", fix)


def _collector_strength(study: Study) -> Finding | None:
    """The rows suite's blocks are smaller than its releases, and so is what the collector is kept from."""
    fix = f"Give a larger block_rows ({study.release_rows:,}, the release's, makes them equal), or a smaller epsilon."
    return _strength_towards(study, ("collector",), "collector_strength", fix)


def _strength_towards(study: Study, towards: tuple[str, ...], what: str, fix: str) -> Finding | None:
    """None without a number, and where another line says what is wrong with it."""
    places = [place for place, item in enumerate(strengths(study)) if item.towards in towards]
    if not places or (study.protection.public is None and study.protection.budget is None):
        return None
    promise, words = strengths(study)[places[0]], strength_lines(study)[places[0]]
    if promise.guess is None or promise.why:
        return None
    if promise.step != "weak":
        return Finding(what, words)
    return _weak(Weakness(what, float(promise.guess), words, fix))


def _record(study: Study) -> Finding | None:
    promise = study.protection.public
    if promise is None:
        return None
    if promise.neighbours.relation != "unit":
        return Finding("record", "The promise is about a person's whole record.")
    return _weak(
        Weakness(
            "record",
            promise.neighbours.distance or 1.0,
            f"The promise is about {promise.neighbours}, and not about a person's whole record.",
            'Set protect = "record" under [privacy].',
        )
    )


def _parties(study: Study) -> Finding:
    """How many institutions it takes; parties of one name are one institution.

    In the moments suite it is always all right providers, and two that do not collude are what such systems rest on.
    """

    def institution(role: str) -> str:
        return study.party(role).organisation.strip().casefold() or role

    groups = [coalition.parties for coalition in collusion_of(study).coalitions]
    least = min(len({institution(role) for role in group}) for group in groups)
    fix = "Have at least 4 right and 2 left providers; `trimask study collusion --suggest` finds who should unmask."
    altering = ""
    if isinstance(study.suite, RowsSettings) and not study.rows.tag_holders:
        altering = " One right provider whose program was changed to alter components would not be found out."
    enough = _ENOUGH_PARTIES if isinstance(study.suite, RowsSettings) else 2
    if least >= enough:
        words = f"It takes {least} institutions together to see answers."
        return (
            _weak(Weakness("parties", least, words + altering, fix))
            if altering
            else Finding("parties", words)
        )
    shown = [group for group in groups if len({institution(role) for role in group}) == least]
    named = "; ".join(" and ".join(_who(study, role) for role in group) for group in shown[:3])
    more = f"; and {len(shown) - 3} other such group{'s' if len(shown) > 4 else ''}" if len(shown) > 3 else ""
    if least == 1:
        why = f"One institution alone could see answers, because it runs several parties: {named}{more}."
        return _weak(Weakness("parties", 1, why, "Have every party run by another institution.", "refuse"))
    why = f"Two institutions together could see answers: {named}{more}.{altering}"
    return _weak(Weakness("parties", 2, why, fix))


def _who(study: Study, role: str) -> str:
    organisation = study.party(role).organisation
    return f"{role} ({organisation})" if organisation else role


def _page(study: Study) -> Finding | None:
    """Whoever hosts the page could change it, so a collector that hosts it could read what is answered there, alone."""
    if study.web is None:
        return None
    hosts = {host: check_origin(host, "web.hosts", development=True) for host in study.web.hosts}
    trial = [host for host in hosts if host.startswith("http://")]
    if trial:
        why = f"The page may be shown at {', '.join(trial)}, which is for trying out on one machine."
        return _weak(Weakness("page_trial", len(trial), why, "Name https hosts alone in [web]."))
    collector = {check_origin(study.collector.https, "https"), study.collector.tls_name}
    own = [host for host, name in hosts.items() if name in collector]
    if own:
        why = f"The collector hosts the page ({', '.join(own)}): by changing it, it could read alone what is answered there."
        fix = "Have the page hosted by an institution that is no party of the study."
        return _weak(Weakness("page_host", len(own), why, fix))
    return Finding("page_host", "The collector's own host does not show the page.")


def _noise_providers(study: Study) -> Finding | None:
    """Of K1 right providers any h give the noise, so K1 - h + 1 that add none take it away."""
    if isinstance(study.suite, RowsSettings) or not moments_collusion(study).noise or len(study.right) == 2:
        return None
    honest, right = study.moments.honest_providers, len(study.right)
    without = right - honest + 1
    if without >= _ENOUGH_PARTIES:
        return Finding(
            "noise_providers", f"It takes {without} of {right} right providers to take the noise away."
        )
    why = (
        f"Two of {right} right providers that leave their noise out take from what is promised to everybody."
    )
    fix = f"Give honest_providers = {right - 2} or less."
    return _weak(Weakness("noise_providers", honest, why, fix))


def _weights(study: Study) -> Finding | None:
    """What unequal weights can cost: the design effect, at its largest within their bounds."""
    if study.weight is None:
        return None
    effect, people = study.weight.design_effect(study.schema), study.release_rows
    worth = math.floor(people / effect)
    if effect <= _LARGEST_DESIGN_EFFECT:
        return Finding("weights", f"By their weights {people:,} people are worth {worth:,} at worst.")
    why = (
        f"Weights go up to {study.weight.times(study.schema)} times one another: at worst {people:,} people tell "
        f"as much as {worth:,} who count the same, and the noise is made for whoever counts most."
    )
    fix = "Trim the weights, or collect without and weight afterwards (fit.weighted)."
    return _weak(Weakness("weights", effect, why, fix))


def _releases(study: Study) -> Finding | None:
    """Every release of the moments suite has the whole noise, whoever is in it."""
    if isinstance(study.suite, RowsSettings) or not study.protection.sigma:
        return None
    if not study.moments.several_releases:
        return Finding("releases", "Everybody is published together, with the noise once.")
    why = (
        f"There are several releases, of {study.release_rows:,} people or more, each with the whole noise: what is computed "
        "of 10 has 3 times the error of one of everybody, of 35 it has 6 times."
    )
    fix = "Take several_releases out: one release when the study closes."
    return _weak(Weakness("releases", study.release_rows, why, fix))


_CHECKS: tuple[Callable[[Study], Finding | None], ...] = (
    _noise,
    _guarantee,
    _delta,
    _strength,
    _collector_strength,
    _record,
    _parties,
    _noise_providers,
    _weights,
    _releases,
    _page,
)


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
    return _weak_text("placeholders", found, "Still a placeholder", "Write it, or take it out.")


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
        yield _weak_text(
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


def _weak_text(what: str, found: list[str], words: str, fix: str) -> Finding:
    more = f"; and {len(found) - _SHOWN_AT_ONCE} more" if len(found) > _SHOWN_AT_ONCE else ""
    why = f"{words}: {'; '.join(found[:_SHOWN_AT_ONCE])}{more}."
    return Finding(what, why, Weakness(what, float(len(found)), why, fix, "refuse"))
