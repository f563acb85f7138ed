"""Trying an analysis before there is a study: what a release would publish of people one has, without any node.

The arithmetic is that of the suites: answers are encoded, clipped, rounded to the grid and given their discrete noise by
the device's own code (rows), or encoded to whole numbers, totalled, and given every provider's rounded Gaussian on the
totals' own grid (moments). What is left out cancels: masks are orthogonal and shares add up. The people must be some
whose rows may be seen, such as a public file's or a pilot's: nothing here protects them, and nothing here is a release.

A definition's study has as many parties as may be expected, to be weighed or tried, never run. The release to try things on
is of simulated people of a made-up study of blood pressure, collected by nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimask.data.manifest import Shown
from trimask.errors import ParameterError
from trimask.moments.moments import Moments, ObservedMoments, ObservedRows, answers_of, row_moments
from trimask.moments.waves import corrected_by
from trimask_client.table import read_people
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.randomness import RandomSource, RoundedGaussian, Stream, SystemRandom
from trimask_core.crypto.keys import PUBLIC_KEY_BYTES
from trimask_core.rows.payloads import noisy_answers
from trimask_core.study.definition import Study, SuiteName
from trimask_core.study.guarantee import Guarantee
from trimask_core.study.party import Party
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.pilot import with_pilot
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Parties:
    """Everybody a study names, in the order of their numbers."""

    collector: Party
    right: tuple[Party, ...]
    left: tuple[Party, ...]


def expected_parties(
    suite: SuiteName,
    unmasking: Sequence[str] | None = None,
    right: int | None = None,
    left: int | None = None,
) -> Parties:
    """Parties without names, addresses or keys of anybody's, for a study that is only weighed: their number counts."""
    if right is None:
        right = len(unmasking) if unmasking else 4 if suite == "rows" else 2
    if left is None:
        left = 2 if suite == "rows" else 0

    def party(role: str) -> Party:
        key = hashlib.sha256(role.encode()).digest()
        sealing = key if role.startswith("R") else b""
        hybrid = sealing * (PUBLIC_KEY_BYTES["hybrid"] // 32)
        return Party(role, "", "", "", role.lower(), key, sealing, f"https://{role.lower()}.invalid", hybrid)

    return Parties(
        party("collector"),
        tuple(party(f"R{k}") for k in range(1, right + 1)),
        tuple(party(f"L{j}") for j in range(1, left + 1)),
    )


def drafted(definition: StudyDefinition, right: int | None = None, left: int | None = None) -> Study:
    """The study that the definition makes, its noise calibrated."""
    plan = definition.collection
    if plan.block_rows is not None and plan.block_rows > plan.release_rows:
        definition = definition.changed(block_rows=plan.release_rows)
    # Who unmasks has no bearing on accuracy, and was chosen for other numbers of providers.
    definition = replace(definition, collection=replace(definition.collection, unmasking=None))
    return study_with(definition, expected_parties(plan.suite, plan.unmasking, right, left))


def study_with(definition: StudyDefinition, parties: Parties) -> Study:
    """The study that the definition makes with these parties, which nobody is to run: it has no owner's key."""
    now = SystemClock().now_ms()
    return create_study(
        definition, parties.collector, parties.right, parties.left, "", now, SystemRandom(), bytes(32)
    )


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
    pilot: Any = None,
    seed: int | None = None,
) -> Simulated:
    """What one release of the people in `df` would publish, to try an analysis before the study.

    Parameters
    ----------
    df : DataFrame, mappings, Path or str
        People who may be seen: a column an attribute; or a table's file, read as `trimask demo --rows` reads it.
    study : Study, StudyDefinition, Path or str
        A study file's path or text, a definition or a study.
    epsilon, delta : float, optional
        Where they should not be the study's.
    right : int, optional
        How many right providers there are, where it should not be the study's.
    pilot : DataFrame, mappings, Path, str, or an earlier wave's release, optional
        Others like them, by whom a study with a `row_norm` corrects what shrinking rows takes (`trimask study new
        --pilot`).
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
    known = study if isinstance(study, Study) else _definition(study)
    if isinstance(df, str | Path):
        df = read_people(Path(df), known.schema, known.form).answers
    if isinstance(known, StudyDefinition):
        changed = known.changed(epsilon=epsilon, delta=delta, release_rows=len(df))
        made = drafted(changed, right)
    else:
        made = known
        if (epsilon, delta, right) != (None, None, None):
            raise ParameterError("epsilon", "left out: the study's noise is calibrated already")
    if isinstance(pilot, str | Path):
        pilot = read_people(Path(pilot), made.schema, made.form).answers
    if pilot is not None:
        made = _corrected(made, pilot)
    people = list(answers_of(df, made.schema))
    if not people:
        raise ParameterError("df", "at least one person")
    source = SystemRandom() if seed is None else _Repeatable(seed)
    observed = _rows(made, people, source) if made.suite.name == "rows" else _moments(made, people, source)
    return Simulated(made, people, observed)


def _corrected(study: Study, pilot: Any) -> Study:
    earlier = getattr(pilot, "moments", None)
    if isinstance(earlier, Moments):
        manifest = getattr(pilot, "manifest", None)
        named = hashlib.sha256(earlier.gram.tobytes()).hexdigest() if manifest is None else manifest.sha256
        return corrected_by(study, earlier, named)
    return with_pilot(study, list(answers_of(pilot, study.schema)))


def _definition(study: StudyDefinition | Path | str) -> StudyDefinition:
    if isinstance(study, str) and "\n" not in study:
        study = Path(study)
    definition = study if isinstance(study, StudyDefinition) else load_definition(study)
    if definition.privacy.budget is not None:
        raise ParameterError(
            "study",
            "one that publishes; with a [privacy.budget] it answers questions, and release.local tries those",
        )
    return definition


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


_STUDY = """
title = "Blood pressure and daily habits (made up)"
purpose = "An example to try fits on"
contact = "nobody"
privacy = {epsilon = 16, delta = 1e-6}
collection = {suite = "moments", release_rows = 100}
attributes = [
  {name = "age", kind = "integer", minimum = 20, maximum = 80, unit = "years"},
  {name = "salt", kind = "continuous", minimum = 0, maximum = 20, unit = "g/day"},
  {name = "smoker", kind = "binary"},
  {name = "leaflet", kind = "binary"},
  {name = "activity", kind = "categorical", levels = ["low", "medium", "high"]},
  {name = "systolic", kind = "continuous", minimum = 80, maximum = 200, unit = "mmHg"},
]
derived = [
  {name = "age_group", kind = "bins", of = ["age"], cuts = [35, 50, 65]},
  {name = "activity_age", kind = "product", of = ["activity", "age"]},
]
"""


@lru_cache(maxsize=8)
def example(people: int = 2000, epsilon: float = 16.0, seed: int = 1) -> Simulated:
    """What a release of a small study would be: a source for every `trimask.fit`, without a collector.

    Parameters
    ----------
    people : int
        How many people are made up, at least 100.
    epsilon : float
        The privacy a real release of this study would have, at delta = 1e-6. So few people show much only where it is
        weak: a study of ten times as many has no more noise in its numbers at a tenth of it.
    seed : int
        Of the people and of the noise; the same seed gives the same release.

    Returns
    -------
    Simulated
        In suite `moments`: age (and age_group, its bins), salt, smoker, leaflet, activity (low, medium, high; and its
        product with age) and systolic. `.raw` has the same people without noise.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> data
    <Simulated 2,000 people, suite moments: not collected>
    >>> trimask.fit.ols(data, "systolic ~ age + salt").names
    ('Intercept', 'age', 'salt')
    """
    if people < 100:
        raise ParameterError("people", "at least 100", people)
    return simulate(_people(people, seed), _STUDY, epsilon, seed=seed)


def _people(n: int, seed: int) -> pd.DataFrame:
    """A leaflet takes 3 g of salt off; systolic is 85 + 0.6 age + 1.5 salt + 4 smoker - 3 a step of activity."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    age, leaflet = rng.integers(20, 81, n), rng.random(n) < 0.5
    smoker, activity = rng.random(n) < 0.3 - 0.1 * (age > 50), rng.choice(3, n, p=[0.4, 0.35, 0.25])
    salt = np.clip(rng.normal(10, 3, n) - 3 * leaflet, 0, 20)
    systolic = 85 + 0.6 * age + 1.5 * salt + 4 * smoker - 3 * activity + rng.normal(0, 8, n)
    return pd.DataFrame(
        {
            "age": age, "salt": salt, "smoker": smoker.astype(int), "leaflet": leaflet.astype(int),
            "activity": np.array(["low", "medium", "high"])[activity], "systolic": np.clip(systolic, 80, 200),
        }
    )  # fmt: skip
