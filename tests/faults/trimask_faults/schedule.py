"""One seed: people submit from several threads while random nodes are killed and started again."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trimask_client import Client, SealedSubmission
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import Receipt
from trimask_faults.lab import FaultLab
from trimask_faults.moments_lab import FALSE, MomentsFaultLab
from trimask_patience import patience
from trimask_server.local.cluster import ProcessCluster, free_base_port
from trimask_server.local.keys import node_places
from trimask_simulation.moments_people import false_devices
from trimask_simulation.people import PEOPLE, answers_of

__all__ = ["Outcome", "cluster_of", "run_schedule"]

_DEVICES = 3
_LOAD_SECONDS = 3.0  # over which people's submissions are spread, and within which kills begin


@dataclass(frozen=True)
class Outcome:
    """How a schedule went."""

    seed: int
    kills: tuple[tuple[float, str, float], ...]  # after so many seconds, whom, down for how long
    counts: dict[str, int]
    seconds: float


@contextlib.contextmanager
def cluster_of(suite: str, folder: Path) -> Iterator[tuple[FaultLab, ProcessCluster]]:
    """Real processes for studies of a suite. In the moments suite some devices send false reports."""
    with contextlib.ExitStack() as stack:
        lab: FaultLab
        if suite == "rows":
            # Four right providers, so that components have tags.
            lab = FaultLab(folder, node_places(4, 2, "127.0.0.1", free_base_port(14)))
        else:
            lab = MomentsFaultLab(folder, node_places(3, 0, "127.0.0.1", free_base_port(8)))
            stack.enter_context(false_devices(FALSE, random.Random(f"false reports in {suite}")))
        yield lab, stack.enter_context(ProcessCluster(lab.folder))


def _submit(
    signed: SignedStudy,
    seed: int,
    device: int,
    sent: dict[int, SealedSubmission],
    receipts: dict[int, Receipt],
) -> None:
    chance, pause = random.Random(f"device {device} {seed}"), threading.Event()
    people = range(device, PEOPLE, _DEVICES)
    with Client(
        signed, attempts=200, timeout_seconds=5.0, sleep=lambda s: pause.wait(min(s, 0.3)) and None
    ) as client:
        for person in people:
            pause.wait(chance.uniform(0, 2 * _LOAD_SECONDS / len(people)))
            sent[person] = client.prepare(answers_of(person))
            receipts[person] = client.send(sent[person])


def _down(cluster: ProcessCluster, name: str, after: float, pause: float, begun: float) -> None:
    clock = threading.Event()
    clock.wait(max(0.0, begun + after - time.monotonic()))
    cluster.kill(name)
    clock.wait(pause)
    cluster.start(name)
    cluster.wait_ready(name, 120)


def run_schedule(lab: FaultLab, cluster: ProcessCluster, seed: int) -> Outcome:
    """Run a seed; `AssertionError` if a promise was broken."""
    chance = random.Random(f"schedule {seed}")
    names = chance.sample(sorted(cluster.nodes), chance.randint(2, min(4, len(cluster.nodes))))
    kills = tuple(
        sorted(
            (chance.uniform(0.0, 2 * _LOAD_SECONDS), name, chance.choice((0.0, chance.uniform(0, 2))))
            for name in names
        )
    )
    begun = time.monotonic()
    signed = lab.open_study()
    sent: dict[int, SealedSubmission] = {}
    receipts: dict[int, Receipt] = {}
    start = time.monotonic()
    threads = [
        threading.Thread(target=_submit, args=(signed, seed, device, sent, receipts))
        for device in range(_DEVICES)
    ] + [
        threading.Thread(target=_down, args=(cluster, name, after, pause, start))
        for after, name, pause in kills
    ]
    for thread in threads:
        thread.start()
    for thread in threads[:_DEVICES]:
        thread.join(patience(180))
    # Half of the seeds close the study while nodes are still being killed.
    if chance.random() < 0.5:
        for thread in threads:
            thread.join(patience(180))
    assert len(receipts) == PEOPLE, f"only {len(receipts)} of {PEOPLE} people could submit"
    lab.close(signed.study)
    for thread in threads:
        thread.join(patience(180))
        assert not thread.is_alive(), "a device or a restart hangs"
    counts = lab.check(signed.study, sent, receipts)
    return Outcome(seed, kills, counts | {"kills": len(kills)}, time.monotonic() - begun)
