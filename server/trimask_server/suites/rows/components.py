"""A right provider's components of some rows, opened: whole numbers, a row for each submission, and what came with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.rows.payloads import TagPart, read_component, read_tags
from trimask_core.sealing import component_info
from trimask_core.study import Study
from trimask_server.right.sealing_keys import SealingRing

__all__ = ["read_components", "read_tag_parts"]


def read_components(
    ring: SealingRing, study: Study, k: int, rows: Sequence[tuple[bytes, bytes]]
) -> NDArray[np.int64]:
    """X^k from (submission id, sealed payload), in their order."""
    components = np.empty((len(rows), study.rows.columns), dtype=np.int64)
    for index, payload in enumerate(_payloads(ring, study, k, rows)):
        components[index] = read_component(study, k, payload)
    return components


def read_tag_parts(
    ring: SealingRing, study: Study, k: int, rows: Sequence[tuple[bytes, bytes]]
) -> list[TagPart]:
    """The tags and keys that came with them, in a study with tags."""
    return [read_tags(study, k, payload) for payload in _payloads(ring, study, k, rows)]


def _payloads(
    ring: SealingRing, study: Study, k: int, rows: Sequence[tuple[bytes, bytes]]
) -> Iterator[bytes]:
    for submission_id, sealed in rows:
        yield ring.open_held(sealed, component_info(study.binding, k, submission_id))
