"""Who erases a study at a provider. A left provider has the same tables, with no row of a person in them."""

from __future__ import annotations

from trimask_server.access import proposals
from trimask_server.right import rows, used_invitations
from trimask_server.store import data_keys
from trimask_server.store.erasure import Erasers

__all__ = ["ERASERS"]

ERASERS = Erasers(
    (
        rows.erase_study,
        used_invitations.erase_study,
        proposals.erase_study,
        data_keys.erase_study,
    ),
)
