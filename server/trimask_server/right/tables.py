"""Who erases a study at a provider. A left provider has the same tables, with no row of a person in them."""

from __future__ import annotations

from trimask_server.access import proposals, witnessing
from trimask_server.right import invitations, rows
from trimask_server.store import data_keys
from trimask_server.store.erasure import Erasers

__all__ = ["ERASERS"]

ERASERS = Erasers(
    (
        rows.erase_study,
        invitations.erase_study,
        proposals.erase_study,
        witnessing.erase_study,
        data_keys.erase_study,
    ),
    still_needed=(witnessing.still_needed,),
)
