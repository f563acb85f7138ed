"""The first screen: few plain words, each sentence true by a line of the threat model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_core.explain.facts import whole_truth
from trimask_core.explain.sentences import LANGUAGES, catalogue, plain_truth

DOCS = Path(__file__).parents[2] / "docs"
MOST_WORDS = 80
# Flesch's reading ease: 60 to 70 is plain English, for thirteen-year-olds; Amstad's constants for German.
EASE = {"en": (206.835, 1.015, 84.6, 60), "de": (180.0, 1.0, 58.5, 50)}
STUDIES = {
    "rows": {"right": 4, "sigma": 2.0},
    "rows untagged": {"right": 3, "sigma": 2.0},
    "rows weak": {"right": 4, "sigma": 0.1},
    "rows exact": {"right": 4, "sigma": 0.0},
    "moments": {"suite": "moments", "right": 3, "sigma": 60.0},
    "moments two": {"suite": "moments", "right": 3, "sigma": 60.0, "honest_providers": 2},
    "moments exact": {"suite": "moments", "right": 3, "sigma": 0.0},
}
INVITED = {"admission": "invited", "admission_signer": "R1"}
TRUE_BY = {
    "{parts} of {count} institutions get parts of your answers; one part is random numbers.": (
        "its component X^k: at most the row plus N(0, s²) | The leakage of a share is μ-Gaussian DP",
    ),
    "Only noisy sums over {people} people or more are seen.": (
        "**The collector** | A X of each block, for a moment",
        "The release is (ε, δ)-DP, at rows = N",
    ),
    "Only sums over {people} people or more are seen, without noise.": (
        "**The collector** | A X of each block, for a moment",
        "is (ε, δ)-differentially private, if the study has noise",
    ),
    "Some {size} together, or two changed programs, could read them.": (
        "`trimask study collusion` lists the minimal ones that break the secrecy",
        "what is left is the guarantee towards the collector",
        "Two changed institutions are not covered",
    ),
    "Some {size} together, or one changed program, could read them.": (
        "`trimask study collusion` lists the minimal ones that break the secrecy",
        "a changed right provider can read a chosen person in what is published",
    ),
    (
        "Your answers go in parts to {parts} institutions. "
        "Only all {parts} together could read them; fewer have random numbers."
    ): (
        "in a study with noise, it takes all right providers together",
        "Shares are uniform",
    ),
    (
        "Your answers go in two parts to two institutions. "
        "Only both together could read them; one part is random numbers."
    ): (
        "in a study with noise, it takes all right providers together",
        "Shares are uniform",
    ),
    "Your answers go in parts to {parts} institutions; one part is random numbers.": ("Shares are uniform",),
    "Published: only sums, with noise.": ("the noisy sums and products of a release, and N",),
    "Given out: only sums, with noise, until a budget is spent.": (
        "Each right provider keeps its own ledger",
    ),
    "Published: only sums, without noise. Whoever collects could work your answers out with a changed program.": (
        "a changed collector could bring all but one of the people itself",
    ),
    "Institutions see when you took part and your network address.": (
        "Providers see submission ids and network addresses, so they know that a device took part",
    ),
    "Whoever invited you can see that you took part; institutions when, and your network address.": (
        "Providers see submission ids and network addresses, so they know that a device took part",
        "Whoever has a copy of a link can find out whether it was used",
    ),
    "You can withdraw until answers join others'.": (
        "Until a row is in a block, or a report in a batch, one right provider that erases its part takes the answers out",
    ),
    "This site's host could make it read answers.": (
        "Whoever hosts a study's page can change it, and can then read the answers given on it",
    ),
    "Protection, with others' noise: {step}. At most {guess} of 100 guesses between two answers are right.": (
        "(ε, δ)-DP at rows = n: a larger ε, which the study states",
        "If k of the N people of a release reveal their rows and their noise",
    ),
    "Protection: {step}. At most {guess} of 100 guesses between two answers are right.": (
        "(ε, δ)-DP, proved for one honest right provider",
    ),
    "Protection: {step}. Guesses between two answers may nearly always be right.": (
        "a larger ε, which the study states",
    ),
    "Protection: {step}. Somebody who knows everybody else's answers could work yours out.": (
        "A study without noise is for trying things out",
    ),
    "One institution must add its noise as agreed.": ("Any h honest right providers give what is promised",),
    "{number} institutions must add their noise as agreed.": (
        "Any h honest right providers give what is promised",
    ),
}
"""Every sentence of the first screen, and the words of the threat model that make it true."""


def first_screen(study: Any, language: str) -> list[str]:
    """As the page has it, which says most: with its host."""
    truth = plain_truth(study, language)
    return [*truth.first, catalogue(language)["first.host"], truth.strength]


@pytest.mark.parametrize("case", STUDIES)
@pytest.mark.parametrize("changes", [{}, INVITED], ids=["open", "invited"])
def test_at_most_eighty_words(make_study: Any, case: str, changes: dict[str, str]) -> None:
    study = make_study(label=case, **STUDIES[case], **changes).study
    for language in ("en", "de"):
        said = " ".join(first_screen(study, language))
        assert len(said.split()) <= MOST_WORDS + 5 * (language == "de"), said
        assert "{" not in said


def syllables(word: str, language: str) -> int:
    """Groups of vowels; in English without a last silent e."""
    found = len(re.findall(r"[aeiouyäöü]+", word.lower()))
    silent = language == "en" and re.search(r"[^aeiouyl]e[sd]?$", word.lower()) is not None
    return max(1, found - silent)


def reading_ease(text: str, language: str) -> float:
    """Of sentences that end in a stop, a colon or a semicolon."""
    words = re.findall(r"[^\W\d_]+(?:'\w+)?", text)
    sentences = len(re.findall(r"[.:;](?:\s|$)", text))
    whole, by_length, by_syllables, _ = EASE[language]
    each = sum(syllables(word, language) for word in words) / len(words)
    return whole - by_length * len(words) / sentences - by_syllables * each


@pytest.mark.parametrize("language", EASE)
@pytest.mark.parametrize("case", ["rows", "moments"])
def test_it_is_easy_to_read(make_study: Any, case: str, language: str) -> None:
    study = make_study(label=case, **STUDIES[case]).study
    ease = reading_ease(" ".join(first_screen(study, language)), language)
    assert ease >= EASE[language][-1], ease
    # And the measure can fail: the exact statement's own words are not plain.
    hard = "Indistinguishability of neighbouring configurations necessitates calibrated randomisation."
    assert reading_ease(hard, "en") < 0


def test_every_sentence_stands_beside_what_makes_it_true() -> None:
    """Each sentence of the catalogue stands in the table above, with words of the threat model, which are in it."""
    assert set(TRUE_BY) == {text for key, text in catalogue("en").items() if key.startswith("first.")}
    model = " ".join((DOCS / "threat-model.md").read_text(encoding="utf-8").replace("**", "").split())
    for sentence, lines in TRUE_BY.items():
        for line in lines:
            assert line.replace("**", "") in model, (sentence, line)


@pytest.mark.parametrize("case", STUDIES)
def test_who_can_tell_that_somebody_took_part_is_said(make_study: Any, case: str) -> None:
    """Whoever invited, too, reminders or not: an invitation serves once, and whoever has its link can try it."""
    for name, changes in {"open": {}, "invited": INVITED, "reminded": {**INVITED, "reminders": True}}.items():
        study = make_study(label=f"told {case} {name}", **STUDIES[case], **changes).study
        truth, invited = plain_truth(study, "en"), name != "open"
        assert any("network address" in sentence for sentence in truth.first)
        assert any("network address" in what for _, what in truth.seen)
        assert any("Whoever invited you" in sentence for sentence in truth.first) == invited
        assert ("Whoever invited you" in [who for who, _ in truth.seen]) == invited


@pytest.mark.parametrize(("right", "honest"), [(2, 1), (3, 1), (3, 2)])
def test_who_leaves_noise_out_sees_less_of_it(make_study: Any, right: int, honest: int) -> None:
    """It was said of all but one, whatever programs they run, that they see no more than everybody."""
    label = f"less {right} {honest}"
    study = make_study(suite="moments", right=right, sigma=60.0, honest_providers=honest, label=label).study
    seen = {(line.what, line.number) for line in whole_truth(study).seen if line.who == "fewer"}
    less = {("less_noise", right - 1)} if honest > 1 else set()
    assert seen == {("as_promised", right - honest), *less}


def test_what_is_seen_is_said_of_whoever_sees_most(make_study: Any) -> None:
    """The collector sees sums over a block: fewer people than what is published is over."""
    study = make_study(right=4, sigma=2.0, label="blocks").study
    assert study.rows.block_rows < study.release_rows
    assert (
        plain_truth(study, "en").first[2]
        == f"Only noisy sums over {study.rows.block_rows} people or more are seen."
    )


@pytest.mark.parametrize("right", [3, 4])
def test_groups_and_all_right_providers_are_said_to_see_the_same(make_study: Any, right: int) -> None:
    """Nobody is told "your answers" of one group, and of another that sees no more that noise hides them."""
    truth = plain_truth(make_study(right=right, sigma=2.0, label="same").study, "en")
    reaching = [
        what
        for who, what in truth.seen
        if "together" in who and "blurred" not in what and "estimates" not in what
    ]
    assert len(set(reaching)) == 1
    assert reaching[0].startswith("your answers under this device's noise alone: up to ")


def test_parties_of_one_institution_count_once(make_study: Any) -> None:
    study = make_study(right=4, sigma=2.0, label="once").study
    same = tuple(replace(party, organisation="Org L1 ") for party in study.left)
    first = plain_truth(replace(study, left=same), "en").first
    assert first[0].startswith("4 of 6 institutions get parts")
    alone = tuple(replace(party, organisation="One") for party in study.right)
    assert plain_truth(replace(study, right=alone), "en").first[1].startswith("Some 1 together")


def test_every_language_says_every_sentence() -> None:
    assert {tuple(sorted(catalogue(language))) for language in LANGUAGES} == {tuple(sorted(catalogue("en")))}
