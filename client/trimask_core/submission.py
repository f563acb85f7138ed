"""The device's part: from answers to K1 sealed payloads, frozen.

What each right provider gets in its payload is for the study's suite; ids, withdrawal and sealing are the same for all.
None of it needs numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimask_core.randomness import RandomSource
from trimask_core.sealing import component_info, seal, sealing_key_id
from trimask_core.study import Study
from trimask_core.suites import payloads_of
from trimask_core.withdrawal import WITHDRAWAL_KEY_BYTES, submission_id_of

__all__ = [
    "SUBMISSION_ID_BYTES",
    "SealedSubmission",
    "build_submission",
    "seal_payloads",
    "seal_under",
]

SUBMISSION_ID_BYTES = 16


@dataclass(frozen=True)
class SealedSubmission:
    """A random id and, for each right provider in order, its sealed component. Never edited after this.

    The id is the hash of `withdrawal_key`, which is in the receipt alone until it is used.
    """

    study_id: bytes
    submission_id: bytes
    sealed: tuple[bytes, ...] = field(repr=False)
    withdrawal_key: bytes = field(default=b"", repr=False)
    key_ids: tuple[bytes, ...] = ()  # which key each is sealed to; empty where that is not known


def build_submission(
    study: Study,
    answers: Mapping[str, object],
    source: RandomSource,
    sealing: Mapping[int, bytes] | None = None,
) -> SealedSubmission:
    """Everything a device sends, from what a person answered.

    `sealing` has newer keys of right providers (by k, from 1) to seal to in the place of those in the study.
    """
    return seal_payloads(study, payloads_of(study).payloads(study, answers, source), source, sealing)


def seal_payloads(
    study: Study,
    payloads: Sequence[bytes],
    source: RandomSource,
    sealing: Mapping[int, bytes] | None = None,
) -> SealedSubmission:
    """Payloads sealed to their right providers, under a fresh id and the key that withdraws it."""
    return seal_under(study, payloads, source.read(WITHDRAWAL_KEY_BYTES), sealing)


def seal_under(
    study: Study,
    payloads: Sequence[bytes],
    withdrawal_key: bytes,
    sealing: Mapping[int, bytes] | None = None,
) -> SealedSubmission:
    """The same under a withdrawal key that was drawn before."""
    submission_id = submission_id_of(study.id, withdrawal_key)
    keys = [(sealing or {}).get(k, provider.sealing) for k, provider in enumerate(study.right, 1)]
    sealed = tuple(
        seal(key, payload, component_info(study.binding, k, submission_id))
        for k, (key, payload) in enumerate(zip(keys, payloads, strict=True), 1)
    )
    key_ids = tuple(sealing_key_id(key) for key in keys)
    return SealedSubmission(study.id, submission_id, sealed, withdrawal_key, key_ids)
