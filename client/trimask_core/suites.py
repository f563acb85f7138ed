"""The suites there are, as far as devices and the intake of right providers have to know them; and whose collusion each
rests on: who would have to collude to see a person's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from trimask_core.basics.randomness import RandomSource
from trimask_core.crypto.keys import PayloadForm
from trimask_core.moments import report as moments
from trimask_core.moments.study import MomentsCollusion
from trimask_core.rows import collusion as row_collusion
from trimask_core.rows import payloads as rows
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study


class SuitePayloads(Protocol):
    """A suite's payloads: made by a device, checked by a right provider."""

    def payloads(self, study: Study, answers: Mapping[str, object], source: RandomSource) -> list[bytes]:
        """One payload a right provider, in order, from what a person answered."""
        ...

    def form_of(self, study: Study, provider: int) -> PayloadForm:
        """What payloads for a right provider (1..K1) look like."""
        ...

    def check_payload(self, form: PayloadForm, payload: bytes) -> None:
        """Refuse an opened payload of another form."""
        ...


SUITE_PAYLOADS: dict[str, SuitePayloads] = {"rows": rows, "moments": moments}


def payloads_of(study: Study) -> SuitePayloads:
    """The payloads of a study's suite."""
    return SUITE_PAYLOADS[study.suite.name]


def check_payload(form: PayloadForm, payload: bytes) -> None:
    """Refuse an opened payload of another form, where the study itself is not available."""
    SUITE_PAYLOADS[form.suite].check_payload(form, payload)


AnyReport = row_collusion.CollusionReport | MomentsCollusion


def collusion_of(study: Study) -> AnyReport:
    """The study's collusion report."""
    if isinstance(study.suite, RowsSettings):
        seen = study.protection.right_providers
        return replace(
            row_collusion.report(study.rows.topology),
            right_mu=None if seen is None else seen.mu,
            stored_mu=study.rows.noise_columns_mu,
            stored_rows=study.rows.max_block_rows,
        )
    return moments_collusion(study)


def moments_collusion(study: Study) -> MomentsCollusion:
    """The report of a study of the moments suite."""
    noise = bool(study.protection.sigma) or study.protection.budget is not None
    return MomentsCollusion(len(study.right), study.moments.honest_providers, noise)
