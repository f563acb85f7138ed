"""A study in words: `facts` said by the catalogue of a language, explain/words/<language>.json; English where there is none.

The catalogue has every sentence that app, page, terminal and console share; `trimask web export` makes the
page's modules of it. The exact statement is beside them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from trimask_core.explain.facts import Promise, Said, Seen, Truth, reached, told, whole_truth
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Step

LANGUAGES = ("en", "de", "ar", "hi")
_FOLDER = Path(__file__).parent / "words"
_MOST_NAMED = (
    3  # groups that see the same, before they are counted in place of named; the exact statement names all
)


@cache
def read_words(name: str) -> dict[str, str]:
    """The sentences of words/<name>.json."""
    found: dict[str, str] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def catalogue(language: str) -> dict[str, str]:
    """The sentences nearest to a language tag ("de-AT" -> "de")."""
    tag = language.replace("_", "-").split("-")[0].lower()
    return read_words(tag if tag in LANGUAGES else "en")


@dataclass(frozen=True)
class PlainPromise:
    """`towards` is a heading, `word` the step in a word, `step` its stable name; then sentences."""

    towards: str
    step: Step
    word: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class PlainTruth:
    """The promises, the weaker first; who could see what: (who, what), those who see most first; and the first screen."""

    promises: tuple[PlainPromise, ...]
    seen: tuple[tuple[str, str], ...]
    note: str
    first: tuple[str, ...]
    strength: str

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return asdict(self)


def plain_truth(study: Study, language: str) -> PlainTruth:
    """What a person reads about a study before the first question."""
    truth, say = whole_truth(study), catalogue(language)
    promises = tuple(_promise(study, promise, say) for promise in truth.promises)
    note = say["note"] if _has_scale(truth) else ""
    first, strength = ([_said(item, say) for item in items] for items in (truth.first, truth.strength))
    return PlainTruth(promises, _seen(study, truth, say), note, tuple(first), " ".join(strength))


def strength_lines(study: Study, language: str = "en") -> tuple[str, ...]:
    """How well a person is hidden, a line for each who looks, the weaker first: the same words wherever a study is shown."""
    return tuple(
        f"{one.towards}: {one.word}. {one.sentences[0]}" for one in plain_truth(study, language).promises
    )


def told_line(study: Study, language: str = "en") -> str:
    """Who can tell that somebody took part."""
    return _said(told(study), catalogue(language))


def step_word(step: Step, language: str) -> str:
    """A step in a word."""
    return catalogue(language)[f"step.{step}"]


def guess_sentence(guess: int | None, language: str) -> str:
    """An attacker's best guess in a sentence."""
    return _guess(guess, catalogue(language))


def _guess(guess: int | None, say: dict[str, str]) -> str:
    if guess is None:
        return say["guess.none"]
    return say["guess.sure"] if guess >= 100 else say["guess"].format(guess=guess)


def _has_scale(truth: Truth) -> bool:
    return any(promise.step != "none" for promise in truth.promises)


def _promise(study: Study, promise: Promise, say: dict[str, str]) -> PlainPromise:
    name = _names(study, ("collector",), say)
    heading = say[f"towards.{promise.towards}"].format(collector=name, people=promise.people)
    sentences = [_guess(promise.guess, say)]
    sentences += [say[f"why.{reason}"].format(people=promise.people) for reason in promise.why]
    if promise.if_half is not None and promise.if_none is not None and promise.if_none != promise.step:
        half, none = say[f"step.{promise.if_half}"], say[f"step.{promise.if_none}"]
        sentences.append(say["honest.same" if half == none else "honest"].format(half=half, none=none))
    if promise.providers:
        key = "providers.one" if promise.providers == 1 else "providers.many"
        sentences.append(say[key].format(number=promise.providers, of=promise.of))
    if (
        promise.towards == "public" and promise.guess is not None
    ):  # rows: one changed institution may reach further
        sentences.append(say["agreed"])
    return PlainPromise(heading, promise.step, say[f"step.{promise.step}"], tuple(sentences))


def _seen(study: Study, truth: Truth, say: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Who could see what, a line each. Many groups of one size that see the same are one line: nobody reads twenty."""
    groups = [line for line in truth.seen if line.who == "group"]
    alike = Counter(map(_kind, groups))
    lines: dict[tuple[str, str], None] = {}  # in order, each once
    for line in groups:
        number, size = alike[_kind(line)], len(line.parties)
        many = say["who.groups"].format(number=number, size=size)
        named = say["who.together"].format(names=_names(study, line.parties, say))
        who = named if number <= _MOST_NAMED else many
        lines[who, _what(study, line, say)] = None
        if truth.larger_groups and line is _last_unblurred(groups):
            key = "who.larger.one" if truth.larger_groups == 1 else "who.larger.many"
            what, right = reached(study)
            lines[say[key].format(number=truth.larger_groups), say[f"what.{what}"].format(number=right)] = (
                None
            )
    others = [(_who(study, line, say), _what(study, line, say)) for line in truth.seen if line.who != "group"]
    return (*lines, *others)


def _kind(line: Seen) -> tuple[str, bool, int]:
    return line.what, line.needs_device, len(line.parties)


def _last_unblurred(groups: list[Seen]) -> Seen:
    """They come first; larger groups that see the same follow."""
    return [line for line in groups if line.what != "blurred"][-1]


def _said(item: Said, say: dict[str, str]) -> str:
    """A sentence with its values; a step is said in its word."""
    values = {name: say[str(value)] if name == "step" else value for name, value in item.values.items()}
    return say[item.key].format(**values)


def _who(study: Study, line: Seen, say: dict[str, str]) -> str:
    return say[f"who.{line.who}"].format(number=line.number, collector=_names(study, ("collector",), say))


def _what(study: Study, line: Seen, say: dict[str, str]) -> str:
    text = say[f"what.{line.what}"].format(number=line.number, collector=_names(study, ("collector",), say))
    return f"{text}, {say['device']}" if line.needs_device else text


def _names(study: Study, roles: tuple[str, ...], say: dict[str, str]) -> str:
    names = [study.party(role).organisation or study.party(role).name or role for role in roles]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {say['and']} {names[-1]}"
