"""moments.json, the data file of the moments suite: noisy totals, with what each right provider signed about its part.

Every delivery is in the file and is checked (`trimask.deliveries`): its hash with its salt, the provider's signatures over
that hash, the release, its batches, its accepted reports and all providers' commitments, and that the deliveries add up to
the totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask.deliveries import Asked, summed_deliveries
from trimask.manifest import MOMENTS_FILE, Manifest
from trimask_core.errors import TrimaskError, VerificationError
from trimask_core.moments.release import asked_hash
from trimask_core.strict_json import read_json

__all__ = ["TOTALS_FORMAT", "Totals", "read_totals"]

TOTALS_FORMAT = "trimask-moments/1"
_HASH_BYTES = 32


@dataclass(frozen=True)
class Totals:
    """Noisy sums of z_j, and of z_j z_l for j <= l row by row, over the people whose reports were accepted.

    In a weighted study every summand counts s^2 times, and the sum of s^2 itself is the first of `first`.
    `accepted_hash` names those reports; every right provider signed it.
    """

    first: tuple[int, ...]
    products: tuple[int, ...]
    accepted: int
    accepted_hash: bytes


def read_totals(path: Path, manifest: Manifest) -> Totals:
    """Read and check the file; `VerificationError` if anything does not agree."""
    try:
        return _checked(read_json(path.read_bytes()), manifest)
    except VerificationError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        OverflowError,
        TrimaskError,
    ) as error:
        raise VerificationError(f"{MOMENTS_FILE} cannot be read: {type(error).__name__} {error}") from None


def _checked(data: Mapping[str, Any], manifest: Manifest) -> Totals:
    study, layout = manifest.study, manifest.study.moments.layout
    if data["format"] != TOTALS_FORMAT:
        raise VerificationError(f"{MOMENTS_FILE} is not of format {TOTALS_FORMAT}")
    accepted = bytes.fromhex(data["accepted_hash"])
    first, products = tuple(data["first"]), tuple(data["products"])
    for held, what in (
        (data["release"] == manifest.release, "release"),
        (type(data["accepted"]) is int and data["accepted"] == manifest.rows, "number of people"),
        (data["columns"] == [column.name for column in layout.columns], "columns"),
        (len(accepted) == _HASH_BYTES, "accepted reports"),
        ((len(first), len(first + products)) == (layout.firsts, layout.totals), "number of totals"),
        (all(type(value) is int for value in (*first, *products)), "totals"),
    ):
        if not held:
            raise VerificationError(f"{MOMENTS_FILE} does not agree with the manifest: {what}")
    asked = asked_hash(study.id, manifest.release, b"".join(manifest.batch_ids))
    of = Asked(asked, accepted, manifest.rows, len(first + products))
    if summed_deliveries(study, of, data["deliveries"], MOMENTS_FILE) != [*first, *products]:
        raise VerificationError(
            f"the totals of {MOMENTS_FILE} are not the sum of what the providers delivered"
        )
    return Totals(first, products, manifest.rows, accepted)
