"""A released version's stores, a study under way and a published dataset of each suite, which every later version must take.

    make frozen        # writes tests/upgrades/<VERSION>/rows.tar.xz and moments.tar.xz anew

Run once more just before a release, with the program that is released, and never again for that version. What is in an
archive: the folders of all nodes as a kill would leave them, the owner's, the folder of a device that was interrupted, and
`facts.json`. Its keys are nobody's. Certificates end after a year; `opened` issues new ones from the archive's authority.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import trimask
from trimask_client import Client
from trimask_client.transport import Unreachable
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import Receipt
from trimask_lab import Lab, some_people
from trimask_moments import moments_people, open_moments
from trimask_server.local.cluster import ThreadCluster
from trimask_server.local.keys import Authority, issue_certificate

__all__ = ["PORTS", "PUBLISHED", "SUITES", "WAITING", "Frozen", "answers", "exactly", "freeze", "opened"]

ROOT = Path(__file__).parents[2]
ARCHIVES = ROOT / "tests" / "upgrades"
SUITES = ("rows", "moments")
# In the signed studies, so for ever: below the ports that tests lend each other.
PORTS = {"rows": 10_140, "moments": 10_180}
PUBLISHED, WAITING, LATE = (
    48,
    60,
    5,
)  # of the study that has closed, of the one under way, of devices of today


def answers(suite: str, count: int, first: int = 0) -> list[dict[str, Any]]:
    """What people answer, the same for ever."""
    return moments_people(count, first) if suite == "moments" else some_people(200, 7)[first : first + count]


@dataclass(frozen=True)
class Frozen:
    """An archive, unpacked, and its cluster running the program of today."""

    lab: Lab
    done: SignedStudy
    under_way: SignedStudy
    receipts: list[Receipt]
    facts: dict[str, Any]
    dataset: Path
    device: Path


def _open_study(lab: Lab, suite: str) -> SignedStudy:
    if suite == "moments":
        return open_moments(lab, release_rows=40)
    return lab.open_study()


def _lab(suite: str, folder: Path) -> Lab:
    with mock.patch("trimask_lab.free_base_port", return_value=PORTS[suite]):
        return Lab(folder, right=2, left=0) if suite == "moments" else Lab(folder)


def freeze(suite: str, archive: Path) -> None:
    """Make one archive."""
    with tempfile.TemporaryDirectory(prefix="trimask-frozen-") as name:
        folder = Path(name) / "cluster"
        lab = _lab(suite, folder)
        with ThreadCluster(folder) as lab.cluster:
            done = _open_study(lab, suite)
            with Client(done) as client:
                receipts = [client.submit(person) for person in answers(suite, PUBLISHED)]
            lab.close(done.study)
            (dataset,) = lab.datasets(done.study)
            shutil.copytree(dataset.path.parent, folder / "dataset")
            under_way = _open_study(lab, suite)
            with Client(under_way) as client:
                for person in answers(suite, WAITING):
                    client.submit(person)
            lab.wait(
                under_way.study,
                lambda now: now.pending_rows + now.pooled_rows == WAITING and now.pooled_rows > 0,
            )
            _interrupted(under_way, folder / "device", answers(suite, 1, WAITING)[0])
        facts = {"published": PUBLISHED, "waiting": WAITING, "right": lab.right, "left": lab.left}
        (folder / "facts.json").write_text(json.dumps(facts))
        (folder / "done.json").write_text(done.to_json())
        (folder / "under-way.json").write_text(under_way.to_json())
        (folder / "receipts.json").write_text(json.dumps([receipt.to_json() for receipt in receipts[:3]]))
        shutil.rmtree(folder / "cache", ignore_errors=True)
        for log in folder.rglob("*.log"):
            log.unlink()
        archive.parent.mkdir(exist_ok=True)
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(folder, ".")


def _interrupted(signed: SignedStudy, folder: Path, person: dict[str, Any]) -> None:
    """A device that made its submission and reached nobody: its link is cut before the first call."""
    lost = mock.patch.object(Client, "_upload", side_effect=Unreachable("the link was cut"))
    with Client(signed, folder=folder, attempts=1) as client, lost, pytest.raises(Unreachable):
        client.submit(person)


@contextmanager
def _alone(suite: str) -> Iterator[None]:
    """An archive's signed studies name its ports: one test at a time on this machine has them."""
    with (Path(tempfile.gettempdir()) / f"trimask-frozen-{suite}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def opened(suite: str, archive: Path, folder: Path) -> Iterator[Frozen]:
    """Unpack an archive, and run its nodes with the program of today."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    facts = json.loads((folder / "facts.json").read_text())
    lab = object.__new__(Lab)
    lab.folder, lab.right, lab.left, lab.database = folder, facts["right"], facts["left"], ""
    lab.owner = folder / "owner"
    done, under_way = (
        SignedStudy.from_json((folder / f"{name}.json").read_text()) for name in ("done", "under-way")
    )
    lab.parties = dict(under_way.study.parties)
    authority = Authority(
        (folder / "authority" / "ca.pem").read_bytes(), (folder / "authority" / "ca.key").read_bytes()
    )
    for name, party in {**lab.parties, "owner": None}.items():
        fresh = issue_certificate(authority, "owner.trimask.local" if party is None else party.tls_name)
        (folder / name / "tls.pem").write_bytes(fresh.certificate)
        (folder / name / "tls.key").write_bytes(fresh.private_key)
    receipts = [Receipt.from_json(item) for item in json.loads((folder / "receipts.json").read_text())]
    with _alone(suite), ThreadCluster(folder) as lab.cluster:
        yield Frozen(lab, done, under_way, receipts, facts, folder / "dataset", folder / "device")


def exactly(study: Study, people: list[dict[str, Any]], dataset: trimask.Dataset) -> None:
    """A dataset of an exact study is of exactly these people."""
    rows = np.array([study.schema.encode(person) for person in people])
    exact, found = rows.T @ rows, dataset.gram(units="scaled").to_numpy()
    assert found.shape == exact.shape, (found.shape, exact.shape)
    assert np.abs(found - exact).max() <= 1e-5 * np.abs(exact).max()


def main() -> int:
    """Both archives of the version that VERSION names."""
    version = (ROOT / "VERSION").read_text(encoding="ascii").strip()
    for suite in SUITES:
        archive = ARCHIVES / version / f"{suite}.tar.xz"
        freeze(suite, archive)
        print(f"{archive.relative_to(ROOT)}: {archive.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
