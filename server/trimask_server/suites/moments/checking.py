"""A right provider's side of the check of a batch: its shares of the five forms, and what all shares say together.

Nothing here depends on what others send but `verdicts`. A provider's word about a report is a fixed linear map of its own
share, so a batch may be checked any number of times, in any company, and nothing more is learned
(docs/theory/verified-moments.md#zero-knowledge).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from trimask_core.errors import VerificationError
from trimask_core.moments.challenge import bucket_of, derive_challenge
from trimask_core.moments.check import FORMS, forms, verdict
from trimask_core.moments.field import ELEMENT_BYTES, P, pack, unpack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.sharing import check_share_form
from trimask_server.suites.moments.field_array import (
    Elements,
    Limbs,
    column_sums,
    expand_seeds,
    limbs,
    product,
    read_vectors,
)

__all__ = [
    "BatchChecker",
    "FormValues",
    "pack_values",
    "read_shares",
    "sum_accepted",
    "unpack_values",
    "verdicts",
]

FormValues = list[tuple[int, ...]]


def read_shares(payloads: Sequence[bytes], provider: int, providers: int, layout: MomentsLayout) -> Elements:
    """The shares in opened payloads for R_`provider`, a row each; a payload of another form is refused."""
    bodies = [payload[1:] for payload in payloads]
    if provider == providers:
        return read_vectors(bodies, layout.elements)
    for payload in payloads:
        check_share_form(payload, provider, providers, layout.elements)
    return expand_seeds(bodies, layout.elements)


@dataclass(frozen=True)
class BatchChecker:
    """What R_`provider` needs to check reports of one study. The key is the study's challenge key."""

    study_id: bytes
    layout: MomentsLayout
    provider: int
    key: bytes = field(repr=False)

    def form_values(self, ids: Sequence[bytes], shares: Elements) -> FormValues:
        """This provider's share of the five forms for every report, in the order of `ids`."""
        values: FormValues = [()] * len(ids)
        by_bucket: dict[int, list[int]] = {}
        for place, submission_id in enumerate(ids):
            by_bucket.setdefault(bucket_of(submission_id), []).append(place)
        for bucket, places in by_bucket.items():
            columns, constants = _bucket_forms(self.study_id, self.key, bucket, self.layout)
            own = constants if self.provider == 1 else (0,) * len(FORMS)
            for place, row in zip(places, product(shares[places], columns).tolist(), strict=True):
                values[place] = tuple(
                    (value + constant) % P for value, constant in zip(row, own, strict=True)
                )
        return values


@lru_cache(maxsize=512)  # two studies at a time; about 80 kB each at 640 elements
def _bucket_forms(
    study_id: bytes, key: bytes, bucket: int, layout: MomentsLayout
) -> tuple[Limbs, tuple[int, ...]]:
    found = forms(layout, derive_challenge(key, study_id, bucket, layout))
    return limbs(np.array(found.coefficients, dtype=np.uint64).T), found.constants


def verdicts(by_provider: Mapping[int, FormValues]) -> list[str | None]:
    """For every report, None if it is valid and the reason if not, from every provider's share of the forms."""
    return [
        verdict([sum(parts) % P for parts in zip(*report, strict=True)])
        for report in zip(*by_provider.values(), strict=True)
    ]


def sum_accepted(shares: Elements, accepted: Sequence[bool], layout: MomentsLayout) -> list[int]:
    """The sum of accepted shares, over the bits and products alone: the rest of a report is proof."""
    end = layout.products.stop
    return column_sums(shares[np.array(accepted, dtype=bool), :end])


def pack_values(values: FormValues) -> bytes:
    """For the wire, sealed: five elements a report."""
    return pack([element for report in values for element in report])


def unpack_values(data: bytes, reports: int) -> FormValues:
    """What `pack_values` wrote, for so many reports."""
    if len(data) != ELEMENT_BYTES * len(FORMS) * reports:
        raise VerificationError(f"the forms of {reports} reports take {len(FORMS)} elements each")
    elements = unpack(data)
    return [tuple(elements[first : first + len(FORMS)]) for first in range(0, len(elements), len(FORMS))]
