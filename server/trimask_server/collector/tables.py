"""Who erases a study at the collector, and who still needs it."""

from __future__ import annotations

from trimask_server.access import proposals, tokens
from trimask_server.collector import ledger, publication
from trimask_server.collector.console import records
from trimask_server.store import data_keys, jobs
from trimask_server.store.interface import Erasers

ERASERS = Erasers(
    (
        ledger.erase_study,
        records.erase_study,
        records.erase_scheduled,
        tokens.erase_study,
        proposals.erase_study,
        jobs.erase_study,
        data_keys.erase_study,
    ),
    still_needed=(publication.still_needed,),
)
