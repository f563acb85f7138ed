"""Waves of a study, of different people: what one's release says of the next people, and all of them read as one.

*Expected.* A release is public, so the next study's centres, scales, steps and row_norm may come from it without any cost in
privacy: means, deviations, shares and clear correlations, as an owner would write them in [expected]. A variance has room
of ROOM noise errors, since a ball too large costs less than one too small.

*Share.* Whoever is asked first is not among the others, whose noise is small. Of n people in the bounds let the noise alone
make a column's variance V known to v, so of a share f of them to v / f (in the rows suite nearly). The others' ball is drawn
with ROOM of that, and noise goes with its square: their slopes' errors with (1 + c / f) / (1 - f), c = ROOM v / V, which is
least at f = sqrt(c^2 + c) - c (`first_wave`). V is taken as of a deviation of a tenth of the range, bounds being wider than
answers: so f depends on bounds, epsilon and n alone, never on an answer. At most a quarter, since first order says little
where noise is larger. **A rule**.

*Correction.* Shrunk rows bias a release, and what is taken is corrected by pilot rows (`trimask_theory.planning.pilot`).
Instead of those a study may be signed with the correction of made-up people drawn by that expectation. Their law is a
guess (normal numbers), so they count as the pilot of WORTH people would, however many are drawn: the correction's standard
error s is that of so few, an estimate whose s exceeds ALLOWED is a range, and a row_norm is only recommended where the
slopes are not. **A rule, not a theorem**: measured on real files in docs/accuracy.md, and it cannot hold of tails that no
normal law has.

*Pooling.* Wave i of n_i people gives means of squares and products M_i = G_i / n_i, without bias for one population, with
independent noise of law D_i and sampling errors of order 1 / n_i. With weights w_i that add up to one, M = sum w_i M_i has
the noise sum w_i D_i / n_i and the sampling error of n = 1 / sum (w_i^2 / n_i) people, so n M is fitted like a release of
n people. w_i is the wave's share of the precisions 1 / SE^2 that waves give alone, averaged over the estimates (by errors,
never by estimates: nothing is chosen by a result). Where no wave gives any, or nothing is fitted, it goes with the inverse
variance of an average entry, of columns divided by their deviations. Assumed: nobody is in two waves,
and all are drawn from one population.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trimask.moments.identities import ConstrainedLaw
from trimask.moments.moments import Moments, entry_variances
from trimask_core.basics.errors import ParameterError
from trimask_core.study.definition import Study
from trimask_core.study.derived import ONES
from trimask_core.study.pilot import PilotCorrection
from trimask_theory.moments.noise_law import MappedLaw, Matrix, SumLaw
from trimask_theory.planning.definition import Expected, ExpectedColumn, draw_people
from trimask_theory.planning.pilot import correction_of, whole_and_sent

DRAWN = 4000
WORTH = 10
"""As the pilot of how many people those count who are drawn by a release."""
PLANNED = 3
"""The same where row_norm is chosen: with room for answers that vary less, and are pooled, so that slopes keep intervals."""
ROOM, _CLEAR = 1.5, 2.0
"""Noise errors added to a variance, and by which a covariance must differ from zero to be believed."""
_SQUARE = 0.04
"""The variance, in half ranges, that the first wave's share is made for: a deviation of a tenth of the range."""
_MOST_FIRST = 0.25
_RARE = 0.02
"""No expected share is less: a level that nobody is drawn with leaves every ball without a finite error."""
_LEAST_EIGENVALUE = 0.05


def first_wave(study: Study) -> int:
    """How many of the study's people to ask first, in its bounds, for a release that draws the study of the others."""
    n = study.release_rows
    if study.suite.name == "moments":
        variance = float(np.max(np.diag(entry_variances(study))[1:]))
    else:
        sigma = study.protection.sigma
        variance = 4 * sigma**2 * _SQUARE * n + 2 * sigma**4 * n  # of a sum of squares that is V n
    c = ROOM * math.sqrt(variance) / n / _SQUARE
    return max(1, math.ceil(min(_MOST_FIRST, math.sqrt(c**2 + c) - c) * n))


