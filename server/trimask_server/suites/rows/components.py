"""A right provider's components of some rows, opened: whole numbers, a row for each submission."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.rows.payloads import read_component
from trimask_core.sealing import component_info
from trimask_core.study import Study
from trimask_server.right.sealing_keys import SealingRing

__all__ = ["read_components"]


def read_components(
    ring: SealingRing, study: Study, k: int, rows: Sequence[tuple[bytes, bytes]]
) -> NDArray[np.int64]:
    """X^k from (submission id, sealed payload), in their order."""
    components = np.empty((len(rows), study.rows.columns), dtype=np.int64)
    for index, (submission_id, sealed) in enumerate(rows):
        payload = ring.open_held(sealed, component_info(study.binding, k, submission_id))
        components[index] = read_component(study, k, payload)
    return components
