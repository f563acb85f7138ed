"""From answers to the components of a row.

Order matters (docs/architecture.md, the path of `rows`, step 1): encode, clip if the study asks for it, multiply by the
root of the weight if it has one, round to the grid, add discrete Gaussian noise; then the noise columns under B_0; then
round and split. What follows the noise is post-processing of integers, so floating point after that step cannot weaken
the guarantee of a row; that of a release rests on docs/theory/calibration.md#discrete-noise and #second-rounding as well.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.noise import DiscreteGaussian
from trimask_core.basics.randomness import RandomSource, Stream
from trimask_core.rows.grid import EXACT_INTEGERS
from trimask_core.rows.noise_columns import normals_from_words, secure_normals
from trimask_core.study.definition import Study

LOW_BITS = 20
_LABEL = b"component"


def shorten_row(row: Sequence[float], limit: float) -> list[float]:
    """The row, brought to norm `limit` if it is longer. The sum is rounded once, so that every client gets the same bits."""
    norm = math.sqrt(math.fsum(value * value for value in row))
    return [value * (limit / norm) for value in row] if norm > limit else list(row)


def noisy_answers(study: Study, answers: Mapping[str, object], source: RandomSource) -> list[int]:
    """x1 on the grid with its discrete Gaussian noise: the last place the answers themselves are seen."""
    limit = study.protection.row_norm
    row = shorten_row(
        study.schema.encode(answers), limit
    )  # where the study asks for a smaller R than the schema allows
    if study.weight is not None:
        root = study.weight.root(study.schema, answers)
        row = [value * root for value in row]
    # Rounding to nearest keeps |value| <= 1, so it cannot lengthen a row beyond the schema's R; a smaller R it could.
    clipped = limit < study.schema.row_norm
    steps = [
        study.rows.grid.truncate_one(value) if clipped else study.rows.grid.round_one(value) for value in row
    ]
    if study.protection.sigma:
        noise = DiscreteGaussian(study.rows.grid.steps_up(study.protection.sigma), source).samples(len(row))
        steps = [step + extra for step, extra in zip(steps, noise, strict=True)]
    return steps


def mask_row(study: Study, x1: Sequence[int], source: RandomSource) -> list[int]:
    """x B_0 on the grid. x2 B_0[p1:] has the law of g - (g F^T) F for g ~ N(0, tau^2 I_p), so F alone is needed.

    A trace of g F^T stays, a few grid steps: it makes what is lost by rounding independent of the answers and their noise
    (docs/theory/calibration.md#second-rounding).
    """
    frame, grid = study.rows.row_frame, study.rows.grid
    g = [study.rows.tau * value for value in secure_normals(source).standard_normal(study.rows.columns)]
    answers = (math.ldexp(step, grid.exponent) for step in x1)
    taken = 1.0 - study.rows.frame_share
    shift = [value - taken * seen for value, seen in zip(answers, frame.unapply(g), strict=True)]
    return [grid.round_one(a + b) for a, b in zip(g, frame.apply(shift), strict=True)]


def expand_component(seed: bytes, columns: int, scale_steps: float) -> list[int]:
    """The component a seed stands for: the integers of `trimask_core.rows.shares.expand_component`."""
    stream = Stream(seed, _LABEL)
    even = columns + (columns & 1)
    normals = normals_from_words(struct.unpack(f"<{even}Q", stream.read(8 * even)))
    scale = scale_steps * 2.0**-LOW_BITS
    low_bits, middle = (1 << LOW_BITS) - 1, 1 << (LOW_BITS - 1)
    return [
        (round(normal * scale) << LOW_BITS) + (word & low_bits) - middle
        for normal, word in zip(
            normals, struct.unpack(f"<{columns}I", stream.read(4 * columns)), strict=False
        )
    ]


def component_seeds(right_providers: int, scale_steps: float, source: RandomSource) -> tuple[bytes, ...]:
    """Fresh seeds of components 1..K1-1, if components of this scale can hide a row."""
    if right_providers < 2:
        raise ParameterError("right_providers", ">= 2", right_providers)
    if not scale_steps >= 2.0 ** (LOW_BITS + 8):
        raise ParameterError("scale_steps", f">= 2^{LOW_BITS + 8}, or the low bits would show", scale_steps)
    return tuple(source.seed() for _ in range(right_providers - 1))


def split_row(
    row: Sequence[int], right_providers: int, scale_steps: float, source: RandomSource
) -> tuple[tuple[bytes, ...], list[list[int]]]:
    """Seeds of components 1..K1-1, and all components: what the seeds stand for, and the row minus those."""
    seeds = component_seeds(right_providers, scale_steps, source)
    components = [expand_component(seed, len(row), scale_steps) for seed in seeds]
    remainder = list(row)
    for component in components:
        remainder = [value - part for value, part in zip(remainder, component, strict=True)]
    _check_headroom(remainder)
    return seeds, [*components, remainder]


def _check_headroom(component: Sequence[int]) -> None:
    if not all(-EXACT_INTEGERS < value < EXACT_INTEGERS for value in component):
        raise VerificationError(
            "a component does not fit 53 bits; the study's grid leaves too little headroom"
        )
