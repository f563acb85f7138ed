"""A whole study with every node's store on one PostgreSQL server, restarted in the middle."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from trimask_client import Client
from trimask_lab import Lab, exact_gram, some_people
from trimask_patience import patience
from trimask_server.local.cluster import ThreadCluster
from trimask_terminal.program import main


@pytest.mark.slow
def test_a_study_with_all_its_stores_on_one_server(tmp_path: Path, postgres_url: str, capsys: Any) -> None:
    """Each node in its own schema; while rows come in every session is ended, and a master key is rotated."""
    lab = Lab(tmp_path / "lab")
    for config in lab.folder.glob("*/node.toml"):
        with config.open("a") as file:
            file.write(f'[store]\nurl = "{postgres_url}"\n')
    with ThreadCluster(lab.folder) as cluster, psycopg.connect(postgres_url, autocommit=True) as operator:
        lab.cluster = cluster
        signed = lab.open_study()
        people = some_people(60, seed=8)
        with Client(signed, attempts=12) as client:
            for number, answers in enumerate(people):
                client.submit(answers)
                if number % 20 == 10:
                    operator.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                        " AND pid <> pg_backend_pid()"
                    )
        capsys.readouterr()
        config = str(lab.folder / "R1" / "node.toml")
        assert main(["node", "rotate-storage-key", "--config", config, "--destroy-retired"]) == 0
        assert "Older master keys destroyed: 1." in capsys.readouterr().out
        lab.close(signed.study)
        datasets = lab.datasets(signed.study)
        assert sum(dataset.rows for dataset in datasets) == 60
        total = sum(dataset.gram(units="scaled").to_numpy() for dataset in datasets)
        exact = exact_gram(signed.study, people)
        assert np.abs(total - exact).max() <= 1e-7 * np.abs(exact).max()
        schemas = operator.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'trimask%' ORDER BY 1"
        )
        assert [name for (name,) in schemas] == [
            f"trimask_{name}" for name in ("collector", "l1", "l2", "r1", "r2", "r3")
        ]
        for name in ("collector", "R1", "R2", "R3"):
            keys = asyncio.run_coroutine_threadsafe(
                cluster.nodes[name].context.database.read(lambda tx: tx.rows("SELECT scope FROM data_keys")),
                cluster._loop,
            ).result(patience(30))
            assert keys == []
