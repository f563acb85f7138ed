"""The secret challenge a report is checked under: one for every first byte of a submission id, for ever.

The key is made of one contribution of 32 secret bytes from each right provider, and their hashes are part of what the
providers approve and devices seal to; so a study has one key, and a report one challenge. A second challenge on a
report would give two equations for one rho, and leave one possible row. A device must not know a challenge either: the
check is sound in 61 bits because nobody can try forgeries against it alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from trimask_core.errors import ParameterError
from trimask_core.moments.field import draw
from trimask_core.moments.layout import MomentsLayout
from trimask_core.randomness import SEED_BYTES, Stream

__all__ = [
    "BUCKETS",
    "CONTRIBUTION_BYTES",
    "Challenge",
    "bucket_of",
    "challenge_key",
    "contribution_hash",
    "derive_challenge",
]

CONTRIBUTION_BYTES = 32
BUCKETS = 256
_CONTRIBUTION = b"trimask/v1/moments contribution"
_KEY = b"trimask/v1/moments challenge key"
_CHALLENGE = b"moments challenge"


@dataclass(frozen=True)
class Challenge:
    """u for the columns, u_rho for rho, the point r, and g for the linear checks. Secret from devices and the collector."""

    u: tuple[int, ...] = field(repr=False)
    u_rho: int = field(repr=False)
    r: int = field(repr=False)
    g: tuple[int, ...] = field(repr=False)


def contribution_hash(contribution: bytes) -> bytes:
    """What a provider signs with its approval, in the place of its contribution."""
    return hashlib.sha256(_CONTRIBUTION + _checked(contribution)).digest()


def challenge_key(study_id: bytes, contributions: Sequence[bytes]) -> bytes:
    """The study's challenge key, from the contributions of R_1..R_K1 in order."""
    if not 2 <= len(contributions) < BUCKETS:
        raise ParameterError("contributions", "one from each of 2 to 255 right providers", len(contributions))
    whole = b"".join(_checked(contribution) for contribution in contributions)
    return hashlib.sha256(_KEY + _prefixed(study_id) + bytes([len(contributions)]) + whole).digest()


def bucket_of(submission_id: bytes) -> int:
    """Which of the study's 256 challenges a submission is checked under."""
    if not submission_id:
        raise ParameterError("submission_id", "not empty")
    return submission_id[0]


def derive_challenge(key: bytes, study_id: bytes, bucket: int, layout: MomentsLayout) -> Challenge:
    """The challenge of a bucket: u_1..u_q, u_rho (not 0), r (not in 0..2m), then g, each drawn in turn from one stream."""
    if len(key) != SEED_BYTES:
        raise ParameterError("key", f"{SEED_BYTES} bytes", len(key))
    if not 0 <= bucket < BUCKETS:
        raise ParameterError("bucket", f"from 0 to {BUCKETS - 1}", bucket)
    stream = Stream(key, _CHALLENGE + _prefixed(study_id) + bytes([bucket]))
    return Challenge(
        u=tuple(draw(stream) for _ in layout.proved),
        u_rho=_at_least(1, stream),
        r=_at_least(2 * layout.bits + 1, stream),
        g=tuple(draw(stream) for _ in layout.linear_checks),
    )


def _at_least(least: int, stream: Stream) -> int:
    while (value := draw(stream)) < least:
        pass
    return value


def _checked(contribution: bytes) -> bytes:
    if len(contribution) != CONTRIBUTION_BYTES:
        raise ParameterError("contribution", f"{CONTRIBUTION_BYTES} bytes", len(contribution))
    return contribution


def _prefixed(study_id: bytes) -> bytes:
    """The id with its length before it, in two bytes, so that no two inputs of a hash run into each other."""
    return len(study_id).to_bytes(2, "little") + study_id
