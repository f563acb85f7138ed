"""A study whose rows can be told apart, on real nodes, and what must be true of it when it is closed."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import trimask
from trimask_cli import owner
from trimask_client import SealedSubmission
from trimask_core.basics.errors import TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.moments.report import MomentsSecret
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key, load_party, read_secret
from trimask_core.study.signed import SignedStudy, approve, needs_commitment
from trimask_core.submit.submission import Receipt
from trimask_patience import patience
from trimask_server.local.keys import NodePlace, make_keys
from trimask_simulation.people import BLOCK_ROWS, GROUPS, multiplicities
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

__all__ = ["FaultLab", "wait_until"]

_DEFINITION = f"""
title = "Told apart"
purpose = "An exact study for fault tests"
contact = "nobody@example.org"
[privacy]
exact = true
[collection]
block_rows = {BLOCK_ROWS}
release_rows = {2 * BLOCK_ROWS}
[[attributes]]
name = "group"
kind = "categorical"
levels = {[f"g{group}" for group in range(GROUPS)]}
[[attributes]]
name = "x"
kind = "continuous"
minimum = -1
maximum = 1
"""
_SAMPLE = 24


def wait_until(ready: Callable[[], bool], what: str, seconds: float = 180.0) -> None:
    """Ask until it is so; errors on the way (a collector that is down) only mean not yet."""
    begun, pause = time.monotonic(), threading.Event()
    last = ""
    while time.monotonic() < begun + patience(seconds):
        try:
            if ready():
                return
        except TrimaskError as error:
            last = str(error)
        pause.wait(0.1)
    raise AssertionError(f"still waiting for {what} after {seconds:.0f} s{': ' if last else ''}{last}")


class FaultLab:
    """Keys for nodes at given places, and studies on them."""

    false: frozenset[int] = frozenset()  # the people whose devices send false reports
    smallest_block = BLOCK_ROWS

    def __init__(self, folder: Path, places: list[NodePlace] | None = None) -> None:
        """Make keys for nodes at these places, or take those that are there."""
        self.folder = folder
        self.parties = (
            make_keys(folder, places)
            if places is not None
            else {path.parent.name: load_party(path) for path in sorted(folder.glob("*/node.json"))}
        )
        self.owner = folder / "owner"

    def open_study(self) -> SignedStudy:
        """A new study, approved by everybody and open."""
        study = self.new_study()
        signed = SignedStudy(study)
        for name in study.parties:
            key = SigningKey(read_secret(self.folder / name / "identity.key"))
            commitment = b""
            if needs_commitment(study, name):
                commitment = MomentsSecret.load(self.folder / name).commitment(study.id)
            signed = signed.with_approval(approve(study, key, 1, commitment))
        owner.open_study(signed, self.owner)
        return signed

    def new_study(self) -> Study:
        """A study of all these nodes."""
        roles = sorted(self.parties)
        return create_study(
            load_definition(_DEFINITION),
            self.parties["collector"],
            [self.parties[role] for role in roles if role.startswith("R")],
            [self.parties[role] for role in roles if role.startswith("L")],
            (self.folder / "authority" / "ca.pem").read_text(),
            int(time.time() * 1000),
            SystemRandom(),
            admission_key(self.owner).public,
        )

    def close(self, study: Study) -> None:
        """Close and wait until everything is published, through whatever is still happening."""

        def closed() -> bool:
            if owner.study_status(study).state == "open":
                owner.close_study(study, self.owner)
            return owner.study_status(study).state == "closed"

        wait_until(closed, "the study to close")

    def published(self, study: Study) -> list[int]:
        """How often each person is in what was published."""
        total = np.zeros((GROUPS + 2, GROUPS + 2))
        for dataset in self.datasets(study):
            total += dataset.gram(units="scaled").to_numpy()
        return multiplicities(total)

    def datasets(self, study: Study) -> list[trimask.Dataset]:
        """What a researcher gets, verified."""
        with trimask.connect(
            study.collector.address, roots=self.owner / "ca.pem", tls_name=study.collector.tls_name,
            cache=self.folder / "cache",
        ) as connection:  # fmt: skip
            return [connection.dataset(info.id) for info in connection.datasets(study.id)]

    def check(
        self, study: Study, sent: dict[int, SealedSubmission], receipts: dict[int, Receipt]
    ) -> dict[str, int]:
        """Every person once; the same blocks everywhere, none too small; nothing left."""
        found = self.published(study)
        wrong = {
            person: count
            for person, count in enumerate(found)
            if count != (person in receipts and person not in self.false)
        }
        assert not wrong, f"published a wrong number of times: {wrong}"
        for receipt in receipts.values():
            receipt.verify(study)
        blocks = self._blocks("collector", "collector", study)
        for role in sorted(self.parties):
            if not role.startswith("R"):
                continue
            assert self._blocks(role, "right", study) == blocks, f"{role} has other blocks than the collector"
            held, unbound = self.query(
                role, "right", study,
                "SELECT count(payload), sum(block_id IS NULL) FROM submissions WHERE study_id = ?",
            )[0]  # fmt: skip
            assert held == 0, f"{role} still holds {held} payloads"
            assert not unbound, f"{role} has {unbound} rows in no block"
        rows = [row for joined in blocks.values() for row in _split(joined)]
        assert len(rows) == len(set(rows)) == len(receipts), "a row is in two blocks, or in none"
        assert min(len(joined) // 16 for joined in blocks.values()) >= self.smallest_block, (
            "a block is too small"
        )
        self.check_more(study)
        self._nothing_left(sent)
        return {"rows": len(rows), "blocks": len(blocks)}

    def check_more(self, study: Study) -> None:
        """What its suite promises besides."""

    def query(self, role: str, kind: str, study: Study, sql: str) -> list[tuple[object, ...]]:
        paths = list((self.folder / role).rglob(f"{kind}.sqlite3"))
        assert len(paths) == 1, f"{role} has {len(paths)} stores"
        connection = sqlite3.connect(f"file:{paths[0]}?mode=ro", uri=True)
        try:
            return connection.execute(sql, (study.id,)).fetchall()
        finally:
            connection.close()

    def _blocks(self, role: str, kind: str, study: Study) -> dict[bytes, bytes]:
        rows = self.query(role, kind, study, "SELECT block_id, submission_ids FROM blocks WHERE study_id = ?")
        return {bytes(block): bytes(joined) for block, joined in rows}  # type: ignore[call-overload]

    def _nothing_left(self, sent: dict[int, SealedSubmission]) -> None:
        samples = {part[-_SAMPLE:] for submission in sent.values() for part in submission.sealed}
        for role in self.parties:
            for path in (self.folder / role).rglob("*"):
                if path.is_file():
                    data = path.read_bytes()
                    assert not any(sample in data for sample in samples), (
                        f"{role}: {path.name} has a component"
                    )


def _split(joined: bytes) -> list[bytes]:
    return [joined[i : i + 16] for i in range(0, len(joined), 16)]
