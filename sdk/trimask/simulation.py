"""Trying an analysis before there is a study: what a release would publish of people one has, without any node.

The arithmetic is that of the suites: answers are encoded, clipped, rounded to the grid and given their discrete noise by the
device's own code (rows), or encoded to whole numbers, totalled, and given every provider's rounded Gaussian on the totals'
own grid (moments). What is left out cancels: masks are orthogonal and shares add up. The people must be some whose rows may
be seen, such as a public file's or a pilot's: nothing here protects them, and nothing here is a release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trimask.drafting import drafted
from trimask.errors import ParameterError
from trimask.moments import Moments, answers_of, row_moments
from trimask.observed import ObservedMoments, ObservedRows
from trimask.shown import Shown
from trimask_core.guarantee import Guarantee
from trimask_core.noise import RoundedGaussian
from trimask_core.randomness import RandomSource, Stream, SystemRandom
from trimask_core.rows.device.row import noisy_answers
from trimask_core.study import Study
from trimask_theory.definition import StudyDefinition
from trimask_theory.study_plan import load_definition

__all__ = ["Simulated", "simulate"]

Answers = Mapping[str, object]


class _Repeatable:
    """The same bytes for the same seed: for a simulation alone, which protects nobody."""

    def __init__(self, seed: int) -> None:
        self._stream = Stream(hashlib.sha256(f"simulate {seed}".encode()).digest(), b"simulated release")

    def read(self, count: int) -> bytes:
        return self._stream.read(count)

    def seed(self) -> bytes:
        return self.read(32)


@dataclass(frozen=True, eq=False)
class Simulated(Shown):
    """What a release would have been: a source for every `trimask.fit`. `raw` is the same people without noise."""

    study: Study
    people: Sequence[Answers] = field(repr=False)
    observed: ObservedRows | ObservedMoments = field(repr=False)

    @property
    def rows(self) -> int:
        """How many people."""
        return len(self.people)

    @property
    def guarantee(self) -> Guarantee | None:
        """What a real release of this study would promise; this one promises nothing."""
        return self.study.protection.public

    @cached_property
    def moments(self) -> Moments:
        """As a dataset's."""
        return self.observed.moments(f"SIMULATED release (suite {self.study.suite.name})")

    @cached_property
    def raw(self) -> Moments:
        """Of the people as they are, for the number that a release is to be compared with."""
        return row_moments(self.people, self.study.schema, "raw rows, simulated from", self.study.weight)

    def __str__(self) -> str:
        promise = "none (exact mode)" if self.guarantee is None else str(self.guarantee)
        return (
            f"Simulated release of {self.rows:,} people, suite {self.study.suite.name}: not collected, and protects nobody\n"
            f"  study   {self.study.title}\n"
            f"  noise   sigma = {self.study.protection.sigma:.4g} in scaled units\n"
            f"  promise of a real release: {promise}"
        )

    def __repr__(self) -> str:
        return f"<Simulated {self.rows:,} people, suite {self.study.suite.name}: not collected>"


def simulate(
    df: Any,
    study: Study | StudyDefinition | Path | str,
    epsilon: float | None = None,
    *,
    delta: float | None = None,
    right: int | None = None,
    seed: int | None = None,
) -> Simulated:
    """What one release of the people in `df` would publish, to try an analysis before the study.

    Parameters
    ----------
    df : DataFrame, or mappings
        People who may be seen: a column an attribute.
    study : Study, StudyDefinition, Path or str
        A study file's path or text, a definition or a study.
    epsilon, delta : float, optional
        Where they should not be the study's.
    right : int, optional
        How many right providers there are, where it should not be the study's.
    seed : int, optional
        For the same noise again.

    Returns
    -------
    Simulated
        Every `trimask.fit` takes it; its `.raw` is the people without noise.

    Examples
    --------
    >>> import pandas as pd, trimask
    >>> people = pd.DataFrame({"age": [30, 40, 50, 60] * 100, "ill": [0, 0, 1, 1] * 100})
    >>> study = '''
    ... title = "t"
    ... purpose = "p"
    ... contact = "c"
    ... privacy = {epsilon = 1, delta = 1e-6}
    ... collection = {suite = "moments", release_rows = 400}
    ... attributes = [{name = "age", kind = "integer", minimum = 20, maximum = 80}, {name = "ill", kind = "binary"}]
    ... '''
    >>> tried = trimask.simulate(people, study, epsilon=8, seed=1)
    >>> fitted, truth = (trimask.fit.ols(source, "ill ~ age") for source in (tried, tried.raw))
    >>> abs(fitted.params["age"] - truth.params["age"]) < 4 * fitted.bse_privacy["age"]
    np.True_
    """
    made = study if isinstance(study, Study) else _drafted(study, df, epsilon, delta, right)
    if isinstance(study, Study) and (epsilon, delta, right) != (None, None, None):
        raise ParameterError("epsilon", "left out: the study's noise is calibrated already")
    people = list(answers_of(df, made.schema))
    if not people:
        raise ParameterError("df", "at least one person")
    source = SystemRandom() if seed is None else _Repeatable(seed)
    observed = _rows(made, people, source) if made.suite.name == "rows" else _moments(made, people, source)
    return Simulated(made, people, observed)


def _drafted(
    study: StudyDefinition | Path | str,
    df: Any,
    epsilon: float | None,
    delta: float | None,
    right: int | None,
) -> Study:
    if isinstance(study, str) and "\n" not in study:
        study = Path(study)
    definition = study if isinstance(study, StudyDefinition) else load_definition(study)
    if definition.privacy.budget is not None:
        raise ParameterError(
            "study",
            "one that publishes; with a [privacy.budget] it answers questions, and release.local tries those",
        )
    return drafted(definition.changed(epsilon=epsilon, delta=delta, release_rows=len(df)), right)


def _rows(study: Study, people: Sequence[Answers], source: RandomSource) -> ObservedRows:
    steps = np.array([noisy_answers(study, one, source) for one in people], dtype=np.int64)
    noisy = study.rows.grid.to_float(steps)
    return ObservedRows(study, noisy.T @ noisy, len(people))


def _moments(study: Study, people: Sequence[Answers], source: RandomSource) -> ObservedMoments:
    settings, layout = study.moments, study.moments.layout
    counted = np.array([layout.encode(one).counted for one in people], dtype=object)
    products = counted.T @ counted
    every = [products[j, k] for j in range(layout.q + 1) for k in range(j, layout.q + 1)]
    totals = every[-layout.totals :]  # the number of people, which is known, is left out where it is one
    noises = layout.noises(settings.sigma, settings.honest_providers)
    gaussian = RoundedGaussian(source)
    noisy = [
        (int(total) << noise.shift) + sum(gaussian.sample(noise.sigma) for _ in study.right if noise.sigma)
        for total, noise in zip(totals, noises, strict=True)
    ]
    return ObservedMoments.of_totals(study, noisy[: layout.firsts], noisy[layout.firsts :], len(people))
