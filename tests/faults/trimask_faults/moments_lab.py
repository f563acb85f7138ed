"""The same people, nodes and promises in a study of the moments suite; some devices send false reports."""

from __future__ import annotations

import json
import time
from collections import Counter

from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key
from trimask_faults.lab import FaultLab
from trimask_simulation.moments_people import moments_study, people_in
from trimask_simulation.people import PEOPLE

__all__ = ["FALSE", "MomentsFaultLab"]

FALSE = frozenset(range(3, PEOPLE, 9))
"""The people whose devices send false reports."""


class MomentsFaultLab(FaultLab):
    """Right providers and a collector."""

    false = FALSE
    smallest_block = 1

    def new_study(self) -> Study:
        right = [
            self.parties[role].sealing_as("classical")
            for role in sorted(self.parties)
            if role.startswith("R")
        ]
        roots = (self.folder / "authority" / "ca.pem").read_text()
        return moments_study(
            self.parties["collector"], right, roots, int(time.time() * 1000), admission_key(self.owner).public
        )

    def published(self, study: Study) -> list[int]:
        total = [0] * PEOPLE
        for dataset in self.datasets(study):
            release = json.loads(dataset.path.read_bytes())
            found = people_in(release["first"], release["products"])
            total = [a + b for a, b in zip(total, found, strict=True)]
        return total

    def check_more(self, study: Study) -> None:
        """All right providers decided and delivered the same, and false reports are counted at each."""
        asked = "SELECT batch_id, state, accepted_hash, release_number, refused FROM moments_batches WHERE study_id = ?"
        seen = {
            role: sorted(self.query(role, "right", study, asked))
            for role in self.parties
            if role.startswith("R")
        }
        batches = next(iter(seen.values()))
        assert all(found == batches for found in seen.values()), "right providers have different batches"
        assert {row[1] for row in batches} == {"added"}
        assert all(row[3] is not None for row in batches), "a batch is in no release"
        refused: Counter[str] = Counter()
        for row in batches:
            refused.update(json.loads(str(row[4])))
        assert refused.total() == len(FALSE), f"{refused} of {len(FALSE)} false reports are counted"
