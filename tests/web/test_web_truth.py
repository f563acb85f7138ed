"""What people are told of a study: the page's own sentences are Python's, word by word, in every language."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimask_core.basics.encoding import canonical_json
from trimask_core.explain.facts import whole_truth
from trimask_core.explain.sentences import plain_truth
from trimask_core.explain.statement import explain_study
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Neighbours
from trimask_core.study.weight import Weight
from trimask_web import run_node

LANGUAGES = ("en", "de", "ar", "hi", "fr")


def studies(make_study: Any) -> list[Study]:
    """Of both suites, with noise, exact, with budgets, weak in every way, of several sizes."""
    found = [
        make_study(suite="moments", right=right, sigma=sigma, label=f"truth moments {right} {sigma}").study
        for right, sigma in ((2, 30.0), (3, 30.0), (3, 0.0))
    ]
    found.append(replace(found[2], protection=replace(found[2].protection, budget=Budget(1.0, 1e-7))))
    study = make_study().study
    public = study.protection.public
    for epsilon, collector, delta in (
        (0.5, 1.0, 1e-6),
        (1.0, 1.05, 1e-6),
        (2.1, 0.4, 1e-6),
        (8.0, 30.0, 0.1),
    ):
        one = replace(public, epsilon=epsilon, delta=delta, adds_up=None, enclosed=None)
        kept = replace(study.protection, public=one, collector=replace(one, epsilon=collector))
        found.append(replace(study, protection=kept))
    for change in ({"neighbours": Neighbours("unit", distance=1.0)}, {"basis": "asymptotic", "epsilon": 0.9}):
        kept = replace(public, adds_up=None, enclosed=None, **change)
        found.append(replace(study, protection=replace(study.protection, public=kept)))
    found += [make_study(right=right, left=2, label=f"truth {right}").study for right in (2, 4, 5)]
    for epsilon in (0.5, 9.0):  # weaker if others reveal their noise; and as weak as it gets before
        table = ((study.release_rows, epsilon), (study.release_rows // 2, 2.0 * epsilon), (1, 20.0 * epsilon))
        one = replace(public, epsilon=epsilon, delta=1e-6, adds_up=None, enclosed=None)
        kept = replace(study.protection, public=one, collector=one, by_honest_rows=table)
        found.append(replace(study, protection=kept))
    one = make_study(right=4, label="truth one").study  # parties of one institution
    found.append(replace(one, left=tuple(replace(party, organisation="Org") for party in one.left)))
    found += [make_study(label="truth weights", weight=Weight("region", (1.0, 2.0, 3.5))).study]
    found.append(make_study(sigma=0.0, label="truth exact").study)
    exact = found[2]
    for budget in (Budget(mu=0.7), Budget(mu=36.0), Budget(1.0, 1e-7), Budget(0.5, 1e-7, 0.2)):
        found.append(replace(exact, protection=replace(exact.protection, budget=budget)))
    return found


def test_the_whole_truth_is_python_s(tmp_path: Path, make_study: Any) -> None:
    cases = []
    steps, seen = set(), set()
    for study in studies(make_study):
        truth = whole_truth(study)
        steps |= {promise.step for promise in truth.promises}
        seen |= {line.what for line in truth.seen}
        plain = {language: plain_truth(study, language).to_dict() for language in LANGUAGES}
        cases.append(
            {"study": canonical_json(study.to_dict()).decode(), "plain": plain, "exact": explain_study(study)}
        )
    assert steps == {"none", "weak", "medium", "strong"}
    assert {"answers", "own_noise", "estimates", "blurred", "unknown", "totals_noise", "took_part"} <= seen
    path = tmp_path / "truths.json"
    path.write_text(json.dumps({"cases": cases}))
    found = json.loads(run_node(Path(__file__).parent / "truth_vectors.js", path))
    assert found == {"compared": len(cases) * (len(LANGUAGES) + 1), "wrong": []}
