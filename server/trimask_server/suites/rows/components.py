"""What right providers hold of rows, opened: once for the components and the tags that came with them."""

from __future__ import annotations

from collections.abc import Sequence

from trimask_core.sealing import component_info
from trimask_core.study import Study
from trimask_server.right.sealing_keys import SealingRing

__all__ = ["open_payloads"]


def open_payloads(
    ring: SealingRing, study: Study, k: int, rows: Sequence[tuple[bytes, bytes]]
) -> list[bytes]:
    """The payloads of R_k from (submission id, sealed payload), in their order."""
    return [
        ring.open_held(sealed, component_info(study.binding, k, submission_id))
        for submission_id, sealed in rows
    ]
