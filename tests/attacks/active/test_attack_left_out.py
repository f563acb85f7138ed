"""A collector that leaves a person's row out although every right provider gave a receipt for it: what the receipt finds.

In both suites whoever has the receipt learns from the release that it does not count it. A collector that puts the id on
the list all the same is refused by every researcher: in the moments suite by what right providers sign of a release, in the
rows suite by what each signed when it bound the rows of a block.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trimask.data import manifest
from trimask.errors import VerificationError
from trimask_client import Client
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.release_files import Counted, CountedBlock, split_ids
from trimask_core.submit.submission import Receipt
from trimask_lab import ON_POSTGRES, Lab, some_people
from trimask_moments import moments_people, open_moments
from trimask_proto.v1 import moments_pb2
from trimask_server.collector.publication import Catalogue
from trimask_server.suites.moments.suite import MomentsServicer, MomentsWork
from trimask_server.suites.rows import right_draw
from trimask_terminal.program import main

pytestmark = pytest.mark.skipif(ON_POSTGRES, reason="a patched part is one worker's")

SUITES = ("rows", "moments")
PEOPLE = 49


@dataclass(frozen=True)
class Ran:
    """A study that is closed, every person's receipt, and its releases as researchers pulled them."""

    lab: Lab
    study: Study
    receipts: list[Receipt]
    folder: Path

    @property
    def releases(self) -> list[str]:
        """The folders of its datasets."""
        return [str(path) for path in sorted(self.folder.glob("release-*"))]

    def ask(self, receipt: Receipt, *more: str) -> int:
        """What `trimask receipt verify` ends with."""
        path = self.folder / "receipt.json"
        path.write_text(receipt.to_json())
        return main(["receipt", "verify", str(path), "--dataset", *self.releases, *more])


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a study of a suite to its end; `before_planning(receipts)` has half of the receipts, and no block is planned."""
    with ExitStack() as stack:

        def make(suite: str, before_planning: Callable[[list[Receipt]], None]) -> Ran:
            lab = Lab(tmp_path / "lab", right=3, left=2 if suite == "rows" else 0)
            stack.enter_context(lab.in_thread(request))
            signed: SignedStudy
            if suite == "rows":
                signed, people = lab.open_study(), some_people(PEOPLE, seed=12)
            else:
                signed, people = open_moments(lab, release_rows=PEOPLE - 1), moments_people(PEOPLE)
            with Client(signed) as client:
                receipts = []
                for number, person in enumerate(people):
                    if number == PEOPLE // 2:  # too few to be planned yet, in either suite
                        before_planning(receipts)
                    receipts.append(client.submit(person))
            lab.close(signed.study)
            for dataset in lab.datasets(signed.study):
                dataset.save(tmp_path / f"release-{dataset.manifest.release}")
            return Ran(lab, signed.study, receipts, tmp_path)

        yield make


def leave_out(monkeypatch: pytest.MonkeyPatch, suite: str, submission_id: bytes) -> None:
    """Moments: the collector plans no batch with this submission. Rows: it cannot, so R1 leaves it out of every draw."""
    if suite == "rows":
        listed = right_draw.freeze

        def freeze(key: Any, role: str, study_id: bytes, number: int, rows: Any, *, closing: bool) -> Any:
            held = [row for row in rows if role != "R1" or row[0] != submission_id]
            return listed(key, role, study_id, number, held, closing=closing)

        monkeypatch.setattr(right_draw, "freeze", freeze)
        return
    work: Any = MomentsWork
    honest = work.choose

    def choose(self: Any, ready: list[bytes], *, closing: bool) -> list[bytes]:
        found: list[bytes] = honest(self, [name for name in ready if name != submission_id], closing=closing)
        return found

    monkeypatch.setattr(work, "choose", choose)


def put_on_the_list(monkeypatch: pytest.MonkeyPatch, submission_id: bytes) -> list[bytes]:
    """The collector lists it where another person is listed; who that is comes first in the answer."""
    honest, replaced = Catalogue.counted, []

    async def counted(self: Catalogue, study_id: bytes, number: int) -> Counted:
        first, *others = (await honest(self, study_id, number)).blocks
        ids = list(first)
        replaced[:] = [ids[0]]
        false = CountedBlock.of(first.block_id, [submission_id, *ids[1:]], signatures=first.signatures)
        return Counted((false, *others))

    monkeypatch.setattr(Catalogue, "counted", counted)
    return replaced


@pytest.mark.parametrize("suite", SUITES)
def test_who_is_left_out_is_told_so_and_the_others_that_they_count(
    suite: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(suite, lambda sent: leave_out(monkeypatch, suite, sent[7].submission_id))
    assert ran.ask(ran.receipts[7]) == 1
    assert "Not counted in release 1" in capsys.readouterr().out
    for number, receipt in enumerate(ran.receipts):
        expected = number != 7
        assert ran.ask(receipt, "--json") == (0 if expected else 1)
        said = json.loads(capsys.readouterr().out)
        assert (said["verified"], said["counted"]) == (True, expected)
        assert said["releases"] == [
            {
                "dataset": f"{ran.study.id.hex()[:12]}-1",
                "release": 1,
                "standing": "counted" if expected else "absent",
            }
        ]
    assert ran.ask(ran.receipts[0]) == 0
    assert "Counted in release 1" in capsys.readouterr().out


def test_a_false_list_of_the_moments_suite_is_refused_by_everybody(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(sent: list[Receipt]) -> None:
        leave_out(monkeypatch, "moments", sent[7].submission_id)
        put_on_the_list(monkeypatch, sent[7].submission_id)

    with pytest.raises(
        VerificationError, match="not the list of reports that the right providers signed for"
    ):
        run("moments", lie)


@pytest.mark.slow
def test_without_the_signed_hash_a_false_list_of_the_moments_suite_is_believed(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lie(sent: list[Receipt]) -> None:
        leave_out(monkeypatch, "moments", sent[7].submission_id)
        put_on_the_list(monkeypatch, sent[7].submission_id)

    monkeypatch.setattr(manifest, "_signed", lambda *_: _Whatever())
    ran = run("moments", lie)
    assert ran.ask(ran.receipts[7]) == 0
    assert "Counted in release 1" in capsys.readouterr().out


class _Whatever:
    """Equal to every hash."""

    def __ne__(self, _: object) -> bool:
        return False


def test_a_false_list_of_the_rows_suite_is_refused_by_everybody(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(sent: list[Receipt]) -> None:
        leave_out(monkeypatch, "rows", sent[7].submission_id)
        put_on_the_list(monkeypatch, sent[7].submission_id)

    with pytest.raises(VerificationError, match="the word of R1 on the block"):
        run("rows", lie)


def test_without_their_words_a_false_list_of_the_rows_suite_is_believed(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has as many places as rows, so somebody else is told that they are not counted; and each right provider has the
    plan of the block under the id that is on the list.
    """
    monkeypatch.setattr(CountedBlock, "verify", lambda *_: None)
    replaced: list[list[bytes]] = []

    def lie(sent: list[Receipt]) -> None:
        leave_out(monkeypatch, "rows", sent[7].submission_id)
        replaced.append(put_on_the_list(monkeypatch, sent[7].submission_id))

    ran = run("rows", lie)
    assert ran.ask(ran.receipts[7]) == 0  # the lie
    (other,) = (receipt for receipt in ran.receipts if [receipt.submission_id] == replaced[0])
    assert ran.ask(other) == 1
    capsys.readouterr()
    (dataset,) = ran.lab.datasets(ran.study)
    first, *others = dataset.counted.blocks
    for role in ("R1", "R2", "R3"):
        rows = ran.lab.query(role, "SELECT block_id, submission_ids FROM blocks")
        plans = {bytes(block): split_ids(bytes(ids)) for block, ids in rows}
        assert plans[first.block_id] != list(first)
        assert all(plans[block.block_id] == list(block) for block in others)


def test_a_right_provider_that_says_wrongly_which_it_accepted_holds_up_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R1 signs for the right reports and tells the collector of others: what R2 says agrees with what all signed."""
    honest = MomentsServicer.CheckBatch

    async def lie(self: MomentsServicer, request: Any, context: Any) -> moments_pb2.CheckBatchResponse:
        answer = await honest(self, request, context)
        if self._node.role_in(self._node.studies.get(request.attempt.study_id)) == "R1":
            answer.accepted = bytes(len(answer.accepted))
        return answer

    monkeypatch.setattr(MomentsServicer, "CheckBatch", lie)
    ran = run("moments", lambda _: None)
    assert [ran.ask(receipt) for receipt in ran.receipts] == [0] * PEOPLE
    capsys.readouterr()
