"""`trimask study close` destroys nothing unasked, and what it foretells is what the collector does."""

from __future__ import annotations

import asyncio
import io
import json
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trimask_cli import owner
from trimask_cli.study_file import seed_file, write_seed, write_signed
from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_core.moments import report as payloads
from trimask_core.moments.field import P
from trimask_core.study.definition import Study
from trimask_core.study.progress import Closing, closing_of
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import Receipt
from trimask_lab import Lab, some_people
from trimask_moments import moments_people, open_moments
from trimask_row_rogue import RowRogue
from trimask_server.collector import driver
from trimask_server.collector.batches import Batches
from trimask_server.right.rows import RowStore
from trimask_server.store.studies import StudyRegistry
from trimask_terminal.program import main


@dataclass
class Owner:
    """Somebody at a terminal, with a study's file."""

    lab: Lab
    signed: SignedStudy
    file: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def close(self, *options: str, typed: str = "") -> tuple[int, str]:
        """The command's status, and what it printed."""
        self.monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        self.capsys.readouterr()
        status = main(["study", "close", str(self.file), "--owner", str(self.lab.owner), *options])
        return status, self.capsys.readouterr().out

    def collect(self, count: int, total: int) -> list[Receipt]:
        """So many people take part; wait until the collector has counted all."""
        with Client(self.signed) as device:
            sent = [device.submit(answers) for answers in some_people(count, seed=count)]
        self.lab.wait(
            self.signed.study, lambda now: now.pending_rows + now.masking_rows + now.pooled_rows == total
        )
        return sent

    def withdraw(self, receipt: Receipt) -> None:
        """Somebody who took part withdraws."""
        _withdraw(self.signed, receipt)

    def waiting(self, sent: list[Receipt]) -> list[Receipt]:
        """Those of them who are in no block, once one block of 24 is pooled."""
        self.lab.wait(self.signed.study, lambda now: now.pooled_rows == 24)
        blocks = self.lab.query(
            "collector", "SELECT submission_ids FROM blocks WHERE study_id = ?", (self.signed.study.id,)
        )
        return [one for one in sent if not any(one.submission_id in block for (block,) in blocks)]


def _withdraw(signed: SignedStudy, receipt: Receipt) -> None:
    with Client(signed) as device:
        for provider in range(1, len(signed.study.right) + 1):
            device.withdraw(receipt.withdrawal_key, provider)


@pytest.fixture
def at_terminal(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Owner]:
    signed = lab.open_study()  # blocks of 24, releases of 48
    file = tmp_path / "study.json"
    write_signed(file, signed.without_seed(), replace=False)
    write_seed(seed_file(file), signed.mask_seed)
    yield Owner(lab, signed, file, capsys, monkeypatch)
    lab.close(signed.study)


def test_repro_too_few_stay_until_somebody_says_so(at_terminal: Owner) -> None:
    at_terminal.collect(31, total=31)
    for typed in ("", "n\n"):
        status, said = at_terminal.close(typed=typed)
        assert status == 1
        assert "31 complete submissions will be erased for ever" in said
        assert "17 more would be enough" in said
        assert "stays open" in said
    status, said = at_terminal.close("--dry-run")
    assert (status, "Nothing was done" in said) == (1, True)
    status, said = at_terminal.close("--json")
    assert (status, json.loads(said)["state"]) == (1, "open")
    assert json.loads(said)["outcome"]["erased"] == 31

    at_terminal.collect(19, total=50)
    status, said = at_terminal.close("--dry-run")
    assert (status, "50 complete submissions will be published." in said) == (0, True)
    status, said = at_terminal.close(typed="y\n")
    assert (status, "Closing" in said) == (0, True)
    ended = at_terminal.lab.wait(at_terminal.signed.study, lambda now: now.state == "closed")
    assert ended.published_rows == 50
    assert at_terminal.close()[1].startswith("The study is closed already.")


def test_erases_what_it_said_once_told(at_terminal: Owner) -> None:
    at_terminal.collect(5, total=5)
    status, said = at_terminal.close("--yes")
    assert status == 0
    assert "5 complete submissions will be erased for ever" in said
    ended = at_terminal.lab.wait(at_terminal.signed.study, lambda now: now.state == "closed")
    assert (ended.published_rows, ended.pending_rows) == (0, 0)