def expected_of(release: Moments) -> Expected:
    """What a release says of each attribute and of pairs of numbers."""
    schema, n, gram = release.schema, release.rows, release.gram
    if not schema.ones:
        raise ParameterError("dataset", "of a study with a column of ones: without it there are no means")
    places = {column.name: j for j, column in enumerate(schema.columns)}
    columns, numbers = [], []
    for item in schema.attributes:
        if item.levels:
            counts = np.maximum(
                [gram[places[ONES], places[f"{item.name}_{level}"]] for level in item.levels], _RARE * n
            )
            columns.append(ExpectedColumn(item.name, shares=tuple((counts / counts.sum()).tolist())))
            continue
        j = places[item.name]
        column, mean = schema.columns[j], float(gram[places[ONES], j]) / n
        if item.kind == "binary":
            columns.append(ExpectedColumn(item.name, share=float(np.clip((1 + mean) / 2, _RARE, 1 - _RARE))))
            continue
        mean = float(np.clip(mean, -1, 1))
        room = ROOM * _covariance_error(release, j, j)
        spread = min(
            max(float(gram[j, j]) / n - mean**2, 0.0) + room, max(1 - mean**2, _RARE)
        )  # no variance of numbers in [-1, 1] with this mean is larger
        spread = max(spread, 1e-6)
        numbers.append((item.name, j, spread))
        centre = column.center + column.half_range * mean
        columns.append(ExpectedColumn(item.name, centre, column.half_range * math.sqrt(spread)))
    return Expected(tuple(columns), _correlations(release, numbers))


def _correlations(
    release: Moments, numbers: Sequence[tuple[str, int, float]]
) -> tuple[tuple[str, str, float], ...]:
    """Clear ones of numbers given by name, place and variance, drawn towards zero until variables can have them all."""
    at = [j for _, j, _ in numbers]
    one = [column.name for column in release.columns].index(ONES)
    means = release.gram[one, at] / release.rows
    shared = release.gram[np.ix_(at, at)] / release.rows - np.outer(means, means)
    errors = np.array([[_covariance_error(release, j, k) for k in at] for j in at]).reshape(shared.shape)
    deviations = np.sqrt([spread for *_, spread in numbers])
    found = np.where(np.abs(shared) > _CLEAR * errors, shared, 0.0) / np.outer(deviations, deviations)
    np.fill_diagonal(found, 1.0)
    while len(found) and float(np.linalg.eigvalsh(found)[0]) < _LEAST_EIGENVALUE:
        found = 0.9 * found + 0.1 * np.eye(len(found))
    return tuple(
        (numbers[a][0], numbers[b][0], float(found[a, b]))
        for a in range(len(numbers))
        for b in range(a)
        if found[a, b]
    )


def _covariance_error(release: Moments, j: int, k: int) -> float:
    """The noise's part of the standard error of two columns' covariance."""
    n, gram = release.rows, release.gram
    one = [column.name for column in release.columns].index(ONES)
    gradient = np.zeros((1, *gram.shape))
    gradient[0, j, k] += 0.5 / n
    gradient[0, k, j] += 0.5 / n
    for first, second in ((j, k), (k, j)):
        part = -gram[one, second] / n**2 / 2
        gradient[0, one, first] += part
        gradient[0, first, one] += part
    return math.sqrt(float(release.law.variance(gradient)[0]))


def people_like(release: Moments) -> list[dict[str, object]]:
    """Made-up people as a release expects them; the same for the same release."""
    return draw_people(release.schema, expected_of(release), DRAWN)


def corrected_by(study: Study, release: Moments, manifest: str) -> Study:
    """The study with the correction that a release of others (the SHA-256 of its manifest) leads to: another study."""
    if study.schema.columns != release.columns:
        raise ParameterError("pilot", "a release of a study that asks the same")
    if not study.clips:
        raise ParameterError(
            "pilot", "left out: no row is shrunk in this study, so there is nothing to correct"
        )
    return replace(study, pilot=wave_correction(*whole_and_sent(study, people_like(release)), manifest))


def wave_correction(whole: Matrix, sent: Matrix, manifest: str) -> PilotCorrection:
    """Of made-up people's rows, whole and as sent: as uncertain as that of WORTH people."""
    return replace(correction_of(whole, sent, worth=WORTH), people=WORTH, release=manifest)


def waves_of(parts: Sequence[Moments]) -> list[Moments]:
    """The releases of each study added up: one where all are of one, several where they are waves."""
    studies: list[list[Moments]] = []
    for part in parts:
        group = next((group for group in studies if _study_of(part) == _study_of(group[0])), None)
        if group is None:
            studies.append([part])
        else:
            group.append(part)
    if any(_asked(part) != _asked(parts[0]) for part in parts):
        return [pool(parts)]  # which refuses releases of studies that ask for something else
    return [pool(group) for group in studies]


