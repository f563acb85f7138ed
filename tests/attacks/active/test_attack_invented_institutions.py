"""One owner invents six institutions, with the names of real ones, and signs as all of them.

Every approval holds, and a device took part: approvals say that those keys signed, and nothing of whose keys they are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trimask_client import Client
from trimask_core.basics.errors import StudyError
from trimask_core.crypto.keys import SigningKey
from trimask_core.submit.institutions import Directory, Institution
from trimask_lab import Lab

KEEPER = SigningKey(bytes(range(32)))


def test_invented_institutions_are_not_known_whatever_they_are_called(lab: Lab, tmp_path: Path) -> None:
    real = lab.parties.values()
    book = Directory(
        "A university",
        KEEPER.public,
        tuple(Institution(party.organisation, party.identity) for party in real),
    ).signed_with(KEEPER)
    invented = Lab(tmp_path / "invented", right=2, left=1).new_study()
    names = [party.organisation for party in invented.study.parties.values()]
    assert sorted(names) == sorted(party.organisation for party in real)
    # As before: all have signed, and a device that knows nobody takes part, but says that it knows nobody.
    client = Client(invented)
    assert all(item.known_as is None for item in client.parties)
    assert "Not known to this device" in client.explain()
    with pytest.raises(StudyError, match="does not know"):
        Client(invented, institutions=book, refuse_unknown=True)
    honest = Client(lab.new_study(), institutions=book, refuse_unknown=True)
    assert "Not known" not in honest.explain()