def test_repro_a_study_that_is_closed_has_its_last_numbers(
    at_terminal: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status that was read while a study closed said: closed, and 5 submissions wait that had been erased."""
    erase, asked = Batches.erase_unused, asyncio.Event()

    async def erase_while_asked(self: Batches) -> int:
        await asked.wait()
        return await erase(self)

    def once_closed(studies: StudyRegistry) -> Callable[[bytes], Awaitable[str]]:
        state_now = studies.state_now

        async def wait(study_id: bytes) -> str:
            asked.set()
            while await state_now(study_id) != "closed":  # noqa: ASYNC110 - what is waited for is not ours to signal
                await asyncio.sleep(0.01)
            return "closed"

        return wait

    at_terminal.collect(5, total=5)
    monkeypatch.setattr(Batches, "erase_unused", erase_while_asked)
    assert at_terminal.close("--yes")[0] == 0
    for node in at_terminal.lab.nodes("collector"):
        monkeypatch.setattr(node.context.studies, "state_now", once_closed(node.context.studies))
    status = owner.study_status(at_terminal.signed.study)
    assert (status.state, status.pending_rows) == ("closed", 0)


def test_repro_a_draw_that_was_begun_while_the_study_was_open_is_not_its_last(lab: Lab) -> None:
    """One provider's list was from before the last ten came and before the close: that draw gave no block, and no other was
    begun. All 40 were erased, of whom `close` had said that they will be published."""
    with RowRogue.at_work(lab, 30, release_rows=36) as collector:
        collector.freeze(roles=["R2"])
        with Client(collector.signed) as device:
            for answers in some_people(10, seed=10):
                device.submit(answers)
    ended = lab.close(collector.study)
    assert (ended.published_rows, ended.pending_rows) == (40, 0)


def test_repro_a_closed_study_is_not_opened_again(
    at_terminal: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    open_it = ["study", "open", str(at_terminal.file), "--owner", str(at_terminal.lab.owner)]
    assert main(open_it) == 0  # open already: nothing changes
    at_terminal.lab.close(at_terminal.signed.study)
    capsys.readouterr()
    assert main([*open_it, "--wait"]) == 4  # and a refusal is not waited out
    assert "is closed and cannot be opened again" in capsys.readouterr().err


def test_a_study_opens_by_itself_at_its_time_and_not_before(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signed = lab.new_study()
    file = tmp_path / "study.json"
    write_signed(file, signed.without_seed(), replace=False)
    write_seed(seed_file(file), signed.mask_seed)
    opening = ["study", "open", str(file), "--owner", str(lab.owner), "--json", "--at"]
    assert main([*opening, "2100-01-31T08:00"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["opens_ms"]) == ("scheduled", 4105065600000)
    with pytest.raises(Refused, match="opens by itself on 2100-01-31 08:00 UTC"):
        owner.study_status(signed.study)
    with Client(signed, attempts=1) as device, pytest.raises(Refused) as refused:  # no node has heard of it
        device.submit(some_people(1, seed=1)[0])
    assert refused.value.reason == "unknown_study"
    early, made = owner.new_token(signed.study, lab.owner, "Ada", ["datasets"], 4_105_065_600_000, None)
    assert early.startswith("trimask_")
    assert [item["id"] for item in owner.tokens(signed.study, lab.owner)] == [made["id"]]
    with pytest.raises(Refused) as stranger:
        owner.new_token(lab.new_study().study, lab.owner, "Ada", ["datasets"], 4_105_065_600_000, None)
    assert stranger.value.reason == "unknown_study"

    lab.stop("collector")  # and a collector that is started again keeps it in mind
    lab.start("collector")
    due = int(time.time() * 1000) + 1000
    owner.open_study(signed, lab.owner, due)  # takes the place of what was said before
    lab.stop("collector")
    lab.until(lambda: time.time() * 1000 > due)
    lab.start("collector")
    lab.until(lambda: not lab.query("collector", "SELECT study_id FROM scheduled_opens"))
    assert owner.study_status(signed.study).state == "open"
    with Client(signed) as device:
        device.submit(some_people(1, seed=1)[0])
    lab.close(signed.study)


def test_a_study_closes_by_itself_with_so_many_people(at_terminal: Owner) -> None:
    study = at_terminal.signed.study
    sent = at_terminal.collect(24, total=24)
    status, said = at_terminal.close("--at-people", "30", typed="n\n")
    assert (status, "30 complete submissions will be erased for ever" in said) == (1, True)
    status, said = at_terminal.close(
        "--at-people", "50", "--at", "2100-01-31T18:00", "--yes"
    )  # the last order counts
    assert (status, "50 complete submissions will be published." in said) == (0, True)
    assert "Closes by itself on 2100-01-31 18:00:00 UTC or with 50 people, whichever is first." in said
    at_terminal.withdraw(sent[0])
    sent += at_terminal.collect(26, total=49)
    assert owner.study_status(study).state == "open"
    with Client(at_terminal.signed) as device:
        device.submit(some_people(1, seed=1)[0])
    ended = at_terminal.lab.wait(study, lambda now: now.state == "closed")
    assert (ended.published_rows, ended.note) == (50, "")


def test_a_number_is_reached_when_every_right_provider_counts_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was restored from a backup has lost two: the study goes on until it counts as many, or is told to close."""
    people, asked = RowStore.people, 0

    async def counted(self: RowStore, study_id: bytes) -> int:
        nonlocal asked
        asked += 1
        lost = 2 if self.database.generation == lab.nodes("R2")[0].context.database.generation else 0
        return await people(self, study_id) - lost

    monkeypatch.setattr(RowStore, "people", counted)
    signed = open_moments(lab, release_rows=3)
    study = signed.study
    with Client(signed) as device:
        for answers in moments_people(4):
            device.submit(answers)
        # Given later than that: whoever comes while intake is paused is asked to come again in a minute.
        owner.close_study(study, lab.owner, people=3)
        lab.until(lambda: asked)
        lab.wait(study, lambda now: now.state == "open" and now.pooled_rows == 4)
        lab.until(lambda: not any(_paused(lab, study, role) for role in ("R1", "R2", "R3")))
        device.submit(moments_people(1, 4)[0])
    assert lab.wait(study, lambda now: now.state == "closed").published_rows == 5

    lost = open_moments(lab, release_rows=3)
    with Client(lost) as device:
        for answers in moments_people(4):
            device.submit(answers)
    owner.close_study(lost.study, lab.owner, people=3)
    owner.close_study(lost.study, lab.owner)
    assert lab.wait(lost.study, lambda now: now.state == "closed").published_rows == 4


def test_repro_a_number_that_is_reached_is_noticed_by_whoever_counted_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one was counted after the order had been looked at: unless another provider told of the same person later,
    the study slept a minute before it closed."""
    news, (first,) = RowStore.news, [node.context.database.generation for node in lab.nodes("R1")[:1]]
    held = threading.Event()

    async def told_once(self: RowStore, after: int) -> tuple[int, list[bytes]]:
        newest, found = await news(self, after)
        if self.database.generation != first:
            return newest, []
        return (newest, found) if held.is_set() else (after, [])

    monkeypatch.setattr(RowStore, "news", told_once)
    monkeypatch.setattr(driver, "_LONGEST_SLEEP_SECONDS", math.inf)
    signed = open_moments(lab, release_rows=6)
    owner.close_study(signed.study, lab.owner, people=3)
    with Client(signed) as device:
        for there, answers in enumerate(moments_people(3), 1):
            held.clear()
            device.submit(answers)
            held.set()  # every provider has it, and one tells of it
            if there < 3:
                lab.wait(signed.study, lambda now, there=there: now.pending_rows == there)  # type: ignore[misc]
    ended = lab.wait(signed.study, lambda now: now.state == "closed", seconds=30)
    assert ended.note.startswith("nothing was published: a study without noise opens sums of 6 people")


def test_repro_who_withdraws_while_waiting_is_not_counted(at_terminal: Owner) -> None:
    """Blocks of 24, releases of 48: it announced 48, and erased all 47."""
    study, sent = at_terminal.signed.study, at_terminal.collect(48, total=48)
    at_terminal.withdraw(at_terminal.waiting(sent)[0])
    at_terminal.lab.wait(study, lambda now: now.pending_rows == 23, seconds=30)
    status, said = at_terminal.close("--dry-run")
    assert (status, "47 complete submissions will be erased for ever" in said) == (1, True)
    at_terminal.collect(1, total=48)
    status, said = at_terminal.close("--yes")
    assert (status, "48 complete submissions will be published." in said) == (0, True)
    ended = at_terminal.lab.wait(study, lambda now: now.state == "closed")
    assert (ended.published_rows, ended.note) == (48, "")


def test_repro_reports_that_are_withdrawn_are_not_counted(lab: Lab) -> None:
    """Five were submitted and two withdrawn, and the status said five for ever."""
    signed = open_moments(lab, release_rows=3)
    study = signed.study
    with Client(signed) as device:
        sent = [device.submit(answers) for answers in moments_people(2)]
    lab.wait(study, lambda now: now.pending_rows == 2)
    _withdraw(signed, sent[1])
    lab.wait(study, lambda now: now.pending_rows == 1, seconds=30)
    with Client(signed) as device:
        sent.append(device.submit(moments_people(1, 5)[0]))
    lab.wait(study, lambda now: now.pending_rows == 2)
    _withdraw(signed, sent[0])
    lab.wait(study, lambda now: now.pending_rows == 1, seconds=30)
    foretold = closing_of(study, pending=1, masking=0, pooled=0)
    assert (foretold.published, foretold.erased) == (0, 1)
    ended = lab.close(study)
    assert (ended.published_rows, "nothing was published" in ended.note) == (0, True)


def test_repro_a_false_report_is_not_promised(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two were added up and a false one waited: three were announced, and both erased when the third was refused."""
    signed = open_moments(lab, release_rows=3)
    study, honest = signed.study, payloads.build_report

    def false(*given: Any) -> list[int]:
        elements = honest(*given)
        return [(elements[0] + 1) % P, *elements[1:]]

    def submit(first: int, report: Any) -> None:
        monkeypatch.setattr(payloads, "build_report", report)
        with Client(signed) as device:
            device.submit(moments_people(1, first)[0])

    submit(0, honest)
    submit(1, honest)
    submit(2, false)
    lab.wait(study, lambda now: (now.pending_rows, now.pooled_rows) == (0, 2))
    submit(3, false)
    now = lab.wait(study, lambda now: now.pending_rows == 1)
    told = closing_of(study, pending=1, masking=0, pooled=now.pooled_rows)
    assert (told.published, told.erased) == (3, 0)
    owner.close_study(study, lab.owner, told)
    now = lab.wait(study, lambda now: now.state not in ("paused", "closing"))
    assert (now.state, now.pooled_rows) == ("open", 2)
    assert "of those that are there now 0 would be, and 2 erased" in now.note
    lab.until(lambda: not any(_paused(lab, study, role) for role in ("R1", "R2", "R3")))
    submit(4, honest)
    lab.wait(study, lambda now: now.pending_rows == 1)
    owner.close_study(study, lab.owner, told)
    assert lab.wait(study, lambda now: now.state == "closed").published_rows == 3


def _paused(lab: Lab, study: Study, role: str) -> bool:
    return lab.query(role, "SELECT state FROM studies WHERE study_id = ?", (study.id,)) != [("open",)]


def test_nothing_is_announced_and_then_erased(at_terminal: Owner) -> None:
    """Somebody withdraws between what was said and the order: the study goes on, whoever is told so."""
    study, sent = at_terminal.signed.study, at_terminal.collect(48, total=48)
    waiting = at_terminal.waiting(sent)
    told = Closing(48, 0, 0, "")
    at_terminal.monkeypatch.setattr(
        "trimask_cli.commands.study_lifecycle._foreseen", lambda study: (owner.study_status(study), told)
    )
    at_terminal.withdraw(waiting[0])
    status, said = at_terminal.close("--yes")
    assert status == 1
    assert (
        "Not closed: 48 complete submissions were to be published; of those that are there now 0 would be"
        in said
    )
    assert "47 erased" in said
    assert "--erase" in said
    status, said = at_terminal.close("--yes", "--json")
    assert (status, json.loads(said)["state"]) == (1, "open")
    assert json.loads(said)["note"].startswith("not closed: 48")
    at_terminal.lab.until(
        lambda: not any(_paused(at_terminal.lab, study, role) for role in ("R1", "R2", "R3"))
    )
    at_terminal.withdraw(waiting[1])  # as before
    at_terminal.collect(2, total=48)
    assert at_terminal.close("--yes")[0] == 0
    ended = at_terminal.lab.wait(study, lambda now: now.state == "closed")
    assert (ended.published_rows, ended.note) == (48, "")


def test_an_owner_can_always_end_it(at_terminal: Owner) -> None:
    study = at_terminal.signed.study
    at_terminal.collect(5, total=5)
    told = Closing(48, 0, 0, "")
    at_terminal.monkeypatch.setattr(
        "trimask_cli.commands.study_lifecycle._foreseen", lambda study: (owner.study_status(study), told)
    )
    assert at_terminal.close("--yes")[0] == 1
    assert at_terminal.close("--yes", "--erase")[0] == 0
    ended = at_terminal.lab.wait(study, lambda now: now.state == "closed")
    assert (ended.published_rows, "nothing was published: 5 complete" in ended.note) == (0, True)


def test_a_paused_study_tells_devices_to_try_again(at_terminal: Owner) -> None:
    """A provider does not answer, so nothing can be counted: nobody is told that the study is closed."""
    lab, study = at_terminal.lab, at_terminal.signed.study
    (mine,) = at_terminal.collect(1, total=1)
    lab.stop("R3")
    owner.close_study(study, lab.owner, Closing(48, 0, 0, ""))
    state = "SELECT state FROM studies WHERE study_id = ?"
    lab.until(lambda: lab.query("R1", state, (study.id,)) == [("paused",)])
    assert owner.study_status(study).state == "paused"
    with Client(at_terminal.signed, attempts=1) as device:
        with pytest.raises(Refused) as refused:
            device.submit(some_people(1, seed=7)[0])
        assert (refused.value.reason, refused.value.reason.final) == ("study_paused", False)
        with pytest.raises(Refused) as refused:
            device.withdraw(mine.withdrawal_key, 1)
        assert refused.value.reason == "study_paused"
    lab.start("R3")
    lab.wait(study, lambda now: now.state == "open")
    lab.until(lambda: all(lab.query(role, state, (study.id,)) == [("open",)] for role in ("R1", "R2", "R3")))
    at_terminal.withdraw(mine)
    at_terminal.collect(2, total=2)