def pool(parts: Sequence[Moments]) -> Moments:
    """The moments of several releases of one study: what was published is added up, then read like one release.

    A release given twice would count its people twice, and releases of other studies are other questions: both
    are refused.
    """
    first, *others = parts
    if not others:
        return first
    if any(part.suite == "answer" for part in parts):
        raise ParameterError(
            "dataset", "one Gram matrix: another answer of the study is about the same people"
        )
    for part in parts:
        if part.weighted_by and part.weight is None:  # each on a scale and with a law of noise of its own
            raise ParameterError(
                "dataset",
                f"releases as they were published; {part.label or 'one'} is weighted. Weight them together: "
                "fit.weighted([first, second], ...)",
            )
    for part in others:
        if _study_of(part) != _study_of(first):
            raise ParameterError(
                "dataset", f"releases of one study; {part.label or 'one'} is of another than {first.label}"
            )
    labels = [part.label for part in parts if part.label]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ParameterError("dataset", f"different releases; {twice[0]} is given twice")
    label = " + ".join(labels)
    observed = [part.observed for part in parts if part.observed is not None]
    if len(observed) == len(parts):
        return observed[0].pooled(observed[1:]).moments(label)
    # Weighted ones were brought to a scale of their own each.
    moved = first.weight is not None or any(isinstance(part.law, ConstrainedLaw) for part in parts)
    if first.suite != "rows" or moved:
        raise ParameterError("dataset", "releases as they were published; repaired moments do not pool")
    gram = np.sum([part.gram for part in parts], axis=0)
    rows = sum(part.rows for part in parts)
    return Moments(first.schema, gram, rows, first.sigma, first.protection, label)


def pooled(parts: Sequence[Moments]) -> Moments:
    """The moments of several releases: of one study added up, of its waves by the precision of an average entry."""
    waves = waves_of(parts)
    return waves[0] if len(waves) == 1 else weighed(waves, entry_weights(waves))


def _study_of(part: Moments) -> tuple[object, ...]:
    return part.schema, part.sigma, part.protection, part.suite, part.weight


def _asked(part: Moments) -> tuple[object, ...]:
    """What waves have in common; steps, centres and scales may be others."""
    return part.columns, part.suite, part.weight, part.weighted_by == "" or part.weight is not None


def weighed(waves: Sequence[Moments], weights: Matrix) -> Moments:
    """Waves with weights that add up to one."""
    people = np.array([wave.rows for wave in waves], dtype=float)
    means = [wave.gram / wave.rows for wave in waves]
    rows = max(1, round(1 / float(np.sum(weights**2 / people))))
    gram = rows * np.einsum("i,ijk->jk", weights, means)
    gram.flags.writeable = False
    factors = rows * weights / people
    unit = np.eye(len(gram))
    law = SumLaw(
        tuple(
            MappedLaw(wave.law, math.sqrt(factor) * unit) for wave, factor in zip(waves, factors, strict=True)
        )
    )
    last = waves[-1]
    shares = ", ".join(f"{weight:.0%}" for weight in weights)
    label = " + ".join(wave.label for wave in waves if wave.label)
    label = f"{label}, waves of different people by precision ({shares}; worth {rows:,} of {round(people.sum()):,})"
    return Moments(
        last.schema,
        gram,
        rows,
        last.sigma,
        last.protection,
        label.lstrip(", "),
        law,
        "moments",
        weight=last.weight,
    )


def entry_weights(waves: Sequence[Moments]) -> Matrix:
    """In inverse proportion to the variance of an entry, on average over columns divided by their deviations."""
    means = np.sum([wave.gram for wave in waves], axis=0) / sum(wave.rows for wave in waves)
    one = [column.name for column in waves[0].columns].index(ONES) if waves[0].schema.ones else None
    variances = np.diag(means) - (0.0 if one is None else means[one] ** 2)
    if one is not None:
        variances[one] = 1.0
    sides = np.diag(1 / np.sqrt(np.maximum(variances, 1e-3)))
    found = np.array(
        [
            np.trace(wave.law.spread(sides, sides)) / (len(sides) * wave.rows) ** 2 + 1 / wave.rows
            for wave in waves
        ]
    )
    return np.asarray(1 / found / np.sum(1 / found))
