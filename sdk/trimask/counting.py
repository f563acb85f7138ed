"""counted.bin, the list of the submissions a release counts, against the manifest and what right providers signed.

In both suites it has as many as the release has people. In the moments suite every right provider signed the hash of the
batches and of which reports in them were accepted: a list that differs in one id or one mark is refused. In the rows suite
every right provider signed the list of each block when it bound these rows to it: a list that differs in one id is refused.
"""

from __future__ import annotations

from pathlib import Path

from trimask.manifest import Manifest
from trimask.totals import Totals
from trimask_core.counted import COUNTED_FILE, Counted
from trimask_core.errors import VerificationError
from trimask_core.moments.release import AddedBatch, accepted_hash, release_hash

__all__ = ["read_counted"]


def read_counted(folder: Path, manifest: Manifest, totals: Totals | None) -> Counted:
    """Read and check the list; `totals` where the release is of the moments suite."""
    counted = Counted.from_bytes((folder / COUNTED_FILE).read_bytes())
    if counted.count != manifest.rows:
        raise VerificationError(
            f"{COUNTED_FILE} counts {counted.count:,} submissions where the manifest says {manifest.rows:,}"
        )
    if totals is None:
        if any(block.count != len(block) for block in counted.blocks):
            raise VerificationError(f"{COUNTED_FILE} has refused submissions, which the rows suite has not")
        for block in counted.blocks:
            block.verify(manifest.study)
    elif _signed(counted, manifest) != totals.accepted_hash:
        raise VerificationError(
            f"{COUNTED_FILE} is not the list of reports that the right providers signed for"
        )
    return counted


def _signed(counted: Counted, manifest: Manifest) -> bytes:
    """What right providers of the moments suite have signed if this is the list."""
    study_id = manifest.study.id
    batches = [
        AddedBatch(
            block.block_id,
            accepted_hash(study_id, block.block_id, list(block), [mark == 1 for mark in block.accepted]),
            block.count,
        )
        for block in counted.blocks
    ]
    return release_hash(study_id, manifest.release, batches)
