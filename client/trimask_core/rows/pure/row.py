"""From answers to components without numpy: what `trimask_core.submission` and `trimask_core.rows.shares` do with it."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

from trimask_core.errors import ParameterError, VerificationError
from trimask_core.noise import DiscreteGaussian
from trimask_core.randomness import SEED_BYTES, RandomSource, Stream
from trimask_core.rows.grid import EXACT_INTEGERS
from trimask_core.rows.pure.normal import normals_from_words, secure_normals
from trimask_core.study import Study

__all__ = ["expand_component", "mask_row", "noisy_answers", "read_component", "split_row"]

LOW_BITS = 20
_LABEL = b"component"
_SEED, _VECTOR = b"\x01", b"\x02"


def noisy_answers(study: Study, answers: Mapping[str, object], source: RandomSource) -> list[int]:
    """x1 on the grid with its discrete Gaussian noise."""
    row = study.encode(answers)
    norm = math.sqrt(math.fsum(value * value for value in row))
    limit = study.protection.row_norm
    if norm > limit:
        row = [value * (limit / norm) for value in row]
    clipped = limit < study.schema.row_norm
    steps = [
        study.rows.grid.truncate_one(value) if clipped else study.rows.grid.round_one(value) for value in row
    ]
    if study.protection.sigma:
        noise = DiscreteGaussian(study.rows.grid.steps_up(study.protection.sigma), source).samples(len(row))
        steps = [step + extra for step, extra in zip(steps, noise, strict=True)]
    return steps


def mask_row(study: Study, x1: Sequence[int], source: RandomSource) -> list[int]:
    """x B_0 on the grid, as g + (x1 - g F^T) F for g ~ N(0, tau^2 I_p): F alone is needed (note 2)."""
    frame, grid = study.rows.row_frame, study.rows.grid
    g = [study.rows.tau * value for value in secure_normals(source).standard_normal(study.rows.columns)]
    answers = (math.ldexp(step, grid.exponent) for step in x1)
    shift = [value - seen for value, seen in zip(answers, frame.unapply(g), strict=True)]
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


def split_row(
    row: Sequence[int], right_providers: int, scale_steps: float, source: RandomSource
) -> tuple[tuple[bytes, ...], list[int]]:
    """Seeds of components 1..K1-1, and the last component: the row minus what the seeds stand for."""
    if right_providers < 2:
        raise ParameterError("right_providers", ">= 2", right_providers)
    if not scale_steps >= 2.0 ** (LOW_BITS + 8):
        raise ParameterError("scale_steps", f">= 2^{LOW_BITS + 8}, or the low bits would show", scale_steps)
    seeds = tuple(source.seed() for _ in range(right_providers - 1))
    remainder = list(row)
    for seed in seeds:
        component = expand_component(seed, len(row), scale_steps)
        remainder = [value - part for value, part in zip(remainder, component, strict=True)]
    _check_headroom(remainder)
    return seeds, remainder


def read_component(study: Study, provider: int, payload: bytes) -> list[int]:
    """The component in an opened payload for right provider `provider` (1..K1); its form is checked."""
    kind, body = payload[:1], payload[1:]
    last = provider == len(study.right)
    if kind == _SEED and len(body) == SEED_BYTES and not last:
        return expand_component(body, study.rows.columns, study.rows.share_steps)
    if kind == _VECTOR and len(body) == 8 * study.rows.columns and last:
        component = list(struct.unpack(f"<{study.rows.columns}q", body))
        _check_headroom(component)
        return component
    expected = f"a vector of {study.rows.columns} values" if last else "a 32-byte seed"
    raise VerificationError(f"a component for R{provider} must be {expected}")


def _check_headroom(component: Sequence[int]) -> None:
    if not all(-EXACT_INTEGERS < value < EXACT_INTEGERS for value in component):
        raise VerificationError(
            "a component does not fit 53 bits; the study's grid leaves too little headroom"
        )
