"""The device's part: from answers to K1 sealed components, frozen.

Order matters (architecture, "The way of a row", step 2): encode, clip if the study asks for it, round to the
grid, add discrete Gaussian noise; then the noise columns under B_0; then round, split and seal. What follows the noise
is post-processing of integers, so floating point after that step cannot weaken the guarantee.

The arithmetic is numpy's where it is installed and `trimask_core.rows.pure` where it is not; both turn the same randomness
into the same submission, but for single grid steps of the masked row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from struct import pack
from typing import TYPE_CHECKING, Literal

from trimask_core.errors import VerificationError
from trimask_core.noise import DiscreteGaussian
from trimask_core.randomness import SEED_BYTES, RandomSource
from trimask_core.rows.pure import row as pure
from trimask_core.sealing import component_info, seal, sealing_key_id
from trimask_core.study import Study
from trimask_core.withdrawal import WITHDRAWAL_KEY_BYTES, submission_id_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "SUBMISSION_ID_BYTES",
    "Arithmetic",
    "ComponentForm",
    "SealedSubmission",
    "build_submission",
    "check_component",
    "check_form",
    "mask_row",
    "noisy_answers",
    "read_component",
]

Arithmetic = Literal["numpy", "pure"]
SUBMISSION_ID_BYTES = 16
_SEED, _VECTOR = b"\x01", b"\x02"


@dataclass(frozen=True)
class SealedSubmission:
    """A random id and, for each right provider in order, its sealed component. Never edited after this.

    The id is the hash of `withdrawal_key`, which goes into the receipt and to nobody else until it is used.
    """

    study_id: bytes
    submission_id: bytes
    sealed: tuple[bytes, ...] = field(repr=False)
    withdrawal_key: bytes = field(default=b"", repr=False)
    key_ids: tuple[bytes, ...] = ()  # which key each is sealed to; empty where that is not known


def noisy_answers(study: Study, answers: Mapping[str, object], source: RandomSource) -> NDArray[np.int64]:
    """x1 on the grid with its discrete Gaussian noise: the last place the answers themselves are seen."""
    import numpy as np  # not at the top, here and below: a device may have to do without

    row = study.encode(answers)
    norm = math.sqrt(math.fsum(value * value for value in row))
    limit = study.protection.row_norm
    if norm > limit:  # only where the study asks for a smaller R than the schema allows
        row = [value * (limit / norm) for value in row]
    # Rounding to nearest keeps |value| <= 1, so it cannot lengthen a row beyond the schema's R; a smaller R it could.
    clipped = limit < study.schema.row_norm
    steps = (study.rows.grid.round_inward if clipped else study.rows.grid.round)(np.array(row))
    if study.protection.sigma:
        sigma = study.rows.grid.steps_up(study.protection.sigma)
        steps = steps + np.array(DiscreteGaussian(sigma, source).samples(len(row)), dtype=np.int64)
    return steps


def mask_row(study: Study, x1: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
    """x B_0 on the grid. x2 B_0[p1:] has the law of g - (g F^T) F for g ~ N(0, tau^2 I_p), so F alone is needed."""
    from trimask_core.rows.normal import SecureNormals

    g = study.rows.tau * SecureNormals(source).standard_normal((1, study.rows.columns))
    answers = study.rows.grid.to_float(x1)[None, :]
    masked = g + study.rows.frame.apply(answers - study.rows.frame.unapply(g))
    return study.rows.grid.round(masked[0])


def build_submission(
    study: Study,
    answers: Mapping[str, object],
    source: RandomSource,
    arithmetic: Arithmetic | None = None,
    sealing: Mapping[int, bytes] | None = None,
) -> SealedSubmission:
    """Everything a device sends, from what a person answered. `arithmetic` is chosen by what is installed, unless given.

    `sealing` has newer keys of right providers (by k, from 1) to seal to in the place of those in the study.
    """
    split = _split_by_numpy if (arithmetic or _installed()) == "numpy" else _split_in_python
    seeds, vector = split(study, answers, source)
    withdrawal_key = source.read(WITHDRAWAL_KEY_BYTES)
    submission_id = submission_id_of(study.id, withdrawal_key)
    payloads = [*(_SEED + seed for seed in seeds), _VECTOR + vector]
    keys = [(sealing or {}).get(k, provider.sealing) for k, provider in enumerate(study.right, 1)]
    sealed = tuple(
        seal(key, payload, component_info(study.id, k, submission_id))
        for k, (key, payload) in enumerate(zip(keys, payloads, strict=True), 1)
    )
    key_ids = tuple(sealing_key_id(key) for key in keys)
    return SealedSubmission(study.id, submission_id, sealed, withdrawal_key, key_ids)


def _installed() -> Arithmetic:
    return "pure" if find_spec("numpy") is None else "numpy"


def _split_by_numpy(
    study: Study, answers: Mapping[str, object], source: RandomSource
) -> tuple[tuple[bytes, ...], bytes]:
    """Seeds for the first right providers, and for the last the bytes of its vector."""
    from trimask_core.rows.shares import split_row

    row = mask_row(study, noisy_answers(study, answers, source), source)
    components = split_row(row, len(study.right), study.rows.share_steps, source)
    return components.seeds, components.vector.astype("<i8").tobytes()


def _split_in_python(
    study: Study, answers: Mapping[str, object], source: RandomSource
) -> tuple[tuple[bytes, ...], bytes]:
    row = pure.mask_row(study, pure.noisy_answers(study, answers, source), source)
    seeds, vector = pure.split_row(row, len(study.right), study.rows.share_steps, source)
    return seeds, pack(f"<{len(vector)}q", *vector)


@dataclass(frozen=True)
class ComponentForm:
    """What a component must look like: for which right provider it is, of how many, and how long a row is."""

    provider: int
    providers: int
    columns: int


def check_component(study: Study, provider: int, payload: bytes) -> None:
    """Refuse an opened payload that is not a component for right provider `provider` (1..K1), without expanding it."""
    check_form(ComponentForm(provider, len(study.right), study.rows.columns), payload)


def check_form(form: ComponentForm, payload: bytes) -> None:
    """The same, where the study itself is not at hand."""
    kind, body = payload[:1], payload[1:]
    if form.provider < form.providers:
        if kind != _SEED or len(body) != SEED_BYTES:
            raise VerificationError(f"a component for R{form.provider} must be a 32-byte seed")
        return
    if kind != _VECTOR or len(body) != 8 * form.columns:
        raise VerificationError(f"a component for R{form.provider} must be a vector of {form.columns} values")
    import numpy as np

    from trimask_core.rows.shares import check_headroom

    check_headroom(np.frombuffer(body, dtype="<i8"))


def read_component(study: Study, provider: int, payload: bytes) -> NDArray[np.int64]:
    """The component in an opened payload for right provider `provider` (1..K1); its form is checked."""
    import numpy as np

    from trimask_core.rows.shares import expand_component

    check_component(study, provider, payload)
    if provider < len(study.right):
        return expand_component(payload[1:], study.rows.columns, study.rows.share_steps)
    return np.frombuffer(payload[1:], dtype="<i8").astype(np.int64)
