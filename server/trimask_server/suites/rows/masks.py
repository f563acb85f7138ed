"""F at a right provider: the study names the seed of B_0 by its hash, and the collector sends it with a check of rows."""

from __future__ import annotations

from dataclasses import replace

from trimask_core.errors import ImpossibleStudy, Refused
from trimask_core.refusals import Reason
from trimask_core.rows.study import RowsSettings
from trimask_core.study import Study
from trimask_server.node.context import NodeContext

__all__ = ["Frames"]


class Frames:
    """Studies with the seed of B_0, in memory: it is no secret, and a provider needs it at no other time."""

    def __init__(self, node: NodeContext) -> None:
        self._known: dict[bytes, Study] = {}
        node.studies.on_forget.append(lambda study_id: self._known.pop(study_id, None))

    def learn(self, study: Study, seed: bytes) -> Study:
        """The study with its seed; refused if it is not the one the study names."""
        known = self._known.get(study.id)
        if known is None:
            suite = study.suite
            if not isinstance(suite, RowsSettings) or not seed:
                raise Refused(Reason.MALFORMED, "a check of rows comes with the seed of B_0")
            try:
                known = self._known[study.id] = replace(study, suite=replace(suite, mask_seed=seed))
            except ImpossibleStudy:
                raise Refused(
                    Reason.BAD_SIGNATURE, "this is not the seed of B_0 that the study names"
                ) from None
        return known
