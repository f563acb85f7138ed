"""A right provider restored from a backup, in the middle of a study: every row once, and nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_client import Client
from trimask_core.basics.errors import TrimaskError
from trimask_core.submit.release_files import split_ids
from trimask_lab import Lab, exact_gram, some_people
from trimask_patience import patience
from trimask_server.local.cluster import ThreadCluster
from trimask_terminal.program import main


def _use_postgres(folder: Path, url: str) -> None:
    with (folder / "node.toml").open("a") as file:
        file.write(f'[store]\nurl = "{url}"\n')


def _backup(lab: Lab, name: str, file: Path) -> None:
    config = str(lab.folder / name / "node.toml")
    assert main(["node", "backup", "--config", config, "--out", str(file)]) == 0
    assert file.stat().st_mode & 0o077 == 0
    assert main(["node", "backup", "--config", config, "--out", str(file)]) == 2  # never overwritten


def _restore(lab: Lab, cluster: ThreadCluster, name: str, file: Path, capsys: Any) -> None:
    command = ["node", "restore", "--config", str(lab.folder / name / "node.toml"), "--from", str(file)]
    capsys.readouterr()
    assert main(command) == 2
    assert "not empty" in capsys.readouterr().err
    assert main([*command, "--force"]) == 2
    assert "in use; stop the node" in capsys.readouterr().err
    before = cluster.nodes[name].context.database.generation
    cluster.stop(name)
    assert main([*command, "--force"]) == 0
    cluster.start(name)
    assert cluster.nodes[name].context.database.generation != before


def _send(client: Client, submissions: list[Any]) -> int:
    """Send again; how many the provider said were used up."""
    refused = 0
    for submission in submissions:
        try:
            client.send(submission)
        except TrimaskError as error:
            if "used before" not in str(error):
                raise
            refused += 1
    return refused


@pytest.mark.parametrize("when", ["amid rows", pytest.param("before the study", marks=pytest.mark.slow)])
def test_a_provider_is_restored_and_no_row_is_lost_or_used_twice(
    tmp_path: Path, capsys: Any, request: pytest.FixtureRequest, when: str
) -> None:
    """Block by block: 40 rows, a backup of R2, 20 more of which a block of 24 is pooled; R2 is restored.

    Made amid rows, the backup (of SQLite) has the block's rows, unerased, and lacks the last 20. Made before the study
    (on PostgreSQL), it lacks everything. Devices send what they have again, as they do without a receipt.
    """
    lab = Lab(tmp_path / "lab")
    early = when == "before the study"
    if early:
        _use_postgres(lab.folder / "R2", request.getfixturevalue("postgres_url"))
    file = tmp_path / "R2.backup"
    with ThreadCluster(lab.folder) as cluster:
        lab.cluster = cluster
        if early:
            _backup(lab, "R2", file)
        signed = lab.open_study()
        study = signed.study
        people = some_people(60, seed=5)
        with Client(signed) as client:
            submissions = [client.prepare(answers) for answers in people]
            assert _send(client, submissions[:40]) == 0
            if not early:
                _backup(lab, "R2", file)
            assert _send(client, submissions[40:]) == 0
            lab.wait(study, lambda status: status.pooled_rows == 24 and status.pending_rows == 36)
            _restore(lab, cluster, "R2", file, capsys)
            # Told of the block by the collector, R2 has none of its rows, and takes none of them in again.
            held = "SELECT count(*) FROM submissions WHERE payload IS NOT NULL"
            lab.wait(
                study, lambda _: _count(cluster, "SELECT count(*) FROM blocks WHERE state = 'erased'") == 1
            )
            ((planned,),) = lab.query("collector", "SELECT submission_ids FROM blocks")
            kept = sum(sent.submission_id not in split_ids(planned) for sent in submissions[:40])
            assert _count(cluster, held) == (0 if early else kept)
            # Rows of the block that the backup lacks are used up, and refused.
            assert _send(client, submissions) == (24 if early else 24 - (40 - kept))
        status = lab.close(study)
        assert status.note == ""
        datasets = lab.datasets(study)
        assert sum(dataset.rows for dataset in datasets) == 60
        total = sum(dataset.gram(units="scaled").to_numpy() for dataset in datasets)
        exact = exact_gram(study, people)
        assert np.abs(total - exact).max() <= 1e-7 * np.abs(exact).max()
        assert _count(cluster, held) == 0
        assert _count(cluster, "SELECT count(*) FROM data_keys") == 0


def test_a_closed_study_is_erased_at_a_provider_restored_later(tmp_path: Path, capsys: Any) -> None:
    lab = Lab(tmp_path / "lab")
    with ThreadCluster(lab.folder) as cluster:
        lab.cluster = cluster
        signed = lab.open_study()
        with Client(signed) as client:
            for answers in some_people(47, seed=6):
                client.submit(answers)
        _backup(lab, "R2", tmp_path / "backup")
        lab.close(signed.study)
        _restore(lab, cluster, "R2", tmp_path / "backup", capsys)
        assert _count(cluster, "SELECT count(*) FROM submissions WHERE payload IS NOT NULL") == 47
        cluster.stop("collector")  # it looks at its start, and every minute
        cluster.start("collector")
        lab.wait(
            signed.study,
            lambda _: _count(cluster, "SELECT count(*) FROM submissions WHERE payload IS NOT NULL") == 0,
        )
        lab.wait(
            signed.study, lambda _: cluster.nodes["R2"].context.studies.state(signed.study.id) == "closed"
        )
        # A moment after the state, in a transaction of its own.
        lab.wait(signed.study, lambda _: _count(cluster, "SELECT count(*) FROM data_keys") == 0)


@pytest.mark.slow
def test_a_block_whose_rows_were_lost_is_given_up(tmp_path: Path, capsys: Any) -> None:
    """The block is under way (a left provider is down) when R2 is restored to before its rows came."""
    lab = Lab(tmp_path / "lab")
    with ThreadCluster(lab.folder) as cluster:
        lab.cluster = cluster
        signed = lab.open_study()
        study = signed.study
        _backup(lab, "R2", tmp_path / "backup")
        cluster.stop("L1")
        people = some_people(96, seed=7)
        with Client(signed) as client:
            for answers in people[:48]:
                client.submit(answers)
            lab.wait(study, lambda status: status.masking_rows == 24)
            _restore(lab, cluster, "R2", tmp_path / "backup", capsys)
            cluster.start("L1")
            status = lab.wait(study, lambda status: status.masking_rows == 0)
            assert "restored from a backup" in status.note
            for answers in people[48:]:
                client.submit(answers)
        lab.close(study)
        # The 24 of the lost block and the 24 that R2 lost are gone; what came after is whole.
        datasets = lab.datasets(study)
        assert sum(dataset.rows for dataset in datasets) == 48
        total = sum(dataset.gram(units="scaled").to_numpy() for dataset in datasets)
        exact = exact_gram(study, people[48:])
        assert np.abs(total - exact).max() <= 1e-7 * np.abs(exact).max()


def test_a_collector_restored_to_before_a_draw_finds_it_again(tmp_path: Path, capsys: Any) -> None:
    """Right providers tell it the draw's number, and say again what they said; so it names the block that it has lost."""
    lab = Lab(tmp_path / "lab")
    with ThreadCluster(lab.folder) as cluster:
        lab.cluster = cluster
        signed = lab.open_study(release_rows=24)
        study = signed.study
        people = some_people(96, seed=7)
        with Client(signed) as client:
            for answers in people[:47]:
                client.submit(answers)
            _backup(lab, "collector", tmp_path / "backup")
            client.submit(people[47])
            lab.wait(study, lambda status: status.pooled_rows == 24 and status.pending_rows == 24)
            _restore(lab, cluster, "collector", tmp_path / "backup", capsys)
            for answers in people[48:]:
                client.submit(answers)
        status = lab.close(study)
        # The block that was pooled after the backup is lost with the factor that it was in.
        assert [block.rows for block in status.abandoned_blocks] == [24]
        assert sum(dataset.rows for dataset in lab.datasets(study)) == 72


def _count(cluster: ThreadCluster, query: str) -> int:
    """Of R2's store."""
    import asyncio

    store = cluster.nodes["R2"].context.database
    found = asyncio.run_coroutine_threadsafe(store.read(lambda tx: tx.row(query)), cluster._loop).result(
        patience(30)
    )
    assert found is not None
    return int(found[0])
