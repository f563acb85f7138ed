"""What every released version left behind is opened, served, closed and published by this one; and the next version's turn.

`trimask_frozen` makes the archives. The next version is made up: one more migration at R1, and one call that nobody has.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import grpc
import pytest

import trimask
from trimask_client import Client
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.refusals import Reason
from trimask_frozen import LATE, PUBLISHED, SUITES, WAITING, Frozen, answers, exactly, opened
from trimask_patience import patience
from trimask_server.store import database
from trimask_server.store.interface import portable
from trimask_server.store.sqlite import SqliteStore

ARCHIVES = sorted(Path(__file__).parent.glob("*/*.tar.xz"))
NEXT = portable(
    "2099-01-01 next",
    "CREATE TABLE next (x INTEGER); ALTER TABLE studies ADD COLUMN next INTEGER NOT NULL DEFAULT 5;",
)


def finish(found: Frozen, suite: str, meanwhile: int = 0) -> None:
    """People of today take part, an old device goes on, and the study closes: everybody is published once."""
    study = found.under_way.study
    with Client(found.under_way) as client:
        for person in answers(suite, LATE, WAITING + 1):
            client.submit(person)
    with Client(found.under_way, folder=found.device) as client:
        assert len(client.resume()) == 1
    status = found.lab.close(study)
    everybody = answers(suite, WAITING + 1 + LATE + meanwhile)
    assert status.published_rows == len(everybody)
    (dataset,) = found.lab.datasets(study)
    exactly(study, everybody, dataset)


def test_every_version_has_left_both_suites() -> None:
    versions = {path.parent.name for path in ARCHIVES}
    assert {f"{version}/{suite}" for version in versions for suite in SUITES} == {
        f"{path.parent.name}/{path.name.removesuffix('.tar.xz')}" for path in ARCHIVES
    }
    assert "0.1.0" in versions


@pytest.mark.parametrize(
    "archive", ARCHIVES, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}"
)
def test_what_a_version_left_is_opened_served_closed_and_published(archive: Path, tmp_path: Path) -> None:
    suite = archive.name.partition(".")[0]
    with opened(suite, archive, tmp_path) as found:
        # What was published is verified from the files of then, and served again.
        (served,) = found.lab.datasets(found.done.study)
        for dataset in (trimask.Dataset.open(found.dataset), served):
            exactly(found.done.study, answers(suite, PUBLISHED), dataset)
            for receipt in found.receipts:
                receipt.verify(found.done.study)
                assert dataset.standing(receipt) == "counted"
        finish(found, suite)


def test_the_next_version_beside_this_one(tmp_path: Path) -> None:
    """R1 goes to a next version in the middle of a study, which then closes; and what is refused, in words."""
    suite = "moments"
    (archive,) = [path for path in ARCHIVES if path.parent.name == "0.1.0" and suite in path.name]
    with opened(suite, archive, tmp_path) as found:
        lab = found.lab
        lab.stop("R1")
        steps = (*database.PROVIDER, NEXT)
        with mock.patch.object(database, "PROVIDER", steps):
            lab.start("R1")
        assert lab.query("R1", "SELECT DISTINCT next FROM studies") == [(5,)]
        # A call that only the next version knows: told to whoever makes it, and nothing else happens.
        with lab.channel_as("R1", "R2") as channel:
            call = channel.unary_unary("/trimask_proto.v1.NextService/Next")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"", timeout=patience(10))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]
        peers = lab.node("R1").context.peers

        async def ask() -> None:
            channel = peers.channel(lab.parties["R2"])
            await peers.call(channel.unary_unary("/trimask_proto.v1.NextService/Next"), b"", patience(10))

        with pytest.raises(Refused, match="its operator has to upgrade it") as refused:
            lab.on_loop(ask())
        assert refused.value.reason is Reason.UNREACHABLE
        # Different versions for a day, the collector's too from noon: people come at every hour, and both count them.
        present, hour = SystemClock.now_ms, 0
        with mock.patch.object(SystemClock, "now_ms", lambda clock: present(clock) + hour * 3_600_000):
            for hour in range(24):
                if hour == 12:
                    lab.stop("collector")
                    with mock.patch.object(database, "COLLECTOR", (*database.COLLECTOR, NEXT)):
                        lab.start("collector")
                with Client(found.under_way) as client:
                    client.submit(answers(suite, 1, WAITING + 1 + LATE + hour)[0])
                there = WAITING + 1 + hour
                lab.wait(found.under_way.study, lambda now, n=there: now.pending_rows + now.pooled_rows == n)
            finish(found, suite, meanwhile=24)
        # There is no way back but a backup.
        lab.stop("R1")
        with pytest.raises(ConfigError, match="written by a newer version of this program"):
            lab.start("R1")
        with pytest.raises(ConfigError, match=f"step {len(steps)}, this one knows {len(steps) - 1}"):
            SqliteStore(tmp_path / "R1" / "data" / "right.sqlite3", database.PROVIDER)
