"""The owner and the devices of one study, as a program of its own: run where the nodes can be reached from."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from trimask_client import Client
from trimask_core.study.signed import SignedStudy
from trimask_faults.lab import FaultLab, wait_until
from trimask_simulation.people import BLOCK_ROWS, PEOPLE, answers_of

__all__ = ["main"]


def main(folder: Path) -> None:
    """Say "masking" when blocks are under way, "checked" and the counts when every promise was seen kept."""
    lab = FaultLab(folder)
    opened: list[SignedStudy] = []

    def open_study() -> bool:
        opened.append(lab.open_study())
        return True

    wait_until(open_study, "the nodes to start", 120)
    (signed,) = opened
    sent, receipts = {}, {}
    pause = threading.Event()
    with Client(
        signed, attempts=200, timeout_seconds=3.0, sleep=lambda s: pause.wait(min(s, 0.3)) and None
    ) as client:
        for person in range(PEOPLE):
            sent[person] = client.prepare(answers_of(person))
            receipts[person] = client.send(sent[person])
            if person == 2 * BLOCK_ROWS + 2:
                print("masking", flush=True)
    lab.close(signed.study)
    print("checked", json.dumps(lab.check(signed.study, sent, receipts)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
