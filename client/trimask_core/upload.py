"""How many bytes a device uploads for one submission: payload, without what TLS and HTTP/2 add."""

from __future__ import annotations

from trimask_core.randomness import SEED_BYTES
from trimask_core.sealing import SEAL_OVERHEAD_BYTES
from trimask_core.study import Study
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_core.suites import payloads_of

__all__ = ["upload_bytes", "upload_bytes_of"]

_VALUE_BYTES = 8
_KIND_BYTES = 1  # whether a seed or a vector follows
_STUDY_ID_BYTES = 32


def upload_bytes(values: int, providers: int, more: int = 0) -> int:
    """Of a share of so many values: the vector for the last right provider, a seed for each of the others, all sealed.

    `more` bytes, in all of them together, go with the shares.
    """
    each = _KIND_BYTES + SEAL_OVERHEAD_BYTES + _STUDY_ID_BYTES + SUBMISSION_ID_BYTES
    return _VALUE_BYTES * values + (providers - 1) * SEED_BYTES + providers * each + more


def upload_bytes_of(study: Study) -> int:
    """Of a submission to this study."""
    forms = [payloads_of(study).form_of(study, k) for k in range(1, len(study.right) + 1)]
    return upload_bytes(forms[-1].values, len(forms), sum(form.more for form in forms))
