"""The payloads of the rows suite: what each right provider finds when it opens its sealed part of a submission.

A seed for right providers 1..K1-1, the last component itself for the last. Making them is the device's part and needs no
numpy; checking and reading them is a node's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import TYPE_CHECKING

from trimask_core.errors import VerificationError
from trimask_core.payload import SEED, VECTOR, PayloadForm
from trimask_core.randomness import SEED_BYTES, RandomSource
from trimask_core.rows.device.row import mask_row, noisy_answers, split_row
from trimask_core.study import Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["check_payload", "component_payloads", "form_of", "payloads", "read_component"]


def payloads(study: Study, answers: Mapping[str, object], source: RandomSource) -> list[bytes]:
    """One payload a right provider, from what a person answered."""
    row = mask_row(study, noisy_answers(study, answers, source), source)
    seeds, vector = split_row(row, len(study.right), study.rows.share_steps, source)
    return component_payloads(seeds, pack(f"<{len(vector)}q", *vector))


def component_payloads(seeds: Sequence[bytes], vector: bytes) -> list[bytes]:
    """Components as payloads: the seeds, and the last one's values, little-endian and 8 bytes each."""
    return [*(SEED + seed for seed in seeds), VECTOR + vector]


def form_of(study: Study, provider: int) -> PayloadForm:
    """The form of payloads for right provider `provider` (1..K1)."""
    return PayloadForm("rows", provider, len(study.right), study.rows.columns)


def check_payload(form: PayloadForm, payload: bytes) -> None:
    """Refuse an opened payload that has not this form, without expanding it."""
    kind, body = payload[:1], payload[1:]
    if form.provider < form.providers:
        if kind != SEED or len(body) != SEED_BYTES:
            raise VerificationError(f"a component for R{form.provider} must be a 32-byte seed")
        return
    if kind != VECTOR or len(body) != 8 * form.values:
        raise VerificationError(f"a component for R{form.provider} must be a vector of {form.values} values")
    import numpy as np  # not at the top, here and below: only nodes come here, and devices do without

    from trimask_core.rows.shares import check_headroom

    check_headroom(np.frombuffer(body, dtype="<i8"))


def read_component(study: Study, provider: int, payload: bytes) -> NDArray[np.int64]:
    """The component in an opened payload for right provider `provider` (1..K1); its form is checked."""
    import numpy as np

    from trimask_core.rows.shares import expand_component

    check_payload(form_of(study, provider), payload)
    if provider < len(study.right):
        return expand_component(payload[1:], study.rows.columns, study.rows.share_steps)
    return np.frombuffer(payload[1:], dtype="<i8").astype(np.int64)
